# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rulebook of the ops repository in the real ansible-rulebook: which alerts it answers, and for which cluster.

In a copy of the repository, ci/drift and site.yml only record that they ran.
"""

from __future__ import annotations

import http
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.tests.faults.labs import free_ports

REPO = Path(__file__).parents[2] / "examples/ops-repo"
TOKEN = "token-of-the-test"
CLUSTER = "gpu1.example"
# Seconds for Java to start, and for an answer.
START, ANSWER = 120, 120
DRIFT = """#!/bin/sh
echo "drift $*" >> answers
exit 2
"""
SITE = [
    {
        "name": "Record that it ran",
        "hosts": "kubegpu_clusters",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Record it",
                "delegate_to": "localhost",
                "connection": "local",
                "become": False,
                "ansible.builtin.shell": "echo site {{ inventory_hostname }} >> {{ playbook_dir }}/answers",
            }
        ],
    }
]


@pytest.fixture(name="repo")
def _repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    shutil.copytree(REPO, folder, ignore=shutil.ignore_patterns("collections", ".ansible"))
    (folder / "ci/drift").write_text(DRIFT)
    (folder / "site.yml").write_text(yaml.safe_dump(SITE))
    return folder


@contextmanager
def listening(repo: Path, repair: str) -> Iterator[int]:
    """Run the rulebook, and yield the port on which it listens."""
    book = repo / "schedule/rulebook.yml"
    rules = yaml.safe_load(book.read_text())
    (port,) = free_ports(1)
    rules[0]["sources"][0]["eda.builtin.webhook"]["port"] = port
    book.write_text(yaml.safe_dump(rules))
    command = ["ansible-rulebook", "--rulebook=schedule/rulebook.yml", "--inventory=schedule/localhost.yml"]
    command += ["--env-vars=WEBHOOK_TOKEN,REPAIR,PWD", "--verbose"]
    settings = {"WEBHOOK_TOKEN": TOKEN, "REPAIR": repair, "PWD": str(repo), "ANSIBLE_INVENTORY": "inventories/production"}
    settings |= {"VAULT_PASSWORD": "example"}
    with (
        (repo / "log").open("w") as log,
        subprocess.Popen(command, cwd=repo, env=os.environ | settings, stdout=log, stderr=log) as process,
    ):
        try:
            wait(lambda: answers_at(port), START, repo)
            yield port
        finally:
            process.terminate()


def answers_at(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def wait(there: Any, seconds: float, repo: Path) -> None:
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, (repo / "log").read_text()[-6000:]
        time.sleep(0.5)


def alert(port: int, cluster: str, status: str = "firing", token: str = TOKEN) -> int:
    """Send an alert in the form of Alertmanager's webhook; return the status of the answer."""
    labels = {"alertname": "KubegpuDriftFound", "cluster": cluster}
    body = {"version": "4", "status": status, "commonLabels": labels, "alerts": [{"status": status, "labels": labels}]}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/endpoint", json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            code: int = answer.status
            return code
    except urllib.error.HTTPError as exc:
        return exc.code


def answered(repo: Path) -> list[str]:
    path = repo / "answers"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(("repair", "expected"), [("", []), ("repair", [f"site {CLUSTER}"])])
def test_an_alert_is_answered_for_its_cluster_alone(repo: Path, repair: str, expected: list[str]) -> None:
    with listening(repo, repair) as port:
        assert alert(port, CLUSTER, token="another") == http.HTTPStatus.UNAUTHORIZED
        # An action is run after the one before it, so that these have ended when the last one is answered.
        for refused in ("all", "kubegpu_clusters", "gpu1.example,all", "{{ lookup('pipe', 'touch executed') }}"):
            assert alert(port, refused) == http.HTTPStatus.OK
        assert alert(port, CLUSTER, status="resolved") == http.HTTPStatus.OK
        for _again in range(2):
            assert alert(port, CLUSTER) == http.HTTPStatus.OK
        wait(lambda: len(answered(repo)) > len(expected), ANSWER, repo)
    assert answered(repo) == [f"drift --limit {CLUSTER}", *expected]
    assert list(repo.rglob("executed")) == []
    assert "all is no cluster of the inventory" in (repo / "log").read_text()
