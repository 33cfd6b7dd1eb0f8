# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks themselves, on clusters of which there is no more than an API server in memory that refuses to be written to."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.kubegpu.tenancy.tests.unit.served import Server

ROOT = Path(__file__).parents[2]
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "w1", "labels": {}},
    "spec": {},
    "status": {"capacity": {"nvidia.com/gpu": "4"}, "allocatable": {"nvidia.com/gpu": "4"}},
}
RUNTIME_CLASS = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"}
STORAGE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "example.com/disk",
}
GONE = {"name": "gone", "trust": "high", "state": "absent"}


def tasks_in(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the plays and tasks of a file, the ones in blocks included."""
    for item in content if isinstance(content, list) else [content]:
        if isinstance(item, dict):
            yield item
            for key in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"):
                yield from tasks_in(item.get(key, []))


def worked_on(said: str) -> set[str]:
    """Return the tenants that a run came to work on, the removed ones among them."""
    lists = re.findall(r"^TASK \[(?:[^\]]*: )?(?:Work on|Remove) tenants ([^\]]+)\]", said, re.MULTILINE)
    return {name for listed in lists for name in listed.split(", ")}


class Site:
    """An inventory with a host for each cluster.

    :ivar code: exit status of the last run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts: dict[str, dict[str, Any]] = {}
        self.code = -1
        # Nothing is installed with it, and so nothing is asked of it.
        helm = folder / "bin/helm"
        helm.parent.mkdir()
        helm.write_text("#!/bin/sh\nexit 1\n")
        helm.chmod(0o755)

    def add(self, name: str, server: Server | None, **variables: Any) -> None:
        """Have a cluster; without a server, one whose host is not reached."""
        path, here = self.folder / name / "cluster.yml", self.folder / name / "here"
        if server:
            server.write_kubeconfig(path)
            server.write_kubeconfig(here / "cluster.yml")
        common = {
            "ansible_connection": "local" if server else "ssh",
            "ansible_host": "127.0.0.1",
            "ansible_port": 1,
            "ansible_python_interpreter": sys.executable,
            "kubegpu_cluster_provider": "existing",
            "kubegpu_kubeconfig": str(path),
            "kubegpu_kubeconfig_dir": str(here),
            "kubegpu_tenants": [GONE],
        }
        self.hosts[name] = common | variables

    @property
    def environment(self) -> dict[str, str]:
        """The environment of ansible-playbook."""
        found = os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_SSH_TIMEOUT": "5"}
        return found | {"PATH": f"{self.folder / 'bin'}:{found['PATH']}"}

    def write(self) -> Path:
        """Write the inventory, and return its path."""
        inventory = self.folder / "hosts.json"
        inventory.write_text(json.dumps({"kubegpu_clusters": {"hosts": self.hosts}}))
        return inventory

    def run(self, *options: str, playbook: str = "drift") -> str:
        command = ["ansible-playbook", str(ROOT / f"playbooks/{playbook}.yml"), f"--inventory={self.write()}", *options]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=600, check=False)
        self.code = done.returncode
        return done.stdout + done.stderr


LOGIN = """#!/bin/sh
[ "$WHO $*" = "admin token --cluster dc1" ] || { echo "who are you" >&2; exit 7; }
cat "$(dirname "$0")/credential.json"
"""


def kubeconfig_of_people(folder: Path, cluster: dict[str, str], credential: dict[str, str]) -> Path:
    """Write a kubeconfig as providers give them: with a program for its credentials, and another context first; return its path.

    :arg cluster: of the current context, ``dc1``.
    :arg credential: what the program gives, as the status of an ExecCredential.
    """
    folder.mkdir(exist_ok=True)
    api_version = "client.authentication.k8s.io/v1"
    (folder / "credential.json").write_text(
        json.dumps({"kind": "ExecCredential", "apiVersion": api_version, "status": credential})
    )
    (folder / "login").write_text(LOGIN)
    (folder / "login").chmod(0o755)
    program = {"apiVersion": api_version, "command": "./login", "args": ["token", "--cluster", "dc1"], "interactiveMode": "Never"}
    program |= {"env": [{"name": "WHO", "value": "admin"}]}
    clusters = {"another": {"server": "http://127.0.0.1:1"}, "dc1": cluster}
    users = {"another": {"token": "of-another"}, "dc1": {"exec": program}}
    config = {
        "clusters": [{"name": name, "cluster": item} for name, item in clusters.items()],
        "users": [{"name": name, "user": item} for name, item in users.items()],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in clusters],
        "current-context": "dc1",
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return path
