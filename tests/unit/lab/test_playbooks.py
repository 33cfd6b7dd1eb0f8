# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's playbooks, by the clone's site.yml and cleanup.yml, beside a Docker daemon that has nothing and makes nothing."""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
# What an empty Docker answers; all else is not there.
ANSWERS: dict[str, Any] = {
    "version": {"ApiVersion": "1.41", "Version": "20.10"},
    "info": {"ServerVersion": "20.10"},
    "containers/json": [],
    "images/json": [],
    "networks": [],
    "volumes": {"Volumes": []},
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what reads; what writes is answered by 501, and noted as all requests are."""

    requests: list[tuple[str, str]]

    def do_GET(self) -> None:
        path = re.sub(r"^/(v[\d.]+/)?|\?.*$", "", self.path)
        self._answer(200 if path in ANSWERS else 404, ANSWERS.get(path, {"message": "not there"}))

    def do_POST(self) -> None:
        self._answer(501, {"message": "refused"})

    def do_DELETE(self) -> None:
        self.do_POST()

    def log_message(self, *_args: object) -> None:
        pass

    def _answer(self, code: int, content: object) -> None:
        self.requests.append((self.command, self.path))
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Machine:
    """The machine of a lab that was never made: its user's folders, and its Docker.

    :ivar asked: what Docker was asked, as method and path.
    """

    def __init__(self, folder: Path, port: int, asked: list[tuple[str, str]]) -> None:
        self.folder = folder
        self.asked = asked
        self.code = -1
        self._options = (f"--extra-vars=lab_cache={folder}/cache", "--extra-vars=lab_images=build")
        path = f"{folder}/bin:{os.environ['PATH']}"
        self._environment = os.environ | {"HOME": str(folder), "DOCKER_HOST": f"tcp://127.0.0.1:{port}", "PATH": path}

    def run(self, playbook: str, *options: str, inventory: str = "inventories/lab") -> str:
        command = ["ansible-playbook", f"{playbook}.yml", f"--inventory={inventory}", *self._options, *options]
        done = subprocess.run(command, cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=300, check=False)
        self.code = done.returncode
        return done.stdout + done.stderr


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Iterator[Machine]:
    asked: list[tuple[str, str]] = []
    handler = type("Docker", (Handler,), {"requests": asked})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Machine(tmp_path, server.server_address[1], asked)
        server.shutdown()


def test_check_mode_shows_a_lab_that_is_to_be_made_and_looks_into_none(machine: Machine) -> None:
    said = machine.run("site", "--check")
    assert machine.code == 0, said
    assert re.search(r"^ *team-ml +no cluster yet ", said, re.MULTILINE), said
    assert "TASK [kubegpu.lab.lab : Create the lab's network]" in said
    assert "TASK [kubegpu.tenancy." not in said
    assert {method for method, _path in machine.asked} == {"GET"}


def test_a_desired_state_with_a_problem_is_refused_before_a_lab_is_made(machine: Machine) -> None:
    said = machine.run("site", "--extra-vars=nvkind_workers=none")
    assert (machine.code != 0, machine.asked) == (True, []), said
    assert "in the desired state, nothing was changed: see above." in said


def test_a_failure_to_make_a_lab_is_reported_as_its_clusters(machine: Machine) -> None:
    said = machine.run("site", "--tags=lab,summary", "--extra-vars=lab_helm_version=v0.0.1")
    assert machine.code != 0
    assert "FAILED lab: Build or pull what the cache lacks: The lab cannot build helm v0.0.1: " in said, said
    assert machine.asked == []


def test_one_tenant_is_no_reason_to_touch_the_lab(machine: Machine) -> None:
    machine.run("site", "--tags=lab", "--extra-vars=kubegpu_only=web")
    machine.run("cleanup", "--tags=lab", "--extra-vars=kubegpu_only=web")
    assert (machine.code, machine.asked) == (0, [])


def test_of_a_lab_that_was_never_made_there_is_nothing_to_remove(machine: Machine) -> None:
    said = machine.run("cleanup")
    assert (machine.code, "changed=0" in said) == (0, True), said
    assert {method for method, _path in machine.asked} == {"GET"}


def test_a_lab_goes_with_what_is_in_it_and_not_by_parts(machine: Machine) -> None:
    said = machine.run("cleanup", "--tags=lab,tenants")
    assert machine.code == 0, said
    said = machine.run("cleanup", "--tags=tenants")
    assert (machine.code != 0, "its tenants go with the cluster that was made for them" in said) == (True, True), said


@pytest.mark.parametrize("playbook", ["site", "cleanup"])
def test_an_inventory_without_labs_needs_no_docker(machine: Machine, playbook: str) -> None:
    said = machine.run(playbook, "--tags=lab", inventory="inventories/existing_cluster")
    assert (machine.code, machine.asked) == (0, []), said
    assert "kubegpu_labs" not in said


def test_the_inventory_knows_the_way_into_each_lab_and_what_its_node_image_holds(machine: Machine) -> None:
    tags = {"coredns": "v1.14.1", "etcd": "3.6.16-0"}
    made = [{"Config": {"Labels": {"kubegpu.lab.component-tags": json.dumps(tags)}}}]
    # Of one lab there is no container.
    docker = machine.folder / "bin/docker"
    docker.parent.mkdir()
    docker.write_text(
        f"#!/bin/sh\n[ \"$*\" = 'inspect --type container one' ] && echo '{json.dumps(made)}' || {{ echo '[]'; exit 1; }}\n"
    )
    docker.chmod(0o755)
    (machine.folder / "group_vars").symlink_to(ROOT / "inventories/lab/group_vars")
    hosts = machine.folder / "hosts.yml"
    hosts.write_text(yaml.safe_dump({"kubegpu_labs": {"hosts": {name: {"lab_name": name} for name in ("one", "other")}}}))
    task = {
        "ansible.builtin.debug": {
            "msg": "{{ kubegpu_kubeconfig_proxy }} by {{ lab_proxy_port }}, {{ nvkind_component_tags | to_json }}"
        }
    }
    (machine.folder / "ways.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    said = machine.run(f"{machine.folder}/ways", inventory=str(hosts))
    found = dict(re.findall(r"http://127\.0\.0\.1:(\d+) by \1, (\{.*\})", said))
    assert found == {"20301": json.dumps(tags), "24226": "{}"}, said
