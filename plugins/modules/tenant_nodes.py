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
    run there. Use O(state=absent) after the tenant was removed.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
options:
  tenants:
    description:
      - The cluster's tenants, as M(kubegpu.tenancy.tenancy_plan) returns them.
      - With O(state=absent) only their names matter, and without it all tenants are meant.
    type: list
    elements: dict
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

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.plan import (
    TAINT,
    Data,
    assign,
    check_planned,
    owners,
    relabel,
    retaint,
)

GPU_RESOURCE = "nvidia.com/gpu"


def plain(node: Data) -> Data:
    """What an assignment needs to know of a Node. Capacity, because allocatable drops while a GPU is unhealthy."""
    return {
        "name": node["metadata"]["name"],
        "gpus": int(node["status"].get("capacity", {}).get(GPU_RESOURCE, 0)),
        "labels": node["metadata"].get("labels", {}),
        "taints": node["spec"].get("taints") or [],
    }


def run(params: Data, kube: Kube, check_mode: bool) -> Data:
    present = params["state"] == "present"
    check_planned(params["tenants"] or [], ("name", "gpu_nodes", "scheduler", "queues") if present else ("name",))
    nodes = [plain(node) for node in kube.list("v1", "Node")]
    assigned = assign(params["tenants"], nodes) if present else {}
    names = None if params["tenants"] is None else {tenant["name"] for tenant in params["tenants"]}
    dedicated = [tenant["name"] for tenant in params["tenants"] or [] if tenant.get("trust") == "zero"]
    labels, taints = relabel(nodes, assigned, names), retaint(nodes, assigned, names, dedicated)
    before, after = {}, {}
    for node in nodes:
        name = node["name"]
        body: Data = {"metadata": {"labels": labels[name]}} if name in labels else {}
        if name in taints:
            body["spec"] = {"taints": taints[name]}
        if body:
            before[name] = _owned(node)
            after[name] = _owned({"labels": node["labels"] | labels.get(name, {}), "taints": taints.get(name, node["taints"])})
            if not check_mode:
                kube.patch("v1", "Node", name, body)
    result: Data = {"changed": bool(after), "diff": {"before": before, "after": after}}
    return result | ({"assignments": assigned} if present else {})


def _owned(node: Data) -> list[str]:
    """Whose a node is, and for whom it is tainted."""
    return owners(node) + [f"taint {TAINT}={taint['value']}" for taint in node["taints"] if taint["key"] == TAINT]


def main() -> None:
    module = kube_module(
        argument_spec={
            "tenants": {"type": "list", "elements": "dict"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ("tenants",))],
    )
    try:
        result: dict[str, t.Any] = run(module.params, Kube.connect(module), module.check_mode)
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
