# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kept evidence says of GPU-hours."""

from __future__ import annotations

import datetime

from ansible_collections.kubegpu.tenancy.plugins.module_utils._usage.evidence import readings_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._usage.model import Party
from ansible_collections.kubegpu.tenancy.plugins.module_utils._usage.status import account
from ansible_collections.kubegpu.tenancy.plugins.module_utils._usage.values import Span, days_of

FIRST = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)
SPAN = Span(int(FIRST.timestamp()), int(FIRST.timestamp()) + 48 * 3600)
ML = Party("ml", roots=("ml",), paths={"training": "ml/training"})


def evidence(at, gpus, tenants=None, cluster="dc1", **more):
    """Return evidence of a node of ml with four GPUs, and one of several tenants with two."""
    nodes = [
        {"node": "n1", "tenants": ["ml"], "allocatable": 4, "gpus": gpus},
        {"node": "n2", "tenants": ["a", "b"], "allocatable": 2, "gpus": [{"a": 0.5, "b": 0.25}, {}]},
    ]
    return {"format": 2, "at": at, "clusters": [{"name": cluster, "nodes": nodes, "tenants": tenants or [tenant()]}]} | more


def tenant(name="ml", allocated=2.0, **gpus):
    gpu = {"quota": 4, "allocated": allocated}
    queues = [{"name": "ml", "gpu": gpu, "children": [{"name": "training", "gpu": gpu, "children": []}]}]
    return {"name": name, "state": "running", "gpus": {"promised": 4, "quota": None} | gpus, "queues": queues}


def counted(files, *tenants):
    readings = readings_of(sorted(files), files.__getitem__, "dc1", SPAN)
    return account(readings, tenants or (ML,), days_of(SPAN, datetime.timezone.utc))


def test_evidence_holds_until_the_next_one():
    """From 00:00 on ml holds one GPU and a part of another, from 12:00 on none; the next evidence is a day later."""
    found = counted(
        {
            "a.json": evidence("2026-11-01T00:00:00Z", [{"ml": 1.0}, {"ml": 0.5}, {}, {}]),
            "b.json": evidence("2026-11-01T12:00:00Z", [{}] * 4, [tenant(allocated=0)]),
            "c.json": evidence("2026-11-02T12:00:00Z", [{"ml": 1.0}, {}, {}, {}]),
        }
    )
    rows = {(row["tenant"], row["day"]): row for row in found["tenants"]}
    # On a node of its own no other tenant has the rest of a GPU.
    assert [rows["ml", day]["held"] for day in ("2026-11-01", "2026-11-02")] == [24.0, 12.0]
    assert [rows["ml", day]["promised"] for day in ("2026-11-01", "2026-11-02")] == [96.0, 96.0]
    assert [rows[name, "2026-11-01"]["held"] for name in ("a", "b")] == [12.0, 6.0]
    first, _second = found["cluster"]
    assert (first["had"], first["held"], first["other"], first["free"]) == (144.0, 42.0, 6.0, 96.0)
    assert [(row["queue"], row["day"], row["held"]) for row in found["queues"]] == [
        ("ml/training", "2026-11-01", 24.0),
        ("ml/training", "2026-11-02", 24.0),
    ]
    assert found["not_measured"] == []
    assert "Counted by 3 pieces of evidence, which is coarse" in found["notes"][0]


def test_evidence_counts_for_26_hours_at_most():
    found = counted({"a.json": evidence("2026-11-01T00:30:00Z", [{"ml": 1.0}, {}, {}, {}])})
    assert found["not_measured"] == [{"what": "GPUs", "hours": 22.0}]
    assert sum(row["held"] for row in found["tenants"] if row["tenant"] == "ml") == 26.0


def test_a_quota_is_what_is_promised_on_shared_nodes():
    shared = [tenant("a", promised=2, quota=1) | {"queues": []}]
    found = counted({"a.json": evidence("2026-11-01T00:00:00Z", [{}] * 4, shared)}, Party("a"))
    rows = [(row["tenant"], row["promised"]) for row in found["tenants"]]
    assert rows == [("a", 24.0), ("a", 2.0), ("b", None), ("b", None)]


def test_what_cannot_be_read_is_named_and_counts_for_nothing():
    odd = evidence("2026-11-01T12:00:00Z", [{"ml": "NaN"}])
    files = {
        "a.json": evidence("2026-11-01T00:00:00Z", [{"ml": 1.0}, {}, {}, {}]),
        "b.json": {"format": 1},
        "c.json": [],
        "d.json": evidence("yesterday", []),
        "e.json": odd,
        "f.json": evidence("2026-11-01T13:00:00Z", [], cluster="dc2"),
    }
    found = counted(files)
    told = [note.partition(" cannot be read")[0] for note in found["notes"]]
    assert told[:4] == ["b.json", "c.json", "d.json", "evidence of 2026-11-01T12:00:00Z"]
    assert sum(row["held"] for row in found["tenants"] if row["tenant"] == "ml") == 12.0
    assert {"what": "GPUs", "hours": 36.0} in found["not_measured"]


def test_evidence_in_which_queues_were_not_read_says_nothing_about_them():
    found = counted({"a.json": evidence("2026-11-01T00:00:00Z", [{}] * 4, [tenant(allocated=None)])})
    assert {"what": "queues of ml", "hours": 26.0} in found["not_measured"]
    assert all(row["held"] == 0 for row in found["queues"])
