# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""That --tags and --skip-tags do what they ask for, or are refused, on clusters in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, RUNTIME_CLASS, STORAGE, Site, worked_on
from ansible_collections.kubegpu.tenancy.tests.unit.served import served
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import on_host

ML = {"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}}


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize(
    ("playbook", "options", "taken_up"),
    [
        ("site", ["--skip-tags=verify"], True),
        ("site", ["--skip-tags=tenants"], True),
        ("site", ["--skip-tags=tenants,verify"], False),
        ("verify", ["--tags=verify"], True),
        ("expire", ["--tags=tenants"], True),
    ],
)
def test_what_is_not_left_out_is_done(site: Site, playbook: str, options: list[str], taken_up: bool) -> None:
    objects = [NODE, RUNTIME_CLASS, STORAGE, *on_host("ml")]
    given = [{"kubegpu_temporary_tenant": ML | {"expires": "1h"}}] if playbook == "expire" else []
    for metadata in (each["metadata"] for each in objects if each["kind"] == "Namespace"):
        metadata["creationTimestamp"] = "2026-01-01T12:00:00Z"
        metadata["annotations"] |= {"kubegpu.tenancy/expires": "1h"} if given else {}
    with served(InMemoryApi(objects)) as server:
        site.add("gpu1", server, **({"kubegpu_tenants": []} | given[0] if given else {"kubegpu_tenants": [ML]}))
        said = site.run("--check", *options, playbook=playbook)
    assert worked_on(said) == ({"ml"} if taken_up else set()), said


@pytest.mark.parametrize(
    ("playbook", "options", "reason"),
    [
        (
            "site",
            ["--tags=tenant"],
            "tenant: no tag of this playbook. Did you mean tenants? It has cluster, tenants, verify, summary.",
        ),
        ("cleanup", ["--tags=lab"], "lab: no tag of this playbook."),
        ("reset", ["--skip-tags=tenants", "--extra-vars=kubegpu_only=ml"], "Run it without --skip-tags tenants"),
        *(
            (playbook, ["--skip-tags=always"], "Run it without --skip-tags always.")
            for playbook in ("site", "verify", "cleanup", "reset")
        ),
        ("site", ["--skip-tags=always", "--tags=tenants"], "Run it without --skip-tags always."),
        ("artifacts", ["--tags=images"], "images: no tag of this playbook. It has none"),
        ("render", ["--tags=files"], "files: no tag of this playbook. It has none"),
    ],
)
def test_what_would_do_nothing_is_refused(site: Site, playbook: str, options: list[str], reason: str) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as server:
        site.add("gpu1", server, kubegpu_tenants=[ML])
        said = site.run(*options, playbook=playbook)
    assert (site.code != 0, reason in " ".join(said.split())) == (True, True), said
    assert server.changed == []


def test_of_a_cluster_that_goes_as_a_whole_no_part_is_removed(site: Site) -> None:
    with served(InMemoryApi([NODE])) as server:
        site.add("gpu1", server, kubegpu_cluster_provider="nvkind", kubegpu_tenants=[ML], nvkind_workers=[{"gpus": [0]}])
        del site.hosts["gpu1"]["kubegpu_kubeconfig"]
        said = site.run("--tags=tenants", playbook="cleanup")
    assert (site.code != 0, "its tenants go with the cluster that was made for them" in said) == (True, True), said
