# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module alerts_info, by a server in memory."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import alerts_info as engine
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import metrics_server
from ansible_collections.kubegpu.tenancy.plugins.modules import alerts_info as module
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

MISSING = {"alertname": "KubegpuSchedulerMissing", "alertstate": "firing", "severity": "critical", "namespace": "tenant-ml"}
OTHER = {"alertname": "Disk", "alertstate": "firing", "z": "1", "a": "2"}


def read(monkeypatch, answer, **given):
    class Server:
        def __init__(self, url, _deadline, **options):
            assert (url, options["token"]) == ("https://p.example", "t")

        def range(self, _what, query, first, last, _step):
            assert query == 'ALERTS{cluster="gpu1",alertname!="",alertstate="firing"}'
            assert first == last
            return answer

    monkeypatch.setattr(metrics_server, "Prometheus", Server)
    defaults = {name: spec.get("default") for name, spec in engine.ARGUMENT_SPEC.items()}
    return module.reconcile(
        make_run(defaults | {"url": "https://p.example", "token": "t", "labels": {"cluster": "gpu1"}} | given)
    )


def test_alerts_are_returned_as_documented(monkeypatch):
    series = [{"metric": {"__name__": "ALERTS"} | one, "values": [[0, "1"]]} for one in (MISSING, OTHER)]
    disk, missing = read(monkeypatch, {"data": {"result": series}})["alerts"]
    assert missing == {"name": "KubegpuSchedulerMissing", "severity": "critical", "labels": {"namespace": "tenant-ml"}}
    assert (disk["severity"], list(disk["labels"])) == ("", ["a", "z"])
    assert missing.keys() == yaml.safe_load(module.RETURN)["alerts"]["contains"].keys()


def test_what_a_tenant_serves_is_no_alert(monkeypatch):
    served = MISSING | {"instance": "10.0.0.1:8080", "job": "tenant-ml/kubegpu-metrics"}
    elsewhere = MISSING | {"instance": "10.0.0.1:8080", "namespace": "monitoring"}
    series = [{"metric": one, "values": [[0, "1"]]} for one in (served, elsewhere)]
    (found,) = read(monkeypatch, {"data": {"result": series}})["alerts"]
    assert found["labels"] == {"instance": "10.0.0.1:8080", "namespace": "monitoring"}


def test_a_part_of_an_answer_is_no_answer(monkeypatch):
    with pytest.raises(TenancyError, match="not whole: store-1 is gone"):
        read(monkeypatch, {"data": {"result": []}, "warnings": ["store-1 is gone"]})


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"data": {"result": [{}]}}, {"data": {"result": ""}}, {"data": {"result": [{"metric": {}}]}}]
)
def test_another_answer_is_no_answer(monkeypatch, answer):
    with pytest.raises(TenancyError, match="none to a query of PromQL"):
        read(monkeypatch, answer)


def test_options_that_cannot_be_are_refused(monkeypatch):
    with refuses("not-an-address"):
        read(monkeypatch, {}, url="p.example")
