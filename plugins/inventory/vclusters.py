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
  - Tasks and ad-hoc commands for a tenant's host run on the controller, with the Python that runs Ansible, and reach the tenant by
    its kubeconfig there, C(kubegpu_tenant_kubeconfig), which M(kubegpu.tenancy.fetch_kubeconfigs) writes while the tenant runs.
  - C(kubegpu_cluster) is the name of its cluster's inventory host. C(kubegpu_observed) is what was
    seen of it, a dictionary of C(name), C(namespace), C(trust), C(state), C(vcluster_version), C(kubernetes_version), C(scheduler),
    C(nodes) and C(network_policies), with the meanings and values that M(kubegpu.tenancy.vcluster_info) documents. C(name) is the
    tenant's, and C(vcluster_version) is there called C(version).
  - None of them is a variable by which an inventory describes the desired state, or that a role takes. What was seen is never taken
    for the desired state.
  - Tenants are in the groups C(kubegpu_tenants), C(tenant_NAME), C(trust_LEVEL), C(vcluster_VERSION) and
    C(scheduler_NAME_VERSION), or C(scheduler_host) where the host cluster's schedules, with what is no letter, digit or underscore
    replaced by an underscore. Of a paused tenant with a scheduler of its own, it is not known which one that is. It is in no group of a
    scheduler.
  - The name of a file for this plugin ends in C(vclusters.yml) or C(vclusters.yaml).
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
  kubeconfigs:
    description:
      - Folder on the controller with the tenants' kubeconfigs, C(TENANT.yml). The folder C(tenants) beside O(kubeconfig) by default,
        which is where C(kubegpu.tenancy.site) puts the copies.
    type: path
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
# gpu1.vclusters.yml; then, for the pods of one tenant, or a playbook for those with one release of their scheduler:
# ansible tenant_team_ml -i gpu1.vclusters.yml -m kubernetes.core.k8s_info -a 'kind=Pod kubeconfig={{ kubegpu_tenant_kubeconfig }}'
# ansible-playbook -i gpu1.vclusters.yml report.yml --limit scheduler_kai_v0_16_8
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

import os.path
import sys
import typing as t

from ansible.errors import AnsibleParserError
from ansible.inventory.group import to_safe_group_name
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.display import Display

from ..module_utils._adapters.kubernetes import Kube
from ..module_utils._common.parties import reason
from ..module_utils._vcluster.inventory import find

FILE_NAMES = ("vclusters.yml", "vclusters.yaml")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Make hosts of the tenants of one host cluster, see DOCUMENTATION."""

    NAME = "kubegpu.tenancy.vclusters"

    def verify_file(self, path: str) -> bool:
        """Tell whether a file can be read; refuse one of another name, which Ansible shows where the file asks for this plugin."""
        if not path.endswith(FILE_NAMES):
            raise AnsibleParserError(
                f"{path}: the name of a file for {self.NAME} ends in {' or '.join(FILE_NAMES)}, such as dc1.vclusters.yml."
            )
        return bool(super().verify_file(path))

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
            found = find(kube)
        except Exception as exc:
            # Of any other exception, Ansible says less.
            raise AnsibleParserError(reason(exc)) from exc
        for one in found.unread:
            Display().warning(f"{self.get_option('cluster')}: {one.sentence}. It is no host of this inventory.")
        return [item for item in found.records if item["tenant"]]

    def _kubeconfigs(self) -> str | None:
        """Return the folder of the tenants' kubeconfigs; None where nothing says which it is."""
        folder, kubeconfig = self.get_option("kubeconfigs"), self.get_option("kubeconfig")
        return folder or (os.path.join(os.path.dirname(kubeconfig), "tenants") if kubeconfig else None)

    def _add(self, tenant: dict[str, t.Any]) -> None:
        host = f"{self.get_option('cluster')}/{tenant['tenant']}"
        for group in groups(tenant):
            self.inventory.add_group(group)
            self.inventory.add_host(host, group=group)
        variables = host_variables(tenant, self.get_option("cluster"), self._kubeconfigs())
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
    parts = [f"tenant_{tenant['tenant']}", f"trust_{tenant['trust']}", f"vcluster_{tenant['version']}"]
    # None: it is not known which.
    if scheduler is not None:
        parts.append("_".join(["scheduler", scheduler.get("name", "host"), *filter(None, [scheduler.get("version")])]))
    return ["kubegpu_tenants", *(to_safe_group_name(part, replacer="_", force=True, silent=True) for part in parts)]


def host_variables(tenant: dict[str, t.Any], cluster: str, kubeconfigs: str | None) -> dict[str, t.Any]:
    """Return the variables of a tenant's host: how it is reached, and what was seen of it, under names that nothing takes as input.

    :arg tenant: as module vcluster_info returns it.
    :arg cluster: name of the cluster's inventory host.
    :arg kubeconfigs: folder of the tenants' kubeconfigs on the controller; None where it is not known.
    """
    seen = ("namespace", "trust", "state", "kubernetes_version", "scheduler", "nodes", "network_policies")
    observed = {"name": tenant["tenant"], "vcluster_version": tenant["version"]} | {key: tenant[key] for key in seen}
    reached = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    if kubeconfigs:
        reached["kubegpu_tenant_kubeconfig"] = os.path.join(kubeconfigs, f"{tenant['tenant']}.yml")
    return reached | {"kubegpu_cluster": cluster, "kubegpu_observed": observed}
