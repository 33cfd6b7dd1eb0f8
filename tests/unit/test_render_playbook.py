# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook render, on a cluster in memory that refuses to be written to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, RUNTIME_CLASS, STORAGE, Site
from ansible_collections.kubegpu.tenancy.tests.unit.served import Server, served

WEB = {"name": "web", "trust": "high"}
CPU = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "w2", "labels": {}},
    "spec": {},
    "status": {"capacity": {}, "allocatable": {}},
}
# Each chart makes nothing.
HELM = '#!/bin/sh\n[ "$1" = template ] || echo v3.19.5\n'


@pytest.fixture(name="server")
def _server() -> Iterator[Server]:
    with served(InMemoryApi([NODE, CPU, RUNTIME_CLASS, STORAGE])) as server:
        yield server


@pytest.fixture(name="site")
def _site(tmp_path: Path, server: Server) -> Site:
    site = Site(tmp_path)
    (tmp_path / "bin/helm").write_text(HELM)
    site.add("gpu1", server, kubegpu_tenants=[WEB, WEB | {"name": "batch"}])
    return site


def listing(site: Site) -> list[str]:
    folder = site.folder / "clusters"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.yaml"))


def of_tenants(*names: str) -> list[str]:
    files = ("kustomization.yaml", "namespace.yaml", "policies.yaml", "virtual-cluster.yaml")
    return [f"gpu1/{name}/{file}" for name in sorted(names) for file in files]


def test_files_are_written_once_and_follow_the_inventory(site: Site, server: Server) -> None:
    dest = f"--extra-vars=render_dest={site.folder}/clusters"
    said = site.run("--check", "--diff", dest, playbook="render")
    assert (site.code, listing(site)) == (0, []), said
    assert "+  name: tenant-web" in said
    assert "8 would change" in said

    said = site.run(dest, playbook="render")
    assert (site.code, listing(site)) == (0, of_tenants("web", "batch")), said
    said = site.run(dest, playbook="render")
    assert (site.code, "changed=0" in said, "0 changed" in said) == (0, True, True), said

    site.hosts["gpu1"]["kubegpu_tenants"] = [WEB | {"trust": "partial"}, {"name": "new", "trust": "high"}]
    site.run(dest, "--extra-vars=kubegpu_only=new", playbook="render")
    assert listing(site) == of_tenants("web", "batch", "new")
    site.run(dest, playbook="render")
    assert listing(site) == of_tenants("web", "new")
    assert "kubegpu.tenancy/trust: partial" in (site.folder / "clusters/gpu1/web/namespace.yaml").read_text()
    assert server.changed == []


def test_what_no_file_can_say_is_refused_before_anything_is_written(site: Site, server: Server) -> None:
    site.hosts["gpu1"]["kubegpu_tenants"] = [WEB, {"name": "idle", "trust": "high", "state": "paused"}]
    said = " ".join(site.run(f"--extra-vars=render_dest={site.folder}/clusters", playbook="render").split())
    assert "idle: state: the next upgrade of its chart would start a paused tenant." in said
    assert (site.code, listing(site), server.changed) == (2, [], []), said


def test_a_run_without_a_folder_or_a_cluster_is_refused(site: Site) -> None:
    said = " ".join(site.run(playbook="render").split())
    assert "Name a folder of the controller for the files: -e render_dest=FOLDER" in said
    assert site.code == 2
    site.hosts["gpu1"]["kubegpu_kubeconfig"] = str(site.folder / "gone.yml")
    said = " ".join(site.run(f"--extra-vars=render_dest={site.folder}/clusters", playbook="render").split())
    assert f"the file {site.folder}/gone.yml, which kubegpu_kubeconfig names, does not exist on gpu1." in said
    assert (site.code, listing(site)) == (2, []), said
