# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab whose tenants are backed up and restored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.pods import is_ready
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._backups import Kept, Store
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab

Data = dict[str, Any]


class BackupLab(Lab):
    """A lab whose backups are kept in a folder of the test, three of each tenant.

    :arg layout: variables of the inventory.
    """

    def __init__(self, name: str, folder: Path, layout: Data) -> None:
        variables = layout | {"kubegpu_backup_folder": str(folder), "kubegpu_backup_keep": 3}
        super().__init__(name, f"--extra-vars={json.dumps(variables)}")
        self.folder = folder

    def store(self, tenant: str) -> Store:
        return Store(str(self.folder), "lab", tenant)

    def kept(self, tenant: str) -> list[Kept]:
        return self.store(tenant).all()

    def tenant(self, name: str) -> Kube:
        return Kube.connect(kubeconfig=str(Path(f"~/.kube/kubegpu/{self.name}/tenants/{name}.yml").expanduser()))

    def host(self) -> Kube:
        return Kube.connect(kubeconfig=str(Path(f"~/.kube/kubegpu/{self.name}/cluster.yml").expanduser()))

    def cluster_uid(self) -> str:
        """Return what tells a cluster from the one before."""
        return str((self.host().get("v1", "Namespace", "kube-system") or {})["metadata"]["uid"])

    def back_up(self, *args: str) -> str:
        said = self.play("backup", *args)
        assert self.code == 0, said[-6000:]
        return said

    def bring_back(self, tenant: str, *args: str) -> str:
        said = self.play("restore", f"--extra-vars=kubegpu_only={tenant}", *args)
        assert self.code == 0, said[-6000:]
        return said


def wait_for_pods(kube: Kube, namespace: str, count: int) -> None:
    def ready() -> tuple[bool | None, str]:
        pods = kube.list("v1", "Pod", namespace)
        return (True if sum(map(is_ready, pods)) == count else None), f"{len(pods)} pods"

    wait_for(f"{count} pods in {namespace}", ready, 180)
