# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Remove what one virtual cluster left on the host cluster, in its namespace and outside of it."""

from __future__ import annotations

import functools
import typing as t

from .._common.errors import ApiError, WaitTimeout
from .._common.ownership import MARKER_LABEL, annotations_of, last_write
from .._common.pods import delete_pods, pods_gone
from .._common.synced import marker
from .._common.values import JsonObject
from .._common.wait import wait_for
from .facts import CONTROL_PLANE, PODS_ENDED_ANNOTATION, SYNCED_CLUSTER_KINDS, SYNCED_KINDS, cluster_role_name
from .status import is_terminating

if t.TYPE_CHECKING:
    from .._common.run import Run
    from .control_plane import ControlPlane
    from .namespace import Namespace
    from .operation import Operation

RBAC = "rbac.authorization.k8s.io/v1"
# (API version, kind, name).
Ref = tuple[str, str, str]


class Removal:
    """The removal of one virtual cluster whose release is gone."""

    def __init__(self, run: Run, plane: ControlPlane, space: Namespace, operation: Operation) -> None:
        self.run = run
        self.kube = run.kube
        self.plane = plane
        self.space = space
        self.operation = operation
        self.namespace = space.name

    # --- its namespace ---

    def remove_synced(self, installed: bool) -> None:
        """Remove what it wrote into its namespace; where it was installed until now, that is no change of its own."""
        kinds = [*SYNCED_KINDS, ("v1", "Pod")]
        leftovers = [item for kind in kinds for item in self.plane.synced(*kind) if not is_terminating(item)]
        if not installed:
            for item in leftovers:
                self.run.change(f"{item['kind']} {item['metadata']['name']}", "present", None)
        if installed or leftovers:
            self.run.perform("remove what the virtual cluster wrote into its namespace", "its volumes are kept", self._sweep)

    def _sweep(self) -> None:
        # Objects go by themselves only where they have an owner.
        for api_version, kind in SYNCED_KINDS:
            for item in self.plane.synced(api_version, kind):
                self.kube.delete(api_version, kind, item["metadata"]["name"], self.namespace)
        self.operation.wait_for_rest()

    def remove_namespace(self, namespace: JsonObject) -> None:
        """Remove the namespace with all that is in it."""
        self.run.change("namespace", self.namespace, None, last_write(namespace, ("metadata", "labels")))
        self.run.perform(f"remove namespace {self.namespace}", "it exists", lambda: self._delete_namespace(namespace))

    def _delete_namespace(self, namespace: JsonObject) -> None:
        if not is_terminating(namespace):
            # Nothing can be created in it from now on: the control plane makes no pod again.
            self.kube.delete("v1", "Namespace", self.namespace)
        self._empty_namespace()
        self.space.wait_until_gone()

    def _empty_namespace(self) -> None:
        """Delete what takes long to end, give it some time, and have the namespace looked at again.

        kube-controller-manager looks at a deleted namespace after 5 s and, where it finds pods, again only after half of their
        longest grace period, also when they ended long before; but 5 s after any change of the namespace
        (pkg/controller/namespace).
        """
        for claim in self.kube.list("v1", "PersistentVolumeClaim", self.namespace):
            self.kube.delete("v1", "PersistentVolumeClaim", claim["metadata"]["name"], self.namespace)
        # A control plane whose data goes has nothing to finish.
        for pod in self.kube.list("v1", "Pod", self.namespace, CONTROL_PLANE):
            self.kube.delete("v1", "Pod", pod["metadata"]["name"], self.namespace, grace_seconds=1)
        delete_pods(self.kube, self.kube.list("v1", "Pod", self.namespace))
        ended = functools.partial(pods_gone, self.kube, self.namespace)
        try:
            wait_for(f"the end of the pods in {self.namespace}", ended, self.run.deadline.share(1 / 8), interval=0.5)
            change = {"metadata": {"annotations": {PODS_ENDED_ANNOTATION: "true"}}}
            self.kube.patch("v1", "Namespace", self.namespace, change)
        except (WaitTimeout, ApiError) as exc:
            # Pods that do not end are what the wait for the namespace tells; and it may be gone already.
            if isinstance(exc, ApiError) and exc.status != 404:
                raise

    # --- outside of it ---

    def cluster_scoped(self) -> list[Ref]:
        """List what of this virtual cluster lies outside its namespace."""
        refs: list[Ref] = []
        role = cluster_role_name(self.plane.name, self.namespace)
        owner = {"meta.helm.sh/release-name": self.plane.name, "meta.helm.sh/release-namespace": self.namespace}
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            if owner.items() <= annotations_of(self.kube.get(RBAC, kind, role)).items():
                refs.append((RBAC, kind, role))
        selector = f"{MARKER_LABEL}={marker(self.plane.name, self.namespace)}"
        for api_version, kind in SYNCED_CLUSTER_KINDS:
            refs += [(api_version, kind, item["metadata"]["name"]) for item in self.kube.list(api_version, kind, None, selector)]
        return refs

    def remove_cluster_scoped(self, refs: t.Iterable[Ref]) -> None:
        """Remove what lies outside of its namespace, where anything is removed at all.

        :arg refs: what was there before the release was removed.
        """
        for _api_version, kind, name in refs:
            self.run.change(f"{kind} {name}", "present", None)
        if self.run.changes:
            self.run.perform("remove what lies outside its namespace", "nothing else would", self._delete_cluster_scoped)

    def _delete_cluster_scoped(self) -> None:
        # Helm has removed some of it by now, and the syncer may have written more.
        for api_version, kind, name in self.cluster_scoped():
            self.kube.delete(api_version, kind, name)
