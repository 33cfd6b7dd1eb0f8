# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Where a rollout is, and what comes next: the record that it goes on by, and the steps. Pure.

The record is plain data that is written before and after each step. What it says is compared with the clusters whenever a run begins.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import typing as t

from .._common.errors import refusal
from .._common.values import JsonObject, stamp, stamped
from .facts import BACK, CHANGED, CHANGING, DONE, EVERY, FAILED, FORMAT, IN_WORDS, STUCK, WAITING
from .values import Rollout

Differs = t.Mapping[str, bool]
Reasons = t.Mapping[str, t.Sequence[str]]

# What the record says of a cluster before its change: the pods that wait for a fault, and the alerts that fire.
BEFORE = PODS, ALERTS = "waiting", "alerts"
# Kinds of steps.
CHANGE, OBSERVE, GO_BACK = "change", "observe", "go back"


@dataclasses.dataclass(frozen=True)
class Step:
    """What comes next.

    :ivar wave: its number, from 1.
    :ivar at: when it is due.
    :ivar last: whether clusters that pass it are done.
    """

    kind: str
    wave: int
    clusters: tuple[str, ...]
    at: datetime.datetime
    last: bool = False


def continued(rollout: Rollout, former: JsonObject | None) -> JsonObject | None:
    """Return the record that a run goes on by; None where it begins anew.

    :arg former: the record that there is; None where there is none.
    :raises TenancyError: where another rollout of this name is not at its end.
    """
    if former is None:
        return None
    if former["digest"] == rollout.digest:
        # A former version noted less.
        return former | {"clusters": {name: dict.fromkeys(BEFORE) | one for name, one in former["clusters"].items()}}
    if former["ended"]:
        return None
    raise refusal(
        "another-rollout",
        f"A rollout {rollout.name} with other waves or settings began at {former['began']}, and is not at its end. Give this one "
        f"another name, or end that one with what it began with.",
    )


def begun(rollout: Rollout, former: JsonObject | None, differs: Differs, now: datetime.datetime) -> JsonObject:
    """Return the record with which a run begins.

    :arg former: the record that it goes on by; None where it begins anew.
    :arg differs: by cluster, whether it differs from what the inventory says.
    """
    states = former["clusters"] if former else {}
    return {
        "format": FORMAT,
        "name": rollout.name,
        "digest": rollout.digest,
        "began": former["began"] if former else stamp(now),
        "ended": "",
        "clusters": {
            name: _taken_over(states.get(name), differs[name], rollout, now) | {"wave": rollout.wave_of(name)}
            for name in rollout.clusters
        },
    }


def going_back(rollout: Rollout, former: JsonObject | None) -> list[str]:
    """Return the clusters that a run that was cut off was to bring back; what differs of them is no question any more."""
    states = former["clusters"] if former and rollout.back_to else {}
    return [name for name, one in states.items() if one["state"] == FAILED]


def _taken_over(before: JsonObject | None, differs: bool, rollout: Rollout, now: datetime.datetime) -> JsonObject:
    """Return the record of a cluster at the beginning of a run: what is there decides, then what the record says."""
    state = WAITING if differs else DONE
    new: JsonObject = {"state": state, "since": stamp(now), "looked": "", **dict.fromkeys(BEFORE), "reasons": []}
    if before is None:
        return new
    if before["state"] == FAILED and rollout.back_to:
        return before
    if before["state"] in (CHANGING, FAILED, STUCK):
        # It was not verified since, even if nothing differs.
        return new | {"state": CHANGING} | {key: before[key] for key in BEFORE}
    if before["state"] == BACK and differs:
        # What began with the change that failed is not what was there before.
        return new | {key: before[key] for key in BEFORE}
    return before if before["state"] in (CHANGED, DONE) and not differs else new


def next_step(rollout: Rollout, record: JsonObject, now: datetime.datetime) -> Step | None:
    """Return what comes next; None where nothing does, because all is done or something failed."""
    states = record["clusters"]
    for number, wave in enumerate(rollout.waves, 1):
        by_state = collections.defaultdict(list)
        for name in wave.clusters:
            by_state[states[name]["state"]].append(name)
        if by_state[FAILED] and rollout.back_to:
            return Step(GO_BACK, number, tuple(by_state[FAILED]), now)
        if by_state[FAILED] or by_state[BACK] or by_state[STUCK]:
            return None
        if left := [name for name in wave.clusters if name in (*by_state[WAITING], *by_state[CHANGING])]:
            return Step(CHANGE, number, tuple(left[: wave.at_once]), now)
        if by_state[CHANGED]:
            return _observation(number, by_state[CHANGED], states, rollout.soak)
    return None


def _observation(wave: int, names: t.Sequence[str], states: t.Mapping[str, JsonObject], soak: datetime.timedelta) -> Step:
    """Return the next look at a wave; the last one is at the end of the time for which it is observed."""
    changed = max(stamped(states[name]["since"]) for name in names)
    looked = max(stamped(states[name]["looked"] or states[name]["since"]) for name in names)
    end = changed + soak
    at = min(max(changed, looked) + datetime.timedelta(seconds=EVERY), end)
    return Step(OBSERVE, wave, tuple(names), at, at == end)


def entered(record: JsonObject, step: Step, now: datetime.datetime) -> JsonObject:
    """Return the record while the clusters of a step are changed."""
    return _with(record, {name: {"state": CHANGING, "since": stamp(now)} for name in step.clusters})


def left(record: JsonObject, step: Step, reasons: Reasons, now: datetime.datetime) -> JsonObject:
    """Return the record after a step.

    :arg reasons: by cluster, why it did not pass; empty where it did.
    """
    good, bad = {CHANGE: (CHANGED, FAILED), OBSERVE: (DONE if step.last else CHANGED, FAILED), GO_BACK: (BACK, STUCK)}[step.kind]
    found = {}
    for name in step.clusters:
        before, why = record["clusters"][name], list(reasons[name])
        state = bad if why else good
        found[name] = {
            "state": state,
            "since": before["since"] if state == before["state"] else stamp(now),
            "looked": stamp(now),
            # What failed first is told after the way back, too.
            "reasons": [*before["reasons"], *why] if step.kind == GO_BACK else why,
        }
    return _with(record, found)


def noted(record: JsonObject, what: str, before: t.Mapping[str, t.Sequence[str] | None]) -> JsonObject:
    """Return the record with what was there before the change, unless a change has begun.

    :arg what: of BEFORE.
    """
    unchanged = {name for name, one in record["clusters"].items() if one["state"] == WAITING and one[what] is None}
    return _with(record, {name: {what: found} for name, found in before.items() if name in unchanged})


def _with(record: JsonObject, changes: t.Mapping[str, JsonObject]) -> JsonObject:
    return record | {"clusters": {name: one | changes.get(name, {}) for name, one in record["clusters"].items()}}


def ended(record: JsonObject, now: datetime.datetime) -> JsonObject:
    """Return the record at the end of a run; a rollout is at its end where every cluster is done."""
    return record | {"ended": stamp(now) if is_done(record) else ""}


def is_done(record: JsonObject) -> bool:
    """Tell whether every cluster is as the inventory says."""
    return all(one["state"] == DONE for one in record["clusters"].values())


def lines(rollout: Rollout, record: JsonObject) -> list[str]:
    """Return which clusters have what, each wave by itself, and why it went no further."""
    found = []
    for number, wave in enumerate(rollout.waves, 1):
        by_state: dict[str, list[str]] = {}
        for name in wave.clusters:
            by_state.setdefault(record["clusters"][name]["state"], []).append(name)
        found += [f"wave {number}: {IN_WORDS[state]}: {', '.join(names)}" for state, names in by_state.items()]
    return [*found, *(f"FAILED {why}" for one in record["clusters"].values() for why in one["reasons"])]
