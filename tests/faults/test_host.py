# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cleanup.yml gives back of a GPU host, also after a site.yml that was killed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab

VARIABLES = {
    "lab_gpus": 2,
    "nvkind_workers": [{"gpus": [0, 1]}],
    "kubegpu_tenants": [{"name": "web", "trust": "high", "vcluster": {"kubernetes_version": "v1.35.4"}}],
}
KILLED_AT = [
    ("Add the runtime to Docker", 0.5),
    ("nvkind : Make the cluster", 8),
    ("nvkind : Make the cluster", 30),
    ("Work on tenants", 5),
]


@pytest.fixture(scope="module")
def host() -> Iterator[tuple[Lab, list[str]]]:
    """A host on which nothing was done yet, with what it is then."""
    with Lab("kubegpu-faults-host", f"--extra-vars={json.dumps(VARIABLES)}") as lab:
        lab.site("--tags=lab")
        yield lab, lab.listing()


def compare(lab: Lab, before: list[str]) -> None:
    after = lab.listing()
    assert sorted(set(after) ^ set(before)) == []


@pytest.mark.parametrize(("task", "seconds"), KILLED_AT)
def test_a_run_that_was_killed_is_undone(host: tuple[Lab, list[str]], task: str, seconds: float) -> None:
    lab, before = host
    lab.kill_site_at(task, seconds)
    lab.restore()
    compare(lab, before)


def test_a_whole_run_is_undone_and_undoing_it_again_changes_nothing(host: tuple[Lab, list[str]]) -> None:
    lab, before = host
    lab.site()
    assert lab.listing() != before
    lab.restore()
    compare(lab, before)
    assert "changed=0" in lab.restore()
