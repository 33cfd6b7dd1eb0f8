# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the pages say of variables, files and tests is so."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired import facts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse as parse_queues
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal import facts as rehearsal
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.validation import parse as parse_trace
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts as vcluster
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._blueprints import load
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tools import inventory_page, kai_page

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "examples/ops-repo/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "roles").glob("*/README.md")),
    *sorted((ROOT / "lab").rglob("README.md")),
]
HOW_TO = sorted((ROOT / "docs/how-to").glob("*.md"))
INVENTORIES = [
    ROOT / "inventories/existing_cluster/hosts.yml",
    ROOT / "inventories/gpu_host/hosts.yml",
    ROOT / "inventories/sample/hosts.yml",
    *sorted((ROOT / "inventories/existing").glob("*.yml")),
]

# Playbooks that pages show as the reader's own.
READERS = {"device-plugin.yml", "report.yml"}
# Groups of the inventory, and the example of a variable that is refused.
NO_VARIABLES = {"kubegpu_clusters", "kubegpu_labs", "kubegpu_rehearsals", "kubegpu_tenats"}
FOLDERS = (
    "blueprints|changelogs|docs|examples|faults|inventories|lab|meta|molecule|playbooks|plugins|requirements|roles|tests|tools"
)
FILE = re.compile(rf"`((?:{FOLDERS})/[\w./-]+|Makefile|pyproject.toml)(?:::\w+)?`")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")

# As a cell of a table names parts of the collection.
NAMED = re.compile(r"(role|module|playbook)s? ((?:`\w+`(?:, )?)+)")

# What a block in another language than the shell's begins with.
DATA = ("yaml", "json", "text")

in_every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def yaml_blocks(page: Path) -> list[str]:
    found = re.findall(r"^ *```yaml\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def blocks(page: Path) -> list[dict]:
    """The inventories that a page shows."""
    found = [yaml.safe_load(block) for block in yaml_blocks(page)]
    return [block for block in found if isinstance(block, dict) and "kubegpu_clusters" in block]


def commands(page: Path) -> list[str]:
    """The lines of shell that a page shows, in blocks and within sentences; a line that goes on below is one."""
    text = page.read_text()
    found = re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    shell = "".join(body for language, body in found if language not in DATA).replace("\\\n", " ")
    sentences = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [*shell.splitlines(), *re.findall(r"`([^`]+)`", sentences)]


def anchors(page: Path) -> set[str]:
    """As GitHub makes them from headings, and those of the page of claims."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r'<a id="([\w-]+)"></a>', text))


def test_the_schema_of_the_inventory_is_current():
    text = inventory_page.PAGE.read_text()
    assert inventory_page.page(text) == text, "make docs writes it"


def test_a_page_without_its_marks_is_refused():
    with pytest.raises(ValueError, match="are missing"):
        inventory_page.page("# The inventory\n")


def test_the_page_of_releases_is_current():
    text = kai_page.PAGE.read_text()
    assert kai_page.page(text) == text, "make docs writes it"
    with pytest.raises(ValueError, match="the lines around 'releases' are missing"):
        kai_page.page("# KAI Scheduler\n")


def test_the_rehearsals_page_shows_a_trace_and_all_that_is_judged():
    page = ROOT / "docs/reference/rehearsal.md"
    text = page.read_text()
    (trace,) = [block for block in yaml_blocks(page) if "format:" in block]
    assert parse_trace(yaml.safe_load(trace)).gpus == 32
    keys = {name for cell in re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)}
    assert keys >= rehearsal.WORKLOAD.keys()
    judged = text.partition("\n## Invariants\n")[2].partition("\n## Verdicts\n")[0]
    invariants = re.findall(r"^\| `(\w+)` \| (\d+) \| [^|]* \|$", judged, re.MULTILINE)
    assert invariants == [(name, f"{rehearsal.GRACE.get(name, 0):g}") for name in rehearsal.INVARIANTS]
    measures = re.findall(r"^\| `(\w+)` \| \w+ \| ([\d.]+) \| ([\d.]+) \| [^|]* \|$", judged, re.MULTILINE)
    assert measures == [(name, f"{given['ratio']:g}", f"{given['amount']:g}") for name, given in rehearsal.THRESHOLDS.items()]


@pytest.mark.parametrize(
    "source",
    [
        ROOT / "README.md",
        ROOT / "docs/reference/inventory.md",
        *(page for page in HOW_TO if blocks(page)),
        *INVENTORIES,
    ],
    ids=str,
)
def test_inventories_that_are_shown_are_accepted(source):
    shown = blocks(source) if source.suffix == ".md" else [yaml.safe_load(source.read_text())]
    assert shown
    for inventory in shown:
        for host, variables in inventory["kubegpu_clusters"]["hosts"].items():
            blueprint = load(variables.get("kubegpu_blueprint"))
            assert desired_state(variables, host, TODAY, running={}, blueprint=blueprint).tenants


def test_the_tree_of_queues_that_is_shown_is_accepted():
    (shown,) = yaml_blocks(ROOT / "docs/explanation/gpu-sharing.md")
    tree = parse_queues(yaml.safe_load(shown)["queues"])
    assert list(tree) == ["ml", "training", "notebooks"]
    gpus = {name: queue.spec["resources"]["gpu"] for name, queue in tree.items()}
    page = (ROOT / "docs/explanation/gpu-sharing.md").read_text()
    drawn = re.findall(r"^\W*(\w+) +(█+)(░*) +promised (\d), at most (\d)$", page, re.MULTILINE)
    assert [(name, len(full), len(full + more)) for name, full, more, _quota, _limit in drawn] == [
        (name, gpu["quota"], gpu["limit"]) for name, gpu in gpus.items()
    ]
    assert all((len(full), len(full + more)) == (int(quota), int(limit)) for _name, full, more, quota, limit in drawn)


def options_of(action: str, given: dict) -> tuple[set[str], set[str]]:
    """Return the options that a task of a page gives to a role or module, and the options that exist."""
    if action.endswith("include_role"):
        role, entry = given["name"].removeprefix("kubegpu.tenancy."), given.get("tasks_from", "main")
        specs = yaml.safe_load((ROOT / f"roles/{role}/meta/argument_specs.yml").read_text())["argument_specs"]
        return set(given.get("vars", ())), set(specs[entry].get("options", ()))
    text = (ROOT / f"plugins/modules/{action.removeprefix('kubegpu.tenancy.')}.py").read_text()
    documented = yaml.safe_load(text.partition('DOCUMENTATION = r"""')[2].partition('"""')[0])
    return set(given or ()), set(documented["options"])


def test_roles_and_modules_are_used_as_they_are():
    shown = [yaml.safe_load(block) for page in (ROOT / "docs/reference/playbooks.md", *HOW_TO) for block in yaml_blocks(page)]
    plays = [play for block in shown if isinstance(block, list) for play in block if "hosts" in play]
    used = [
        ("include_role", {"name": role["role"], "vars": role.get("vars", {})}) for play in plays for role in play.get("roles", ())
    ]
    for task in (task for play in plays for task in play.get("tasks", ())):
        (action,) = task.keys() - {"name", "vars"}
        role = action.endswith("include_role")
        used.append((action, task[action] | {"vars": task.get("vars", {})} if role else task[action]))
    assert len(used) >= 5
    for given, known in (options_of(action, given) for action, given in used):
        assert given <= known


def test_the_bounds_of_a_tenant_are_those_of_the_page():
    text = (ROOT / "docs/explanation/isolation.md").read_text()
    shown = re.findall(r"^\| `([a-z/.-]+)` \| (\w+) \| (\w*) \| (\w*) \|$", text, re.MULTILINE)
    needs = (vcluster.LEAST_QUOTA, kai.LEAST_QUOTA)
    assert shown == [(name, str(most), *(str(need.get(name, "")) for need in needs)) for name, most in vcluster.QUOTA.items()]


@pytest.mark.parametrize("collection", [ROOT, ROOT / "lab"], ids=lambda folder: folder.name)
def test_the_changelog_names_every_module_plugin_and_role(collection):
    releases = yaml.safe_load((collection / "changelogs/changelog.yaml").read_text())["releases"].values()
    parts = [part for release in releases for part in (release.get("plugins", {}), release.get("objects", {}))]
    named = {item["name"] for release in releases for item in release.get("modules", [])}
    named |= {item["name"] for part in parts for items in part.values() for item in items}
    plugins = [path.stem for kind in ("filter", "inventory", "modules") for path in collection.glob(f"plugins/{kind}/*")]
    written = {*plugins, *(path.name for path in (collection / "roles").iterdir())} - {"__pycache__"}
    assert written - named == set(), "antsibull-changelog adds it to the release that is to come"


@in_every_page
def test_variables_exist(page):
    named = set(re.findall(r"(?<![\w/])kubegpu_[a-z_]+", page.read_text()))
    assert named - NO_VARIABLES - {*facts.CLUSTER, *facts.INTERNAL} == set()


@in_every_page
def test_files_exist(page):
    named = FILE.findall(page.read_text())
    assert [name for name in named if not any((folder / name).exists() for folder in (ROOT, ROOT / "tests", page.parent))] == []


@in_every_page
def test_tests_exist(page):
    named = re.findall(r"`((?:faults|tests)/[\w./-]+\.py)::(\w+)`", page.read_text())
    files = {file: (ROOT / "tests" / file.removeprefix("tests/")).read_text() for file, _test in named}
    assert [f"{file}::{test}" for file, test in named if f"def {test}(" not in files[file]] == []


def file_of(playbook: str) -> Path:
    """Return the file of a playbook that a page names by its path, or by its collection."""
    for collection, folder in (("kubegpu.tenancy.", ROOT), ("kubegpu.lab.", ROOT / "lab")):
        if playbook.startswith(collection):
            return folder / f"playbooks/{playbook.removeprefix(collection)}.yml"
    return ROOT / playbook


def tags_of(playbook: Path) -> set[str]:
    """The tags of a playbook and of the playbooks that it imports."""
    text = playbook.read_text()
    tags = {tag for listed in re.findall(r"^ *tags: \[(.*)\]", text, re.MULTILINE) for tag in listed.split(", ")}
    imported = re.findall(r"import_playbook: (\S+)", text)
    files = (file_of(name) if name.startswith("kubegpu.") else playbook.parent / name for name in imported)
    return tags.union(*map(tags_of, files))


@in_every_page
def test_commands_name_what_exists(page):
    specs = "".join(
        path.read_text()
        for path in [*ROOT.glob("roles/*/meta/argument_specs.yml"), *ROOT.glob("lab/roles/*/meta/argument_specs.yml")]
    )
    playbooks = "".join(path.read_text() for path in [*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("lab/playbooks/**/*.yml")])
    targets = (ROOT / "Makefile").read_text().partition(".PHONY: ")[2].partition("\n")[0].split()
    wrong = []
    for line in commands(page):
        wrong += [f"make {name}" for name in re.findall(r"^make ([a-z]+)", line) if name not in targets]
        for name in re.findall(r"--scenario-name (\w+)", line):
            wrong += [] if (ROOT / f"molecule/{name}").is_dir() else [name]
        for name in re.findall(r"^ansible .*-m kubegpu\.tenancy\.(\w+)", line):
            wrong += [] if (ROOT / f"plugins/modules/{name}.py").exists() else [name]
        if not (book := re.search(r"^ansible-playbook (?:-\S+ \S+ )*(\S+)", line)):
            continue
        if (name := book[1]) in READERS:
            continue
        file = file_of(name)
        wrong += [] if file.exists() else [name]
        given = set(re.findall(r"(?:-e |--extra-vars[ =])(\w+)=", line)) - {*facts.CLUSTER}
        wrong += [one for one in given if not re.search(rf"\b{one}\b", specs + playbooks)]
        tags = [tag for tag in re.findall(r"--(?:skip-)?tags[ =]([\w,]+)", line) for tag in tag.split(",")]
        wrong += [tag for tag in tags if file.exists() and tag not in tags_of(file)]
    assert wrong == []


def test_what_replaces_a_command_of_the_talk_exists():
    """Roles, modules and playbooks in the second column of the page's tables."""
    rows = re.findall(r"^\| `.*?(?<!\\) \| ([^|]*) \|.*\|$", (ROOT / "docs/how-to/from-the-talk.md").read_text(), re.MULTILINE)
    named = {(kind, name) for row in rows for kind, names in NAMED.findall(row) for name in re.findall(r"`(\w+)`", names)}
    assert {kind for kind, _name in named} == {"role", "module", "playbook"}
    folders = {"role": "roles/{}", "module": "plugins/modules/{}.py", "playbook": "playbooks/{}.yml"}
    assert [name for kind, name in named if not (ROOT / folders[kind].format(name)).exists()] == []


@in_every_page
def test_links_lead_somewhere(page):
    dead = []
    for file, anchor in LINK.findall(page.read_text()):
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(f"{file}#{anchor}")
    assert dead == []


def test_commands_name_pod_groups_in_full():
    """Kubernetes has PodGroups of its own since 1.36, and the short name is ambiguous."""
    texts = {
        path: path.read_text()
        for folder in ("docs", "examples", "plugins", "roles", "playbooks")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".md", ".py", ".yml", ".yaml", ".sh")
    }
    short = re.compile(r"kubectl[^\n`]* (?:get|describe|delete) [^\n`]*\bpodgroups?\b(?!\.scheduling\.run\.ai)")
    assert [str(path) for path, text in texts.items() if short.search(text)] == []
