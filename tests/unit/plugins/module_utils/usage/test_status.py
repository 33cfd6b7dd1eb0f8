# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sums of GPU-hours, with the numbers written out."""

from __future__ import annotations

import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._usage.facts import HOUR, KUBE_STATE_METRICS, QUEUES
from ansible_collections.kubegpu.tenancy.plugins.module_utils._usage.model import Party, Readings, parties
from ansible_collections.kubegpu.tenancy.plugins.module_utils._usage.status import account
from ansible_collections.kubegpu.tenancy.plugins.module_utils._usage.values import Span, days_of, zone_of

NOON = int(datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.timezone.utc).timestamp())
ML = Party("ml", roots=("ml",), paths={"training": "ml/training", "notebooks": "ml/notebooks"})
WEB = Party("web", has_gpus=False)
H100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"


def hours(*amounts, first=NOON):
    """Return amounts of consecutive hours; None for one without a reading."""
    return {first + number * HOUR: amount for number, amount in enumerate(amounts) if amount is not None}


def readings(**given):
    """Return readings of two hours in which a cluster of 8 GPUs was measured."""
    whole = {"measured": hours(1, 1), "use_measured": hours(1, 1), "capacity": {H100: hours(8, 8)}, "source": KUBE_STATE_METRICS}
    return Readings(**(whole | given))


def counted(found, *tenants, span=None, zone="UTC"):
    return account(found, tenants, days_of(span or Span(NOON, NOON + 2 * HOUR), zone_of(zone)))


def amounts(row):
    return {key: value for key, value in row.items() if key not in ("tenant", "product", "day", "queue")}


def test_a_tenant_without_a_scheduler_of_its_own_is_counted_by_its_pods():
    """A quota of 4, of which 3 and then 6 GPUs are held, half of these used."""
    found = counted(
        readings(
            taken={("web", H100): hours(3, 6)},
            quota={"web": hours(4, 4)},
            seen={("web", H100): hours(3, 6)},
            used={("web", H100): hours(1.5, 3)},
        ),
        Party("web"),
    )
    (row,) = found["tenants"]
    assert row == {
        "tenant": "web",
        "product": H100,
        "day": "2026-11-01",
        "promised": 8.0,
        "held": 9.0,
        "borrowed": 2.0,
        "idle": 1.0,
        "used": 4.5,
        "unused": 4.5,
        "use_not_measured": 0.0,
    }
    assert row["held"] + row["idle"] == row["promised"] + row["borrowed"]
    assert (found["queues"], found["not_measured"], found["notes"]) == ([], [], [])


def test_what_tenants_hold_and_what_is_idle_is_what_the_cluster_had():
    """Two tenants hold 5 and 1 of 8 GPUs, pods of no tenant one, for two hours."""
    taken = {("ml", H100): hours(5, 5), ("web", H100): hours(1, 1), ("", H100): hours(1, 1)}
    found = counted(readings(taken=taken, own={("ml", H100): hours(6, 6)}), ML, WEB)
    (day,) = found["cluster"]
    expected = {"hours": 2.0, "not_measured": 0.0, "had": 16.0, "held": 12.0, "other": 2.0, "free": 2.0}
    assert day == {"day": "2026-11-01"} | expected
    assert sum(row["held"] for row in found["tenants"]) + day["other"] + day["free"] == day["had"]
    assert found["products"] == {H100: 16.0}
    # Without nodes of its own, what it holds is borrowed.
    assert [(row["tenant"], row["promised"], row["borrowed"], row["idle"]) for row in found["tenants"]] == [
        ("ml", 12.0, 0.0, 2.0),
        ("web", 0.0, 2.0, 0.0),
    ]


def test_parents_of_queues_are_not_counted_twice():
    """Queue ml has what its children have together."""
    held = {("ml", "ml"): hours(3, 3), ("ml", "training"): hours(2, 2), ("ml", "notebooks"): hours(1, 1)}
    promised = {("ml", "ml"): hours(4, 4), ("ml", "training"): hours(3, 3), ("ml", "notebooks"): hours(1, 1)}
    found = counted(
        readings(
            taken={("ml", H100): hours(3, 3)}, queue_held=held, queue_promised=promised, queues_measured={"ml": hours(1, 1)}
        ),
        ML,
    )
    assert [(row["queue"], row["promised"], row["held"], row["idle"]) for row in found["queues"]] == [
        ("ml/training", 6.0, 4.0, 2.0),
        ("ml/notebooks", 2.0, 2.0, 0.0),
    ]
    # Neither quota nor nodes are known: the top queue's quota is the promise, once.
    assert [(row["promised"], row["held"]) for row in found["tenants"]] == [(8.0, 6.0)]


def test_parts_of_a_gpu_are_those_of_the_queues_of_a_shared_scheduler():
    """Tenants a and b have half a GPU each, a has one more; a pod of no tenant holds the GPU that is shared."""
    a, b = Party("a", True, True, ("a",), {"a": "a"}), Party("b", True, True, ("b",), {"b": "b"})
    found = counted(
        readings(
            taken={("a", H100): hours(1, 1), ("", H100): hours(1, 1)},
            queue_held={("a", "a"): hours(1.5, 1.5), ("b", "b"): hours(0.5, 0.5)},
            queue_promised={("a", "a"): hours(2, 2), ("b", "b"): hours(0, 0)},
            queues_measured={"a": hours(1, 1), "b": hours(1, 1)},
        ),
        a,
        b,
    )
    assert [(row["tenant"], row["held"], row["promised"]) for row in found["tenants"]] == [("a", 3.0, 4.0), ("b", 1.0, 0.0)]
    (day,) = found["cluster"]
    assert (day["had"], day["held"], day["other"], day["free"]) == (16.0, 4.0, 0.0, 12.0)


def test_a_gap_is_not_counted_as_zero():
    """Prometheus was down for a quarter of the first hour and for the second one."""
    found = counted(
        readings(
            measured=hours(0.75),
            use_measured=hours(0.75),
            capacity={H100: hours(6)},
            taken={("ml", H100): hours(3)},
            own={("ml", H100): hours(6)},
            seen={("ml", H100): hours(3)},
            used={("ml", H100): hours(1)},
            exists={"ml": hours(0.75)},
            queues_measured={"ml": hours(0.5)},
        ),
        ML,
    )
    (day,), (row,) = found["cluster"], found["tenants"]
    assert (day["hours"], day["not_measured"], day["had"], day["free"]) == (2.0, 1.25, 6.0, 3.0)
    assert amounts(row) == {
        "promised": 6.0,
        "held": 3.0,
        "borrowed": 0.0,
        "idle": 3.0,
        "used": 1.0,
        "unused": 2.0,
        "use_not_measured": 0.0,
    }
    assert found["not_measured"] == [
        {"what": "GPUs", "hours": 1.25},
        {"what": "use of GPUs", "hours": 1.25},
        {"what": "queues of ml", "hours": 0.25},
    ]


def test_a_gpu_whose_use_was_not_read_is_not_taken_for_unused():
    """Of 4 GPUs, DCGM exporter tells the use of 3, which is 1."""
    found = counted(
        readings(taken={("ml", H100): hours(4)}, seen={("ml", H100): hours(3)}, used={("ml", H100): hours(1)}), Party("ml")
    )
    (row,) = found["tenants"]
    assert (row["held"], row["used"], row["unused"], row["use_not_measured"]) == (4.0, 1.0, 2.0, 1.0)


def test_a_tenant_that_came_and_went_has_the_hours_in_which_it_was_there():
    """It is no longer listed: its pods, nodes and quota are in the series of the host cluster."""
    found = counted(
        readings(taken={("gone", L4): hours(None, 2)}, quota={"gone": hours(None, 3)}, exists={"gone": hours(None, 1)}), WEB
    )
    (row,) = found["tenants"]
    assert (row["tenant"], row["product"], row["promised"], row["held"], row["idle"]) == ("gone", L4, 3.0, 2.0, 1.0)
    assert found["not_measured"] == []


def test_what_was_promised_is_not_invented():
    found = counted(readings(taken={("gone", H100): hours(2, 2)}))
    (row,) = found["tenants"]
    assert (row["promised"], row["held"], row["borrowed"], row["idle"]) == (None, 4.0, None, None)
    assert found["notes"] == ["No series says what was promised to gone."]


def test_a_promise_of_any_product_stands_for_all_that_have_none_of_their_own():
    """A quota of 4, of which 2 H100 and 1 L4 are held."""
    found = counted(readings(taken={("a", H100): hours(2, 2), ("a", L4): hours(1, 1)}, quota={"a": hours(4, 4)}))
    rows = {row["product"]: row for row in found["tenants"]}
    assert {product: (row["promised"], row["held"], row["idle"]) for product, row in rows.items()} == {
        H100: (0.0, 4.0, 0.0),
        L4: (0.0, 2.0, 0.0),
        "any": (8.0, 0.0, 2.0),
    }
    assert sum(row["held"] + row["idle"] for row in rows.values()) == sum(
        row["promised"] + row["borrowed"] for row in rows.values()
    )


def test_on_shared_nodes_the_quota_counts_and_not_the_nodes():
    """Of a node of eight GPUs that has the labels of both, a and b have a quota of four each; a's ends after an hour."""
    own = {("a", H100): hours(8, 8), ("b", H100): hours(8, 8)}
    quota = {"a": hours(4), "b": hours(4, 4)}
    found = counted(readings(taken={("a", H100): hours(2, 2), ("b", H100): hours(5, 5)}, own=own, quota=quota))
    assert [(row["tenant"], row["promised"], row["held"], row["borrowed"], row["idle"]) for row in found["tenants"]] == [
        ("a", 12.0, 4.0, 0.0, 8.0),
        ("b", 8.0, 10.0, 2.0, 0.0),
    ]


def test_more_than_there_was_is_said_and_not_hidden():
    found = counted(readings(taken={("a", H100): hours(9, 9)}, quota={"a": hours(8, 8)}))
    (day,) = found["cluster"]
    assert (day["had"], day["held"], day["free"]) == (16.0, 18.0, -2.0)
    assert found["notes"] == ["2026-11-01: 2.0 GPU-hours more were held than the series of nodes and pods have."]


def test_without_series_of_the_host_cluster_queues_are_counted_once():
    held = {("ml", "ml"): hours(3, 3), ("ml", "training"): hours(2, 2), ("ml", "notebooks"): hours(1, 1)}
    found = counted(Readings(queue_held=held, source=QUEUES), ML)
    assert [(row["product"], row["held"], row["promised"]) for row in found["tenants"]] == [("unknown", 6.0, None)]
    assert found["cluster"] == []


@pytest.mark.parametrize(
    ("date", "zone", "expected"),
    [
        ((2026, 10, 25), "Europe/Berlin", {"2026-10-25": 25.0}),
        ((2026, 3, 29), "Europe/Berlin", {"2026-03-29": 23.0}),
        ((2026, 10, 25), "UTC", {"2026-10-24": 2.0, "2026-10-25": 23.0}),
    ],
)
def test_days_of_a_time_zone_are_as_long_as_they_are(date, zone, expected):
    """A GPU that is held all day on the day on which clocks go back, and forward, in Berlin."""
    begin = datetime.datetime(*date, tzinfo=zone_of("Europe/Berlin"))
    following = datetime.datetime(*date[:2], date[2] + 1, tzinfo=zone_of("Europe/Berlin"))
    span = Span(int(begin.timestamp()), int(following.timestamp()))
    ones = dict.fromkeys(span.hours(), 1.0)
    found = counted(Readings(measured=ones, capacity={H100: ones}, taken={("a", H100): ones}), span=span, zone=zone)
    assert {row["day"]: row["held"] for row in found["tenants"]} == expected
    assert {row["day"]: row["hours"] for row in found["cluster"]} == expected


def test_tenants_of_the_inventory():
    queues = [{"name": "ml", "children": [{"name": "training"}, {"name": "notebooks"}]}]
    given = [
        {"name": "ml", "scheduler": {"name": "kai", "shared": False}, "queues": queues, "gpu_nodes": {"count": 1}},
        {"name": "a", "scheduler": {"name": "kai", "shared": True}, "queues": [{"name": "a"}], "gpu_nodes": {"names": ["n"]}},
        {"name": "v", "scheduler": {"name": "volcano"}, "queues": [{"name": "x", "weight": 2}], "gpu_nodes": {"count": 1}},
        {"name": "web", "scheduler": {}, "queues": [], "gpu_nodes": {}},
    ]
    assert parties(given) == [ML, Party("a", True, True, ("a",), {"a": "a"}), Party("v"), WEB]
    assert ML.queues == ("ml", "training", "notebooks")
