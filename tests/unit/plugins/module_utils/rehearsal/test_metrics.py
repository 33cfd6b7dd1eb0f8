# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.metrics import Meter

METRICS = """# HELP e2e_scheduling_latency_milliseconds E2e scheduling latency in milliseconds
# TYPE e2e_scheduling_latency_milliseconds gauge
{prefix}e2e_scheduling_latency_milliseconds {cycle}
action_scheduling_latency_milliseconds{{action="allocate"}} 7
process_cpu_seconds_total {cpu}
process_resident_memory_bytes 1.048576e+0{memory}
"""


def measured(*readings, prefix=""):
    meter = Meter()
    for at, cycle, cpu, memory in readings:
        meter.observe(at, METRICS.format(prefix=prefix, cycle=cycle, cpu=cpu, memory=memory))
    return meter.measures()


def test_costs_are_those_of_the_round():
    for prefix in ("", "kai_"):
        assert measured((0, 12, 100.0, 6), (2, 30, 101.0, 7), (4, 20, 103.0, 6), prefix=prefix) == {
            "cycle_p95": 30.0,
            "scheduler_memory": 10.0,
            "scheduler_cpu": 0.75,
        }


def test_a_few_long_cycles_are_not_all():
    assert measured(*[(at, 500 if at == 50 else 10, 1, 6) for at in range(100)])["cycle_p95"] == 10


def test_a_scheduler_that_was_started_anew_counts_from_nothing():
    assert measured((0, 1, 100.0, 6), (5, 1, 102.0, 6), (10, 1, 3.0, 6))["scheduler_cpu"] == 0.5


def test_what_was_not_seen_is_not_measured():
    assert Meter().measures() == {}
    assert "scheduler_cpu" not in measured((0, 1, 100.0, 6))
