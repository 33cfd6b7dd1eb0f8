# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sample of the ops repository for AWX: its options by the documentation of awx.awx, and the names and variables in it. No AWX is asked."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.facts import CLUSTER

Data = dict[str, Any]
Tasks = list[tuple[str, Data]]

ROOT = Path(__file__).parents[2]
REPO = ROOT / "examples/ops-repo"
SAMPLE = (REPO / "schedule/awx.yml.sample").read_text()
ROLE_VARIABLES = {
    name
    for path in ROOT.glob("roles/*/meta/argument_specs.yml")
    for entry in yaml.safe_load(path.read_text())["argument_specs"].values()
    for name in entry.get("options", {})
}
# Options that name what another task makes, and its module.
REFERENCES = {
    "credential": "credential",
    "credential_type": "credential_type",
    "credentials": "credential",
    "default_environment": "execution_environment",
    "execution_environment": "execution_environment",
    "inventory": "inventory",
    "notification_templates_approvals": "notification_template",
    "notification_templates_error": "notification_template",
    "project": "project",
    "source_project": "project",
    "unified_job_template": "job_template",
}
# What AWX has before.
GIVEN = {("credential", "gpu-hosts")}


def documented(options: Data) -> Data:
    """Return the argument specification that a module's documentation describes."""
    kept = ("type", "required", "choices", "elements", "aliases")
    return {
        name: {key: option[key] for key in kept if key in option}
        | ({"options": documented(option["suboptions"])} if "suboptions" in option else {})
        for name, option in options.items()
    }


@pytest.fixture(autouse=True, scope="module")
def _plugins() -> None:
    """Have lookups found."""
    init_plugin_loader()


@pytest.fixture(name="modules", scope="module")
def _modules() -> dict[str, ArgumentSpecValidator]:
    """What checks the options of each module that the sample has, by its name."""
    keys = {key for task in yaml.safe_load(SAMPLE)[0]["tasks"] for key in task if "." in key}
    command = ["ansible-doc", "--type=module", "--json", *sorted(keys)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return {name: ArgumentSpecValidator(documented(found["doc"]["options"])) for name, found in json.loads(said).items()}


def read(text: str, folder: Path) -> Tasks:
    """Return each call of a module with its options, as Ansible evaluates them."""
    (folder / "awx.yml").write_text(text)
    loader = DataLoader()
    (play,) = loader.load_from_file(str(folder / "awx.yml"), trusted_as_template=True)
    found = []
    for task in play["tasks"]:
        (module,) = (key for key in task if "." in key)
        for item in task.get("loop", [None]):
            options = Templar(loader, play["vars"] | {"item": item}).template(task[module])
            found.append((module.removeprefix("awx.awx."), options))
    return found


def problems(tasks: Tasks, modules: dict[str, ArgumentSpecValidator]) -> list[str]:
    """Return everything that is wrong with the sample."""
    found, made = [], set(GIVEN)
    for module, options in tasks:
        found += [f"{module}: {text}" for text in modules[f"awx.awx.{module}"].validate(options).error_messages]
        for option, kind in REFERENCES.items():
            names = options.get(option, [])
            for name in [names] if isinstance(names, str) else names:
                if (kind, name) not in made:
                    found.append(f"{module}: {option}: no {kind} {name} is made before")
        made.add((module, options.get("name")))
        if "playbook" in options and not (REPO / options["playbook"]).exists():
            found.append(f"{module}: no playbook {options['playbook']}")
        found += [f"{module}: {text}" for text in wrong_questions(options.get("survey_spec", {"spec": []})["spec"])]
    templates = {options.get("name"): options for module, options in tasks if module == "job_template"}
    return [*found, *(text for _module, options in tasks for text in wrong_nodes(options.get("workflow_nodes", []), templates))]


def wrong_questions(questions: list[Data]) -> Iterator[str]:
    """Yield what is wrong with the questions of a survey: variables that nothing reads, and other choices than theirs."""
    for question in questions:
        name = question["variable"]
        if name not in CLUSTER and name not in ROLE_VARIABLES:
            yield f"survey: {name} is a variable of no playbook and no role"
        elif question["type"] == "multiplechoice" and set(question["choices"]) != set(CLUSTER[name].choices or ()):
            yield f"survey: {name} has other choices"
        if question.get("default", question.get("choices", [""])[0]) not in question.get("choices", [""]):
            yield f"survey: the default of {name} is no choice"


def wrong_nodes(nodes: list[Data], templates: dict[str, Data]) -> Iterator[str]:
    """Yield what is wrong with the nodes of a workflow: others that are not there, and what its job templates do not take."""
    names = {node["identifier"] for node in nodes}
    for node in nodes:
        template = node["unified_job_template"]
        nexts = [one["identifier"] for others in node.get("related", {}).values() for one in others]
        yield from (f"no node {name}" for name in nexts if name not in names)
        if template.get("type") != "workflow_approval":
            if template["name"] not in templates:
                yield f"no job template {template['name']}"
            elif "job_type" in node and not templates[template["name"]].get("ask_job_type_on_launch"):
                yield f"{template['name']} takes no job_type"


@pytest.mark.parametrize("webhook", ["", "https://hook.example"])
def test_awx_awx_takes_the_sample(
    tmp_path: Path, modules: dict[str, ArgumentSpecValidator], monkeypatch: pytest.MonkeyPatch, webhook: str
) -> None:
    monkeypatch.setenv("ALERT_WEBHOOK", webhook)
    assert problems(read(SAMPLE, tmp_path), modules) == []


def test_a_rollout_is_shown_and_approved_before_it_begins(tmp_path: Path) -> None:
    tasks = read(SAMPLE, tmp_path)
    (workflow,) = (options for module, options in tasks if module == "workflow_job_template")
    nodes = workflow["workflow_nodes"]
    assert [(node["identifier"], node.get("job_type"), node.get("related", {})) for node in nodes] == [
        ("plan", "check", {"success_nodes": [{"identifier": "approve"}]}),
        ("approve", None, {"success_nodes": [{"identifier": "rollout"}]}),
        ("rollout", "run", {}),
    ]
    (template,) = (options for _module, options in tasks if options.get("name") == "ops-repo rollout")
    # What the workflow does not ask, or its job template does not take, is lost.
    assert workflow["survey_spec"] == template["survey_spec"]
    assert (workflow["ask_limit_on_launch"], template["ask_limit_on_launch"]) == (True, True)


@pytest.mark.parametrize(
    ("waves", "scheduled"), [("false", {"site": True, "drift": True}), ("true", {"site": False, "drift": True})]
)
def test_with_waves_site_is_not_scheduled(tmp_path: Path, waves: str, scheduled: dict[str, bool]) -> None:
    tasks = read(SAMPLE.replace("ops_waves: false", f"ops_waves: {waves}"), tmp_path)
    assert {
        options["name"].removeprefix("ops-repo "): options["enabled"] for module, options in tasks if module == "schedule"
    } == scheduled


@pytest.mark.parametrize(
    ("part", "wrong", "complaint"),
    [
        ("scm_update_on_launch: true", "scm_update_at_launch: true", "project: scm_update_at_launch. Supported parameters"),
        ("job_type: check, rule", "job_type: dry, rule", "job_template: value of job_type must be one of: run, check, got: dry"),
        ("        name: ops-repo rollout in waves\n", "", "workflow_job_template: missing required arguments: name"),
        ("job_type: check\n", "job_type: dry\n", "workflow_job_template: value of job_type must be one of: run, check, got: dry"),
        (
            "type: workflow_approval",
            "kind: workflow_approval",
            "workflow_job_template: workflow_nodes.unified_job_template.kind.",
        ),
        ("source_project: ops-repo", "source_project: ops", "inventory_source: source_project: no project ops is made before"),
        ("playbook: rollout.yml", "playbook: waves.yml", "job_template: no playbook waves.yml"),
        ("variable: kubegpu_backup", "variable: kubegpu_back_up", "job_template: survey: kubegpu_back_up is a variable of no"),
        ("choices: [required, optional]", "choices: [required, off]", "job_template: survey: kubegpu_backup has other choices"),
        ("default: required", "default: yes", "job_template: survey: the default of kubegpu_backup is no choice"),
        ("success_nodes: [{identifier: rollout}]", "success_nodes: [{identifier: waves}]", "no node waves"),
        ("        ask_job_type_on_launch: true\n", "", "ops-repo rollout takes no job_type"),
    ],
)
def test_what_is_wrong_with_the_sample_is_found(
    tmp_path: Path, modules: dict[str, ArgumentSpecValidator], part: str, wrong: str, complaint: str
) -> None:
    assert part in SAMPLE
    found = problems(read(SAMPLE.replace(part, wrong), tmp_path), modules)
    assert any(complaint in one for one in found), found
