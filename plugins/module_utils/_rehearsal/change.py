# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""A change of KAI Scheduler: what a rehearsal is about, and whether its verdict covers a change that is to be made. Pure."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import typing as t

from .._common.ownership import is_owned
from .._common.schema import Problems, plain
from .._common.secrets import digested
from .._common.text import LONGEST_LINE, shown
from .._common.values import Change as Difference
from .._common.values import JsonObject, Values, deep_merge, differences
from .._kai.facts import upgrade_notes
from .._kai.validation import release
from .._kai.values import chart_values, without_migration
from .._queues.validation import parse
from .._queues.values import from_live, written
from .facts import CHANGE, FORMAT, HOLD, PROMOTE, SCHEDULER, VERDICT


@dataclasses.dataclass(frozen=True)
class Configuration:
    """KAI Scheduler as a rehearsal is about it.

    :ivar values: all that its chart is given, as digests: a verdict is kept in git and shown, and values may be secret.
    :ivar queues: by name, each as the module kai_queues takes it, without what is as by default.
    """

    version: str
    values: Values
    queues: dict[str, JsonObject]


@dataclasses.dataclass(frozen=True)
class Change:
    """What changes from one configuration to another."""

    before: Configuration
    after: Configuration

    @property
    def name(self) -> str:
        """A name that no other change has, such as v0.12.0-to-v0.13.1-3f2a9c01d4."""
        digest = hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode()).hexdigest()
        return f"{self.before.version}-to-{self.after.version}-{digest[:10]}"

    @property
    def differences(self) -> list[Difference]:
        """What differs, by its path."""
        return _differences(self.before, self.after)

    @classmethod
    def of(cls, data: JsonObject) -> Change:
        """Return what facts.CHANGE says."""
        return cls(Configuration(**data["from"]), Configuration(**data["to"]))

    def data(self) -> JsonObject:
        """Return it as plain data, as facts.CHANGE has it."""
        return {"name": self.name, "from": dataclasses.asdict(self.before), "to": dataclasses.asdict(self.after)}


def wanted(given: t.Any, path: str, queues: t.Sequence[JsonObject]) -> Configuration:
    """Return a configuration as users write it, by the keys of facts.SCHEDULER.

    :arg queues: the queues that it has where it names none.
    :raises TenancyError: with all ``problems``.
    """
    problems = Problems()
    found = problems.mapping(plain(given), SCHEDULER, path)
    problems.raise_if_any("the change")
    known, tree = release(found["version"]), parse(found.get("queues") or plain(queues))
    sharing = found.get("gpu_sharing", SCHEDULER["gpu_sharing"].default)
    values = deep_merge(chart_values(known, sharing), found.get("values", {}))
    rows = {name: written(queue) for name, queue in tree.items()}
    return Configuration(known.version, digested(without_migration(values)), rows)


def not_played(change: Change) -> list[str]:
    """Return how pods are grouped in another way after a change: a rehearsal plays the groups of its trace, regardless of how a release would make them."""
    before, after = (release(one.version).number for one in (change.before, change.after))
    return [f"Not played, as a trace brings its groups: {note}." for note in upgrade_notes(before, after, regroups=True)]


def live(version: str, values: Values, queues: t.Iterable[JsonObject]) -> Configuration:
    """Return what a cluster has.

    :arg queues: Queue objects of the cluster.
    """
    rows = {name: written(queue) for name, queue in from_live(queues).items()}
    return Configuration(version, digested(without_migration(values)), rows)


def kept(queues: t.Iterable[JsonObject]) -> dict[str, JsonObject]:
    """Return the queues of a cluster that stay after any change, because this collection does not own them."""
    return {name: written(queue) for name, queue in from_live(item for item in queues if not is_owned(item)).items()}


@dataclasses.dataclass(frozen=True)
class Gate:
    """What lets a change through.

    :ivar verdicts: as rehearsals returned them.
    :ivar most: how old a verdict may be.
    :ivar accepted: names of changes that may be made although their verdict is hold.
    """

    verdicts: t.Sequence[JsonObject]
    most: datetime.timedelta
    accepted: t.Collection[str]

    def judge(self, change: Change, now: datetime.datetime) -> tuple[str, str]:
        """Return why a change is let through, and why it is refused; one of them is empty."""
        about = [item for item in self.verdicts if covers(item["change"], change)]
        if not about:
            return "", self._missing(change)
        verdict = max(about, key=moment)
        name, result, at = verdict["change"]["name"], verdict["result"], verdict["at"]
        if now - moment(verdict) > self.most:
            return "", f"The verdict {name}, {result}, is of {at}, and verdicts are good for {self.most.days} days."
        if result == PROMOTE or (result == HOLD and name in self.accepted):
            return f"{name}: {result}, {at}" + (", accepted" if result == HOLD else ""), ""
        way = f" kubegpu_accept_holds: [{name}] accepts that." if result == HOLD else ""
        return "", f"The verdict {name} of {at} is {result}: {' '.join(verdict['reasons'])}{way}"

    def _missing(self, change: Change) -> str:
        """Return that no verdict is about a change, and how the nearest one differs."""
        text = f"None of {len(self.verdicts)} verdicts is about this change."
        if not self.verdicts:
            return text
        nearest, paths = min(
            ((item["change"]["name"], _differences_from(item["change"], change)) for item in self.verdicts),
            key=lambda one: len(one[1]),
        )
        more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
        return shown(f"{text} The nearest, {nearest}, differs in {', '.join(map(shown, paths[:5]))}{more}.", LONGEST_LINE)


def covers(rehearsed: JsonObject, change: Change) -> bool:
    """Tell whether a rehearsed change leads to the same, from where the cluster is.

    A run that was ended in the middle leaves parts of a cluster as they are to be: those are covered, too.

    :arg rehearsed: as facts.CHANGE has it.
    """
    tried = Change.of(rehearsed)
    before, after = tried.before, tried.after
    if _differences(after, change.after):
        return False
    names = before.queues.keys() | after.queues.keys() | change.before.queues.keys()
    pairs = [
        (change.before.version, (before.version, after.version)),
        (change.before.values, (before.values, after.values)),
        *((change.before.queues.get(name), (before.queues.get(name), after.queues.get(name))) for name in names),
    ]
    return all(here in either for here, either in pairs)


# What a configuration in a verdict consists of.
_KINDS: dict[str, type] = {"version": str, "values": dict, "queues": dict}


def parse_verdict(given: t.Any, path: str) -> JsonObject:
    """Return a verdict from a file.

    :raises TenancyError: with all ``problems``.
    """
    problems = Problems()
    verdict = problems.mapping(plain(given), VERDICT, path)
    if verdict.get("format", FORMAT) != FORMAT:
        problems.add("other-format", f"{path}.format", f"is {verdict['format']}; this release reads {FORMAT}.")
    if "change" in verdict:
        change = problems.mapping(verdict["change"], CHANGE, f"{path}.change")
        for side in ("from", "to"):
            configuration = change.get(side, {})
            if side in change and configuration.keys() != _KINDS.keys():
                problems.add("unknown-key", f"{path}.change.{side}", "has other keys than version, values and queues.")
            for key, kind in _KINDS.items():
                if key in configuration and not isinstance(configuration[key], kind):
                    problems.add("wrong-type", f"{path}.change.{side}.{key}", f"is no {kind.__name__}.")
    try:
        if "at" in verdict:
            moment(verdict)
    except ValueError:
        problems.add("not-a-time", f"{path}.at", f"{verdict['at']!r} is not a moment such as 2026-11-23T10:00:00+00:00.")
    problems.raise_if_any("a verdict")
    return verdict


def moment(verdict: JsonObject) -> datetime.datetime:
    """Return when a verdict was made.

    :raises ValueError: where that is no moment, or one without a time zone.
    """
    at = datetime.datetime.fromisoformat(verdict["at"])
    if at.tzinfo is None:
        raise ValueError(verdict["at"])
    return at


def _differences_from(rehearsed: JsonObject, change: Change) -> list[str]:
    """Return the paths in which a change differs from one that was rehearsed."""
    tried = Change.of(rehearsed)
    sides = ((tried.before, change.before, "from"), (tried.after, change.after, "to"))
    return [f"{side}.{path}" for there, here, side in sides for path, _there, _here in _differences(there, here)]


def _differences(before: Configuration, after: Configuration) -> list[Difference]:
    version: list[Difference] = [("version", before.version, after.version)] if before.version != after.version else []
    return [*version, *differences(before.values, after.values), *differences(before.queues, after.queues, "queues")]
