# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts that playbooks and roles set. What a task returns is registered; a fact is set where that cannot be, for one of the reasons here."""

from __future__ import annotations

from pathlib import Path

import yaml
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import tasks_in

ROOT = Path(__file__).parents[2]
FOLDERS = ("playbooks", "roles/*/tasks", "lab/playbooks", "lab/roles/*/tasks")
SET_FACT = ("ansible.builtin.set_fact", "set_fact")

FAILURE = "A failure is reported at the end of the run, and other clusters go on."
BEGIN = "It is emptied where a run begins: playbooks that import others would read what the one before registered."
PLANS = "Later plays read it, and a skipped task registers over what an earlier one returned."
OPERATOR = "It is for plays of the operator, after this playbook."
ALLOWED = {
    "{{ item.key }}": "Variables of the inventory that a blueprint completes have names that only the blueprint knows.",
    "{{ _failure | default('_kubegpu_failure') }}": FAILURE,
    "_kubegpu_failure": FAILURE,
    "_kubegpu_unremoved": FAILURE,
    "_kubegpu_unwritten": FAILURE,
    "_kubegpu": PLANS,
    "_kubegpu_parts": PLANS,
    "_kubegpu_unmade": "Check mode has no cluster, or host, that later plays could read.",
    "_kubegpu_tenants": BEGIN,
    "_kubegpu_nodes": BEGIN,
    "_kubegpu_removed": BEGIN,
    "_kubegpu_worked": BEGIN,
    "_kubegpu_inside": BEGIN,
    "_kubegpu_previewed": BEGIN,
    "_kubegpu_ledger": "What was read before the work is no ledger of the end of the run.",
    "_kubegpu_began": "Ansible tells no playbook how long its tasks took.",
    "_kubegpu_spans": "Ansible tells no playbook how long its tasks took.",
    "_kubegpu_evidence": "One computation, of which several files are written.",
    "_kubegpu_artifacts": OPERATOR,
    "kubegpu_info": OPERATOR,
    "_kubegpu_names": "One host's task compares the tenants of all clusters.",
    "_kubegpu_recorded": "One host's record is another one's input.",
    "rehearsal_trace": "One host's record is another one's input.",
    "rehearsal_baseline": "One host's record is another one's input.",
    "rehearsal_candidate": "One host's record is another one's input.",
    "_kubegpu_renewal": "It shrinks with each tenant that is restored.",
    "_docker_nvidia_runtime_toolkit": "Playbook artifacts lists what another entry point of the role would install.",
}


def test_a_fact_is_set_only_for_a_reason_that_is_listed():
    files = [*ROOT.glob("*.yml"), *(file for folder in FOLDERS for file in ROOT.glob(f"{folder}/**/*.yml"))]
    found = {
        name: file.relative_to(ROOT)
        for file in files
        for task in tasks_in(yaml.safe_load(file.read_text()))
        for module in SET_FACT
        for name in task.get(module, {})
        if name != "cacheable"
    }
    assert {name: str(file) for name, file in found.items() if name not in ALLOWED} == {}
    assert ALLOWED.keys() - found.keys() == set()
