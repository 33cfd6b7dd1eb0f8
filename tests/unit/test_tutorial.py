# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tutorial can be typed in: what its commands name exists, and its changes of files are changes. What it shows, tests/faults sees."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired import facts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._blueprints import load
from ansible_collections.kubegpu.tenancy.tests.faults.steps import Step, steps
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tutorial.md").read_text()
STEPS = steps(PAGE)
COMMANDS = "".join(step.commands for step in STEPS)
LAB = "inventories/lab/group_vars/kubegpu_labs.yml"


def sed(script: str, text: str) -> str:
    return subprocess.run(["sed", script], input=text, capture_output=True, text=True, check=True).stdout


def wanted(inventory: str):
    # Templates are about where things are.
    variables = {name: value for name, value in yaml.safe_load(inventory).items() if "{{" not in str(value)}
    return desired_state(variables, "lab", TODAY, running={}, blueprint=load(variables["kubegpu_blueprint"]))


# --- the page ----------------------------------------------------------------------------------------------------


def test_the_page_is_its_steps():
    assert len(re.findall("^```", PAGE, re.MULTILINE)) == 2 * sum(1 + bool(step.shown) for step in STEPS)
    assert len(PAGE.splitlines()) < 275


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"line {step.line}")
def test_bash_can_read_the_commands(step):
    subprocess.run(["bash", "-n", "-c", step.commands], check=True)


def test_the_page_for_team_leads_is_typed_in_before_the_releases_are_compared():
    assert PAGE.count("\n## Two releases, the same jobs\n") == 1
    assert len(steps((ROOT / "docs/how-to/team-lead.md").read_text())) == 5


# As kubectl prints them, with v0.12.0 and v0.13.1 alike; the reservation pods of KAI Scheduler have no queue.
PODS = """notebooks   <none>   0.5      <none>   <none>
notebooks   <none>   0.25     2        <none>
training    1        <none>   <none>   <none>
training    2,1      <none>   <none>   <none>
training    <none>   <none>   <none>   8000
<none>      1        <none>   <none>   <none>
<none>      <none>   <none>   <none>   <none>
"""


def test_a_team_lead_counts_what_the_pods_of_a_queue_hold(tmp_path):
    (step,) = [step for step in steps((ROOT / "docs/how-to/team-lead.md").read_text()) if "awk" in step.commands]
    (tmp_path / "pods").write_text(PODS)
    script = f"kubectl() {{ cat {tmp_path}/pods; }}\n{step.commands}"
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "notebooks 1 GPUs 0 MiB\ntraining 4 GPUs 8000 MiB\n"


def test_files_exist():
    named = re.findall(r"(?<![\w/.])((?:examples|inventories|playbooks|tools)/[\w./$-]+|(?:site|cleanup)\.yml)", COMMANDS)
    assert len(named) > 10
    assert [name for name in named if not list(ROOT.glob(re.sub(r"\$\w+", "*", name)))] == []


def test_targets_tags_and_variables_exist():
    targets = set((ROOT / "Makefile").read_text().partition(".PHONY: ")[2].partition("\n")[0].split())
    assert set(re.findall(r"\bmake (\w+)", COMMANDS)) == {"site", "rehearse", "cleanup"} & targets
    (tags,) = re.findall(r"--tags (\S+)", COMMANDS)
    assert all(f"tags: [{tag}]" in (ROOT / "playbooks/info.yml").read_text() for tag in tags.split(","))
    defaults = [path for folder in (ROOT, ROOT / "lab") for path in folder.glob("roles/*/defaults/main.yml")]
    of_roles = {name for path in defaults for name in yaml.safe_load(path.read_text())}
    assert set(re.findall(r"-e (\w+)=", COMMANDS)) <= {*facts.CLUSTER} | of_roles


def test_what_is_replaced_is_there():
    edits = re.findall(r"sed '(.+?)' ((?:examples|inventories)/\S+)", COMMANDS)
    assert len(edits) == 6
    assert [name for script, name in edits if sed(script, (ROOT / name).read_text()) == (ROOT / name).read_text()] == []


def test_the_third_team_is_refused_as_shown_and_taken_without_its_last_line():
    before = (ROOT / LAB).read_text()
    ((added, step),) = [
        (found[1], step) for step in STEPS if (found := re.search(r"<<'EOF'\n(.*\n)EOF\n", step.commands, re.DOTALL))
    ]
    with pytest.raises(TenancyError) as refusal:
        wanted(before + added)
    assert [problem.text for problem in refusal.value.problems] == [step.shown[0]]
    assert [tenant.name for tenant in wanted(sed("$d", before + added)).tenants][-1] == "team-vision"


def test_the_other_version_is_one_that_the_lab_has_and_of_one_team():
    (script,) = re.findall(rf"sed '(.+?)' {LAB}", COMMANDS)
    before, after = ((ROOT / LAB).read_text(), sed(script, (ROOT / LAB).read_text()))
    changed = [(old, new) for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new]
    assert len(changed) == 1
    versions = {tenant.name: tenant.scheduler.version for tenant in wanted(after).tenants if tenant.scheduler}
    assert versions == {"team-ml": "v0.13.1", "team-research": "v0.13.1"}


# --- how it is read ----------------------------------------------------------------------------------------------


def test_commands_and_what_they_show():
    page = "Do\n\n```bash\nls\n```\n```text\na …\n```\n\nand\n\n```bash\npwd\n```\n"
    assert steps(page) == [Step(4, "ls\n", ("a …",)), Step(13, "pwd\n")]


@pytest.mark.parametrize(
    ("page", "line"),
    [
        ("```\nls\n```\n", 2),
        ("```text\na\n```\n", 2),
        ("```bash\nls\n```\nshows\n```text\na\n```\n", 6),
        ("```bash\nls\n```\n```text\na\n```\n```text\nb\n```\n", 8),
    ],
)
def test_any_other_block_is_refused(page, line):
    with pytest.raises(ValueError, match=f"line {line}: "):
        steps(page)


@pytest.mark.parametrize(
    ("shown", "said", "seen"),
    [
        ("a  b", "x\n    a b  \n", True),
        ("a b", "a\nb\n", False),
        ("a b", "a b c\n", False),
        ("a …", "a b c\n", True),
        ("… c", "a b c\n", True),
        ("GPU-…)", "GPU-1f)\n", True),
        ("GPU-…)", "GPU-1f\n)\n", False),
        ("(a.b)", "(axb)\n", False),
    ],
)
def test_a_line_that_is_shown_is_a_whole_line(shown, said, seen):
    assert Step(1, "true\n", (shown,)).missing(said) == ([] if seen else [shown])
