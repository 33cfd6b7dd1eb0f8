# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending import facts, status
from ansible_collections.kubegpu.tenancy.plugins.modules import kai_pending_info
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.pending import HEALTHY, pod
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

ROOT = Path(__file__).parents[4]
RETURNED = yaml.safe_load(kai_pending_info.RETURN)["pods"]["contains"]
# The reasons that the rules give by name, and the reasons that stand in tables.
RULES = "".join(path.read_text() for path in Path(status.__file__).parent.glob("*.py"))
REASONS = {*re.findall(r'Answer\(\s*"(\w+)"', RULES), facts.UNKNOWN}
REASONS |= {reason for table in (facts.WAITING, facts.NODE_EVENTS) for reason, _advice in table.values()}
REASONS |= {refusal.reason for refusal in (*facts.REFUSALS, facts.OTHER_REFUSAL)}


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_row_has_the_documented_keys_and_nothing_is_changed(check_mode):
    params = {name: option.get("default") for name, option in kai_pending_info.ARGUMENT_SPEC.items()}
    kube = InMemoryApi([*HEALTHY, pod(queue="nobody")])
    result = kai_pending_info.reconcile(make_run(params, kube, check_mode=check_mode))
    assert (result["changed"], kube.writes) == (False, [])
    (row,) = result["pods"]
    assert row.keys() == RETURNED.keys()
    assert row["reason"] == "queue_missing"


def test_every_reason_is_documented_and_no_other():
    returned = set(re.findall(r"V\((\w+)\)", " ".join(RETURNED["reason"]["description"]))) - {"pending", "past_kai"}
    page = (ROOT / "docs/how-to/my-pod-waits.md").read_text().partition("## Why a pod waits")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in page.splitlines() if line.startswith("| ")]
    assert returned == REASONS
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == REASONS
