# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts' values and a proxy's password in whole runs: in no output, at any verbosity, and in no file that is kept."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine.rehearsal import Rehearsal, judged
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import HAZARD_NAMES
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.change import parse_verdict
from ansible_collections.kubegpu.tenancy.plugins.modules import rehearsal
from ansible_collections.kubegpu.tenancy.tests.unit import served as serving
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.helm import record_of
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, ROOT, RUNTIME_CLASS, Site
from ansible_collections.kubegpu.tenancy.tests.unit.rehearsed import TRACE, played
from ansible_collections.kubegpu.tenancy.tests.unit.served import Server, served

PASSWORD, VALUE = "marker-password", "marker-value"
STORAGE = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "any"}
FURTHER_KINDS = {
    "storage.k8s.io/v1": {"StorageClass": ("storageclasses", False)},
    "scheduling.k8s.io/v1": {"PriorityClass": ("priorityclasses", False)},
    "scheduling.run.ai/v2": {"Queue": ("queues", False)},
    "scheduling.run.ai/v2alpha2": {"PodGroup": ("podgroups", True)},
}
ML = {
    "name": "ml",
    "trust": "high",
    "gpu_nodes": {"count": 1},
    "vcluster": {"values": {"controlPlane": {"statefulSet": {"labels": {"note": f"{VALUE}-1"}}}}},
    "scheduler": {"name": "kai", "version": "v0.16.8", "values": {"global": {"registry": f"{VALUE}-2"}}},
}
RELEASE = Release(
    "kai-scheduler", "kai-scheduler", "deployed", 1, "kai-scheduler", "v0.13.1", {"global": {"registry": f"{VALUE}-3"}}
)
HELM = """#!/bin/sh
echo "Error: it was asked for $1" >&2; exit 1
"""


@pytest.fixture(name="server")
def _server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for version, kinds in FURTHER_KINDS.items():
        monkeypatch.setitem(serving.KINDS, version, kinds)
    with served(InMemoryApi([NODE, RUNTIME_CLASS, STORAGE, record_of(RELEASE)])) as server:
        yield server


@pytest.fixture(name="site")
def _site(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    # From ansible-core 2.21 on, arguments are shown only on request.
    monkeypatch.setenv("ANSIBLE_INJECT_INVOCATION", "true")
    site = Site(tmp_path)
    (tmp_path / "bin/helm").write_text(HELM)
    site.add(
        "gpu1",
        server,
        kubegpu_tenants=[ML],
        kubegpu_kubeconfig_proxy=f"http://me:{PASSWORD}@127.0.0.1:9",
        kubegpu_storage_class="fast",
        kubegpu_evidence=str(tmp_path / "evidence"),
    )
    return site


def secrets_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if PASSWORD in line or VALUE in line]


def test_no_run_shows_or_keeps_them(site: Site) -> None:
    said = site.run("-vvvvvv", "--check", "--diff")
    assert secrets_in(said) == []
    kept = [file.read_text() for file in site.folder.glob("evidence/*")]
    assert secrets_in("".join(kept)) == []
    # It came to the tenant, whose failure people have to read, with the arguments that led to it.
    assert "gpu1/ml" in said
    assert "it was asked for " in said
    assert "registry: digest " in said


def test_a_rehearsal_of_a_tenant_shows_none(site: Site, server: Server) -> None:
    server.write_kubeconfig(site.folder / "home/.kube/kubegpu/gpu1/tenants/ml.yml")
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    where = {"rehearsal_kubeconfig": str(site.folder / "gpu1/cluster.yml")} | here
    inventory = site.folder / "rehearsal.json"
    inventory.write_text(json.dumps({"kubegpu_rehearsals": {"hosts": {"rehearsal": where}}}))
    said = site.run("-vvvvvv", "--check", f"--inventory={inventory}", "--extra-vars=rehearsal_tenant=ml", playbook="rehearse")
    assert secrets_in(said) == []
    # What was recorded came to the rehearsal.
    assert "version: v0.13.1" in said, said[-6000:]
    assert "registry: digest " in said


def evidence_tasks() -> list[Any]:
    """The part of role rehearsal that writes the evidence."""
    tasks = yaml.safe_load((ROOT / "roles/rehearsal/tasks/main.yml").read_text())
    return [task for task in tasks if task["name"] == "Write the evidence"]


def test_the_files_of_a_rehearsal_hold_none_and_are_a_verdict(tmp_path: Path) -> None:
    versions = {"baseline": "v0.13.1", "candidate": "v0.16.8"}
    sides = {
        side: {"version": version, "values": {"global": {"registry": f"{VALUE}-{side}", "qps": 7}}}
        for side, version in versions.items()
    }
    params = {name: option.get("default") for name, option in rehearsal.ARGUMENT_SPEC.items()} | {
        "trace": TRACE.data(),
        "speed": 4.0,
    }
    asked = {side: given | {"accept_hazards": list(HAZARD_NAMES)} for side, given in sides.items()}
    what = Rehearsal.of(params | asked, TODAY, whole=True)
    at = datetime.datetime(2026, 11, 22, tzinfo=datetime.timezone.utc)
    result = judged(what, {side: [played()] for side in sides}, "", at)
    variables = {"rehearsal_evidence": str(tmp_path), "rehearsal_verdict": result}
    (tmp_path / "variables.json").write_text(json.dumps(variables))
    play = {"hosts": "localhost", "gather_facts": False, "tasks": evidence_tasks()}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    command = ["ansible-playbook", "-vvvvvv", "--diff", f"--extra-vars=@{tmp_path}/variables.json", f"{tmp_path}/play.yml"]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    files = {path.name: path.read_text() for path in [*tmp_path.glob("verdict-*"), *tmp_path.glob("rehearsal.*")]}
    assert len(files) == 4
    assert secrets_in(done.stdout + done.stderr + "".join(files.values())) == []
    (verdict,) = [parse_verdict(json.loads(text), name) for name, text in files.items() if name.startswith("verdict-")]
    assert verdict["change"]["to"]["values"]["global"]["registry"].startswith("digest ")
    report = json.loads(files["rehearsal.json"])
    assert {side: report[side].keys() for side in sides} == {side: {"version", "accept_hazards"} for side in sides}
    assert report.keys() == {*verdict, *sides, "speed", "notes", "comparisons", "trace", "rounds"}
    # What changes is named, by the name of the change as in the verdict.
    assert "values.global.registry" in files["rehearsal.html"]
    assert verdict["change"]["name"] in files["rehearsal.html"]
