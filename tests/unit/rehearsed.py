# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of a rehearsal, and the report of them as role rehearsal writes it."""

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.change import Change, wanted
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import THRESHOLDS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.measures import Sample
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.model import nodes
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.patterns import generate
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.status import Round
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.verdict import judge

TRACE = generate("research", [nodes(count=2, gpus=4)], 100, 1)


def played(*violations, slower=0.0, queue="training"):
    samples = tuple(Sample(float(at), {queue: at / 10, "notebooks": 1.5}, at // 10, 9 - at // 10) for at in range(0, 90, 5))
    measures = dict.fromkeys(THRESHOLDS, 3.0) | {"bind_p50": 1.0 + slower}
    return Round(violations, measures, samples, {"a-0": 1.0}, {})


def report(baseline, candidate, failure=""):
    verdict = judge(TRACE, baseline, candidate, THRESHOLDS, failure).data()
    rounds = {"baseline": [each.data() for each in baseline], "candidate": [each.data() for each in candidate]}
    given = {"baseline": {"version": "v0.13.1"}, "candidate": {"version": "v0.16.8"}, "speed": 4.0}
    wider = [{"name": "all", "gpu": {"limit": 16}, "children": [{"name": "training"}, {"name": "notebooks"}]}]
    change = Change(wanted(given["baseline"], "from", TRACE.queues), wanted(given["candidate"] | {"queues": wider}, "to", []))
    about = {"format": 1, "at": "2026-11-23T10:00:00+00:00", "change": change.data()}
    return about | {"trace": TRACE.data(), "rounds": rounds} | given | verdict
