#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assign a cluster's nodes to its tenants."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tenant_nodes
short_description: Assign a cluster's nodes to its tenants
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Labels nodes of the host cluster with C(tenant.kubegpu.tenancy/<tenant>=true), for all tenants at once.
  - A node stays with the tenant it is labelled for. Tenants that ask for a number of nodes get free ones in the order of
    their names. A node with GPUs belongs to one tenant only, unless all of its tenants have C(gpu_nodes.shared_gpus).
  - Tenants whose schedulers do not see each other's pods share a node only where their quotas fit on it together.
  - Nodes of a tenant with C(trust=zero) get the taint C(kubegpu.tenancy/dedicated=<tenant>:NoSchedule).
  - Tenants without C(gpu_nodes) share the nodes without GPUs. Control-plane nodes count only where there are no others.
  - Nodes labelled for a tenant that is not listed are left alone and are not free, because that tenant's pods may still
    run there. Whether it shares them is read from its virtual cluster. Use O(state=absent) after the tenant was removed.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
options:
  tenants:
    description:
      - The cluster's tenants, as C(kubegpu_tenants) lists them or M(kubegpu.tenancy.tenancy_plan) returns them. Those whose
        C(state) is V(absent) give up their nodes.
      - With O(state=absent) only their names matter, and without it all tenants are meant.
    type: list
    elements: dict
  only:
    description:
      - Names of the tenants whose labels and taints may change. The others count as they are. All of them when empty.
    type: list
    elements: str
    default: []
  state:
    description:
      - V(present) gives each tenant its nodes.
      - V(absent) takes the nodes from the O(tenants), or every label and taint of this collection from all nodes.
    type: str
    choices: [present, absent]
    default: present
requirements:
  - kubernetes >= 24.2.0
  - jsonpatch
  - PyYAML
seealso:
  - module: kubegpu.tenancy.tenancy_plan
"""

EXAMPLES = r"""
- name: Assign nodes
  kubegpu.tenancy.tenant_nodes:
    kubeconfig: /etc/kubegpu/lab/cluster.yml
    tenants: "{{ plan.tenants }}"

- name: Give up the nodes of a removed tenant
  kubegpu.tenancy.tenant_nodes:
    kubeconfig: /etc/kubegpu/lab/cluster.yml
    tenants:
      - name: team-ml
    state: absent
"""

RETURN = r"""
assignments:
  description: Names of the nodes of each tenant.
  returned: O(state=present)
  type: dict
  sample: {team-ml: [lab-worker], web: [lab-worker3]}
problems:
  description: Everything that is wrong with the tenants, or with what they ask of the nodes.
  returned: failure
  type: list
  elements: str
  sample: ["kubegpu_tenants[0].gpu_nodes.names[0]: n9 is not a node of the cluster. The cluster's nodes with GPUs: lab-worker."]
"""

import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Result, Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.model import Tenant
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kernel.module import run_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import DEDICATED_TAINT
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.plan import assign, plain, relabel, retaint
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import owners
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.validation import Claim
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.inventory import configs
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.values import claim

Data = dict[str, t.Any]

ARGUMENT_SPEC: dict[str, t.Any] = {
    "tenants": {"type": "list", "elements": "dict"},
    "only": {"type": "list", "elements": "str", "default": []},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}


def reconcile(run: Run) -> Result:
    present = run.params["state"] == "present"
    nodes = [plain(node) for node in run.kube.list("v1", "Node")]
    if not present:
        tenants = run.params["tenants"]
        write(run, nodes, {}, None if tenants is None else {tenant["name"] for tenant in tenants}, [])
        return run.result()
    tenants = [tenant for tenant in tenants_from(run.params["tenants"]) if tenant.state != "absent"]
    assigned = assign(tenants, nodes, unlisted_claims(run, nodes, tenants))
    # Of tenants that are listed as absent, nothing runs any more when this is called for them.
    names = {tenant["name"] for tenant in run.params["tenants"]}
    acted_on = names & set(run.params["only"]) if run.params["only"] else names
    dedicated = [tenant.name for tenant in tenants if tenant.trust == "zero"]
    write(run, nodes, {name: theirs for name, theirs in assigned.items() if name in acted_on}, acted_on, dedicated)
    return run.result(assignments=assigned)


def unlisted_claims(run: Run, nodes: list[Data], tenants: t.Sequence[Tenant]) -> dict[str, Claim]:
    """Read what tenants that are not listed may take of the nodes they are on, from their virtual clusters."""
    listed = {tenant.name for tenant in tenants}
    names = {owner for node in nodes for owner in owners(node["labels"])} - listed
    if not names:
        return {}
    live = {name.partition("/")[2]: config for name, config in configs(run.kube).items()}
    return {name: claim(name, live[name]) for name in names if name in live}


def write(
    run: Run, nodes: list[Data], assigned: dict[str, list[str]], names: t.Container[str] | None, dedicated: list[str]
) -> None:
    """Give the nodes their labels and taints; what was changed meanwhile is not overwritten."""
    labels, taints = relabel(nodes, assigned, names), retaint(nodes, assigned, names, dedicated)
    for node in nodes:
        name = node["name"]
        body: Data = {"metadata": {"labels": labels[name]}} if name in labels else {}
        if name in taints:
            # A patch replaces the whole list: it counts only for the node as it was read.
            body = {"metadata": body.get("metadata", {}) | {"resourceVersion": node["version"]}, "spec": {"taints": taints[name]}}
        if not body:
            continue
        after = {"labels": node["labels"] | labels.get(name, {}), "taints": taints.get(name, node["taints"])}
        run.change(name, _ownership(node), _ownership(after))
        if not run.check_mode:
            run.kube.patch("v1", "Node", name, body)


def _ownership(node: Data) -> list[str]:
    """List whose a node is, and for whom it is tainted."""
    taints = [f"taint {DEDICATED_TAINT}={taint['value']}" for taint in node["taints"] if taint["key"] == DEDICATED_TAINT]
    return owners({key: value for key, value in node["labels"].items() if value is not None}) + taints


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, required_if=[("state", "present", ("tenants",))])


if __name__ == "__main__":
    main()
