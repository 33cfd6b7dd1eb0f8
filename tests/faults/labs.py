# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab, the playbooks on it, and its cluster."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import HELM_ARG_SPEC, Helm
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.lifecycle import HelmRelease
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release

ROOT = Path(__file__).resolve().parents[2]
CONTROL_PLANE = "kubegpu-control-plane"
# A release of KAI Scheduler that the lab has by default, as a tenant's scheduler.
KAI = {"name": "kai", "version": "v0.13.1", "accept_hazards": ["#1103", "#1673", "end-of-support"]}
# What a host is: files but those of running programs, packages, services, kernel settings, Docker.
LISTING = r"""
of_programs=(/proc /sys /dev /run /tmp /var/log /var/tmp /var/lib/docker /var/lib/containerd /var/lib/systemd "/root/.ansible" "/home/*/.ansible")
prune=(-false); for path in "${of_programs[@]}"; do prune+=(-o -path "$path"); done
find / -xdev \( "${prune[@]}" \) -prune -o -printf '%y %m %u:%g %p %l\n'
find / -xdev \( "${prune[@]}" \) -prune -o -type f -print0 | xargs -0 sha256sum
dpkg-query --show --showformat '${Package} ${Version} ${Status}\n'
systemctl list-units --type=service --state=running --no-legend --plain | cut -d' ' -f1
systemctl list-unit-files --type=service --no-legend | awk '{print $1, $2}'
sysctl --all 2> /dev/null | grep '^fs.inotify'
docker info --format '{{.DefaultRuntime}} {{json .Runtimes}} {{json .RegistryConfig}}'
docker container ls --all --format 'container {{.Names}}'
docker network ls --format 'network {{.Name}}'
docker volume ls --format 'volume {{.Name}}'
"""


def free_ports(count: int) -> list[int]:
    """Ports of the loopback on which nothing listens, each another one."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _number in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def kill_tree(pid: int) -> None:
    """Kill a process and all that came from it: Ansible's workers have sessions of their own, and would go on."""
    os.kill(pid, signal.SIGSTOP)
    children: dict[int, list[int]] = {}
    for line in subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    doomed = [pid]
    for parent in doomed:
        doomed += children.get(parent, [])
    for each in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


class Lab:
    """The lab's inventory under another name, and the playbooks on it. As a context, it is taken down at the end, and leaves nothing."""

    def __init__(self, name: str, *options: str) -> None:
        self.name = name
        self.options = options

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        said = self.play("cleanup")
        assert (self.code, self.everything()) == (0, []), said[-6000:]

    def command(self, book: str, *args: str) -> list[str]:
        """The command of a playbook: a path in the repository without its ending, or the name of one of the collection's."""
        path = f"{book}.yml" if (ROOT / f"{book}.yml").exists() else f"playbooks/{book}.yml"
        playbook = ["ansible-playbook", path, "--inventory=inventories/lab", f"--extra-vars=lab_name={self.name}"]
        return [*playbook, *self.options, *args]

    def play(self, book: str, *args: str) -> str:
        """Run a playbook to its end; what it printed, also when it failed."""
        command = self.command(book, *args)
        # The first run on a machine builds all images, which takes two cores more than half an hour.
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600, check=False)
        self.code = done.returncode
        return done.stdout + done.stderr

    def site(self, *args: str) -> str:
        said = self.play("site", *args)
        assert self.code == 0, said[-6000:]
        return said

    def listing(self) -> list[str]:
        """What the simulated host is, a line for each file, package, service, setting and object of Docker."""
        return sorted(self.run("bash", "-c", LISTING).splitlines())

    def restore(self) -> str:
        """Run the collection's cleanup on the simulated host as on any other, which is not removed but given back."""
        said = self.play("playbooks/cleanup", "--extra-vars=kubegpu_confirm=lab")
        assert self.code == 0, said[-6000:]
        return said

    def kill_site_at(self, task: str, seconds: float, alone: bool = False) -> None:
        """Start site.yml and kill it as kill_at does."""
        self.kill_at("site", task, seconds, alone)

    def kill_at(self, book: str, task: str, seconds: float, alone: bool = False, args: Sequence[str] = ()) -> None:
        """Start a playbook and kill it without a warning, some seconds into a task.

        :arg args: of the playbook.
        :arg alone: only ansible-playbook itself, as a person's kill -9 does; its workers go on for a while.
        :raises AssertionError: where it never came to the task, or had ended by then.
        """
        said = ""
        # Otherwise Ansible names a task only once it has a result, because it may turn out to be skipped.
        environment = os.environ | {"ANSIBLE_DISPLAY_SKIPPED_HOSTS": "true"}
        with subprocess.Popen(
            self.command(book, *args), cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout
            for line in process.stdout:
                said += line
                if line.startswith("TASK [") and task in line:
                    time.sleep(seconds)
                    assert process.poll() is None, f"{book}.yml had ended {seconds} s after the task {task} began"
                    if alone:
                        process.kill()
                    else:
                        kill_tree(process.pid)
                    return
        raise AssertionError(f"{book}.yml never came to the task {task}: {said[-6000:]}")

    def kill_when(self, book: str, reached: Callable[[], bool], seconds: float) -> None:
        """Start a playbook and kill it without a warning, some seconds after something holds, such as of its cluster."""
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(self.command(book), cwd=ROOT, stdout=said, stderr=subprocess.STDOUT)
            while not reached():
                if process.poll() is not None:
                    said.seek(0)
                    raise AssertionError(f"{book}.yml ended before: {said.read()[-6000:]}")
                time.sleep(0.5)
            time.sleep(seconds)
            assert process.poll() is None, f"{book}.yml had ended {seconds} s after that"
            kill_tree(process.pid)
            process.wait()

    def run(self, *command: str) -> str:
        """Run a program on the simulated host."""
        done = subprocess.run(["docker", "exec", self.name, *command], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def everything(self) -> list[str]:
        """What Docker has of this lab."""
        found = []
        for kind, what in (
            ("container", "{{.Names}}"),
            ("network", "{{.Name}}"),
            ("volume", "{{.Name}}"),
            ("image", "{{.Repository}}"),
        ):
            options = ["--all"] if kind == "container" else []
            listing = [
                "docker",
                kind,
                "ls",
                *options,
                f"--filter=label=kubegpu.tenancy.lab={self.name}",
                f"--format={kind} {what}",
            ]
            found += subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
        return found


class Cluster:
    """A lab's cluster, for the modules' own functions to be called as the modules call them."""

    def __init__(self, lab: Lab, cache: Path, kubeconfig: str = "") -> None:
        self.lab = lab
        self.charts = cache / "charts"
        self.kubeconfig = Path(kubeconfig or f"~/.kube/kubegpu/{lab.name}/cluster.yml").expanduser()
        self.helm_binary = next(cache.glob("programs/helm-v3.*/helm"))
        self.kube = Kube.connect(kubeconfig=str(self.kubeconfig))
        self.helm = Helm(self.run_helm, str(self.helm_binary), str(self.kubeconfig))

    def run_helm(
        self, args: list[str], *, data: str | None = None, environ_update: dict[str, str] | None = None
    ) -> tuple[int, str, str]:
        environment = os.environ | (environ_update or {})
        done = subprocess.run(args, input=data, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def release(self, name: str, namespace: str) -> Release | None:
        """Return a Helm release in its last revision; None where there is none."""
        return HelmRelease(self.kube, self.helm, name, namespace).inspect()

    def on_node(self, node: str, *command: str) -> str:
        """Run a program on a node."""
        return self.lab.run("docker", "exec", node, *command)

    def objects(self, kinds: Iterable[tuple[str, str]]) -> set[tuple[str, str, str]]:
        """Kind, namespace and name of all objects of some kinds, each an API version and a kind."""
        return {
            (kind, item["metadata"].get("namespace", ""), item["metadata"]["name"])
            for api_version, kind in kinds
            for item in self.kube.list(api_version, kind)
        }

    def restart_api_server(self, seconds: float) -> threading.Timer:
        """End the API server in so many seconds; the kubelet starts it again."""
        timer = threading.Timer(seconds, self.on_node, args=(CONTROL_PLANE, "pkill", "-KILL", "kube-apiserver"))
        timer.start()
        return timer

    def wait_for_api_server(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                self.kube.list("v1", "Namespace")
                return
            except TenancyError:
                assert time.monotonic() < deadline
                time.sleep(1)


def changed(said: str) -> int:
    """How many tasks changed something, by the play recap."""
    return sum(int(count) for count in re.findall(r"changed=(\d+)", said))


def defaults(module: Any, **given: Any) -> dict[str, Any]:
    """The options of a module of this collection as Ansible would pass them, as given or with their defaults."""
    return {name: option.get("default") for name, option in (HELM_ARG_SPEC | module.ARGUMENT_SPEC).items()} | given
