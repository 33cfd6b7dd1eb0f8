#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.tenants."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tenants
short_description: Create, change, pause, remove and verify tenants
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Brings tenants of a host cluster to the state that their entries describe, several at once. A tenant that fails does not stop the others.
  - A tenant that is wanted as V(present) gets its virtual cluster, its kubeconfig, its scheduler and its queues, in this order. Each of these
    is a module of its own, too, with the options and results that are documented there.
  - Run M(kubegpu.tenancy.tenant_nodes) first, which gives tenants their nodes.
  - Another run on the same host that works on tenants of the same cluster is waited for, for O(timeout).
  - The module ends two minutes after the controller has gone, such as one that was killed, at its next step or the next look of a wait.
    With O(progress), it does not know whether a controller looks, and goes on to its end.
  - Tenants are verified by pods, within their virtual clusters and on the host cluster, and what was seen is recorded there.
options:
  tenants:
    description:
      - The tenants, as C(kubegpu_tenants) lists them.
    type: list
    elements: dict
  names:
    description:
      - With O(state=absent), names of the tenants that go.
    type: list
    elements: str
  state:
    description:
      - V(listed) brings each tenant to the C(state) that its entry has.
      - V(absent) removes the tenants in O(names) with their data, their kubeconfigs, and the labels and taints of their nodes.
    type: str
    choices: [listed, absent]
    default: listed
  work:
    description:
      - What there is to do for the tenants. V(change) brings them to O(state). V(verify) runs the probes that fit each tenant that is
        wanted as V(present), up to the first with a check that failed. With both, a tenant is verified once it is changed.
    type: list
    elements: str
    choices: [change, verify]
    default: [change, verify]
  due:
    description:
      - By name of the tenant, what of O(work) there is to do for it. For a tenant that is not named, all of it.
    type: dict
    default: {}
  wanted:
    description:
      - By name of the tenant, a digest of all that is wanted of it, as M(kubegpu.tenancy.tenancy_info) returns it. With it, what was seen
        of the tenant is recorded as the verification of that.
    type: dict
    default: {}
  kubeconfigs:
    description:
      - Folder for the tenants' kubeconfigs, which are called C(TENANT.yml). It has to exist.
    type: path
    required: true
  server:
    description:
      - Address of a tenant's API server in its kubeconfig, with C({tenant}) for the tenant's name. It defaults to that of the Service.
    type: str
    default: ""
  shared_scheduler:
    description:
      - The host cluster's KAI Scheduler, as C(kubegpu_shared_scheduler) describes it, for tenants that share it.
    type: dict
    default: {}
  metrics:
    description:
      - The Prometheus of the host cluster that reads the metrics of tenants' own KAI Schedulers, as C(kubegpu_metrics) describes it.
    type: dict
    default: {}
  rehearsal:
    description:
      - What a change of a tenant's own KAI Scheduler needs, namely C(verdicts), C(max_age) and C(accept_holds) as
        M(kubegpu.tenancy.rehearsal_gate) takes them. When empty, it needs nothing.
    type: dict
    default: {}
  accept_unenforced:
    description:
      - Whether profiles that rest on network policies are accepted on a cluster whose network does not enforce them.
    type: bool
    default: false
  accept_lost_pods:
    description:
      - Whether a tenant is paused although that ends pods for good, because no controller makes them anew.
    type: bool
    default: false
  probe_image:
    description:
      - Image of the probes' pods, with busybox's C(sh), C(httpd) and C(wget). When empty, it is each probe's own choice.
    type: str
    default: ""
  runtime_class:
    description:
      - RuntimeClass of the probes' pods with GPUs. When empty, they have none.
    type: str
    default: nvidia
  tolerations:
    description:
      - Tolerations of the probes' pods on the host cluster.
    type: list
    elements: dict
    default: []
  policy_checks:
    description:
      - Checks of M(kubegpu.tenancy.probe), kind V(kai_policies), that are made of tenants' own KAI Schedulers, too.
    type: list
    elements: str
    default: []
  probe_timeout:
    description:
      - Seconds for the probe of a tenant's own KAI Scheduler, waits included.
    type: int
    default: 240
  chart_source:
    description:
      - Where the charts of vCluster and KAI Scheduler come from. When empty, upstream's location.
      - Otherwise a folder that holds C(CHART-VERSION.tgz), or the prefix of an OCI registry such as V(oci://registry.example/charts).
    type: str
    default: ""
  timeout:
    description:
      - Seconds for each change of a virtual cluster, its kubeconfig and a scheduler that is not KAI Scheduler, and for the wait for another
        run. Probes have times of their own.
    type: int
    default: 300
  scheduler_timeout:
    description:
      - Seconds for the installation of a tenant's KAI Scheduler, and again for its queues, waits included.
    type: int
    default: 300
extends_documentation_fragment:
  - kubegpu.tenancy._progress
  - kubegpu.tenancy._helm_binary
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
notes:
  - O(kubeconfig) has to be the path of a file on the host where the module runs, because C(helm) reads it too.
seealso:
  - module: kubegpu.tenancy.tenancy_info
  - module: kubegpu.tenancy.vcluster
  - module: kubegpu.tenancy.vcluster_kubeconfig
  - module: kubegpu.tenancy.kai_scheduler
  - module: kubegpu.tenancy.kai_queues
"""

EXAMPLES = r"""
- name: Bring the tenants to what the inventory says
  kubegpu.tenancy.tenants:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    kubeconfigs: /etc/kubegpu/dc1/tenants
    tenants: "{{ kubegpu_tenants }}"

- name: Remove one
  kubegpu.tenancy.tenants:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    kubeconfigs: /etc/kubegpu/dc1/tenants
    names: [team-old]
    state: absent
"""

RETURN = r"""
tenants:
  description:
    - What was done for each tenant, in their order. Where the module fails, tenants that failed come first, and there are 500 at most.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
      returned: always
    changed:
      description: Whether anything of it changed, or would in check mode.
      type: bool
      returned: always
    failure:
      description: What could not be done for it, and why. Empty where all was done.
      type: str
      returned: always
      sample: "Install or upgrade KAI Scheduler: Timed out after 300 s waiting for KAI Scheduler. Last seen: binder 0/1"
    parts:
      description:
        - What each part of the work returned, by what it is about. These are C(virtual cluster), C(metrics), C(kubeconfig),
          C(KAI Scheduler that is not wanted), C(schedulers that are not wanted), C(rehearsal), C(KAI Scheduler), C(queues), C(scheduler)
          and C(nodes), then C(checks), C(checks of policies), C(checks of what is shared), C(checks of the network), C(checks of the
          sandbox) and C(record), as far as there was something to do about them.
      type: dict
      returned: always
    spans:
      description: What was done when. Each has C(work), which is V(change), V(remove) or V(verify), C(began), in seconds of Unix time, and
        C(seconds).
      type: list
      elements: dict
      returned: always
"""

import contextlib
import typing as t

from ..module_utils._adapters.progress_file import ProgressFile
from ..module_utils._adapters.run_lock import locked
from ..module_utils._common.errors import TenancyError
from ..module_utils._common.parallel import concurrently
from ..module_utils._common.run import Result
from ..module_utils._common.wait import LISTENER
from ..module_utils._desired.model import Tenant
from ..module_utils._desired.tenants import tenants_from
from ..module_utils._engine.parts import diffs
from ..module_utils._engine.tenant import change
from ..module_utils._engine.verification import verify
from ..module_utils._engine.work import TenantReport, Work
from ..module_utils._kernel.module import ClusterRun, run_module
from ..module_utils._tenant.facts import CHANGE, VERIFY
from ..module_utils._vcluster.validation import check_name

ARGUMENT_SPEC: dict[str, t.Any] = {
    "tenants": {"type": "list", "elements": "dict"},
    "names": {"type": "list", "elements": "str"},
    "state": {"type": "str", "choices": ["listed", "absent"], "default": "listed"},
    "work": {"type": "list", "elements": "str", "choices": ["change", "verify"], "default": ["change", "verify"]},
    "due": {"type": "dict", "default": {}},
    "wanted": {"type": "dict", "default": {}},
    "kubeconfigs": {"type": "path", "required": True},
    "server": {"type": "str", "default": ""},
    "shared_scheduler": {"type": "dict", "default": {}},
    "metrics": {"type": "dict", "default": {}},
    "rehearsal": {"type": "dict", "default": {}},
    "accept_unenforced": {"type": "bool", "default": False},
    "accept_lost_pods": {"type": "bool", "default": False},
    "probe_image": {"type": "str", "default": ""},
    "runtime_class": {"type": "str", "default": "nvidia"},
    "tolerations": {"type": "list", "elements": "dict", "default": []},
    "policy_checks": {"type": "list", "elements": "str", "default": []},
    "chart_source": {"type": "str", "default": ""},
    "progress": {"type": "path"},
    "helm_binary": {"type": "str", "default": "helm"},
    "timeout": {"type": "int", "default": 300},
    "scheduler_timeout": {"type": "int", "default": 300},
    "probe_timeout": {"type": "int", "default": 240},
}
LEAST = {"scheduler_timeout": 1, "probe_timeout": 1}


def reconcile(run: ClusterRun) -> Result:
    """Work on all tenants, several at once."""
    params, state = run.params, "absent" if run.params["state"] == "absent" else ""
    # Tenants that go may be in no inventory: their names suffice.
    tenants = _named(params["names"]) if state else tenants_from(params["tenants"])
    progress = ProgressFile(params["progress"] or "")

    def work_on(tenant: Tenant) -> TenantReport:
        work = Work(run.part, tenant, params, run.check_mode, progress=progress)
        due = params["due"].get(tenant.name, params["work"])
        changes = CHANGE in due and CHANGE in params["work"]
        if changes:
            change(work, state)
        stays = (state or tenant.state) == "present" and not work.report.failure and (not changes or work.can_answer)
        if VERIFY in due and VERIFY in params["work"] and stays:
            # Where a change is due and was not made, as with --tags verify, no digest of the desired state is recorded.
            verify(work, params["wanted"].get(tenant.name, "") if changes or CHANGE not in due else "")
        return work.report

    LISTENER.set(lambda what, seen: progress.doing("all of them", f"Wait for {what}", seen))
    with contextlib.nullcontext() if run.check_mode else locked(str(params["kubeconfig"] or ""), run.deadline):
        progress.done("all of them")
        reports = concurrently(work_on, tenants)
    result = {
        "changed": any(report.changed for report in reports),
        "diff": [diff for report in reports for diff in diffs(report.name, report.parts)],
        "tenants": [report.data() for report in reports],
    }
    if failures := [f"{report.name}: {report.failure}" for report in reports if report.failure]:
        # An error has five hundred entries of a list at most (see _kernel). Tenants that failed come first, and are kept.
        failed_first = sorted(reports, key=lambda report: not report.failure)
        raise TenancyError("\n".join(failures), **result | {"tenants": [report.data() for report in failed_first]})
    return result


def _named(names: t.Iterable[str]) -> list[Tenant]:
    """Return tenants of which nothing is known but their names, each once.

    :raises TenancyError: for what is no name of a tenant.
    """
    for name in names:
        check_name(name)
    return [Tenant(name, "") for name in dict.fromkeys(names)]


def main() -> None:
    required_if = [("state", "listed", ("tenants",)), ("state", "absent", ("names",))]
    run_module(reconcile, ARGUMENT_SPEC, least=LEAST, required_if=required_if)


if __name__ == "__main__":
    main()
