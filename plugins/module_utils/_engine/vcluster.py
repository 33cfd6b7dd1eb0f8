# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Create, change, pause or remove a virtual cluster."""

from __future__ import annotations

import typing as t

from .._adapters.asking import ask
from .._adapters.helm import Chart, chart_versions, find_chart
from .._common.run import Result, Run
from .._common.values import value_at
from .._probe import network_policy
from .._probe.plan import IMAGE, Settings
from .._vcluster.control_plane import Ask
from .._vcluster.facts import CHART, REPOSITORY
from .._vcluster.lifecycle import VirtualCluster
from .._vcluster.release import Charts
from .._vcluster.values import NETWORK_ARGUMENT

ARGUMENT_SPEC: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent", "paused"], "default": "present"},
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str"},
    "version": {"type": "str"},
    "force_version": {"type": "bool", "default": False},
    "keep_volumes": {"type": "bool", "default": False},
    "accept_lost_pods": {"type": "bool", "default": False},
    "kubernetes_version": {"type": "str"},
    "own_scheduler": {"type": "bool"},
    "node_selector": {"type": "dict"},
    "host_scheduler": {"type": "str", "choices": ["kai"]},
    "host_queues": {"type": "list", "elements": "dict", "default": []},
    "gpu_sharing": {"type": "bool", "default": False},
    "gpu_quota": {"type": "int"},
    "quota": {"type": "dict"},
    "network": NETWORK_ARGUMENT,
    "accept_unenforced": {"type": "bool", "default": False},
    "probe_image": {"type": "str"},
    "sandbox": {"type": "str"},
    "trust": {"type": "str", "choices": ["high", "partial", "zero"]},
    "expires": {"type": "str"},
    # Otherwise it would be given always.
    "values": {"type": "dict"},
    "timeout": {"type": "int", "default": 300},
}
LEAST = {"gpu_quota": 0}


def reconcile(run: Run, ask: Ask = ask) -> Result:
    params = run.params

    def chart(version: str) -> Chart:
        return find_chart(params["chart_source"], CHART, version, Chart(CHART, version, REPOSITORY))

    def probe_network(tenant: str) -> tuple[bool, list[dict[str, t.Any]]]:
        # Several tenants are made at once, each with a probe of its own.
        namespace = f"{network_policy.NAME}-{tenant}"[:63].rstrip("-")
        # Where the control plane may run, the probe's pods may, too.
        tolerations = value_at(params["values"] or {}, "controlPlane.statefulSet.scheduling.tolerations") or []
        settings = Settings(namespace, params["probe_image"] or IMAGE, tuple(tolerations))
        return network_policy.enforcement(run.kube, settings, run.deadline)

    charts = Charts(chart, lambda: chart_versions(params["chart_source"], CHART))
    cluster = VirtualCluster(run, ask, charts, probe_network)
    return {"present": cluster.present, "paused": cluster.paused, "absent": cluster.absent}[params["state"]]()
