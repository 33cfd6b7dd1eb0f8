# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Why a gang of Volcano waits. Volcano writes it to the gang's PodGroup; most pods of the gang say only that they could be placed."""

from __future__ import annotations

import collections
import decimal
import typing as t

from ..._common.ownership import annotations_of
from ..._common.parties import Unread, each
from ..._common.pods import Answer, held_by
from ..._common.quantity import quantity, whole
from ..._common.text import line, shown
from ..._common.values import JsonObject, Key, key_name, key_of
from .facts import CAPABILITY, GROUP_NOTE, OWN_QUEUES, POD_GROUP_KIND, QUEUE_API, QUEUE_KIND, WAITS

if t.TYPE_CHECKING:
    from ..._adapters.kubernetes import Kube


class Gang(t.NamedTuple):
    """A gang, its texts as they may be shown.

    :ivar why: it waits; empty where it does not. ``above``: the first resource of which it needs more than its queue gets at most.
    """

    name: str
    queue: str
    why: str
    above: str


def waiting(kube: Kube, pods: t.Iterable[JsonObject]) -> tuple[dict[Key, Answer], list[Unread]]:
    """Return why pods of gangs wait; nothing is asked where no pod is of one.

    :arg pods: of the cluster.
    :returns: the answers by pod, and the objects that have not the form of their kind.
    """
    members = collections.defaultdict[Key, list[JsonObject]](list)
    for pod in pods:
        if GROUP_NOTE in annotations_of(pod):
            members[_group_key(pod)].append(pod)
    if not members:
        return {}, []
    queues, odd_queues = each(kube.list(QUEUE_API, QUEUE_KIND), lambda item: f"queue {key_name(item)}", _limits)
    limits = dict(queues)

    def read(item: JsonObject) -> tuple[Key, Gang]:
        return key_of(item), _gang(item, members.get(key_of(item), []), limits)

    found, odd = each(kube.list(QUEUE_API, POD_GROUP_KIND), lambda item: f"PodGroup {key_name(item)}", read)
    answers = {key: answer for key, gang in found if (answer := _answer(gang))}
    told = {key_of(pod): answer for key, answer in answers.items() for pod in members[key]}
    return told, [*odd_queues, *odd]


def _group_key(pod: JsonObject) -> Key:
    return key_of(pod)[0], annotations_of(pod).get(GROUP_NOTE, "")


def _limits(item: JsonObject) -> tuple[str, dict[str, decimal.Decimal]]:
    """Return the name of a queue, and the most of each resource that it gets.

    :raises Exception: where it has not the form of one.
    """
    amounts = (item.get("spec") or {}).get(CAPABILITY) or {}
    return item["metadata"]["name"], {str(name): quantity(amount) for name, amount in amounts.items()}


def _gang(item: JsonObject, members: t.Sequence[JsonObject], limits: t.Mapping[str, t.Mapping[str, decimal.Decimal]]) -> Gang:
    """Return a gang by its PodGroup.

    :arg members: its pods; ``limits``, the most of each resource that a queue gets, by its name.
    :raises Exception: where it has not the form of one.
    """
    spec, conditions = item.get("spec") or {}, (item.get("status") or {}).get("conditions") or []
    queue, least = str(spec.get("queue") or OWN_QUEUES[0]), whole(spec.get("minMember") or 0)
    newest: JsonObject = max(conditions, key=lambda condition: str(condition.get("lastTransitionTime") or ""), default={})
    above = next(
        (
            f"{shown(name, 120)}: {needs:f}, and a limit of {limit:f}"
            for name, limit in sorted(limits.get(queue, {}).items())
            if (needs := _needs(members, name, least)) > limit
        ),
        "",
    )
    why = line(newest.get("message")) if newest.get("type") == WAITS else ""
    return Gang(shown(item["metadata"]["name"], 120), shown(queue, 120), why, above)


def _needs(members: t.Iterable[JsonObject], resource: str, least: int) -> decimal.Decimal:
    """Return the amount of a resource without which a gang cannot start: that of its smallest pods.

    Its PodGroup's minResources leave out what pods ask for by limits alone (v1.10.0).

    :arg least: pods that have to start together.
    """
    return sum(sorted(held_by(pod["spec"], resource, ("requests", "limits")) for pod in members)[:least], decimal.Decimal(0))


def _answer(gang: Gang) -> Answer | None:
    """Answer for the pods of a gang; None where it does not wait."""
    if not gang.why:
        return None
    if gang.above:
        message = f"Its gang {gang.name} asks for more than queue {gang.queue} gets at most, of {gang.above}."
        return Answer(
            "over_limit", message, "Lower minAvailable of its Job, or raise the queue's limit (kubegpu_tenants, queues)."
        )
    advice = "Wait until work ends, or lower minAvailable of its Job. If GPUs are free, see what else its queue holds."
    return Answer("gang", f"Volcano does not start its gang {gang.name} of queue {gang.queue}: {gang.why}.", advice)
