# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook preflight itself, on clusters of which there is no more than an API server in memory that refuses to be written to."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.clusters import Gke
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, RUNTIME_CLASS, STORAGE, Site, kubeconfig_of_people
from ansible_collections.kubegpu.tenancy.tests.unit.served import served


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("playbook", ["preflight", "drift"])
def test_a_kubeconfig_that_is_not_there_is_named_with_its_host(site: Site, playbook: str) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as server:
        site.add("gpu1", server, kubegpu_kubeconfig="/etc/none.yml")
        said = site.run("--check", playbook=playbook)
    assert site.code != 0, said
    assert "the file /etc/none.yml, which kubegpu_kubeconfig names, does not exist on gpu1." in said


def of_people(site: Site, proxy: str) -> Path:
    """Write a kubeconfig whose cluster is reached by its proxy only; return its path."""
    return kubeconfig_of_people(
        site.folder / "people", {"server": "http://cluster.invalid:6443", "proxy-url": proxy}, {"token": "any"}
    )


def test_every_call_of_a_run_goes_by_the_proxy_with_what_the_program_gives(site: Site) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as server:
        path = of_people(site, server.address)
        site.add("dc1", server, kubegpu_kubeconfig=str(path), kubegpu_tenants=[])
        for playbook in ("preflight", "site"):
            said = site.run(playbook=playbook)
            assert site.code == 0, said
        assert server.changed == []
    # The program is there on this controller, by its whole path.
    copy = yaml.safe_load((site.folder / "dc1/here/cluster.yml").read_text())
    assert [item["name"] for kind in ("clusters", "users", "contexts") for item in copy[kind]] == ["dc1"] * 3
    assert copy["users"][0]["user"]["exec"]["command"] == f"{path.parent}/login"
    assert "is not there on the controller" not in said


def test_a_program_that_fails_is_named_by_the_run(site: Site) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as server:
        path = of_people(site, server.address)
        path.write_text(path.read_text().replace("value: admin", "value: nobody"))
        site.add("dc1", server, kubegpu_kubeconfig=str(path), kubegpu_tenants=[])
        said = site.run(playbook="preflight")
    assert site.code == 2, said
    assert "which the kubeconfig names for its credentials, ended with exit status 7: who are you" in said


def lines(said: str) -> list[str]:
    """What the run says, without the marks of its output."""
    return [line.strip(" -\"',") for line in said.splitlines()]


def test_what_is_missing_is_a_table_before_all_facts(site: Site) -> None:
    # A host without Helm, whose administrator's kubeconfig is of a user who may not do everything.
    api = Gke(version="v1.40.0-gke.1")
    api.denied = {("patch", "nodes")}
    web = {"name": "web", "trust": "high", "gpu_nodes": {"count": 1}}
    with served(api) as server:
        site.add("dc1", server, kubegpu_tenants=[web])
        said = site.run(playbook="preflight")
        assert server.changed == []
    assert site.code == 2, said
    shown = lines(said)
    problems, notes, facts = (shown.index(title) for title in ("Problems", "Notes", "The cluster"))
    assert problems < notes < facts
    told = "\n".join(shown[problems:notes])
    assert "helm version failed" in told
    assert "its user may not patch nodes." in told
    assert "kubegpu_runtime_class" in told
    # Versions that upstream does not list.
    assert "Kubernetes 1.34 to" in "\n".join(shown[notes:facts])
    assert "Kubernetes                  v1.40.0-gke.1, gke" in shown[facts:]
    # Each once: in the table.
    assert said.count("its user may not patch nodes") == 1
    assert "dc1 lacks something for its tenants, problems: " in said


def test_a_cluster_that_lacks_nothing(site: Site) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as server:
        site.add("dc1", server)
        said = site.run(playbook="preflight")
    assert site.code == 0, said
    assert "Nothing is missing." in said


@pytest.mark.parametrize(("options", "code"), [([], 2), (["--check"], 0)])
def test_a_chart_that_cannot_be_pulled_is_a_problem(site: Site, options: list[str], code: int) -> None:
    helm = '#!/bin/sh\n[ "$1" = version ] && { echo v3.19.5; exit; }\necho "Error: no such host" >&2; exit 1\n'
    (site.folder / "bin/helm").write_text(helm)
    with served(InMemoryApi([NODE, RUNTIME_CLASS, STORAGE])) as server:
        site.add("dc1", server, kubegpu_tenants=[{"name": "web", "trust": "high"}])
        said = site.run(*options, playbook="preflight")
        assert server.changed == []
    assert site.code == code, said
    assert ("no such host" in " ".join(lines(said))) == (code == 2), said


@pytest.mark.parametrize("option", ["--tags=tenants", "--skip-tags=all"])
def test_tags_that_would_leave_nothing_of_it_are_refused(site: Site, option: str) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as server:
        site.add("dc1", server)
        said = site.run(option, playbook="preflight")
    assert site.code == 2, said
    assert "It has none: run it without --tags and --skip-tags." in " ".join(said.split())
