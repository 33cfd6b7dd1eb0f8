# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blueprints that come with the collection, and the page that shows them."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._blueprint.facts import NAME, ROLE_VARIABLES
from ansible_collections.kubegpu.tenancy.plugins.module_utils._combinations import facts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.versions import shown
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import DEFAULT_VERSION
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._blueprints import FOLDER, load, names
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/many-clusters.md").read_text()
NAMES = names()
LAB = yaml.safe_load((ROOT / "inventories/lab/group_vars/kubegpu_labs.yml").read_text())
TENANTS = [
    {"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}, "queues": [{"name": "ml"}]},
    {"name": "web", "trust": "partial"},
]


def test_there_are_some():
    assert {name.rpartition("-20")[0] for name in NAMES} == {"existing-cluster", "gpu-host", "lab"}
    assert {path.suffix for path in FOLDER.iterdir()} == {".yml"}


@pytest.mark.parametrize("name", NAMES)
def test_what_a_blueprint_says_goes_together_on_its_date(name):
    blueprint = load(name)
    scheduler = {"scheduler": {"name": "kai", "gpu_sharing": True}} if blueprint.kai else {"queues": []}
    made = {"nvkind_workers": [{"count": 8}]}
    known = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/k"} if name.startswith("existing") else made
    variables = known | {"kubegpu_blueprint": name, "kubegpu_tenants": [TENANTS[0] | scheduler, TENANTS[1]]}
    on = datetime.date.fromisoformat(NAME.fullmatch(name)[1])
    found = desired_state(variables, "gpu1", on, running={}, blueprint=blueprint)
    assert found.blueprint == {"name": name, "digest": blueprint.digest, "overridden": []}
    assert found.combinations == {"accepted": [], "untested": []}
    assert {tenant.vcluster.version for tenant in found.tenants} == {blueprint.vcluster["version"]}


def test_what_blueprints_may_set_are_variables_of_roles():
    files = [path for folder in (ROOT, ROOT / "lab") for path in folder.glob("roles/*/meta/argument_specs.yml")]
    specs = [yaml.safe_load(path.read_text())["argument_specs"]["main"] for path in files]
    assert set(ROLE_VARIABLES) <= {name for spec in specs for name in spec["options"]}


def test_the_page_shows_every_blueprint_with_its_digest():
    """Of one that was released, neither changes."""
    shown_digests = dict(re.findall(r"^\| `([a-z-]+-\d{4}-\d{2}-\d{2})` \|.*\| `(sha256:[0-9a-f]{64})` \|$", PAGE, re.MULTILINE))
    assert shown_digests == {name: load(name).digest for name in NAMES}
    for name in NAMES:
        (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
        blueprint = load(name)
        said = [*blueprint.kai.values(), *blueprint.vcluster.values(), blueprint.variables.get("device_plugin_version", "")]
        assert [text for text in said if text not in row] == []


def test_the_page_shows_every_combination_and_variable():
    for row in facts.ROWS:
        verdict = "refused" if row.verb == facts.NEEDS else "a warning"
        (line,) = [
            line
            for line in PAGE.splitlines()
            if line.startswith(f"| `{row.name}` | {facts.PARTS[row.part]}, {row.since}")
            or (not row.since and line.startswith(f"| `{row.name}` | {facts.PARTS[row.part]}, any version"))
        ]
        assert line.endswith(f"{facts.PARTS[row.other]} {shown(row.first, row.last)} | {verdict} | {row.source} |")
    assert [name for name in ROLE_VARIABLES if f"`{name}`" not in PAGE] == []


def test_the_labs_inventory_has_what_its_blueprint_says():
    blueprint = load(LAB["kubegpu_blueprint"])
    defaults = yaml.safe_load((ROOT / "lab/roles/lab/defaults/main.yml").read_text())
    of_lab = {name: value for name, value in blueprint.variables.items() if name.startswith("lab_")}
    assert of_lab == {name: defaults[name] for name in of_lab}
    assert f":{of_lab['lab_kubernetes_version']}" in LAB["nvkind_image"]
    assert blueprint.vcluster == {"version": DEFAULT_VERSION, "kubernetes_version": of_lab["lab_kubernetes_version"]}
    whole = {name: value for name, value in LAB.items() if "{{" not in str(value)}
    found = desired_state(whole, "lab", TODAY, blueprint=blueprint)
    assert {(one.vcluster.version, one.vcluster.kubernetes_version) for one in found.tenants} == {("0.36.1", "v1.35.4")}
    assert found.blueprint["overridden"] == []


@pytest.mark.parametrize("given", ["", None, 3, ["gpu-host-2026-11-23"]])
def test_without_a_name_there_is_none(given):
    assert load(given) is None


def test_a_file_of_ones_own(tmp_path):
    file = tmp_path / "h200-2026-12-01.yml"
    file.write_text("about: H200\nkai: {version: v0.18.6}\n")
    found = load(str(file))
    assert (found.name, found.kai) == ("h200-2026-12-01", {"version": "v0.18.6"})
    file.write_text("# A comment, and another order.\nkai:\n  version: v0.18.6\nabout: H200\n")
    assert load(str(file)).digest == found.digest


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gpu-host-2026-11-22", None, "there is no gpu-host-2026-11-22. Did you mean gpu-host-2026-11-23? There are "),
        ("latest", None, "'latest' has no date at its end"),
        ("{}/h200-2026-12-01.yml", None, "there is no {}/h200-2026-12-01.yml."),
        ("{}/latest.yml", "about: x", "'latest' has no date at its end"),
        ("{}/h200-2026-12-01.yml", "about: [", "cannot be read: it is no YAML: while parsing"),
        ("{}/h200-2026-12-01.yml", "[" * 100_000, "cannot be read: it is nested more than 100 deep"),
        ("{}/h200-2026-12-01.yml", "about: H200\nvariables: {1: x}", "blueprint h200-2026-12-01.variables.1: its key must be a"),
        (
            "{}/h200-2026-12-01.yml",
            "about: H200\nvariables: {lab_gpus: .nan}",
            "blueprint h200-2026-12-01.variables.lab_gpus: nan",
        ),
        ("{}/h200-2026-12-01.yml", "about: H200\nkey: 1", "blueprint h200-2026-12-01.key: unknown key."),
    ],
)
def test_what_is_no_blueprint_is_refused(tmp_path, name, content, message):
    if content:
        Path(name.format(tmp_path)).write_text(content)
    with pytest.raises(TenancyError) as refused:
        load(name.format(tmp_path))
    assert message.format(tmp_path) in refused.value.message
