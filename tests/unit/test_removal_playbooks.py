# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbooks that remove things leave alone, on clusters in memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, RUNTIME_CLASS, Site
from ansible_collections.kubegpu.tenancy.tests.unit.served import served
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import host_kai, on_host

ML = {"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}}
SHARED = {"name": "kai", "version": "v0.16.8"}


@pytest.fixture(name="site")
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Site(tmp_path)


def removed(said: str) -> set[str]:
    """The tenants that a run came to work on, by cluster."""
    return set(re.findall(r"^(\S+/\S+) +: ok=", said, re.MULTILINE))


def test_node_labels_and_kubeconfigs_stay_while_a_tenant_is_there(site: Site) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS, *on_host("ml")])) as server:
        site.add("gpu1", server, kubegpu_tenants=[ML])
        said = site.run("--skip-tags=tenants", playbook="cleanup")
    assert site.code != 0
    assert "ml: still there, so that node labels, taints and the shared scheduler stay." in said
    assert server.changed == []
    assert (site.folder / "gpu1/here/cluster.yml").exists()


@pytest.mark.parametrize("limit", ["gpu1", "gpu*,!*/ml"])
def test_a_limit_without_its_tenants_is_refused_before_anything_is_touched(site: Site, limit: str) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS, *on_host("ml")])) as server:
        site.add("gpu1", server, kubegpu_tenants=[ML])
        for playbook in ("cleanup", "site"):
            said = site.run(f"--limit={limit}", playbook=playbook)
            assert site.code != 0
            assert "leaves out gpu1/ml, the host that stands for tenant ml" in " ".join(said.split())
    assert server.changed == []


def test_of_the_kubeconfigs_only_what_was_handed_over_is_removed(site: Site) -> None:
    folder = site.folder / "home/.kube"
    files = [folder / name for name in ("config", "cluster.yml", "tenants/ml.yml", "tenants/left.yml")]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    with served(InMemoryApi([NODE, RUNTIME_CLASS, *on_host("left")])) as server:
        site.add("gpu1", server, kubegpu_tenants=[], kubegpu_kubeconfig_dir="~/.kube")
        said = site.run(playbook="cleanup")
    # The tenant that is not listed stays, and keeps its own.
    assert (site.code, [file.name for file in files if file.exists()]) == (0, ["config", "left.yml"]), said


def test_the_kubeconfig_that_was_given_stays(site: Site) -> None:
    own = site.folder / "home/.kube/kubegpu/gpu1/cluster.yml"
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as server:
        server.write_kubeconfig(own)
        site.add("gpu1", server, kubegpu_tenants=[], kubegpu_kubeconfig=str(own), kubegpu_kubeconfig_dir="~/.kube/kubegpu/gpu1")
        said = site.run(playbook="cleanup")
    assert (site.code, own.exists()) == (0, True), said


def test_folders_that_are_empty_then_go(site: Site) -> None:
    folder = site.folder / "home/.kube/kubegpu/gpu1"
    (folder / "tenants").mkdir(parents=True)
    for file in (folder / "cluster.yml", folder / "tenants/ml.yml"):
        file.write_text("{}")
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as server:
        site.add("gpu1", server, kubegpu_tenants=[], kubegpu_kubeconfig_dir="~/.kube/kubegpu/gpu1")
        said = site.run(playbook="cleanup")
    assert (site.code, (site.folder / "home/.kube").exists()) == (0, False), said


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        # Somebody else's.
        ([{**each, "metadata": each["metadata"] | {"labels": {}}} for each in host_kai()], ""),
        ([*host_kai(), *on_host("other", shared=True)], "is not removed, because other use it."),
    ],
    ids=["not ours", "in use"],
)
def test_a_shared_scheduler_that_is_not_ours_or_in_use_stays(site: Site, objects: list, said: str) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS, *objects])) as server:
        site.add("gpu1", server, kubegpu_tenants=[], kubegpu_shared_scheduler=SHARED)
        output = site.run(playbook="cleanup")
    assert (site.code != 0, said in " ".join(output.split()), server.changed) == (bool(said), True, []), output


def test_a_reset_removes_nothing_that_it_does_not_make_again(site: Site) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as lists, served(InMemoryApi([NODE, RUNTIME_CLASS, *on_host("ml")])) as has:
        site.add("gpu1", lists, kubegpu_tenants=[ML])
        site.add("gpu2", has, kubegpu_tenants=[])
        said = site.run("--extra-vars=kubegpu_only=ml", playbook="reset")
    # Not of that name elsewhere, nor where the cluster could not take it back.
    assert "kubegpu_storage_class: no StorageClass is the default" in said
    assert (removed(said), has.changed) == (set(), []), said


@pytest.mark.parametrize("state", ["paused", "absent"])
def test_a_reset_is_for_what_is_to_be_there(site: Site, state: str) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS, *on_host("ml")])) as server:
        site.add("gpu1", server, kubegpu_tenants=[ML | {"state": state}])
        said = site.run("--extra-vars=kubegpu_only=ml", playbook="reset")
    assert site.code != 0
    assert "ml: reset makes a tenant again, and is for those that are listed with state present." in said
    assert (removed(said), server.changed) == (set(), [])
