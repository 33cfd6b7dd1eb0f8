# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""A rollout from its beginning to its end: runs of playbooks, one after the other, and a record that is written before and after each."""

from __future__ import annotations

import datetime
import typing as t

from .._common.errors import Problem, Refused, refusal
from .._common.values import JsonObject
from . import plan
from .facts import WAITING
from .status import against, alerts, new_alerts, new_faults, told, unread, unread_alerts, waiting
from .values import Rollout

SITE, VERIFY, DRIFT, INFO = PLAYBOOKS = ("site", "verify", "drift", "info")


class Done(t.NamedTuple):
    """What a run of a playbook left.

    :ivar evidence: of ``tenancy.json``; None without one. ``reports``, of the file of info.
    :ivar failure: a sentence where the run ended otherwise than it may; empty else.
    """

    evidence: JsonObject | None
    reports: list[JsonObject]
    failure: str


class Runs(t.Protocol):
    """What runs a playbook for some clusters, and returns what it left.

    :arg place: where it leaves that; ``blueprint``, which they are to have in place of the inventory's.
    :arg only_due: whether drift looks only where site would work, which takes a third of the time.
    """

    def __call__(
        self, playbook: str, clusters: t.Sequence[str], place: str, blueprint: str = "", only_due: bool = False
    ) -> Done: ...


class Record(t.Protocol):
    """Where the record of a rollout is kept; None without one."""

    def read(self) -> JsonObject | None: ...

    def write(self, record: JsonObject) -> None: ...


class Lifecycle:
    """A run of a rollout.

    :arg say: shows a line.
    :arg clock: returns the time; ``sleep`` takes seconds.
    """

    def __init__(
        self,
        rollout: Rollout,
        runs: Runs,
        record: Record,
        say: t.Callable[[str], None],
        clock: t.Callable[[], datetime.datetime],
        sleep: t.Callable[[float], None],
    ) -> None:
        self._rollout, self._runs, self._record = rollout, runs, record
        self._say, self._clock, self._sleep = say, clock, sleep

    def begin(self) -> JsonObject:
        """Compare all clusters with what the inventory says, tell what differs where, and return the record to begin with.

        :raises Refused: where something could not be compared, or a change is refused, such as one that was not rehearsed.
        """
        rollout = self._rollout
        former = plan.continued(rollout, self._record.read())
        found = self._runs(DRIFT, rollout.clusters, "check", only_due=True)
        differs = {name: told(found.evidence, name, "pending") for name in rollout.clusters}
        for name, lines in differs.items():
            compared = [f"{name}: has what the inventory says"] if found.evidence is not None else []
            for line in lines or compared:
                self._say(line)
        names = [name for name in rollout.clusters if name not in plan.going_back(rollout, former)]
        problems = _refused(found, names)
        record = plan.begun(rollout, former, {name: bool(lines) for name, lines in differs.items()}, self._clock())
        if not problems and rollout.back_to:
            problems = self._no_way_back(record)
        if problems:
            text = "Nothing was changed, because these would fail. --limit leaves clusters out."
            raise Refused("\n".join([text, *(problem.text for problem in problems)]), problems)
        return record

    def _no_way_back(self, record: JsonObject) -> list[Problem]:
        """Return which clusters have something else now than what they would go back to."""
        names = [name for name, one in record["clusters"].items() if one["state"] == WAITING]
        if not names:
            return []
        found = self._runs(DRIFT, names, "check-back", self._rollout.back_to)
        start = f"With back_to: {self._rollout.back_to}, it would not get back what it has: "
        return [Problem("no-way-back", f"{start}{line}") for name in names for line in against(found.evidence, name)]

    def go_on(self, record: JsonObject) -> JsonObject:
        """Take the steps that are left, until all is done or something failed; return the record."""
        self._record.write(record)
        while step := plan.next_step(self._rollout, record, self._clock()):
            self._sleep(max((step.at - self._clock()).total_seconds(), 0.0))
            self._say(f"wave {step.wave} of {len(self._rollout.waves)}: {step.kind} {', '.join(step.clusters)}")
            if step.kind == plan.CHANGE:
                # A new run knows by it that these clusters are to be verified.
                record = plan.entered(self._noted(record, step), step, self._clock())
                self._record.write(record)
            record = plan.left(record, step, self._reasons(step, record), self._clock())
            self._record.write(record)
        record = plan.ended(record, self._clock())
        self._record.write(record)
        return record

    def _noted(self, record: JsonObject, step: plan.Step) -> JsonObject:
        """Return the record with what clusters show before their change.

        :raises TenancyError: where a Prometheus does not say which alerts fire, as it would after the change.
        """
        reports = self._runs(INFO, step.clusters, self._place(step, "before")).reports
        if lines := [line for name in step.clusters for line in unread_alerts(reports, name)]:
            text = "These were not changed, because their alerts have to be read before and after. stop_when: [] does without."
            raise refusal("not-observed", "\n".join([text, *lines]))
        pods = {name: waiting(reports, name) for name in step.clusters}
        firing = {name: alerts(reports, name, self._rollout.stop_when) for name in step.clusters}
        record = plan.noted(record, plan.ALERTS, firing)
        return plan.noted(record, plan.PODS, {name: None if found is None else sorted(found) for name, found in pods.items()})

    def _reasons(self, step: plan.Step, record: JsonObject) -> dict[str, list[str]]:
        """Take a step, and return by cluster why it did not pass."""
        if step.kind != plan.OBSERVE:
            back_to = self._rollout.back_to if step.kind == plan.GO_BACK else ""
            place = self._place(step, "back" if back_to else SITE)
            return self._judged(self._runs(SITE, step.clusters, place, back_to), step.clusters)
        found: dict[str, list[str]] = {name: [] for name in step.clusters}
        for playbook in (VERIFY, DRIFT):
            for name, why in self._judged(
                self._runs(playbook, step.clusters, self._place(step, playbook)), step.clusters
            ).items():
                found[name] += why
        reports = self._runs(INFO, step.clusters, self._place(step, INFO)).reports
        for name in step.clusters:
            before = record["clusters"][name]
            found[name] += unread(reports, name)
            found[name] += new_faults(name, before[plan.PODS], waiting(reports, name))
            found[name] += new_alerts(name, before[plan.ALERTS], alerts(reports, name, self._rollout.stop_when))
        return found

    @staticmethod
    def _judged(done: Done, clusters: t.Sequence[str]) -> dict[str, list[str]]:
        """Return by cluster why it did not pass a run."""
        found = {name: against(done.evidence, name) for name in clusters}
        if done.failure and not any(found.values()):
            return {name: [f"{name}: {done.failure}"] for name in clusters}
        return found

    @staticmethod
    def _place(step: plan.Step, what: str) -> str:
        """Return where a run leaves its files, below the folder of the rollout; clusters that are changed at once share one."""
        return f"wave-{step.wave}/{what}-{step.clusters[0]}"


def _refused(found: Done, names: t.Sequence[str]) -> list[Problem]:
    """Return what could not be compared, or would be refused, of some clusters."""
    if found.evidence is None:
        return [Problem("not-compared", f"The clusters were not compared: {found.failure}.")]
    known = {one["name"] for one in found.evidence["clusters"]}
    lines = [line for name in names for line in told(found.evidence, name, "problems")]
    return [
        Problem("not-compared", line)
        for line in [*(f"{name}: it was not compared" for name in names if name not in known), *lines]
    ]
