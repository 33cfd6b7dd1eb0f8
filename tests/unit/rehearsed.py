# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of a rehearsal, and the report of them as role rehearsal writes it."""

from __future__ import annotations

import random

from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.change import Change, wanted
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import THRESHOLDS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.measures import Sample, percentile
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.model import nodes
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.patterns import generate
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.status import Round, Violation
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.verdict import judge

TRACE = generate("research", [nodes(count=2, gpus=4)], 100, 1)
SPEED = 4.0
# Two nodes with eight GPUs, on which research is done for ten minutes.
RESEARCH = generate("research", [nodes(count=2, gpus=8)], 600, 3)

LOST = Violation("reserved", 12.0, "burst-0-4-0 has part of a GPU of simulated-0-1 that is not reserved: others can get it, too")


def played(*violations, slower=0.0, queue="training"):
    samples = tuple(Sample(float(at), {queue: at / 10, "notebooks": 1.5}, at // 10, 9 - at // 10) for at in range(0, 90, 5))
    measures = dict.fromkeys(THRESHOLDS, 3.0) | {"bind_p50": 1.0 + slower}
    return Round(violations, measures, samples, {"a-0": 1.0}, {})


def report(baseline, candidate, failure="", trace=TRACE):
    verdict = judge(trace, baseline, candidate, THRESHOLDS, failure).data()
    rounds = {"baseline": [each.data() for each in baseline], "candidate": [each.data() for each in candidate]}
    given = {"baseline": {"version": "v0.13.1"}, "candidate": {"version": "v0.16.8"}, "speed": SPEED}
    wider = [{"name": "all", "gpu": {"limit": 16}, "children": [{"name": "training"}, {"name": "notebooks"}]}]
    change = Change(wanted(given["baseline"], "from", trace.queues), wanted(given["candidate"] | {"queues": wider}, "to", []))
    about = {"format": 1, "at": "2026-11-23T10:00:00+00:00", "change": change.data()}
    return about | {"trace": trace.data(), "rounds": rounds} | given | verdict


def example(cycle=1.0, slow=1.0, violations=()):
    """Return the report of a made-up rehearsal, whose curves and numbers look as those of a real one.

    :arg cycle: seconds between decisions of the candidate; ``slow``, by what the seconds of its work are multiplied.
    :arg violations: of the last round of the candidate.
    """
    baseline = [simulated(1.0, 1.0, seed) for seed in (1, 2, 3)]
    candidate = [simulated(cycle, slow, seed, violations if seed == 6 else ()) for seed in (4, 5, 6)]
    return report(baseline, candidate, trace=RESEARCH)


def simulated(cycle, slow, seed, violations=()):
    """Return a round of RESEARCH under a scheduler that places all that fits, the oldest first, every ``cycle`` seconds."""
    chance = random.Random(seed)  # noqa: S311 - to be repeated
    free, samples, waits = float(RESEARCH.gpus), [], {}
    waiting = [
        (work.arrives / SPEED, name, work)
        for work in RESEARCH.workloads
        for name in work.pod_names
        if work.arrives / SPEED <= RESEARCH.span
    ]
    running, at = [], 0.0
    while (waiting or any(work.runs for _end, work in running)) and at < RESEARCH.span / SPEED + 20:
        free += sum(work.gpus for end, work in running if end <= at)
        running = [(end, work) for end, work in running if end > at]
        for arrived, name, work in [each for each in waiting if each[0] <= at]:
            if work.gpus <= free:
                free -= work.gpus
                waits[name] = round(at - arrived + chance.uniform(0.2, 0.7), 2)
                running.append((at + work.runs / SPEED if work.runs else 1e9, work))
                waiting.remove((arrived, name, work))
        held = {queue: sum(work.gpus for _end, work in running if work.queue == queue) for queue in ("notebooks", "training")}
        samples.append(Sample(round(at, 1), held, len(running), sum(each[0] <= at for each in waiting)))
        at += cycle * chance.uniform(0.7, 1.3)
    unbound = {name: "No node has enough GPUs: 8 are asked for." for _arrived, name, _work in waiting}
    return Round(tuple(violations), _measured(samples, waits, unbound, slow, chance), tuple(samples), waits, unbound)


def _measured(samples, waits, unbound, slow, chance):
    ordered = sorted(waits.values())
    idle = sum((RESEARCH.gpus - sum(one.gpus.values())) * bool(one.waiting) for one in samples) / len(samples)
    binding = {f"bind_p{part}": percentile(ordered, part) for part in (50, 95, 99)}
    return binding | {
        "unbound": 1.0 * len(unbound),
        "evicted": 0.0,
        "idle_gpus": idle,
        "fragmented_gpus": idle / 2,
        "unfairness": chance.uniform(1.8, 2.4),
        "log_errors": float(chance.randint(0, 2)),
        "cycle_p95": slow * chance.uniform(80, 130),
        "scheduler_cpu": slow * chance.uniform(0.1, 0.14),
        "scheduler_memory": chance.uniform(80, 96),
    }
