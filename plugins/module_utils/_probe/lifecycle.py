# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The life of a probe: the namespace of its own, and the wait for its verdicts."""

from __future__ import annotations

import contextlib
import typing as t

from .._common.errors import TenancyError, WaitTimeout
from .._common.ownership import MANAGER, OWNED_LABELS, is_owned
from .._common.parallel import concurrently
from .._common.values import JsonObject
from .._common.wait import Deadline, wait_for
from .facts import FAILED
from .status import Verdict, record

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube

Check = t.TypeVar("Check")
# Returns the adapter to a tenant's API server.
Connect = t.Callable[[], "Kube"]

PODS = (("v1", "Pod"),)

# Seconds between two looks at what a probe waits for.
INTERVAL = 0.5
# Seconds that the clean-up has at least, when a probe's own time is over.
CLEAN_UP = 30


@contextlib.contextmanager
def own_namespace(
    kube: Kube,
    name: str,
    deadline: Deadline,
    kinds: t.Iterable[tuple[str, str]] = PODS,
    labels: t.Mapping[str, str] | None = None,
) -> t.Generator[None, None, None]:
    """Create a namespace for the block; empty and delete it when the block ends, however it ends.

    The cluster takes at least five seconds to remove a namespace, also an empty one (kube-controller-manager's namespace
    controller). Nothing waits for that but the next probe, which needs the name.

    :arg deadline: of the whole probe. The clean-up has 30 seconds at least.
    :arg kinds: API version and kind of what a probe creates in it, and of the pods that come from that.
    :arg labels: of the namespace, besides those of this collection.
    :raises TenancyError: where the namespace exists and is not owned by this collection.
    """
    if existing := kube.get("v1", "Namespace", name):
        if not is_owned(existing):
            raise TenancyError(
                f"namespace: {name} exists and is not owned by {MANAGER}. Name one that does not exist, because it is deleted."
            )
        # An earlier probe has hardly ended, or was killed.
        _remove(kube, name, deadline, kinds)
        wait_for(f"the end of namespace {name}", lambda: _gone(kube, name), deadline, interval=0.3)
    metadata = {"name": name, "labels": dict(labels or {}) | OWNED_LABELS}
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    try:
        # Until it is there, pods are refused.
        wait_for(
            "the namespace's service account",
            lambda: (kube.get("v1", "ServiceAccount", "default", name), "it does not exist"),
            deadline,
            interval=0.2,
        )
        yield
    finally:
        _remove(kube, name, deadline.extended(CLEAN_UP), kinds)


def empty_namespace(kube: Kube, name: str, deadline: Deadline, kinds: t.Iterable[tuple[str, str]] = PODS) -> None:
    """Delete everything of some kinds in a namespace, and wait until it is gone."""

    def emptied() -> tuple[bool | None, str]:
        left = [(*kind, item) for kind in kinds for item in kube.list(*kind, name)]
        # What has an owner goes with it; deleted first, it would only come back.
        ours = [one for one in left if not one[2]["metadata"].keys() & {"deletionTimestamp", "ownerReferences"}]
        concurrently(lambda one: kube.delete(one[0], one[1], one[2]["metadata"]["name"], name), ours)
        return (None, ", ".join(f"{kind} {item['metadata']['name']}" for _api, kind, item in left)) if left else (True, "")

    wait_for(f"the end of the pods in namespace {name}", emptied, deadline, interval=0.3)


def _remove(kube: Kube, name: str, deadline: Deadline, kinds: t.Iterable[tuple[str, str]]) -> None:
    # Emptied first: deleted with pods in it, it would be looked at again only after many seconds.
    try:
        empty_namespace(kube, name, deadline, kinds)
    finally:
        kube.delete("v1", "Namespace", name)


def _gone(kube: Kube, name: str) -> tuple[bool | None, str]:
    return (None, "it still exists") if kube.get("v1", "Namespace", name) else (True, "")


def await_verdict(what: str, judge: t.Callable[[], Verdict], deadline: Deadline) -> tuple[str, str]:
    """Return the verdict on one check and its reason, once there is one.

    :arg what: what is awaited, as in ``wait_for``.
    :raises WaitTimeout: when time is up.
    """

    def judged() -> tuple[tuple[str, str] | None, str]:
        verdict, reason = judge()
        return ((verdict, reason) if verdict else None), reason

    return wait_for(what, judged, deadline, INTERVAL)


def await_verdicts(
    what: str, checks: t.Sequence[Check], look: t.Callable[[], t.Callable[[Check], Verdict]], deadline: Deadline, late: str = ""
) -> list[JsonObject]:
    """Return the records of several checks that run at once, each as soon as there is a verdict on it.

    :arg what: what is awaited, as in ``wait_for``.
    :arg checks: their names, or what has such a name as its text.
    :arg look: reads the cluster, and returns what judges a check.
    :arg late: why a check without a verdict failed when time is up; empty for what was seen last.
    """
    records: dict[Check, JsonObject] = {}

    def judged() -> tuple[bool | None, str]:
        judge, awaited = look(), []
        for check in [check for check in checks if check not in records]:
            verdict, reason = judge(check)
            if verdict:
                records[check] = record(str(check), verdict, reason, deadline.elapsed())
            else:
                awaited.append(f"{check}: {reason}")
        return (None, "; ".join(awaited)) if awaited else (True, "")

    try:
        wait_for(what, judged, deadline, INTERVAL)
    except WaitTimeout as exc:
        late = late or exc.message
    return [records.get(check) or record(str(check), FAILED, late, deadline.elapsed()) for check in checks]
