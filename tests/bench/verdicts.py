# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ten rehearsals with the same trace and seed: whether they come to the same verdict, and how far their measures lie apart.

python tests/bench/verdicts.py

It fails unless the same release twice is promoted each time, and all rehearsals of the upgrade come to one verdict. Where pods share GPUs,
what is counted is how often the verdict names #1103, which happens by chance.
"""

from __future__ import annotations

import collections
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import PROMOTE, THRESHOLDS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.model import Trace, nodes
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.patterns import generate
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.status import Round
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.validation import parse_rounds
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.verdict import Verdict, judge
from ansible_collections.kubegpu.tenancy.plugins.modules import rehearsal_cluster, rehearsal_rounds
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab, defaults
from ansible_collections.kubegpu.tenancy.tests.faults.test_kai import NEW, OLD, Scheduler
from report import today, write_section

REHEARSALS, ROUNDS = 10, 2
SPAN, SPEED, SEED = 40.0, 4, 1
# Without chance, and with: KAI Scheduler may lose the reservations of GPUs that pods share.
STABLE, CHANCE = "gangs", "fractions"


def play(cluster: Scheduler, trace: Trace, version: str, rehearsals: int) -> list[list[Round]]:
    """Return the rounds of some rehearsals under a release."""
    cluster.scheduler(version)
    cluster.queues(trace.queues)
    params = defaults(rehearsal_rounds, trace=trace.data(), rounds=rehearsals * ROUNDS, speed=SPEED)
    played = parse_rounds(rehearsal_rounds.reconcile(Run(params, kube=cluster.kube))["rounds"], version)
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
        for pattern in (STABLE, CHANCE):
            trace = generate(pattern, [nodes(count=2, gpus=8)], SPAN, SEED)
            rehearsal_cluster.reconcile(Run(defaults(rehearsal_cluster, trace=trace.data(), timeout=300), kube=cluster.kube))
            old = play(cluster, trace, OLD, 2 * REHEARSALS if pattern == STABLE else REHEARSALS)
            verdicts = {f"{OLD} to {NEW}": judged(trace, old[:REHEARSALS], play(cluster, trace, NEW, REHEARSALS))}
            if pattern == STABLE:
                verdicts |= {f"{OLD} twice": judged(trace, old[:REHEARSALS], old[REHEARSALS:])}
                wrong += [reason for one in verdicts[f"{OLD} twice"] if one.result != PROMOTE for reason in one.reasons]
                if len({one.result for one in verdicts[f"{OLD} to {NEW}"]}) > 1:
                    wrong += [reason for one in verdicts[f"{OLD} to {NEW}"] for reason in one.reasons]
            rows += [row(f"{pattern}, {name}", found) for name, found in verdicts.items()]
            print(*rows, *(one.reasons for found in verdicts.values() for one in found), sep="\n", flush=True)
        rehearsal_cluster.reconcile(Run(defaults(rehearsal_cluster, state="absent", timeout=300), kube=cluster.kube))
    write_section(
        "Rehearsals, ten times",
        f"{today()}, {ROUNDS} rounds under each of the two, the same trace and seed: 2 nodes with 8 GPUs, {SPAN:g} seconds at {SPEED} times "
        "their speed. Measures are the candidate's, with their range over all rounds. The loss of reservations where pods share GPUs "
        "(#1103) happens by chance; where it does, the verdict names it.\n\n"
        "| | verdicts | measures |\n| --- | --- | --- |\n" + "\n".join(rows),
    )
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
