# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbooks that remove things leave alone, on clusters in memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, RUNTIME_CLASS, STORAGE, Site, worked_on
from ansible_collections.kubegpu.tenancy.tests.unit.served import served
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import host_kai, on_host

ML = {"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}}
SHARED = {"name": "kai", "version": "v0.16.8"}


@pytest.fixture(name="site")
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Site(tmp_path)


def test_node_labels_and_kubeconfigs_stay_while_a_tenant_is_there(site: Site) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS, *on_host("ml")])) as server:
        site.add("gpu1", server, kubegpu_tenants=[ML])
        said = site.run("--skip-tags=tenants", "--extra-vars=kubegpu_confirm=gpu1", playbook="cleanup")
    assert site.code != 0
    assert "ml: still there, so that node labels, taints and the shared scheduler stay." in said
    assert server.changed == []
    assert (site.folder / "gpu1/here/cluster.yml").exists()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "gpu1: this removes the tenants ml with all data. To confirm, run it again with -e kubegpu_confirm=gpu1. To remove"),
        (["--extra-vars=kubegpu_confirm=gpu"], "gpu1: this removes the tenants ml with all data."),
        (["--extra-vars=kubegpu_confirm=gpu2,gpu1"], ""),
        (["--check"], ""),
        (["--extra-vars=kubegpu_only=ml"], ""),
    ],
)
def test_the_removal_of_all_tenants_is_confirmed_by_the_name_of_the_cluster(site: Site, given: list[str], problem: str) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS, *on_host("ml"), *on_host("left")])) as server:
        site.add("gpu1", server, kubegpu_tenants=[ML])
        said = site.run(*given, playbook="cleanup")
    assert problem in " ".join(said.split())
    assert ("this removes" in said) is bool(problem)
    # What is removed cannot be here, where an API server refuses to be written to.
    assert (worked_on(said) == set()) is bool(problem)
    assert not problem or server.changed == []


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        (["--extra-vars=kubegpu_only=ml"], False),
        (["--extra-vars=kubegpu_confirm=gpu1"], False),
        (["--extra-vars=kubegpu_only=ml", "--extra-vars=kubegpu_backup=optional"], True),
    ],
)
def test_no_tenant_goes_without_the_backup_that_is_required(site: Site, options: list[str], begins: bool) -> None:
    """No snapshot can be made here, where nobody runs a program in a pod."""
    with served(InMemoryApi([NODE, RUNTIME_CLASS, *on_host("ml")])) as server:
        site.add("gpu1", server, kubegpu_tenants=[ML], kubegpu_backup="required", kubegpu_backup_folder=str(site.folder / "kept"))
        said = " ".join(site.run(*options, playbook="cleanup").split())
    refused = (
        "Nothing was done to ml, because kubegpu_backup is required. To go on without a backup, add -e kubegpu_backup=optional."
    )
    assert (refused in said) is not begins, said
    assert ("Remove tenants ml" in said) is begins
    assert begins or server.changed == []


def test_no_cluster_goes_with_tenants_that_cannot_be_read_and_need_a_backup(site: Site) -> None:
    made = {"kubegpu_cluster_provider": "nvkind", "nvkind_workers": [{"count": 4}], "kubegpu_backup": "required"}
    with served(InMemoryApi([])) as server:
        site.add("gpu1", server, **made, kubegpu_tenants=[ML])
        kubeconfig = Path(site.hosts["gpu1"]["kubegpu_kubeconfig"])
        kubeconfig.write_text(kubeconfig.read_text().replace("127.0.0.1", "127.0.0.2"))
        said = " ".join(site.run("--extra-vars=kubegpu_confirm=gpu1", playbook="cleanup").split())
    assert "The tenants cannot be read, so there is no backup of them: " in said
    assert "Remove the cluster]" not in said
    assert kubeconfig.exists()


def test_a_cluster_of_others_is_not_made_anew(site: Site) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS, *on_host("ml")])) as server:
        site.add("gpu1", server, kubegpu_tenants=[ML])
        said = " ".join(site.run(playbook="renew").split())
    assert "renew is for whole clusters that site made on the inventory host." in said
    assert (site.code != 0, server.changed) == (True, [])


def test_tenants_that_cannot_be_read_are_confirmed_too_and_what_is_not_there_is_not(site: Site) -> None:
    made = {"kubegpu_cluster_provider": "nvkind", "nvkind_workers": [{"count": 4}]}
    with served(InMemoryApi([])) as server:
        site.add("gpu1", server, **made, kubegpu_tenants=[ML])
        kubeconfig = Path(site.hosts["gpu1"]["kubegpu_kubeconfig"])
        kubeconfig.write_text(kubeconfig.read_text().replace("127.0.0.1", "127.0.0.2"))
        said = " ".join(site.run("--tags=summary", playbook="cleanup").split())
        assert "gpu1: this removes all tenants of a cluster that cannot be read (" in said
        kubeconfig.unlink()
        said = site.run("--tags=summary", playbook="cleanup")
        assert "this removes" not in said
        # A confirmation of others is none for it.
        said = " ".join(site.run("--tags=summary", "--extra-vars=kubegpu_confirm=gpu2", playbook="cleanup").split())
        assert "gpu1: kubegpu_confirm does not name it, so it stays as it is." in said
        assert site.code != 0


def test_check_mode_removes_nothing_from_a_cluster_that_is_yet_to_be_made(site: Site) -> None:
    with served(InMemoryApi([])) as server:
        site.add("gpu1", server, kubegpu_cluster_provider="nvkind", nvkind_workers=[{"count": 4}], kubegpu_tenants=[ML])
        del site.hosts["gpu1"]["kubegpu_kubeconfig"]
        said = site.run("--check", "--extra-vars=kubegpu_only=ml", playbook="cleanup")
    assert site.code == 0, said
    assert "failed=0" in said
    assert "rescued=0" in said


@pytest.mark.parametrize("playbook", ["cleanup", "drift"])
def test_a_limit_names_clusters_and_leaves_them_their_tenants(site: Site, playbook: str) -> None:
    with (
        served(InMemoryApi([NODE, RUNTIME_CLASS, STORAGE, *on_host("ml")])) as server,
        served(InMemoryApi([NODE, RUNTIME_CLASS, STORAGE, *on_host("web")])) as other,
    ):
        site.add("gpu1", server, kubegpu_tenants=[ML])
        site.add("gpu2", other, kubegpu_tenants=[ML | {"name": "web"}])
        said = site.run("--limit=gpu1", "--check", playbook=playbook)
    assert worked_on(said) == {"ml"}, said


def test_of_the_kubeconfigs_only_what_was_handed_over_is_removed(site: Site) -> None:
    """Beside files of another user; where all are ours, with their folders; and where one is what the cluster was given by."""
    home = site.folder / "home"
    files = [home / name for name in ("mine/config", "mine/cluster.yml", "mine/tenants/ml.yml", "mine/tenants/left.yml")]
    files += [home / name for name in ("ours/cluster.yml", "ours/tenants/ml.yml", "given/tenants/ml.yml")]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    with (
        served(InMemoryApi([NODE, RUNTIME_CLASS, *on_host("left")])) as mine,
        served(InMemoryApi([NODE, RUNTIME_CLASS])) as server,
    ):
        server.write_kubeconfig(home / "given/cluster.yml")
        site.add("gpu1", mine, kubegpu_tenants=[], kubegpu_kubeconfig_dir="~/mine")
        site.add("gpu2", server, kubegpu_tenants=[], kubegpu_kubeconfig_dir="~/ours")
        given = str(home / "given/cluster.yml")
        site.add("gpu3", server, kubegpu_tenants=[], kubegpu_kubeconfig=given, kubegpu_kubeconfig_dir="~/given")
        said = site.run(playbook="cleanup")
    left = {str(path.relative_to(home)) for path in home.rglob("*") if not path.is_relative_to(home / ".ansible")}
    # The tenant that is not listed stays, and keeps its own.
    assert left - {".ansible"} == {
        *("mine", "mine/config", "mine/tenants", "mine/tenants/left.yml"),
        *("given", "given/cluster.yml"),
    }, said
    assert site.code == 0


def test_a_shared_scheduler_that_is_not_ours_or_in_use_stays(site: Site) -> None:
    foreign = [{**each, "metadata": each["metadata"] | {"labels": {}}} for each in host_kai()]
    used = [*host_kai(), *on_host("other", shared=True)]
    with (
        served(InMemoryApi([NODE, RUNTIME_CLASS, *foreign])) as somebodys,
        served(InMemoryApi([NODE, RUNTIME_CLASS, *used])) as ours,
    ):
        site.add("gpu1", somebodys, kubegpu_tenants=[], kubegpu_shared_scheduler=SHARED)
        site.add("gpu2", ours, kubegpu_tenants=[], kubegpu_shared_scheduler=SHARED)
        said = site.run(playbook="cleanup")
    assert (somebodys.changed, ours.changed) == ([], []), said
    failed = dict(re.findall(r"^(gpu\d) +: .*failed=(\d)", said, re.MULTILINE))
    assert failed == {"gpu1": "0", "gpu2": "1"}
    assert "is not removed, because other use it." in " ".join(said.split())


def test_a_reset_removes_nothing_that_it_does_not_make_again(site: Site) -> None:
    """What the cluster could not take back, what is listed with another state, and what has the name elsewhere."""
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as without, served(InMemoryApi([NODE, RUNTIME_CLASS, *on_host("ml")])) as has:
        site.add("gpu1", without, kubegpu_tenants=[ML])
        site.add("gpu2", has, kubegpu_tenants=[ML | {"state": "paused"}])
        site.add("gpu3", has, kubegpu_tenants=[])
        said = site.run("--extra-vars=kubegpu_only=ml", playbook="reset")
    assert site.code != 0
    assert "kubegpu_storage_class: no StorageClass is the default" in said
    assert "ml: reset makes a tenant again, and is for tenants that are listed with state present." in said
    assert (worked_on(said), has.changed) == (set(), []), said
