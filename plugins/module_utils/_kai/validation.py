# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Which versions of KAI Scheduler there are, and what they are refused for."""

from __future__ import annotations

import datetime
import json
import re
import typing as t

from .._common.errors import Problem, TenancyError, did_you_mean, refusal, refuse
from .._common.names import RUNTIME_CLASS
from .._common.quantity import whole
from .._common.values import JsonObject, Values, value_at
from .._queues.values import Queue, from_live, levels
from .facts import (
    END_OF_SUPPORT,
    HAZARD_NAMES,
    LINES,
    MEMORY_ADD_ON,
    OPEN_GPUS,
    RESERVATIONS,
    RETRACTED,
    Asked,
    Hazard,
    Release,
    Version,
    dotted,
    facts_of,
    first_with,
    hazards_of,
)
from .status import is_supported


def parse_version(version: str) -> Version:
    """Return a version as numbers, for comparison; the leading v may be missing.

    :raises TenancyError: where the text is no exact version.
    """
    found = re.fullmatch(r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})", version, re.ASCII)
    if not found:
        raise refusal("not-a-version", f"version: {version!r} is not a version of KAI Scheduler such as v0.16.8.")
    return whole(found[1]), whole(found[2]), whole(found[3])


def parse_installed(version: str) -> Version:
    """Return the version of the chart that is installed as numbers.

    :raises TenancyError: where a user installed a chart of their own making, of which nothing is known.
    """
    try:
        return parse_version(version)
    except TenancyError as exc:
        raise refusal(
            "unknown-release",
            f"version: {version} is installed, which is no release of KAI Scheduler. Remove it first, with state: absent.",
        ) from exc


def release(version: str) -> Release:
    """Return what is known about a version; the leading v may be missing.

    A version newer than the table is taken for the newest of its line, or of all lines, and is marked as not known.

    :raises TenancyError: for a version that does not exist, or was retracted.
    """
    exact = parse_version(version)
    line = next((line for line in LINES if line.first[:2] == exact[:2]), None)
    why = ""
    if exact[:2] in RETRACTED:
        why = f"{version} of KAI Scheduler was retracted upstream"
    elif line is None and exact < LINES[-1].first:
        why = f"there is no KAI Scheduler {version} that this collection knows"
    elif line and line.ended and exact > line.last:
        why = f"there is no KAI Scheduler {version}: the last release of its line is v{dotted(line.last)}"
    if why:
        raise refusal("unknown-release", f"version: {why}. Known are {_known()}.")
    known = line is not None and exact <= line.last
    return Release(number=exact, known=known, hazards=hazards_of(exact), **facts_of(exact))


def _known() -> str:
    return ", ".join(f"v{dotted(line.first)}" + (f"-{line.last[2]}" if line.last[2] else "") for line in LINES)


# --- hazards -------------------------------------------------------------------------------------------------------


def hazards_on(release: Release, today: datetime.date) -> tuple[Hazard, ...]:
    """Return everything that is known to go wrong with a release on a day."""
    if is_supported(release, today):
        return release.hazards
    text = f"upstream has corrected nothing in it since the end of {release.end_of_support}"
    return (*release.hazards, Hazard(END_OF_SUPPORT, release.number, release.number, "", text, "SUPPORT.md"))


def touching(release: Release, asked: Asked, today: datetime.date) -> tuple[Hazard, ...]:
    """Return the hazards of a release that touch what is asked of it."""
    known = (*hazards_on(release, today), OPEN_GPUS)
    return tuple(hazard for hazard in known if not hazard.touches or getattr(asked, hazard.touches))


def nearest_without(number: Version, asked: Asked, today: datetime.date) -> Release | None:
    """Return the first release after a version that is known, and of which no hazard touches what is asked; None where none is."""
    known = ((*line.first[:2], patch) for line in LINES for patch in range(line.first[2], line.last[2] + 1))
    later = (release(dotted(version)) for version in known if version > number)
    return next((found for found in later if not touching(found, asked, today)), None)


def check_hazard_names(names: t.Sequence[t.Any]) -> None:
    """Refuse to accept what is no hazard; one that does not touch is fine.

    :raises TenancyError: for each name that is not known.
    """
    refuse(
        Problem(
            "unknown-hazard",
            f"accept_hazards[{index}]: {name!r} is no hazard.{did_you_mean(name, HAZARD_NAMES)} Known are {', '.join(HAZARD_NAMES)}.",
        )
        for index, name in enumerate(names)
        if name not in HAZARD_NAMES
    )


def refuse_hazards(
    release: Release, asked: Asked, accepted: t.Collection[str], today: datetime.date, installed: bool
) -> tuple[Hazard, ...]:
    """Refuse a release with hazards that touch what is asked of it and were not accepted.

    :arg accepted: names of hazards.
    :arg installed: whether the release is there already: then the end of its support alone refuses nothing.
    :returns: the hazards that touch, which are accepted but for the end of support of what is installed.
    :raises TenancyError: with what goes wrong, the nearest release without it, and how it is accepted.
    """
    found = touching(release, asked, today)
    spared = [*accepted, END_OF_SUPPORT] if installed else accepted
    if refused := [hazard for hazard in found if hazard.name not in spared]:
        better = nearest_without(release.number, asked, today)
        way = f"Use {better.version}, the nearest release without, or" if better else "No later release that is known is without:"
        names = json.dumps([hazard.name for hazard in found])
        raise refusal(
            "hazard-not-accepted",
            f"version: {release.version} is refused. {'; '.join(map(str, refused))}. {way} accept it with accept_hazards: {names}.",
        )
    return found


def check_runtime_class(release: Release, runtime_class: str, gpu_sharing: bool) -> None:
    """Refuse a release of which pods would name a RuntimeClass that is not there, so that the API server refuses them.

    :arg runtime_class: the cluster's for pods with GPUs; empty for none.
    """
    names = release.needs_runtime_class
    obeys = runtime_class == RUNTIME_CLASS or (runtime_class and release.runtime_class_keys)
    if obeys or not names or (names == RESERVATIONS and not gpu_sharing):
        return
    later = "v0.16.0" if gpu_sharing else "v0.13.0"
    raise refusal(
        "no-runtime-class",
        f"version: in {release.version}, {names} name the RuntimeClass {RUNTIME_CLASS} regardless of its values, and "
        f"kubegpu_runtime_class says {runtime_class or 'that there is none'}. Take {later} or later, or give the cluster a RuntimeClass "
        f"{RUNTIME_CLASS}, with the handler of the nodes' default runtime, and leave kubegpu_runtime_class out.",
    )


def check_memory_limits(release: Release, gpu_sharing: bool, values: Values) -> None:
    """Refuse a release, or values of its chart, by which nothing limits the memory of pods that share a GPU.

    :arg values: all that the chart is installed with.
    """
    here = "gpu_memory_enforced"
    if not gpu_sharing:
        raise refusal("not-applicable", f"{here}: is about pods that share a GPU. Set gpu_sharing to true, too.")
    if release.memory_limit is None:
        raise refusal(
            "not-in-release",
            f"{here}: KAI Scheduler {release.version} schedules fractions of a GPU, and does not limit their memory. "
            f"{first_with('memory_limit')} and later can, with {MEMORY_ADD_ON} on the host cluster.",
        )
    key, wanted = release.memory_limit
    if value_at(values, key) != wanted:
        raise refusal(
            "not-applicable", f"values.{key}: {value_at(values, key)!r} takes back what {here} asks for. Leave one of them out."
        )
    if release.fractioning_key and value_at(values, release.fractioning_key):
        why = f"is another way to limit memory than {wanted}, by which {here} does it. Leave one of them out."
        raise refusal("not-applicable", f"values.{release.fractioning_key}: {why}")


# --- queues --------------------------------------------------------------------------------------------------------


def check_node_pools(release: Release, queues: t.Mapping[str, Queue]) -> None:
    """Refuse queues in node pools of a release with one scheduler for all nodes."""
    if not release.shard:
        refuse(
            Problem(
                "not-in-release",
                f"queues.{queue.name}.node_pool: KAI Scheduler {release.version} has no node pools. "
                f"{first_with('shard')} and later have.",
            )
            for queue in queues.values()
            if queue.pool and not queue.parent
        )


def refuse_deeper_queues(release: Release, queues: t.Iterable[JsonObject]) -> None:
    """Refuse a release that would not schedule the work in queues of the cluster.

    :arg queues: Queue objects, as they are in the cluster.
    :raises TenancyError: with the names of the queues that are on a deeper level than the release schedules.
    """
    if release.queue_levels is None:
        return
    live = from_live(queues)
    deeper = sorted(name for name, level in levels(live).items() if level > release.queue_levels)
    if deeper:
        raise refusal(
            "queues-too-deep",
            f"version: {release.version} schedules queues on {release.queue_levels} levels only, and these are deeper: "
            f"{', '.join(deeper)}. Remove them first, or move them up, for example by kai_queues with state: exact.",
        )
