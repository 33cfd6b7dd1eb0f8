# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from pathlib import Path

import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rollout.facts import FAULTS, OTHER_ALERTS, STOP_WHEN
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rollout.status import (
    against,
    alerts,
    new_alerts,
    new_faults,
    unread,
    waiting,
)

ROOT = Path(__file__).parents[5]
EVIDENCE = {
    "clusters": [{"name": name} for name in ("gpu1", "gpu10", "gpu2")],
    "problems": ["gpu10/ml: check gpu failed: \x1b[31mno GPU", "gpu10: it was not reached"],
    "pending": ["gpu2/ml: to be changed: another version"],
}


def test_a_cluster_passes_where_nothing_failed_and_nothing_is_left():
    assert against(EVIDENCE, "gpu1") == []
    assert against(EVIDENCE, "gpu10") == ["gpu10/ml: check gpu failed: no GPU", "gpu10: it was not reached"]
    assert against(EVIDENCE, "gpu2") == ["gpu2/ml: to be changed: another version"]


def test_without_evidence_nothing_passed():
    assert against(EVIDENCE, "gpu3") == against(None, "gpu3") == ["gpu3: the run left no evidence of it"]


def pod(name, reason):
    return {"namespace": "default", "name": name, "reason": reason}


def report(*pods, failures=()):
    tenant = {"name": "ml", "pods": list(pods)}
    shared = {"pods": [pod("s", "webhook")]}
    return {
        "cluster": "gpu1",
        "failures": list(failures),
        "tenants": [tenant, {"name": "web", "pods": None}],
        "shared_scheduler": shared,
    }


def test_pods_that_wait_for_their_turn_or_their_owner_speak_against_no_release():
    found = waiting([report(pod("a", "over_limit"), pod("b", "image_pull"), pod("c", "scheduler_down"))], "gpu1")
    assert found == {"ml: default/c": "scheduler_down", "shared scheduler: default/s": "webhook"}


def test_only_pods_that_did_not_wait_before_count():
    now = {"ml: default/c": "scheduler_down", "ml: default/d": "no_queue"}
    assert new_faults("gpu1", ["ml: default/c"], now) == ["gpu1: pods wait that did not before: ml: default/d (no queue)"]
    # What was not read before the change cannot be compared, and what is not read after it is no good sign.
    assert new_faults("gpu1", None, now) == new_faults("gpu1", [], None) == []
    failed = [report(failures=["gpu1/ml: not \x1bread"])]
    assert waiting(failed, "gpu1") is waiting([], "gpu1") is None
    assert unread(failed, "gpu1") == ["gpu1/ml: not read"]
    assert unread([], "gpu1") == ["gpu1: why its pods wait was not read"]
    assert unread([report()], "gpu1") == []
    many = {f"ml: default/{number}": "binding" for number in range(7)}
    assert new_faults("gpu1", [], many)[0].endswith("ml: default/4 (binding) and 2 more")


def test_only_alerts_that_are_named_and_did_not_fire_before_count():
    missing = {"name": "KubegpuSchedulerMissing", "severity": "critical", "labels": {"namespace": "tenant-ml", "pod": "p"}}
    fires = [missing, {"name": "Watchdog", "severity": "", "labels": {}}]
    reports = [report() | {"alerts": fires}]
    # A pod that was replaced is the same to an alert.
    assert alerts(reports, "gpu1", STOP_WHEN) == ["KubegpuSchedulerMissing (namespace=tenant-ml)"]
    assert len(alerts([report() | {"alerts": [missing | {"labels": {"long": "x" * 999}}]}], "gpu1", STOP_WHEN)[0]) <= 200
    assert alerts(reports, "gpu1", ["Watchdog"]) == ["Watchdog"]
    assert alerts([report() | {"alerts": None}], "gpu1", STOP_WHEN) is alerts([], "gpu1", STOP_WHEN) is None
    told = ["gpu1: alerts fire that did not before: Watchdog"]
    assert new_alerts("gpu1", ["A"], ["A", "Watchdog"]) == told
    assert new_alerts("gpu1", ["A", "Watchdog"], ["A", "Watchdog", "Watchdog"]) == told
    # Where they were not read before the change, each counts; without a Prometheus, there are none.
    assert new_alerts("gpu1", None, ["Watchdog"]) == told
    assert new_alerts("gpu1", None, None) == new_alerts("gpu1", ["A"], []) == []


def test_every_alert_of_schedulers_is_one_of_the_rules():
    groups = yaml.safe_load((ROOT / "roles/monitoring/files/kubegpu.rules.yml").read_text())["groups"]
    assert {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule} == {*STOP_WHEN, *OTHER_ALERTS}


def test_every_fault_is_a_reason_that_the_module_documents():
    documented = (ROOT / "plugins/modules/kai_pending_info.py").read_text()
    assert set(re.findall(r"V\((\w+)\)", documented)) >= FAULTS
