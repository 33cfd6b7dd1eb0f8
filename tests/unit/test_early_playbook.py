# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook site refuses before any work, on a cluster in memory."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, RUNTIME_CLASS, STORAGE, Site
from ansible_collections.kubegpu.tenancy.tests.unit.served import served


def test_a_tenant_without_nodes_is_refused_on_a_cluster_that_was_not_made_here(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (tmp_path / "bin/helm").write_text("#!/bin/sh\necho v3.19.5\n")
    tenants = [{"name": name, "trust": "high", "gpu_nodes": {"count": 1}} for name in ("a", "b")]
    with served(InMemoryApi([NODE, RUNTIME_CLASS, STORAGE])) as server:
        site.add("gpu1", server, kubegpu_tenants=tenants)
        said = " ".join(site.run(playbook="site").split())
    assert (
        "FAILED gpu1: Refuse what the cluster cannot give its tenants: kubegpu_tenants[1] (b).gpu_nodes.count: b needs 1 nodes"
        in said
    ), said
    assert (site.code != 0, server.changed) == (True, [])


def test_a_release_without_support_that_does_not_run_is_refused_once(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (tmp_path / "bin/helm").write_text("#!/bin/sh\necho v3.19.5\n")
    old = {"name": "kai", "version": "v0.13.1", "accept_hazards": ["#1103", "#1673"]}
    with served(InMemoryApi([NODE, RUNTIME_CLASS, STORAGE])) as server:
        site.add("gpu1", server, kubegpu_tenants=[{"name": "a", "trust": "high", "gpu_nodes": {"count": 1}, "scheduler": old}])
        said = " ".join(site.run(playbook="site").split())
    assert said.count("kubegpu_tenants[0] (a).scheduler.version: ") == 1, said
    assert "1 problem in the desired state: see above." in said
    assert (site.code != 0, server.changed) == (True, [])


def test_a_cluster_that_is_half_made_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """Docker answers nothing here, as where nodes are not ready yet: what the cluster lacks is found out when its turn comes."""
    site = Site(tmp_path)
    for name, body in (("helm", "echo v3.19.5"), ("docker", "exit 1"), ("nvidia-smi", "exit 1")):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    made = {"kubegpu_cluster_provider": "nvkind", "nvkind_workers": [{"count": 1}]}
    node = NODE | {"status": {"capacity": {}, "allocatable": {}}}
    with served(InMemoryApi([node, RUNTIME_CLASS, STORAGE])) as server:
        site.add("gpu1", server, **made, kubegpu_tenants=[{"name": "a", "trust": "high", "gpu_nodes": {"count": 1}}])
        said = site.run("--check", playbook="site")
    (failure,) = [line for line in said.splitlines() if line.strip().startswith("FAILED gpu1")]
    assert failure.strip().startswith("FAILED gpu1: Refuse what is known not to work: nvidia-smi does not run"), said


def test_why_a_host_is_not_reached_is_said(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("gpu1", None)
    said = " ".join(site.run(playbook="site").split())
    assert "Failed to connect to the host via ssh: ssh: connect to host 127.0.0.1 port 1: Connection refused" in said
    assert site.code == 4
