# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No example leads to a release of KAI Scheduler with a hazard that touches it and that it does not accept.

Examples are YAML in pages, EXAMPLES of modules and plugins, inventories, playbooks, defaults of roles, and versions that are documented
by "such as". Text that describes an old release is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import deep_merge
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import Asked
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.validation import check_hazard_names, refuse_hazards, release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.values import chart_values, shares_gpus
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "examples/ops-repo/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PLUGINS = sorted(
    path
    for folder in ("doc_fragments", "filter", "inventory", "modules")
    for plugins in (ROOT / "plugins", ROOT / "lab/plugins")
    for path in plugins.glob(f"{folder}/*")
)
DATA = sorted(
    path
    for pattern in (
        "examples/ops-repo/**/*.yml",
        "inventories/**/*.yml",
        "playbooks/**/*.yml",
        "roles/*/defaults/*.yml",
        "roles/*/meta/argument_specs.yml",
    )
    for folder in (ROOT, ROOT / "lab")
    for path in folder.glob(pattern)
)
SOURCES = [path for path in [*PAGES, *PLUGINS, *DATA] if path.is_file() and path.suffix in (".md", ".py", ".yml")]

# A whole block, or a dictionary in the middle of a sentence.
BLOCK = re.compile(r"^ *```ya?ml\n(.*?)^ *```|`(\{name: [^`]*\})`", re.DOTALL | re.MULTILINE)
EXAMPLES = re.compile(r'^EXAMPLES = r?"""\n(.*?)"""', re.DOTALL | re.MULTILINE)
SUCH_AS = re.compile(r"KAI Scheduler[^.]*? such as (?:V\()?(v\d+\.\d+\.\d+)")
VERSION = re.compile(r"v?\d+\.\d+\.\d+")

MODULE = "kubegpu.tenancy.kai_scheduler"
SHARED = "kubegpu_shared_scheduler"
# What a release stands beside, where it is not the scheduler's own dictionary.
OF_ROLE = "kai_scheduler_"


def documents(text: str, suffix: str) -> Iterator[Any]:
    """Return the data that a source shows."""
    pattern = {".md": BLOCK, ".py": EXAMPLES}.get(suffix)
    for found in pattern.finditer(text) if pattern else [text]:
        yield from yaml.safe_load_all(found if isinstance(found, str) else found[found.lastindex])


def releases(data: Any, key: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Return every release of KAI Scheduler that data asks for: under which key, and what is asked of it."""
    for name, below in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from releases(below, key if isinstance(name, int) else str(name))
    if not isinstance(data, dict):
        return
    if key in (MODULE, SHARED) or (key == "scheduler" and data.get("name", "kai") == "kai") or data.get("name") == "kai":
        yield key, data
    of_role = {str(name).removeprefix(OF_ROLE): value for name, value in data.items() if str(name).startswith(OF_ROLE)}
    # An option of a role has its default, an option of kai_queues the release that is there.
    of_role = {
        name: value.get("default") if isinstance(value, dict) and "type" in value else value for name, value in of_role.items()
    }
    yield key, of_role
    yield key, {"version": data.get("kai_version")}


def problem(asked: dict[str, Any], key: str = "") -> str:
    """Return why what an example asks for would be refused; empty where it would not, or names no version."""
    version = asked.get("version")
    if not isinstance(version, str) or not VERSION.fullmatch(version):
        return ""
    try:
        found = release(version)
        accepted = asked.get("accept_hazards") or []
        check_hazard_names(accepted)
        values = deep_merge(chart_values(found, asked.get("gpu_sharing") is True), asked.get("values") or {})
        refuse_hazards(found, Asked(shares_gpus(values, found), others=key == SHARED), accepted, TODAY, installed=False)
    except TenancyError as exc:
        return exc.message
    return ""


def problems(text: str, suffix: str) -> list[str]:
    """Return why the examples in a text would be refused."""
    found = [problem(asked, key) for document in documents(text, suffix) for key, asked in releases(document)]
    return [*filter(None, [*found, *(problem({"version": version}) for version in SUCH_AS.findall(text))])]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_example_leads_to_a_release_with_a_hazard_that_it_does_not_accept(source):
    assert problems(source.read_text(), source.suffix) == []


def test_examples_are_found():
    """Otherwise the test before would prove nothing."""
    named = {
        str(source.relative_to(ROOT)): [
            asked["version"]
            for document in documents(source.read_text(), source.suffix)
            for _key, asked in releases(document)
            if VERSION.fullmatch(str(asked.get("version")))
        ]
        for source in SOURCES
    }
    assert {name for name, versions in named.items() if versions} == {
        "README.md",
        "docs/how-to/existing-cluster.md",
        "docs/how-to/gpu-host.md",
        "docs/how-to/lab.md",
        "docs/how-to/tenants.md",
        "docs/reference/inventory.md",
        "docs/reference/kai-releases.md",
        "docs/reference/playbooks.md",
        "examples/ops-repo/inventories/lab/group_vars/kubegpu_labs/tenant_team_ml.yml",
        "examples/ops-repo/inventories/production/host_vars/gpu1.example/tenant_team_ml.yml",
        *(f"inventories/existing/{name}.yml" for name in ("aks", "eks", "gke", "k3s", "kubeadm", "openshift")),
        "inventories/existing_cluster/hosts.yml",
        "inventories/gpu_host/hosts.yml",
        "inventories/lab/group_vars/kubegpu_labs.yml",
        "inventories/sample/hosts.yml",
        "plugins/modules/kai_queues.py",
        "plugins/modules/kai_scheduler.py",
    }
    assert SUCH_AS.findall((ROOT / "plugins/modules/kai_scheduler.py").read_text())
    assert SUCH_AS.findall((ROOT / "plugins/modules/kai_queues.py").read_text())
    assert SUCH_AS.findall((ROOT / "roles/kai_scheduler/meta/argument_specs.yml").read_text())


PAGE = "An old one:\n\n```yaml\n{}\n```\n"
TASKS = 'EXAMPLES = r"""\n{}\n"""\n'


@pytest.mark.parametrize(
    ("text", "suffix", "name"),
    [
        (
            PAGE.format("kubegpu_tenants: [{name: a, scheduler: {name: kai, version: v0.12.0, gpu_sharing: true}}]"),
            ".md",
            "#1103",
        ),
        (PAGE.format("scheduler: {version: v0.13.1}"), ".md", "end-of-support"),
        ("| `{name: kai, version: v0.13.1}` | its own |", ".md", "end-of-support"),
        (PAGE.format("kubegpu_shared_scheduler: {name: kai, version: v0.12.0}"), ".md", "#104"),
        (PAGE.format("scheduler: {name: kai, version: v0.12.0, values: {global: {gpuSharing: true}}}"), ".md", "#1103"),
        (PAGE.format('scheduler: {name: kai, version: v0.12.0, gpu_sharing: true, accept_hazards: ["#104"]}'), ".md", "#1103"),
        (PAGE.format("scheduler: {name: kai, version: v0.16.8, accept_hazards: [rain]}"), ".md", "rain"),
        (TASKS.format("- kubegpu.tenancy.kai_scheduler:\n    version: v0.12.0\n    gpu_sharing: true"), ".py", "#1103"),
        (TASKS.format("- kubegpu.tenancy.kai_queues:\n    kai_version: v0.13.1"), ".py", "end-of-support"),
        ("kai_scheduler_version: v0.12.0\nkai_scheduler_gpu_sharing: true", ".yml", "#1103"),
        ("options: {kai_scheduler_version: {type: str, default: v0.13.1}}", ".yml", "end-of-support"),
        ("description: Version of KAI Scheduler, such as V(v0.13.1).", ".yml", "end-of-support"),
    ],
)
def test_an_example_that_leads_there_is_found(text, suffix, name):
    (found,) = problems(text, suffix)
    assert name in found
    better = text.replace("v0.12.0", "v0.16.8").replace("v0.13.1", "v0.16.8").replace("rain", "'#104'")
    assert problems(better, suffix) == []


@pytest.mark.parametrize(
    "text",
    [
        "| `v0.13.1` | three halves on one GPU |",
        PAGE.format('scheduler: {name: kai, version: v0.12.0, gpu_sharing: true, accept_hazards: ["#1103", "#1673"]}'),
        PAGE.format("scheduler: {name: yunikorn, version: 1.12.0}"),
        "```\nteam-ml  kai v0.12.0\n```",
    ],
)
def test_what_describes_or_accepts_is_no_problem(text):
    assert problems(text, ".md") == []
