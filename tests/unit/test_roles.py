# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every role and module keeps to."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import tasks_in

ROOT = Path(__file__).parents[2]
# The folder of each collection.
COLLECTIONS = {"kubegpu.tenancy": ROOT, "kubegpu.lab": ROOT / "lab"}
ROLES = sorted(path for folder in COLLECTIONS.values() for path in (folder / "roles").iterdir() if path.is_dir())
MODULES = sorted(path for folder in COLLECTIONS.values() for path in (folder / "plugins/modules").glob("*.py"))


def load(path: Path) -> dict:
    return yaml.safe_load(path.read_text()) if path.exists() else {}


def specs(role: Path) -> dict:
    return load(role / "meta/argument_specs.yml")["argument_specs"]


def options(role: Path) -> list[tuple[str, dict]]:
    """Of all entry points."""
    return [item for spec in specs(role).values() for item in spec.get("options", {}).items()]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
class TestRole:
    def test_every_option_has_a_default_and_every_default_is_an_option(self, role):
        optional = {name for name, option in options(role) if not option.get("required")}
        assert load(role / "defaults/main.yml").keys() == optional

    def test_documented_defaults_are_the_real_ones(self, role):
        documented = {name: option["default"] for name, option in options(role) if "default" in option}
        real = load(role / "defaults/main.yml")
        # Of templates, the description tells.
        told = {name for name, _option in options(role) if name in real and "{{" not in str(real[name])}
        assert documented == {name: real[name] for name in documented}
        assert documented.keys() >= told

    def test_every_entry_point_has_a_spec(self, role):
        # A file that only other tasks include starts with an underscore.
        entries = {path.stem for path in (role / "tasks").glob("*.yml") if not path.stem.startswith("_")}
        assert {"main", "absent"} <= entries == specs(role).keys()

    def test_the_readme_names_every_entry_point(self, role):
        # Galaxy takes no role without one.
        rows = re.findall(r"^\| `(\w+)` \|", (role / "README.md").read_text(), re.MULTILINE)
        assert set(rows) == specs(role).keys()

    def test_variables_carry_the_roles_name(self, role):
        assert all(name.startswith(f"{role.name}_") for name in load(role / "defaults/main.yml"))

    def test_every_default_is_explained(self, role):
        lines = (role / "defaults/main.yml").read_text().splitlines()
        bare = [
            line for before, line in zip(["", *lines], lines, strict=False) if line[:1].isalpha() and not before.startswith("#")
        ]
        assert bare == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_module_shows_how_it_is_used_and_what_it_returns(module):
    text = module.read_text()
    parts = {name: text.partition(f'\n{name} = r"""')[2].partition('"""')[0] for name in ("DOCUMENTATION", "EXAMPLES", "RETURN")}
    documentation, examples, returned = (yaml.safe_load(part) for part in parts.values())
    assert documentation["module"] == module.stem
    collection = "kubegpu.lab" if module.is_relative_to(ROOT / "lab") else "kubegpu.tenancy"
    assert any(f"{collection}.{module.stem}" in task for task in examples)
    assert returned


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_a_module_says_the_smallest_number_that_each_option_takes(module):
    """The kernel says it of timeouts. Any number will do for the random choices of a trace to begin with."""
    text = module.read_text()
    documented = yaml.safe_load(text.partition('\nDOCUMENTATION = r"""')[2].partition('"""')[0]).get("options") or {}
    numbers = {name for name, option in documented.items() if option.get("type") in ("int", "float")}
    engine = ROOT / "plugins/module_utils/_engine" / module.name
    own = text + (engine.read_text() if engine.exists() else "")
    least = re.findall(r"^LEAST = (.*)$", own, re.MULTILINE)
    assert numbers - {"timeout", "seed"} == set(ast.literal_eval(least[0]) if least else {})
    assert text.count(", least=LEAST") == len(least)


def test_the_action_group_holds_every_module_with_authentication_options():
    with_options = {module.stem for module in MODULES if "kubernetes.core.k8s_auth_options" in module.read_text()}
    assert set(load(ROOT / "meta/runtime.yml")["action_groups"]["kube"]) == with_options


# What others' collections do with Docker on the lab's machine is no call to the API of a cluster.
NO_API = ("kubegpu.lab.", "community.docker.")
TASKS = [
    path
    for folder in COLLECTIONS.values()
    for files in ("roles/*/tasks/*.yml", "roles/*/handlers/*.yml", "playbooks/**/*.yml")
    for path in folder.glob(files)
]


def modules_of(content: object) -> list[str]:
    """The modules that tasks call by their full names, in any blocks."""
    found: list[str] = []
    for task in tasks_in(content):
        # By `action:` as well, and by the modules of httpapi or uri, which would ask an API server past its proxy.
        found += [str(task["action"]).partition(" ")[0]] if isinstance(task.get("action"), str) else []
        found += [key for key in task if re.fullmatch(r"\w+\.\w+\.\w+", str(key))]
    return found


@pytest.mark.parametrize("path", TASKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_calls_to_an_api_go_by_the_collections_own_modules(path):
    """Modules of others know no proxy of a kubeconfig, repeat nothing, and have other words for what goes wrong."""
    text = path.read_text()
    assert not re.search(r"^[^#]*\b(kubectl|helm) ", text, re.MULTILINE)
    found = modules_of(yaml.safe_load(text))
    further = NO_API if path.is_relative_to(ROOT / "lab") else ()
    foreign = [name for name in found if not name.startswith(("ansible.builtin.", "kubegpu.tenancy.", *further))]
    assert [*foreign, *(name for name in found if name == "ansible.builtin.uri")] == []
