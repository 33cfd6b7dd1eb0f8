# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cleanup.yml gives back of a GPU host, also after a site.yml that was killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.tests.faults.labs import CONTROL_PLANE, Lab

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
# No program listens there, so that whatever asks it for an address of the host itself fails.
PROXY = "http://10.255.255.1:9"
NO_PROXY = "127.0.0.1,localhost,10.255.255.1,172.16.0.0/12"
USER, PASSWORD = "deploy", "correct horse"
# As docs/how-to/gpu-host.md says.
ACCOUNT = f"""
useradd --create-home --shell /bin/bash {USER}
echo '{USER}:{PASSWORD}' | chpasswd
echo '{USER} ALL=(ALL) ALL' > /etc/sudoers.d/{USER}
echo 'Defaults env_file=/etc/environment' > /etc/sudoers.d/environment
printf '%s\\n' https_proxy={PROXY} HTTPS_PROXY={PROXY} no_proxy={NO_PROXY} NO_PROXY={NO_PROXY} > /etc/environment
"""


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


def test_a_user_with_sudo_and_a_password_makes_a_cluster_behind_a_proxy(host: tuple[Lab, list[str]], tmp_path: Path) -> None:
    lab, _before = host
    lab.run("bash", "-euc", ACCOUNT)
    before = lab.listing()
    variables = {"ansible_user": USER, "ansible_become": True, "ansible_become_password": PASSWORD}
    inventory = tmp_path / "user.yml"
    inventory.write_text(yaml.safe_dump({"kubegpu_labs": {"hosts": {"lab": variables}}}))
    user = Lab(lab.name, *lab.options, f"--inventory={inventory}")
    said = user.play("playbooks/site")
    assert user.code == 0, said[-6000:]
    assert PASSWORD not in said
    # Its nodes pull by the proxy, and Kubernetes' own addresses are left out of it.
    environment = json.loads(lab.run("docker", "inspect", "--format", "{{json .Config.Env}}", CONTROL_PLANE))
    assert f"HTTPS_PROXY={PROXY}" in environment
    (bypassed,) = [item for item in environment if item.startswith("NO_PROXY=")]
    assert {*NO_PROXY.split(","), ".svc", CONTROL_PLANE} <= set(bypassed.removeprefix("NO_PROXY=").split(","))
    assert lab.run("stat", "--format", "%U %a", "/etc/kubegpu/kubegpu/cluster.yml").split() == ["root", "600"]
    user.restore()
    compare(lab, before)
