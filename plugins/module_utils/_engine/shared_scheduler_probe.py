# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Check what a tenant gets, and what it is kept from, where it shares a scheduler or nodes."""

from __future__ import annotations

from .._adapters.kubernetes import Kube
from .._common.run import Result, Run
from .._probe.plan import IMAGE
from .._probe_shared.lifecycle import probe
from .._probe_shared.plan import CHECKS

ARGUMENT_SPEC = {
    "gpu_resource": {"type": "str", "default": "nvidia.com/gpu"},
    "runtime_class": {"type": "str", "default": "nvidia"},
    "scheduler_name": {"type": "str", "default": "kai-scheduler"},
    "tenant": {"type": "str", "required": True},
    "tenant_kubeconfig": {"type": "path", "required": True},
    "queues": {"type": "list", "elements": "dict", "default": []},
    "checks": {"type": "list", "elements": "str", "choices": list(CHECKS), "default": list(CHECKS)},
    "accept_hazards": {"type": "list", "elements": "str", "default": []},
    "namespace": {"type": "str", "default": "kubegpu-shared-probe"},
    "image": {"type": "str", "default": IMAGE},
    "tolerations": {"type": "list", "elements": "dict", "default": []},
    "timeout": {"type": "int", "default": 120},
}


def reconcile(run: Run) -> Result:
    return probe(run, lambda: Kube.connect(deadline=run.deadline, kubeconfig=run.params["tenant_kubeconfig"]))
