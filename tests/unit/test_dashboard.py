# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dashboard for Grafana, as far as it can be tried without one: its form, and its queries by promtool."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

FILES = Path(__file__).parents[2] / "roles/monitoring/files"
BOARD = json.loads((FILES / "kubegpu.dashboard.json").read_text())
RULES = (FILES / "kubegpu.rules.yml").read_text()
TARGETS = [(panel, target) for panel in BOARD["panels"] for target in panel["targets"]]
# By its columns Grafana places panels.
WIDTH = 24
VARIABLES = {one["name"]: one for one in BOARD["templating"]["list"]}


def test_panels_are_told_apart_and_beside_each_other():
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    places = [panel["gridPos"] for panel in BOARD["panels"]]
    assert all(place["x"] + place["w"] <= WIDTH for place in places)
    cells = [
        set(itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])))
        for place in places
    ]
    assert sum(map(len, cells)) == len(set().union(*cells))


def test_each_panel_says_what_it_shows():
    assert [panel["title"] for panel in BOARD["panels"] if not panel["title"] or not panel["description"].endswith(".")] == []
    assert all(len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) for panel in BOARD["panels"])


def test_the_prometheus_is_the_readers_choice():
    assert VARIABLES["datasource"]["query"] == "prometheus"
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert [panel["title"] for panel, target in TARGETS if target["datasource"] != chosen or panel["datasource"] != chosen] == []


def test_it_asks_for_series_that_the_rules_record_or_read():
    recorded = {rule["record"] for group in yaml.safe_load(RULES)["groups"] for rule in group["rules"] if "record" in rule}
    asked = " ".join([VARIABLES["namespace"]["query"], *(target["expr"] for _panel, target in TARGETS)])
    assert set(re.findall(r"[a-z_]+:\w+:\w+", asked)) == recorded
    upstreams = set(re.findall(r"\b(?:kai|kube|DCGM)_\w+", asked))
    assert {name for name in upstreams if not re.search(rf"\b{name}\b", RULES)} == set()


# tests/check installs it.
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool tries the queries")
def test_promtool_takes_its_queries(tmp_path):
    rules = [
        {"record": f"panel:{number}", "expr": target["expr"].replace("$namespace", "tenant-a|tenant-b")}
        for number, (_panel, target) in enumerate(TARGETS)
    ]
    assert "$" not in "".join(rule["expr"].replace('"$1"', "") for rule in rules)
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", "--lint-fatal", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
