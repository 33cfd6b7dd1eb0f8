# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The namespace of one virtual cluster on the host cluster: whose it is, what others know the tenant by, and its end."""

from __future__ import annotations

import typing as t

from .._common.errors import TenancyError
from .._common.names import TENANT_LABEL
from .._common.ownership import is_owned, labels_of, last_write
from .._common.values import JsonObject
from .._common.wait import wait_for
from .facts import RENDERED_ANNOTATION
from .status import is_terminating
from .values import Wanted, namespace_metadata, new_namespace

if t.TYPE_CHECKING:
    from .._common.run import Run


class Namespace:
    """The namespace of one tenant.

    :arg tenant: name of the virtual cluster; ``name``, of the namespace.
    """

    def __init__(self, run: Run, tenant: str, name: str) -> None:
        self.run = run
        self.kube = run.kube
        self.tenant = tenant
        self.name = name

    def read(self) -> JsonObject | None:
        """Read the namespace.

        :raises TenancyError: when it is not this tenant's.
        """
        live = self.kube.get("v1", "Namespace", self.name)
        if live is None:
            return None
        if not is_owned(live):
            raise TenancyError(f"namespace: {self.name} exists and was not made by this collection; it stays untouched.")
        tenant = labels_of(live).get(TENANT_LABEL)
        if tenant != self.tenant:
            raise TenancyError(f"namespace: {self.name} belongs to tenant {tenant}, not to {self.tenant}.")
        return live

    def ensure(self, live: JsonObject | None, asked: Wanted, network: str | None, host: str) -> None:
        """Create the namespace, or write on it what others know the tenant by.

        :arg live: as it was read; one that is being removed is waited for and created anew.
        :arg network: ENFORCED or UNENFORCED; None where there are no network policies.
        :arg host: minor version of the host cluster's Kubernetes, for which the chart of a new one is rendered.
        """
        metadata = namespace_metadata(asked, network)
        if live is None or is_terminating(live):
            metadata["annotations"][RENDERED_ANNOTATION] = host
            self.run.change("namespace", None, self.name)
            self.run.perform(f"create namespace {self.name}", "it does not exist", lambda: self._create(live, metadata))
            return
        self._write(live, metadata)

    def _write(self, live: JsonObject, metadata: JsonObject) -> None:
        changed = []
        for kind, entries in metadata.items():
            for key, after in entries.items():
                before, name = (live["metadata"].get(kind) or {}).get(key), key.rpartition("/")[2]
                if before != after:
                    self.run.change(name, before, after, last_write(live, ("metadata", kind, key)))
                    changed.append(name)
        if changed:
            self.run.perform(
                f"note {', '.join(changed)} on namespace {self.name}",
                "others know the tenant by it",
                lambda: self.kube.patch("v1", "Namespace", self.name, {"metadata": metadata}),
            )

    def _create(self, live: JsonObject | None, metadata: JsonObject) -> None:
        if live:
            self.wait_until_gone()
        self.kube.create(new_namespace(self.tenant, self.name, metadata))

    def wait_until_gone(self) -> None:
        """Wait until the namespace is gone, with the volumes whose storage class promises to delete them with their claim."""
        wait_for(f"the removal of namespace {self.name}", self._gone, self.run.deadline)

    def _gone(self) -> tuple[bool | None, str]:
        namespace = self.kube.get("v1", "Namespace", self.name)
        if namespace:
            conditions = namespace.get("status", {}).get("conditions") or []
            reasons = [condition["message"] for condition in conditions if condition["status"] == "True"]
            return None, "; ".join(reasons) or "the namespace is still there"
        volumes = [
            volume["metadata"]["name"]
            for volume in self.kube.list("v1", "PersistentVolume")
            if (volume["spec"].get("claimRef") or {}).get("namespace") == self.name
            and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        ]
        return (None, f"volumes {', '.join(volumes)}") if volumes else (True, "")
