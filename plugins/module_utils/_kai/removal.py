# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Remove KAI Scheduler from one cluster."""

from __future__ import annotations

import functools
import itertools
import typing as t

from .._common.names import KAI_NAMESPACE, RESERVATION_NAMESPACE, SCALE_ADJUST_NAMESPACE, SHARD
from .._common.ownership import is_owned
from .._common.parallel import concurrently
from .._common.pods import pods_gone
from .._common.values import JsonObject
from .._common.wait import Deadline, wait_for
from . import facts, status

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._helm.lifecycle import HelmRelease


class Leftover(t.NamedTuple):
    """An object of KAI that is still there; ``terminating`` when its deletion is under way."""

    api_version: str
    kind: str
    name: str
    terminating: bool
    namespace: str | None = None


class Removal:
    """The removal of KAI Scheduler from one cluster, in an order in which no webhook without a server refuses anything.

    :arg purge: remove what users made as well.
    :arg replaced: another release follows at once: KAI's namespace stays and is emptied, which takes a third of the time.
    """

    def __init__(self, kube: Kube, release: HelmRelease, deadline: Deadline, purge: bool = False, replaced: bool = False) -> None:
        self.kube = kube
        self.helm_release = release
        self.deadline = deadline
        self.purge = purge
        self.replaced = replaced

    def remove(self) -> None:
        """Remove everything and wait until it is gone."""
        # The operator makes the webhooks, so it goes first; then the webhooks, then the servers that answer them.
        self.kube.delete("apps/v1", "Deployment", facts.OPERATOR, KAI_NAMESPACE)
        self._wait_for_pods("the end of the operator", f"app={facts.OPERATOR}")
        concurrently(self._delete, self._webhooks())
        # A namespace that is deleted with pods in it is looked at again only after many seconds. They end while helm works.
        concurrently(self._delete, self._list("apps/v1", "Deployment", namespace=KAI_NAMESPACE))
        # Pods of this collection that a killed run left belong to no Deployment.
        concurrently(self._delete, self._list("v1", "Pod", is_owned, KAI_NAMESPACE))
        # Hooks need an image, which may be missing; what they do is done here.
        self.helm_release.remove(self.deadline, hooks=False)
        self._wait_for_pods("the end of its pods")
        wait_for("the removal of KAI Scheduler", self._sweep, self.deadline, interval=0.3)

    def leftovers(self) -> list[Leftover]:
        """Return what is in the cluster, in the order in which it can go."""
        namespaces = {SCALE_ADJUST_NAMESPACE}
        namespaces |= set() if self.replaced else {KAI_NAMESPACE}
        namespaces |= {RESERVATION_NAMESPACE} if self.purge else set()
        crds = self._list(*facts.CRD, wanted=status.is_kai_crd)
        served = {crd.name for crd in crds if not crd.terminating}
        configs = (("configs.kai.scheduler", facts.CONFIG[:2]), ("schedulingshards.kai.scheduler", SHARD))
        listings: list[t.Callable[[], list[Leftover]]] = [
            self._webhooks,
            *[functools.partial(self._list, *kind) for crd, kind in configs if crd in served],
            *[
                functools.partial(self._list, facts.RBAC, kind, status.is_of_chart)
                for kind in ("ClusterRoleBinding", "ClusterRole")
            ],
            functools.partial(self._list, "scheduling.k8s.io/v1", "PriorityClass", status.is_of_chart),
            functools.partial(self._list, "v1", "Namespace", lambda item: item["metadata"]["name"] in namespaces),
        ]
        if self.replaced:
            # Service accounts that outlive the old Config would be taken from the next release while it uses them (#1536).
            made = functools.partial(self._list, wanted=lambda item: not status.is_built_in(item), namespace=KAI_NAMESPACE)
            listings += [functools.partial(made, *kind) for kind in facts.CONTENT]
        listed = concurrently(lambda listing: listing(), listings)
        return [*itertools.chain.from_iterable(listed), *(crds if self.purge else [])]

    def _sweep(self) -> tuple[bool | None, str]:
        """Probe for ``wait_for``: delete what is left; True once nothing is."""
        leftovers = self.leftovers()
        doomed = [leftover for leftover in leftovers if not leftover.terminating]
        # Kind after kind, as they can go; those of one kind at once.
        for _kind, same in itertools.groupby(doomed, key=lambda leftover: leftover.kind):
            concurrently(self._delete, same)
        return (None, ", ".join(f"{leftover.kind} {leftover.name}" for leftover in leftovers)) if leftovers else (True, "")

    def _webhooks(self) -> list[Leftover]:
        return [item for kind in facts.WEBHOOK_KINDS for item in self._list(facts.ADMISSION, kind, status.is_kai_webhook)]

    def _list(
        self,
        api_version: str,
        kind: str,
        wanted: t.Callable[[JsonObject], bool] = lambda _item: True,
        namespace: str | None = None,
    ) -> list[Leftover]:
        return [
            Leftover(api_version, kind, item["metadata"]["name"], "deletionTimestamp" in item["metadata"], namespace)
            for item in self.kube.list(api_version, kind, namespace)
            if wanted(item)
        ]

    def _delete(self, leftover: Leftover) -> None:
        self.kube.delete(leftover.api_version, leftover.kind, leftover.name, leftover.namespace)

    def _wait_for_pods(self, what: str, selector: str | None = None) -> None:
        wait_for(what, lambda: pods_gone(self.kube, KAI_NAMESPACE, selector), self.deadline, interval=0.3)
