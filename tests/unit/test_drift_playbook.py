# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook drift itself, on clusters of which there is no more than an API server in memory that refuses to be written to."""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import EXPIRES_ANNOTATION
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi, written_by
from ansible_collections.kubegpu.tenancy.tests.unit.helm import record_of
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, ROOT, RUNTIME_CLASS, STORAGE, Site, worked_on
from ansible_collections.kubegpu.tenancy.tests.unit.served import Server, served
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import on_host

SCHEMA = json.loads((ROOT / "docs/evidence.schema.json").read_text())
LABEL = "tenant.kubegpu.tenancy/gone"
LABELLED = written_by(
    NODE | {"metadata": {"name": "w1", "labels": {LABEL: "true"}}},
    "kubectl-label",
    "2026-11-24T10:02:00Z",
    ("metadata", "labels", LABEL),
)


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Site:
    return Site(tmp_path)


DIFFERENCE = 'gpu2: nodes of tenants, w1: ["gone"], wanted [] (since 2026-11-24T10:02:00Z, by kubectl-label)'
STEP = "gpu2: nodes of tenants: site would label node w1 (it is to belong to no tenant)"


@pytest.fixture(scope="module", name="agrees")
def _agrees() -> Iterator[Server]:
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as server:
        yield server
        assert server.changed == []


@pytest.fixture(scope="module", name="drifts")
def _drifts() -> Iterator[Server]:
    with served(InMemoryApi([LABELLED, RUNTIME_CLASS])) as server:
        yield server
        assert server.changed == []


def test_with_drift_it_ends_with_2(site: Site, agrees: Server, drifts: Server) -> None:
    site.add("gpu1", agrees)
    site.add("gpu2", drifts)
    folder = site.folder / "evidence"
    said = site.run("--check", f"--extra-vars=kubegpu_evidence={folder}")
    assert site.code == 2, said
    for sentence in (
        "gpu1: everything is as the inventory says",
        DIFFERENCE,
        STEP,
        f"Wrote tenancy.html, tenancy.xml and tenancy.json in {folder}.",
    ):
        assert sentence in said
    evidence = json.loads((folder / "tenancy.json").read_text())
    jsonschema.validate(evidence, SCHEMA)
    assert (evidence["run"], evidence["result"], evidence["problems"]) == ("drift", "incomplete", [])
    assert evidence["pending"][0] == DIFFERENCE
    suites = {suite.get("name"): suite.get("failures") for suite in ET.parse(folder / "tenancy.xml").getroot()}  # noqa: S314 - made here
    assert (suites["gpu1"], suites["gpu2"], suites["gpu2/gone"]) == ("0", "1", "1")
    assert "What kubegpu.tenancy.site would do" in (folder / "tenancy.html").read_text()


def test_where_something_could_not_be_told_it_ends_with_4_and_names_what_differs(
    site: Site, agrees: Server, drifts: Server
) -> None:
    folder = site.folder / "evidence"
    site.add("gpu1", agrees, kubegpu_evidence=str(folder))
    site.add("gpu2", drifts, kubegpu_evidence="/dev/null/evidence")
    site.add("gpu3", None, kubegpu_evidence=str(folder))
    said = site.run("--check")
    assert site.code == 4, said
    for sentence in (
        "gpu1: everything is as the inventory says",
        DIFFERENCE,
        STEP,
        "COULD NOT TELL gpu3: it was not reached",
        "COULD NOT TELL gpu2: Create the evidence folder: ",
    ):
        assert sentence in said
    evidence = json.loads((folder / "tenancy.json").read_text())
    assert (evidence["result"], [cluster["name"] for cluster in evidence["clusters"]]) == ("failed", ["gpu1", "gpu3"])


def test_without_drift_in_the_clusters_that_a_limit_leaves_it_ends_with_0(site: Site, agrees: Server, drifts: Server) -> None:
    site.add("gpu1", agrees)
    site.add("gpu2", drifts)
    said = site.run("--check", "--limit=gpu1,*/*")
    assert (site.code, "Everything is as the inventory says." in said, "gpu2" in said) == (0, True, False), said


def test_there_is_nothing_to_pause_of_a_tenant_that_is_not_there(site: Site, agrees: Server) -> None:
    site.add("gpu1", agrees, kubegpu_tenants=[{"name": "later", "trust": "high", "gpu_nodes": {"count": 1}, "state": "paused"}])
    said = site.run("--check")
    assert "COULD NOT TELL" not in said, said


RELEASE = record_of(Release("ml", "tenant-ml", "deployed", 1, "vcluster", "0.36.1", {}))
HELM = """#!/bin/sh
case "$1" in
  version) echo v3.16.0 ;;
esac
"""


def test_what_a_pause_by_somebody_else_explains_is_no_second_failure(site: Site) -> None:
    """Its API server cannot be asked, and has no address to write into its kubeconfig."""
    (site.folder / "bin/helm").write_text(HELM)
    objects = [each for each in on_host("ml") if each["metadata"]["name"] != "ml-0"]
    workload = next(each for each in objects if each["kind"] == "StatefulSet")
    workload["metadata"]["annotations"] = {"loft.sh/paused": "true", "loft.sh/paused-replicas": "1"}
    workload["spec"]["replicas"] = 0
    next(each for each in objects if each["kind"] == "Service")["spec"]["type"] = "NodePort"
    objects[objects.index(workload)] = written_by(workload, "vclusterctl", "2026-11-24T10:02:00Z", ("spec", "replicas"))
    with served(InMemoryApi([NODE, RUNTIME_CLASS, STORAGE, RELEASE, *objects])) as server:
        site.add("gpu1", server, kubegpu_tenants=[{"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}}])
        said = site.run("--check")
    assert "gpu1/ml: virtual cluster, state: paused, wanted running (since 2026-11-24T10:02:00Z, by vclusterctl)" in said, said
    assert (site.code, "COULD NOT TELL" in said) == (2, False), said
    assert server.changed == []


def test_a_run_that_removes_what_expired_leaves_evidence_too(site: Site, agrees: Server) -> None:
    folder = site.folder / "evidence"
    site.add("gpu1", agrees, kubegpu_evidence=str(folder), kubegpu_tenants=[])
    said = site.run(playbook="expire")
    assert site.code == 0, said
    evidence = json.loads((folder / "tenancy.json").read_text())
    jsonschema.validate(evidence, SCHEMA)
    assert (evidence["run"], evidence["result"], evidence["drift"]) == ("expire", "passed", None)
    assert [(cluster["name"], cluster["removed"]) for cluster in evidence["clusters"]] == [("gpu1", [])]


@pytest.mark.parametrize(
    ("given", "removed"),
    [
        ("{}", {"ci-1"}),
        ('{"kubegpu_temporary_tenant": {"name": "ci-2", "trust": "high", "expires": "1h"}}', {"ci-2"}),
        # Left by a removal that was cut off.
        ('{"kubegpu_temporary_tenant": {"name": "gone", "trust": "high", "expires": "1h"}}', {"gone"}),
        # Only what is for a while.
        ('{"kubegpu_temporary_tenant": {"name": "ml", "trust": "high", "expires": "1h"}}', set()),
    ],
)
def test_what_expired_is_removed_or_the_one_that_is_given_alone(site: Site, given: str, removed: set[str]) -> None:
    objects = [LABELLED, RUNTIME_CLASS, *on_host("ml"), *on_host("ci-1"), *on_host("ci-2")]
    for name, created in (("tenant-ci-1", "2026-01-01T12:00:00Z"), ("tenant-ci-2", "2200-01-01T12:00:00Z")):
        metadata = next(each["metadata"] for each in objects if each["metadata"]["name"] == name)
        metadata["creationTimestamp"] = created
        metadata["annotations"] |= {EXPIRES_ANNOTATION: "1h"}
    with served(InMemoryApi(objects)) as server:
        site.add("gpu1", server, kubegpu_tenants=[])
        said = site.run("--check", f"--extra-vars={given}", playbook="expire")
    # In check mode it gets as far as to ask helm for them.
    assert worked_on(said) == removed, said


@pytest.mark.parametrize(
    ("clusters", "options", "reason"),
    [
        (1, [], "Run it with --check"),
        (1, ["--check", "--tags=tenants"], "Run it without --tags"),
        (1, ["--check", "--skip-tags=summary"], "Run it without --tags"),
        (1, ["--check", "--extra-vars=kubegpu_only=other"], "Run it without --tags"),
        (0, ["--check"], "The inventory has no cluster"),
    ],
)
def test_what_would_be_no_answer_is_refused(site: Site, agrees: Server, clusters: int, options: list[str], reason: str) -> None:
    for number in range(clusters):
        site.add(f"gpu{number}", agrees)
    said = site.run(*options)
    assert (site.code, reason in said) == (4, True), said
    # It is a task that says so, and not a play whose hosts cannot be told.
    assert "keyword 'hosts'" not in said


@pytest.mark.parametrize(("ended", "expected"), [(0, 0), (2, 2), (1, 1), (4, 1), (5, 1), (99, 1), (250, 1), (124, 1)])
def test_a_pipeline_gets_one_status_for_what_could_not_be_told(tmp_path: Path, ended: int, expected: int) -> None:
    program = tmp_path / "ansible-playbook"
    program.write_text(f'#!/bin/sh\necho "$@"\nexit {ended}\n')
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [str(ROOT / "examples/ops-repo/ci/drift"), "--forks=20"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (expected, "drift.yml --check --forks=20\n")


@pytest.mark.parametrize("skipped", ["always", "always,untagged", "all"])
def test_whatever_tags_leave_of_it_nothing_is_changed_without_check_mode(site: Site, agrees: Server, skipped: str) -> None:
    site.add("gpu1", agrees)
    copy = site.folder / "gpu1/here/cluster.yml"
    copy.write_text("old: 1")
    said = site.run(f"--skip-tags={skipped}")
    assert copy.read_text() == "old: 1", said
    if skipped != "always,untagged":
        assert site.code == 4, said
        assert "Run it with --check" in said
