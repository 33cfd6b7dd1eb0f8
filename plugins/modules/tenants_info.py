#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.tenants_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tenants_info
short_description: Compare the tenants of a host cluster with what is wanted of them
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Reads all tenants of a host cluster by a few LISTs, however many there are, and reports for each that is listed
    whether there is anything to do for it, and why.
  - Nothing is to be done for a tenant while what M(kubegpu.tenancy.tenant_record) recorded still stands. That is, the same is
    wanted of it, everything that the host cluster shows of it is as it was, its queues are as wanted, its kubeconfig leads to it,
    all checks passed, and O(max_age) is not over.
  - Reports also the tenants on the cluster that O(tenants) does not list, and the host cluster's KAI Scheduler, as far as this
    collection made them, and whether the tenants have their nodes.
options:
  tenants:
    description:
      - The tenants, as C(kubegpu_tenants) lists them or M(kubegpu.tenancy.tenancy_plan) returns them.
    type: list
    elements: dict
    default: []
  only:
    description:
      - Names of the tenants to compare. All of them when empty.
    type: list
    elements: str
    default: []
  kubeconfigs:
    description:
      - Folder of the tenants' kubeconfigs, which are called C(TENANT.yml).
    type: path
    required: true
  settings:
    description:
      - Variables of roles that are set for the tenants, such as an image of probes. A tenant is to be worked on when they change.
    type: dict
    default: {}
  max_age:
    description:
      - Seconds for which a verification stands while nothing changes.
    type: int
    default: 3600
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
seealso:
  - module: kubegpu.tenancy.tenant_record
"""

EXAMPLES = r"""
- name: Compare
  kubegpu.tenancy.tenants_info:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    kubeconfigs: /etc/kubegpu/kubegpu/tenants
    tenants: "{{ kubegpu_tenants }}"
  register: found

- name: Show for which tenants there is something to do
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.reasons | join(', ') }}"
  loop: "{{ found.tenants | selectattr('due') }}"
"""

RETURN = r"""
tenants:
  description: One record for each tenant that is compared, in their order.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
      returned: always
    desired:
      description: The tenant with every key.
      type: dict
      returned: always
    wanted:
      description: Digest of everything that is wanted of it.
      type: str
      returned: always
    state:
      description:
        - V(absent), V(paused), V(running), V(starting), V(crashing) or V(removing), as the host cluster shows it.
        - V(not read) where what is there of it could not be read. RV(tenants[].reasons) says why.
      type: str
      returned: always
    due:
      description: What there is to do, V(change) and V(verify). Empty when nothing.
      type: list
      elements: str
      returned: always
    reasons:
      description: Why.
      type: list
      elements: str
      returned: always
    vcluster_version:
      description: Version of its control plane, as the host cluster shows it. Null where it has none.
      type: str
      returned: always
    scheduler_version:
      description:
        - Version of the KAI Scheduler that places its pods, its own or the host cluster's, as its pods show it. Null where none runs.
      type: str
      returned: always
    network_policies:
      description: V(enforced) or V(unenforced), as a probe saw it. Null where the tenant has none.
      type: str
      returned: always
    created:
      description: When its namespace was made, in UTC. Null where it has none.
      type: str
      returned: always
    images:
      description:
        - Images of its control plane and of the KAI Scheduler that places its pods, each with the digest by which the node knows it. Those
          that run.
      type: dict
      returned: always
      sample: {"ghcr.io/loft-sh/vcluster-oss:0.36.1": "sha256:4c1d0f9e"}
    queues:
      description:
        - Its queues as M(kubegpu.tenancy.kai_queues_info) returns them, whether they are in its virtual cluster or with the KAI Scheduler that
          it shares. Null where they were not read, as while something else is to be changed first.
      type: list
      elements: dict
      returned: always
    verified_at:
      description: When it was verified last, in UTC. Null where no readable record says so.
      type: str
      returned: always
    results:
      description: The checks of that verification. They stand for the tenant as it is now only where nothing is due.
      type: list
      elements: dict
      returned: always
unread:
  description:
    - A sentence for everything of no single tenant that could not be read. What of a tenant could not be read stands in its
      RV(tenants[].reasons).
  returned: success
  type: list
  elements: str
  sample: []
unlisted:
  description:
    - Names of tenants that this collection made and that O(tenants) does not list, but for temporary ones that have not expired.
  returned: success
  type: list
  elements: str
  sample: [team-research]
temporary:
  description: Tenants that were made for a while, listed or not.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
      returned: always
    expires:
      description: When it expires, in UTC.
      type: str
      returned: always
    expired:
      description: Whether that is over.
      type: bool
      returned: always
  sample: [{name: ci-1234, expires: "2026-11-23T14:00:00Z", expired: false}]
shared_scheduler:
  description: Version of the KAI Scheduler that this collection installed in the host cluster. Null without one.
  returned: success
  type: str
sharing:
  description: Names of the tenants on the cluster that use it.
  returned: success
  type: list
  elements: str
  sample: []
nodes_due:
  description: Whether M(kubegpu.tenancy.tenant_nodes) has nodes to give or to take, or would refuse to.
  returned: success
  type: bool
node_problems:
  description: Everything for which it would refuse.
  returned: success
  type: list
  elements: str
  sample: ["kubegpu_tenants[0] (team-ml).gpu_nodes.names[0]: n9 is not a node of the cluster. The cluster's nodes with GPUs: lab-worker."]
"""

import datetime
import os.path
import typing as t

from ..module_utils._adapters.kubeconfig import kubeconfig_exists, read_kubeconfig
from ..module_utils._adapters.kubernetes import ask_list
from ..module_utils._assignment.lifecycle import nodes_to_give
from ..module_utils._common.names import GPU_RESOURCE, HOST_SCHEDULER_LABEL, POD_GROUP, QUEUE_API_VERSION, QUEUE_KIND
from ..module_utils._common.ownership import annotations_of, labels_of
from ..module_utils._common.parallel import concurrently
from ..module_utils._common.parties import attempt
from ..module_utils._common.run import Result, Run
from ..module_utils._common.values import stamp, utc_now
from ..module_utils._desired.model import Tenant
from ..module_utils._desired.validation import tenants_from
from ..module_utils._kernel.module import run_module
from ..module_utils._queues.status import counted, overview
from ..module_utils._tenant.facts import CHANGE, NOT_READ, VERIFY
from ..module_utils._tenant.lifecycle import compare_queues, holds_credentials, queues_of, read_all, shared_scheduler
from ..module_utils._tenant.status import Live, due, temporary
from ..module_utils._tenant.values import wanted
from ..module_utils._vcluster import facts as vc

# Seconds for each list of a virtual cluster: its administrator decides how slowly it answers, and others wait.
_PATIENCE = 10

ARGUMENT_SPEC: dict[str, t.Any] = {
    "tenants": {"type": "list", "elements": "dict", "default": []},
    "only": {"type": "list", "elements": "str", "default": []},
    "kubeconfigs": {"type": "path", "required": True},
    "settings": {"type": "dict", "default": {}},
    "max_age": {"type": "int", "default": 3600},
}
LEAST = {"max_age": 0}


def reconcile(run: Run) -> Result:
    """Read the host cluster's tenants once, and compare each that is listed, several at once."""
    params = run.params
    tenants = tenants_from(params["tenants"])
    live = read_all(run.kube)
    now = utc_now()
    compared = [tenant for tenant in tenants if not params["only"] or tenant.name in params["only"]]
    nodes_due, node_problems = nodes_to_give(run.kube, tenants, params["only"])
    waiting = temporary(live, now)
    unread: list[str] = []
    sharing = {name: labels_of(item.namespace).get(HOST_SCHEDULER_LABEL) for name, item in live.items()}
    shared_queues: list[Result] = []
    if any(sharing.values()):
        shared_queues, unread_parts = counted(run.kube.list(QUEUE_API_VERSION, QUEUE_KIND), run.kube.list(*POD_GROUP))
        unread += [f"shared scheduler: {one.sentence}" for one in unread_parts]

    host = vc.minor_version(run.kube.version())

    def record(tenant: Tenant) -> Result:
        found, failure = attempt("it", lambda: compare(params, tenant, live.get(tenant.name, Live()), now, shared_queues, host))
        return found or not_read(tenant, wanted(tenant, params["settings"]), failure.sentence if failure else "")

    return run.result(
        tenants=concurrently(record, compared),
        unread=unread,
        unlisted=sorted(
            live.keys() - {tenant.name for tenant in tenants} - {one["name"] for one in waiting if not one["expired"]}
        ),
        temporary=waiting,
        shared_scheduler=shared_scheduler(run.kube),
        sharing=sorted(name for name, scheduler in sharing.items() if scheduler),
        nodes_due=nodes_due,
        node_problems=node_problems,
    )


def not_read(tenant: Tenant, digest: str, why: str) -> Result:
    """Return the record of a tenant that could not be compared: it is worked on, and what is wrong is then its own failure.

    :arg digest: of everything that is wanted of it.
    """
    work = [CHANGE] if tenant.state != "present" else [CHANGE, VERIFY]
    nothing = dict.fromkeys(("vcluster_version", "scheduler_version", "network_policies", "created", "queues", "verified_at"))
    known = {"name": tenant.name, "desired": tenant.data(), "wanted": digest, "state": NOT_READ, "due": work, "reasons": [why]}
    return known | nothing | {"images": {}, "results": []}


def _ask(config: Result, path: str) -> list[Result]:
    return ask_list(config, path, timeout=_PATIENCE)


def compare(
    params: t.Mapping[str, t.Any], tenant: Tenant, live: Live, now: datetime.datetime, shared_queues: list[Result], host: str
) -> Result:
    """Compare one tenant with what is wanted of it.

    :arg shared_queues: those of the host cluster's KAI Scheduler, with what uses them.
    :arg host: minor version of its Kubernetes; empty where it is not known.
    :returns: its record, as RETURN documents it.
    """
    path = os.path.join(params["kubeconfigs"], f"{tenant.name}.yml")
    config = read_kubeconfig(path)
    has_kubeconfig = kubeconfig_exists(path) if tenant.state == "absent" else holds_credentials(config, live.secret)
    digest, last = wanted(tenant, params["settings"]), live.verified
    found = due(tenant, digest, live, has_kubeconfig, params["max_age"], now, host)
    own, queues = tenant.own_scheduler, None
    if tenant.state == "present" and CHANGE not in found.work and own and own.own_kai and config:
        # Somebody may have changed them from within, which the host cluster does not show.
        differing, queues = compare_queues(tenant, config, _ask)
        found = differing if differing.work else found
    elif tenant.shares_scheduler and live.host_scheduler:
        queues = queues_of(tenant, shared_queues)
    return {
        "name": tenant.name,
        "desired": tenant.data(),
        "wanted": digest,
        "state": live.state,
        "due": list(found.work),
        "reasons": list(found.reasons),
        "vcluster_version": live.vcluster_version,
        "scheduler_version": live.scheduler_version,
        "network_policies": annotations_of(live.namespace).get(vc.NETWORK_ANNOTATION),
        "created": live.created,
        "images": live.images,
        "queues": None if queues is None else overview(queues, GPU_RESOURCE),
        "verified_at": stamp(last.at) if last else None,
        "results": list(last.results) if last else [],
    }


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, least=LEAST)


if __name__ == "__main__":
    main()
