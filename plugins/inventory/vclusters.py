# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory plugin kubegpu.tenancy.vclusters."""

from __future__ import annotations

DOCUMENTATION = r"""
name: vclusters
short_description: Every tenant of a host cluster as an inventory host
version_added: 0.1.0
description:
  - Reads the virtual clusters that this collection made on a host cluster, and makes each tenant a host of the inventory, under the
    name that the playbooks of this collection give it.
  - A tenant's host has two variables. C(kubegpu_cluster) is the name of its cluster's inventory host. C(kubegpu_observed) is what was
    seen of it, a dictionary of C(name), C(namespace), C(trust), C(state), C(vcluster_version), C(kubernetes_version), C(scheduler),
    C(nodes) and C(network_policies), with the meanings and values that M(kubegpu.tenancy.vcluster_info) documents. C(name) is the
    tenant's, and C(vcluster_version) is there called C(version).
  - None of them is a variable by which an inventory says what is wanted, or that a role takes. What was seen is never taken for what
    is wanted.
  - Tenants are in the groups C(kubegpu_tenants), C(tenant_NAME), C(trust_LEVEL), C(vcluster_VERSION) and
    C(scheduler_NAME_VERSION), or C(scheduler_host) where the host cluster's schedules, with what is no letter, digit or underscore
    replaced by an underscore.
  - It runs on the controller and needs the Python library C(kubernetes) there.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  plugin:
    description: Has to be V(kubegpu.tenancy.vclusters).
    type: str
    required: true
    choices: [kubegpu.tenancy.vclusters]
  kubeconfig:
    description: Kubeconfig of the host cluster, as the controller reaches it.
    type: path
    env:
      - name: K8S_AUTH_KUBECONFIG
  context:
    description: Context in it. The current one by default.
    type: str
    env:
      - name: K8S_AUTH_CONTEXT
  cluster:
    description:
      - Name of the host cluster's inventory host, which tasks for a tenant are delegated to. It precedes the tenant's name in the
        name of its host.
    type: str
    required: true
extends_documentation_fragment:
  - constructed
  - inventory_cache
requirements:
  - kubernetes >= 24.2.0
seealso:
  - module: kubegpu.tenancy.vcluster_info
"""

EXAMPLES = r"""
# dc1.vclusters.yml; then: ansible-playbook -i hosts.yml -i dc1.vclusters.yml upgrade.yml --limit tenant_team_ml
plugin: kubegpu.tenancy.vclusters
kubeconfig: ~/.kube/kubegpu/gpu1.example/cluster.yml
cluster: gpu1.example
cache: true
# A group of the tenants that are paused: --limit state_paused
keyed_groups:
  - prefix: state
    key: kubegpu_observed.state
groups:
  # Of those whose network policies were seen to be open.
  open_networks: kubegpu_observed.network_policies == 'unenforced'
compose:
  # For `kubectl --namespace` on the host cluster.
  host_namespace: kubegpu_observed.namespace
"""

import typing as t

from ansible.errors import AnsibleParserError
from ansible.inventory.group import to_safe_group_name
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.inventory import find


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Make hosts of the tenants of one host cluster, see DOCUMENTATION."""

    NAME = "kubegpu.tenancy.vclusters"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith(("vclusters.yml", "vclusters.yaml"))

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        self.load_cache_plugin()
        key = self.get_cache_key(path)
        wanted = self.get_option("cache")
        found = self._cache.get(key) if wanted and cache else None
        if found is None:
            found = self._find()
            if wanted:
                self._cache[key] = found
        for tenant in found:
            self._add(tenant)

    def _find(self) -> list[dict[str, t.Any]]:
        try:
            kube = Kube.connect(kubeconfig=self.get_option("kubeconfig"), context=self.get_option("context"))
            return [item for item in find(kube) if item["tenant"]]
        except TenancyError as exc:
            raise AnsibleParserError(exc.message) from exc

    def _add(self, tenant: dict[str, t.Any]) -> None:
        host = f"{self.get_option('cluster')}/{tenant['tenant']}"
        for group in groups(tenant):
            self.inventory.add_group(group)
            self.inventory.add_host(host, group=group)
        variables = host_variables(tenant, self.get_option("cluster"))
        for name, value in variables.items():
            self.inventory.set_variable(host, name, value)
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, host, strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, host, strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, host, strict)


def groups(tenant: dict[str, t.Any]) -> list[str]:
    """Return the groups of a tenant.

    :arg tenant: as module vcluster_info returns it.
    """
    scheduler = tenant["scheduler"]
    parts = [
        f"tenant_{tenant['tenant']}",
        f"trust_{tenant['trust']}",
        f"vcluster_{tenant['version']}",
        "_".join(["scheduler", scheduler["name"], *filter(None, [scheduler.get("version")])]) if scheduler else "scheduler_host",
    ]
    return ["kubegpu_tenants", *(to_safe_group_name(part, replacer="_", force=True, silent=True) for part in parts)]


def host_variables(tenant: dict[str, t.Any], cluster: str) -> dict[str, t.Any]:
    """Return the variables of a tenant's host: what was seen of it, under a name that nothing takes as input.

    :arg tenant: as module vcluster_info returns it.
    :arg cluster: name of the cluster's inventory host.
    """
    seen = ("namespace", "trust", "state", "kubernetes_version", "scheduler", "nodes", "network_policies")
    observed = {"name": tenant["tenant"], "vcluster_version": tenant["version"]} | {key: tenant[key] for key in seen}
    return {"kubegpu_cluster": cluster, "kubegpu_observed": observed}
