# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures as people speak of them."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import THRESHOLDS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.verdict import judgement
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._measures import (
    CORES,
    FIRST,
    GPUS,
    GROUPS,
    KINDS,
    MEASURES,
    MIB,
    MILLISECONDS,
    PODS,
    SECONDS,
    amount,
    first,
    sentence,
    spread,
)

NAMES = ("v0.13.1", "v0.16.8")


def compared(name="bind_p50", baseline=(1.4,), candidate=(1.2,), allowed=3.0, worse=False):
    return {"name": name, "baseline": baseline, "candidate": candidate, "allowed": allowed, "worse": worse}


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_every_measure_has_a_name_a_sentence_and_a_group():
    assert MEASURES.keys() == THRESHOLDS.keys()
    assert {one.group for one in MEASURES.values()} == set(GROUPS)
    assert all(one.sentence.count("{}") == 1 and len(one.title) <= 34 for one in MEASURES.values())
    assert set(FIRST) <= MEASURES.keys()


def test_a_measure_is_a_sentence_with_both_amounts():
    assert plain(sentence(compared(), NAMES)) == "Half of the pods were placed within 1.2 s (1.4 s with v0.13.1)."
    waited = sentence(compared("unbound", (0.0,), (3.0,)), NAMES)
    assert plain(waited) == "At the end, 3 pods still waited for a node (0 pods with v0.13.1)."


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (1.23, SECONDS, "1.2 s"),
        (1.0, SECONDS, "1 s"),
        (13.9, SECONDS, "14 s"),
        (119.6, SECONDS, "120 s"),
        (150.0, SECONDS, "2.5 min"),
        (0.126, CORES, "0.13 cores"),
        (1.0, CORES, "1 core"),
        (0.00002, GPUS, "0 GPUs"),
        (5.58, GPUS, "5.6 GPUs"),
        (1.0, PODS, "1 pod"),
        (0.0, PODS, "0 pods"),
        (1.0, KINDS, "1 kind of error"),
        (12100.0, MILLISECONDS, "12 s"),
        (410.3, MILLISECONDS, "410 ms"),
        (1536.0, MIB, "1.5 GiB"),
        (85.0, MIB, "85 MiB"),
    ],
)
def test_amounts_are_read_at_once(value, unit, said):
    assert amount(value, unit) == said.replace(" ", "\N{NO-BREAK SPACE}", 1)


@pytest.mark.parametrize(
    ("values", "said"),
    [((1.1, 1.3, 1.2), "1.1 to 1.3 s"), ((1.21, 1.22), "1.2 s"), ((100.0, 300.0), "100 s to 5 min")],
)
def test_a_spread_has_its_unit_once(values, said):
    assert plain(spread(compared(candidate=values), "candidate")) == said


@pytest.mark.parametrize(
    ("baseline", "candidate", "allowed", "worse", "found"),
    [
        ((1.0,), (10.0,), 3.0, True, "worse"),
        ((1.0, 9.0, 2.0), (4.0,), 3.0, False, "above its threshold, within the rounds' spread"),
        ((10.0,), (9.0,), 12.0, False, "as allowed"),
        ((10.0,), (7.0,), 12.0, False, "better"),
        # Not in each round, by more than the baseline's differ.
        ((10.0,), (7.0, 7.0, 11.0), 12.0, False, "as allowed"),
        ((8.0, 10.0, 12.0), (7.0,), 12.0, False, "as allowed"),
        ((0.0,), (0.0,), 0.0, False, "as allowed"),
        ((3.0,), (0.0,), 3.0, False, "better"),
    ],
)
def test_better_is_as_clear_as_worse(baseline, candidate, allowed, worse, found):
    assert judgement(compared("unbound", baseline, candidate, allowed, worse)) == found


def test_what_is_worse_is_shown_first():
    usual = [compared(name) for name in MEASURES]
    assert [one["name"] for one in first(usual)] == list(FIRST)
    slow = [compared(name, worse=name in ("cycle_p95", "idle_gpus")) for name in MEASURES]
    assert [one["name"] for one in first(slow)] == ["idle_gpus", "cycle_p95", "bind_p50", "bind_p95"]
    assert first([]) == []
