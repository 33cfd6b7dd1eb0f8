# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Check that a tenant reaches the services that its network policies let through."""

from __future__ import annotations

from .._adapters.kubernetes import Kube
from .._common.run import Result, Run
from .._probe.plan import IMAGE
from .._probe.status import concluded, record
from .._probe_services.lifecycle import probe
from .._probe_services.plan import NAME, Settings, checks_of
from .._vcluster.values import NETWORK_ARGUMENT

ARGUMENT_SPEC = {
    "tenant": {"type": "str", "required": True},
    "tenant_kubeconfig": {"type": "path", "required": True},
    "network": NETWORK_ARGUMENT | {"required": True},
    "namespace": {"type": "str", "default": NAME},
    "image": {"type": "str", "default": IMAGE},
    "tolerations": {"type": "list", "elements": "dict", "default": []},
    "timeout": {"type": "int", "default": 120},
}


def reconcile(run: Run, inside: Kube | None = None) -> Result:
    params = run.params
    checks = checks_of(params["network"])
    if run.check_mode or not checks:
        return concluded([record(check.name, "not_tried", "check mode") for check in checks], 0.0)
    settings = Settings(params["tenant"], params["namespace"], params["image"], tuple(params["tolerations"]))
    inside = inside or Kube.connect(deadline=run.deadline, kubeconfig=params["tenant_kubeconfig"])
    results = probe(run.kube, inside, settings, checks, run.deadline)
    return concluded(results, run.deadline.elapsed())
