# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module usage_info, by a server in memory and by a folder of evidence."""

from __future__ import annotations

import json

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import metrics_server
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import usage_info as engine
from ansible_collections.kubegpu.tenancy.plugins.modules import usage_info as module
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

SPAN = {"begin": "2026-10-01T00:00:00Z", "end": "2026-10-02T06:00:00Z"}
QUEUES = [{"name": "ml", "children": [{"name": "training"}]}]
ML = {"name": "ml", "scheduler": {"name": "kai", "shared": False}, "queues": QUEUES, "gpu_nodes": {"count": 1}}
BAD = ML | {"name": "bad", "queues": [{"name": "bad"}]}


class Server:
    """Stands in for the adapter: a node with eight GPUs, of which ml holds two all the time.

    :ivar fails: words of a query that is refused.
    """

    fails: tuple[str, ...] = ()

    def __init__(self, url, _deadline, **given):
        assert (url, given) == ("https://p.example", {"token": "t", "org_id": "", "ca": "", "proxy": ""})

    def range(self, _what, query, first, last, step):
        if self.fails and all(word in query for word in self.fails):
            raise ApiError("it was refused", status=422)
        moments = range(first, last + 1, step)
        return {
            "status": "success",
            "data": {"result": [self._series(labels, amount, moments) for labels, amount in self._found(query)]},
        }

    @staticmethod
    def _series(labels, amount, moments):
        return {"metric": labels, "values": [[moment, str(amount)] for moment in moments]}

    @staticmethod
    def _found(query):
        if "kube_pod_container" in query:
            return [({"namespace": "tenant-ml", "node": "n1"}, 2)]
        if "by (node" in query:
            return [({"node": "n1"}, 8)]
        if "kube_node_status_allocatable" in query:
            return [({}, 1)]
        if "kai_queue_allocated" in query and "tenant\\\\-ml" in query:
            return [({"namespace": "tenant-ml", "queue_name": name}, 2) for name in ("ml", "training")]
        return [({"namespace": "tenant-ml"}, 1)] if "kai_queue_info" in query and "tenant\\\\-ml" in query else []


def count(monkeypatch, *fails, **given):
    monkeypatch.setattr(metrics_server, "Prometheus", type("Fails", (Server,), {"fails": fails}))
    defaults = {name: spec.get("default") for name, spec in engine.ARGUMENT_SPEC.items()}
    return module.reconcile(make_run(defaults | {"url": "https://p.example", "token": "t", "tenants": [ML]} | SPAN | given))[
        "usage"
    ]


def test_a_span_is_read_day_by_day_and_returned_as_documented(monkeypatch):
    usage = count(monkeypatch)
    assert usage.keys() == yaml.safe_load(module.RETURN)["usage"]["contains"].keys()
    assert [(row["day"], row["hours"], row["had"], row["held"]) for row in usage["cluster"]] == [
        ("2026-10-01", 24.0, 192.0, 48.0),
        ("2026-10-02", 6.0, 48.0, 12.0),
    ]
    assert [(row["queue"], row["held"]) for row in usage["queues"]] == [("ml/training", 48.0), ("ml/training", 12.0)]
    assert (usage["source"], usage["begin"], usage["end"]) == ("kube-state-metrics", SPAN["begin"], SPAN["end"])


def test_a_tenant_that_spoils_its_queues_spoils_no_other(monkeypatch):
    usage = count(monkeypatch, "kai_queue_allocated", "tenant\\\\-bad", tenants=[ML, BAD])
    assert [(row["tenant"], row["queue"], row["held"]) for row in usage["queues"]] == [
        ("ml", "ml/training", 48.0),
        ("ml", "ml/training", 12.0),
    ]
    assert "Queues of bad cannot be read: it was refused." in usage["notes"]
    assert sum(row["held"] for row in usage["tenants"] if row["tenant"] == "ml") == 60.0


def test_without_series_of_the_host_cluster_it_fails(monkeypatch):
    with pytest.raises(ApiError, match="it was refused"):
        count(monkeypatch, "kube_pod_container")


def test_evidence_is_read_from_a_folder(tmp_path):
    nodes = [{"node": "n1", "tenants": ["ml"], "allocatable": 4, "gpus": [{"ml": 1.0}, {}, {}, {}]}]
    evidence = {"format": 2, "at": "2026-10-01T06:00:00Z", "clusters": [{"name": "dc1", "nodes": nodes, "tenants": []}]}
    # In a folder of its own, or as a file with any name.
    (tmp_path / "1").mkdir()
    (tmp_path / "1/tenancy.json").write_text(json.dumps(evidence))
    (tmp_path / "2.json").write_text("{")
    (tmp_path / "page.html").write_text("")
    defaults = {name: spec.get("default") for name, spec in engine.ARGUMENT_SPEC.items()}
    given = defaults | {"evidence": str(tmp_path), "cluster": "dc1"} | SPAN
    usage = module.reconcile(make_run(given))["usage"]
    assert sum(row["held"] for row in usage["tenants"]) == 24.0
    assert usage["not_measured"] == [{"what": "GPUs", "hours": 6.0}]
    assert usage["notes"][0].startswith("2.json cannot be read: it is no JSON")
    with refuses("no-evidence"):
        module.reconcile(make_run(given | {"evidence": str(tmp_path / "nowhere")}))


def test_options_that_cannot_be_are_refused(monkeypatch):
    with refuses("not-an-address"):
        count(monkeypatch, url="p.example")
