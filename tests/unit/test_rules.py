# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules for a Prometheus: they do what they say, by promtool, and each alert leads to a place in the manual."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.tests.unit.test_docs import anchors

ROOT = Path(__file__).parents[2]
RULES = ROOT / "roles/monitoring/files/kubegpu.rules.yml"
TESTS = Path(__file__).with_name("kubegpu.rules.test.yml")
MANUAL = "https://github.com/kubegpu/kubegpu.tenancy/blob/main/"
ALERTS = {
    rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"] if "alert" in rule
}


# tests/check installs it.
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool tries the rules")
def test_the_rules_do_what_they_say():
    for command in (["check", "rules", "--lint-fatal", RULES], ["test", "rules", TESTS]):
        done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tried():
    tried = {
        alert["alertname"] for test in yaml.safe_load(TESTS.read_text())["tests"] for alert in test.get("alert_rule_test", ())
    }
    raised = {
        alert["alertname"]
        for test in yaml.safe_load(TESTS.read_text())["tests"]
        for alert in test.get("alert_rule_test", ())
        if alert["exp_alerts"]
    }
    assert (tried, raised) == (ALERTS.keys(), ALERTS.keys())


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_leads_to_the_manual_which_names_it(name):
    file, _sign, anchor = ALERTS[name]["annotations"]["runbook_url"].removeprefix(MANUAL).partition("#")
    assert anchor in anchors(ROOT / file)
    assert f"`{name}`" in (ROOT / "docs/how-to/usage.md").read_text()


def test_series_of_the_host_cluster_are_not_taken_from_a_tenants_pods():
    expressions = [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    selectors = [found for text in expressions for found in re.findall(r"(?:kube_\w+|DCGM_\w+)\{([^}]*)\}", text)]
    assert len(selectors) >= 6
    assert all('service!="kubegpu-metrics"' in selector for selector in selectors)
