# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What playbooks refuse before they make anything, on clusters in memory, and how they say it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, RUNTIME_CLASS, Site
from ansible_collections.kubegpu.tenancy.tests.unit.served import Server, served

ML = {"name": "ml", "trust": "high", "scheduler": {"name": "kai", "version": "v0.16.8"}}
WEB = {"name": "web", "trust": "high"}
HPC = {"name": "hpc", "trust": "high", "scheduler": {"name": "volcano", "version": "1.10.0"}}


@pytest.fixture(name="server")
def _server() -> Iterator[Server]:
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as server:
        yield server


@pytest.fixture(name="site")
def _site(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    site = Site(tmp_path)
    site.add("gpu1", server, kubegpu_tenants=[ML, WEB])
    site.add("gpu2", server, kubegpu_tenants=[ML, HPC])
    return site


def rehearse(site: Site, *options: str, **variables: object) -> str:
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    sides = {"rehearsal_baseline": {"version": "v0.13.1"}, "rehearsal_candidate": {"version": "v0.16.8"}}
    where = {"rehearsal_kubeconfig": str(site.folder / "gpu1/cluster.yml")} | sides | here
    inventory = site.folder / "rehearsal.json"
    inventory.write_text(json.dumps({"kubegpu_rehearsals": {"hosts": {"rehearsal": where}}}))
    given = f"--extra-vars={json.dumps(variables)}"
    return " ".join(site.run(f"--inventory={inventory}", given, *options, playbook="rehearse").split())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("team-mll", "no tenant is called team-mll. Write one of gpu1/ml, gpu1/web, gpu2/ml, gpu2/hpc."),
        ("gpu2/web", "no tenant is called gpu2/web. Write one of gpu1/ml, gpu1/web, gpu2/ml, gpu2/hpc."),
        ("ml", "several tenants are called ml. Write one of gpu1/ml, gpu2/ml."),
        # Which it has to find first.
        ("gpu1/web", "gpu1/web has no KAI Scheduler that runs."),
        ("gpu2/hpc", "gpu2/hpc has no KAI Scheduler that runs."),
    ],
)
def test_a_name_that_is_no_tenants_or_several_is_refused(site: Site, server: Server, name: str, said: str) -> None:
    printed = rehearse(site, rehearsal_tenant=name)
    assert said in printed, printed[-3000:]
    assert (site.code, server.changed) == (2, [])


@pytest.mark.parametrize("limit", ["gpu1", "gpu1,gpu2", "all:!rehearsal"])
def test_a_limit_without_the_rehearsals_host_is_refused(site: Site, server: Server, limit: str) -> None:
    printed = rehearse(site, f"--limit={limit}", rehearsal_tenant="gpu1/ml")
    assert "No inventory host of the group kubegpu_rehearsals is in this run" in printed, printed[-3000:]
    assert (site.code, server.changed) == (2, [])


def test_a_tenant_whose_cluster_is_left_out_is_not_rehearsed_as_something_else(site: Site, server: Server) -> None:
    printed = rehearse(site, "--limit=rehearsal", rehearsal_tenant="ml")
    assert "nothing was recorded of ml. Its cluster has to be in the group kubegpu_clusters" in printed
    assert (site.code, server.changed) == (2, [])


def test_rounds_that_cannot_be_played_are_refused(site: Site, server: Server) -> None:
    variables = {"rehearsal_rounds": 0, "rehearsal_speed": 0, "rehearsal_rounds_timeout": -1}
    printed = rehearse(site, "--limit=rehearsal", rehearsal_keep=True, **variables)
    for said in (
        "rounds: must be at least 1, not 0.",
        "speed: must be at least 0.001, not 0.0.",
        "timeout: must be at least 1, not -1.",
    ):
        assert said in printed, printed[-3000:]
    assert (site.code, server.changed) == (2, [])


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"rehearsal_thresholds": {"bind_p96": {"ratio": 1}}}, "thresholds.bind_p96: is no measure."),
        ({"rehearsal_candidate": {"version": "v0.16.8", "valuse": {}}}, "valuse"),
    ],
)
def test_a_change_that_cannot_be_judged_is_refused_before_it_is_played(
    site: Site, server: Server, variables: dict[str, object], said: str
) -> None:
    # Tags leave no part of a rehearsal out.
    printed = rehearse(site, "--limit=rehearsal", "--tags=verify", rehearsal_keep=True, **variables)
    assert said in printed, printed[-3000:]
    assert (site.code, server.changed) == (2, [])


def test_a_problem_of_the_desired_state_is_printed_once(site: Site, server: Server) -> None:
    site.hosts["gpu1"]["kubegpu_tenants"] = [ML, WEB | {"trust": "hihg", "queue": []}]
    for playbook, options in (("site", []), ("drift", ["--check"])):
        said = " ".join(site.run("--limit=gpu1,*/*", *options, playbook=playbook).split())
        for problem in ("kubegpu_tenants[1] (web).trust: 'hihg' is not one of", "kubegpu_tenants[1] (web).queue: unknown key."):
            assert said.count(problem) == 1, said
        assert "2 problems in the desired state, nothing was changed: see above." in said
        assert (site.code, server.changed) == (4 if options else 2, [])


@pytest.mark.parametrize("problems", [1, 2])
def test_each_problem_of_the_desired_state_is_printed_on_one_line_however_long(site: Site, problems: int) -> None:
    tenants = [{"name": f"t{number}", "trust": "zero"} for number in range(problems)]
    site.hosts = {"gpu1": site.hosts["gpu1"] | {"kubegpu_tenants": tenants}}
    printed = site.run(playbook="site").splitlines()
    found = [line for line in printed if "needs GPU nodes of its own" in line and "strictest trust." in line]
    assert len(found) == problems, "\n".join(printed)
