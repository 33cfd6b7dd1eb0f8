# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Keep a tenant from the records of Helm about its own virtual cluster, which lie beside what its syncer brings.

Helm finds records by labels, which the syncer copies. A record that a tenant wrote makes Helm delete or create anything on the host
cluster, with the rights of the run that changes or removes the tenant.
"""

from __future__ import annotations

import typing as t

from .._admission.lifecycle import enforces, ensure_record_policies
from .._common.errors import ApiError, TenancyError
from .._common.ownership import MARKER_LABEL
from .._common.text import shown
from .._common.values import JsonObject
from .._common.wait import wait_for

if t.TYPE_CHECKING:
    from .._common.run import Run


# Labels by which Helm finds its records, in Secrets or ConfigMaps (helm.sh/helm, pkg/storage/driver).
_FORGED = f"owner=helm,{MARKER_LABEL}"
_KINDS = ("Secret", "ConfigMap")
# An object that the policy refuses; nothing is made of it, for it is written to see whether the policy is in force yet.
_PROBE = "kubegpu-record-probe"
# Part of the time left in which API servers take up a new policy, which they do within seconds.
_SHARE, _INTERVAL = 1 / 4, 0.2


class Records:
    """The records of Helm in the namespace of one virtual cluster on the host cluster.

    :arg end_syncer: ends the control plane, which writes there for its tenant.
    """

    def __init__(self, run: Run, name: str, namespace: str, end_syncer: t.Callable[[], object]) -> None:
        self._run = run
        self._name = name
        self._namespace = namespace
        self._end_syncer = end_syncer

    def guard(self) -> None:
        """Have the tenant kept from records, and remove what it forged, before anybody calls Helm.

        :raises TenancyError: where the cluster has no such policies, and the tenant forged a record.
        """
        before = len(self._run.changes)
        enforced = ensure_record_policies(self._run, self._name)
        if enforced and len(self._run.changes) > before and not self._run.check_mode:
            what = "the API server to take up the policy for records of Helm"
            wait_for(what, self._refused, self._run.deadline.share(_SHARE), interval=_INTERVAL)
        forged = self._forged()
        if forged and not enforced:
            raise TenancyError(
                f"namespace: {_named(forged)} in {self._namespace} passes for a record of Helm, and the tenant's syncer brought it there. "
                f"Helm would do with the operator's rights what it says. Remove it in the virtual cluster {self._name}, or remove the tenant."
            )
        self._remove(forged)

    def clear(self) -> None:
        """Remove what the tenant forged, so that nothing of it is left for Helm to act on when the tenant is removed."""
        forged = self._forged()
        if forged or not enforces(self._run.kube):
            # Until then it might write others.
            self._run.perform("end the control plane", "its tenant forged records of Helm, or could", self._end_syncer)
        self._remove(self._forged() if not self._run.check_mode else forged)

    def _remove(self, forged: t.Sequence[JsonObject]) -> None:
        for item in forged:
            what = f"{item['kind']} {shown(item['metadata']['name'])}"
            self._run.change(what, "a forged record of Helm", None)

            def delete(item: JsonObject = item) -> None:
                self._run.kube.delete("v1", item["kind"], item["metadata"]["name"], self._namespace)

            self._run.perform(f"remove {what}", "the tenant forged it, and Helm would act on it", delete)

    def _forged(self) -> list[JsonObject]:
        return [item for kind in _KINDS for item in self._run.kube.list("v1", kind, self._namespace, _FORGED)]

    def _refused(self) -> tuple[bool | None, str]:
        """Tell whether the API server refuses a record with the syncer's label."""
        metadata = {"name": _PROBE, "namespace": self._namespace, "labels": {"owner": "helm", MARKER_LABEL: "x"}}
        try:
            self._run.kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        except ApiError as exc:
            if exc.status in (403, 422):
                return True, ""
            raise
        self._run.kube.delete("v1", "ConfigMap", _PROBE, self._namespace)
        return None, "it takes such records still"


def _named(forged: t.Sequence[JsonObject]) -> str:
    first = f"{forged[0]['kind']} {shown(forged[0]['metadata']['name'])}"
    return first if len(forged) == 1 else f"{first}, and {len(forged) - 1} more,"
