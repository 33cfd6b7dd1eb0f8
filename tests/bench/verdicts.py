# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ten rehearsals with the same trace and seed: whether they come to the same verdict, and how far their measures lie apart.

python tests/bench/verdicts.py

It fails unless the same release twice is promoted each time, and all rehearsals of an upgrade come to one verdict. Where pods share GPUs,
that is a rejection: either release loses reservations (#1103).
"""

from __future__ import annotations

import collections
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import KAI_SCHEDULER_NAME
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal import lifecycle
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import PROMOTE, REJECT, THRESHOLDS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.model import Trace, nodes
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.patterns import generate
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.plan import IMAGE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.status import Round
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.verdict import Verdict, judge
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab
from ansible_collections.kubegpu.tenancy.tests.faults.test_kai import NEW, OLD, Scheduler
from report import today, write_section

REHEARSALS, ROUNDS = 10, 2
SPAN, SPEED, SEED = 40.0, 4, 1
# The verdict on the upgrade, by pattern.
PATTERNS = {"gangs": PROMOTE, "fractions": REJECT}


def play(cluster: Scheduler, trace: Trace, version: str, rehearsals: int) -> list[list[Round]]:
    """Return the rounds of some rehearsals under a release."""
    cluster.scheduler(version)
    cluster.queues(trace.queues)
    run = Run({"timeout": 3600}, kube=cluster.kube)
    with lifecycle.Claim(run) as claim:
        played = lifecycle.play(run, trace, KAI_SCHEDULER_NAME, rehearsals * ROUNDS, SPEED, claim)
    return [played[first : first + ROUNDS] for first in range(0, len(played), ROUNDS)]


def judged(trace: Trace, before: Sequence[list[Round]], after: Sequence[list[Round]]) -> list[Verdict]:
    return [judge(trace, *pair, THRESHOLDS) for pair in zip(before, after, strict=True)]


def row(name: str, verdicts: Sequence[Verdict]) -> str:
    counts = collections.Counter(verdict.result for verdict in verdicts)
    spread = []
    for measure in ("bind_p50", "bind_p95", "unbound", "evicted", "idle_gpus", "fragmented_gpus", "unfairness", "log_errors"):
        values = [value for verdict in verdicts for one in verdict.comparisons if one.name == measure for value in one.candidate]
        if values:
            spread.append(f"{measure} {statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})")
    said = ", ".join(f"{count} {result}" for result, count in counts.items())
    return f"| {name} | {said} | {', '.join(spread)} |"


def main() -> None:
    rows, wrong = [], []
    with Lab("kubegpu-bench", "--inventory=inventories/rehearsal") as lab:
        lab.site()
        cluster = Scheduler(lab, Path(os.environ["KUBEGPU_CACHE"]))
        for pattern, expected in PATTERNS.items():
            trace = generate(pattern, [nodes(count=2, gpus=8)], SPAN, SEED)
            run = Run({"timeout": 300}, kube=cluster.kube)
            with lifecycle.Claim(run) as claim:
                lifecycle.ensure_cluster(run, trace, IMAGE, claim)
            # A rejection rests on the candidate's own rounds, so one baseline will do. Otherwise each rehearsal has its own, and its rounds are
            # the next one's candidate, where the same release is rehearsed twice.
            old = play(cluster, trace, OLD, REHEARSALS + 1 if expected == PROMOTE else 1)
            new = play(cluster, trace, NEW, REHEARSALS)
            found = {f"{OLD} to {NEW}": (judged(trace, old[1:] or old * REHEARSALS, new), expected)}
            if expected == PROMOTE:
                found |= {f"{OLD} twice": (judged(trace, old[:-1], old[1:]), PROMOTE)}
            for name, (verdicts, result) in found.items():
                rows.append(row(f"{pattern}, {ROUNDS} rounds each, {name}", verdicts))
                wrong += [reason for one in verdicts if one.result != result for reason in one.reasons]
                print(rows[-1], *(one.reasons for one in verdicts), sep="\n", flush=True)
        run = Run({"timeout": 300}, kube=cluster.kube)
        with lifecycle.Claim(run) as claim:
            lifecycle.remove_cluster(run, claim)
    write_section(
        "Rehearsals, ten times",
        f"{today()}, the same trace and seed: 2 nodes with 8 GPUs, {SPAN:g} seconds at {SPEED} times their speed. Measures are the "
        "candidate's, with their range over all rounds. Rejected are pods at work that are deleted once the reservation of their GPU is "
        "lost (#1103), which happens under both releases.\n\n"
        "| | verdicts | measures |\n| --- | --- | --- |\n" + "\n".join(rows),
    )
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
