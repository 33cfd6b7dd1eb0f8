# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Rehearse a change of KAI Scheduler: simulated nodes, rounds under the baseline and the candidate, a verdict; and remove what that made."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import typing as t

from .._adapters.progress_file import ProgressFile
from .._common.errors import Superseded, TenancyError, check_all
from .._common.names import KAI_SCHEDULER_NAME
from .._common.run import Params, Result, Run
from .._common.values import JsonObject, utc_now
from .._rehearsal.change import Change, not_played, wanted
from .._rehearsal.facts import FORMAT, SCHEDULER
from .._rehearsal.lifecycle import Claim, ensure_cluster, play, remove_cluster, was_here
from .._rehearsal.model import Trace
from .._rehearsal.patterns import generate
from .._rehearsal.status import Round
from .._rehearsal.validation import check_playable, parse, parse_nodes, thresholds
from .._rehearsal.verdict import Thresholds, judge
from . import kai_queues, kai_scheduler
from .parts import Parts, Start, diffs

SIDES = BASELINE, CANDIDATE = "baseline", "candidate"


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """What is rehearsed.

    :ivar sides: KAI Scheduler as users write it, by the keys of facts.SCHEDULER, for each of SIDES.
    :ivar speed: how many seconds of the trace pass in one.
    """

    trace: Trace
    sides: dict[str, JsonObject]
    change: Change
    thresholds: Thresholds
    speed: float

    @classmethod
    def of(cls, params: Params, today: datetime.date, whole: bool) -> Rehearsal:
        """Return what the options of module rehearsal ask for. No cluster is asked.

        :arg whole: refuse a candidate that cannot be played, too. Otherwise its verdict says so.
        :raises TenancyError: for what could not be judged.
        """
        given = params["trace"]
        trace = (
            parse(given) if given else generate(params["pattern"], parse_nodes(params["nodes"]), params["span"], params["seed"])
        )
        sides = {side: {key: value for key, value in params[side].items() if value is not None} for side in SIDES}
        configurations = [functools.partial(wanted, sides[side], side, trace.queues) for side in SIDES]
        allowed = functools.partial(thresholds, params["thresholds"])
        check_all(*configurations, allowed)
        stays = sides[BASELINE]["version"] == sides[CANDIDATE]["version"]
        checks = [functools.partial(check_playable, trace, sides[BASELINE], BASELINE, today, True)]
        if whole:
            checks.append(functools.partial(check_playable, trace, sides[CANDIDATE], CANDIDATE, today, stays))
        check_all(*checks)
        return cls(trace, sides, Change(*(one() for one in configurations)), allowed(), params["speed"])

    def trace_of(self, side: str) -> Trace:
        """Return the trace with the queues of a side.

        :raises TenancyError: where its work has no place in them.
        """
        return parse(self.trace.data() | {"queues": self.sides[side].get("queues") or self.trace.queues})

    def data(self) -> Result:
        """Return it as plain data, without values of charts, which may be secret: the change has digests of them."""
        shown = {side: {key: value for key, value in given.items() if key != "values"} for side, given in self.sides.items()}
        return shown | {"trace": self.trace.data(), "speed": self.speed, "change": self.change.data()}


def rehearse(start: Start, params: Params, rehearsal: Rehearsal, progress: ProgressFile) -> Result:
    """Play a rehearsal, and return the verdict with what it rests on.

    :arg start: makes the run of each part.
    :arg params: options of module rehearsal.
    :raises TenancyError: where the baseline cannot be played.
    :raises Superseded: where the run that this is for has ended, or another rehearsal took the cluster.
    """
    timeout = {"timeout": params["step_timeout"]}
    with Claim(start({}, None)) as claim:
        nodes, *sides = (Parts(start, subject, progress, claim.check) for subject in ("nodes", *SIDES))
        nodes.call("nodes", "Create the nodes of the trace", functools.partial(_ensure_nodes, rehearsal, params, claim), timeout)
        progress.done("nodes")
        rounds: dict[str, list[Round]] = {}
        failure = ""
        for side, parts in zip(SIDES, sides):
            try:
                rounds[side] = _played(parts, params, rehearsal, side, claim)
            except TenancyError as exc:
                if side == BASELINE or isinstance(exc, Superseded):
                    raise exc.saying(f"The {side} could not be played: {exc.message}") from exc
                rounds[side], failure = [], exc.message
            progress.done(side)
    return _done(nodes, *sides) | judged(rehearsal, rounds, failure, utc_now())


def judged(rehearsal: Rehearsal, rounds: t.Mapping[str, t.Sequence[Round]], failure: str, now: datetime.datetime) -> Result:
    """Return the verdict on a candidate, with what it rests on.

    :arg rounds: for each of SIDES.
    :arg failure: why the candidate could not be played; empty where it was.
    """
    verdict = judge(rehearsal.trace, rounds[BASELINE], rounds[CANDIDATE], rehearsal.thresholds, failure).data()
    verdict["notes"] = [*verdict["notes"], *not_played(rehearsal.change)]
    moment = {"format": FORMAT, "at": now.isoformat(timespec="seconds")}
    return rehearsal.data() | moment | verdict | {"rounds": {side: [one.data() for one in rounds[side]] for side in SIDES}}


def _ensure_nodes(rehearsal: Rehearsal, params: Params, claim: Claim, run: Run) -> Result:
    ensure_cluster(run, rehearsal.trace, params["image"], claim)
    return run.result(notes=())


def _played(parts: Parts, params: Params, rehearsal: Rehearsal, side: str, claim: Claim) -> list[Round]:
    """Install KAI Scheduler as one side says, and return the rounds that were played under it."""
    given, count = rehearsal.sides[side], params["rounds"]
    version, timeout = given["version"], params["step_timeout"]
    trace = rehearsal.trace_of(side)
    parts.do(
        "KAI Scheduler",
        f"Install KAI Scheduler {version}",
        kai_scheduler,
        version=version,
        gpu_sharing=given.get("gpu_sharing", SCHEDULER["gpu_sharing"].default),
        accept_hazards=given.get("accept_hazards"),
        values=given.get("values", {}),
        chart_source=params["chart_source"],
        timeout=timeout,
    )
    options = {"state": "exact", "queues": trace.queues, "kai_version": version, "timeout": timeout}
    parts.do("queues", "Create the queues", kai_queues, **options)

    def rounds(run: Run) -> Result:
        return {"rounds": play(run, trace, KAI_SCHEDULER_NAME, count, params["speed"], claim)}

    seconds = count * trace.span / params["speed"]
    title = f"Play {trace.pods} pods on {trace.gpus} GPUs, which takes {seconds:.0f} s at least"
    played: list[Round] = parts.call("rounds", title, rounds, {"timeout": params["rounds_timeout"]})["rounds"]
    return played


def remove(start: Start, params: Params, check_mode: bool, progress: ProgressFile) -> Result:
    """Remove KAI Scheduler and the simulated nodes, where a rehearsal was here. A run that was killed and goes on gives way.

    :arg params: options of module rehearsal.
    """
    run, timeout = start({}, None), {"timeout": params["step_timeout"]}
    with Claim(run) as claim:
        parts = Parts(start, "removal", progress, claim.check)
        if was_here(run):
            if not check_mode:
                claim.acquire()
            parts.do("KAI Scheduler", "Remove KAI Scheduler", kai_scheduler, state="absent", purge=True, **timeout)
        parts.call("nodes", "Remove the simulated nodes", functools.partial(_remove_nodes, claim), timeout)
    return _done(parts)


def _remove_nodes(claim: Claim, run: Run) -> Result:
    remove_cluster(run, claim)
    return run.result(notes=())


def _done(*works: Parts) -> Result:
    """Return what was done on the cluster."""
    results = [result for parts in works for result in parts.results.values()]
    return {
        "changed": any(result.get("changed") for result in results),
        "diff": [diff for parts in works for diff in diffs(parts.subject, parts.results)],
        "steps": [step for result in results for step in result.get("steps", ())],
    }
