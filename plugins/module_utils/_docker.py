# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to Docker and kind: the only file that runs their programs, and Docker's service."""

from __future__ import annotations

import json
import os
import tempfile
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind import CLUSTER_LABEL

# dockerd is where only root's PATH leads.
PATH = "/usr/local/sbin:/usr/sbin:/sbin"
# Seconds for what only asks.
QUESTION = 30
# What timeout(1) exits with when there is no such program.
NOT_FOUND = 127
# What timeout(1) exits with when it had to end, or kill, its program.
TIMED_OUT = (124, 137)


class Runner(t.Protocol):
    """What this adapter needs of an Ansible module: AnsibleModule.run_command."""

    def __call__(
        self, args: list[str], *, data: str | None = None, environ_update: dict[str, str] | None = None
    ) -> tuple[int, str, str]: ...


class Docker:
    """Verbs over the host's containers. Every method raises TenancyError with the program's own words."""

    def __init__(self, run: Runner, docker: str = "docker", kind: str = "kind") -> None:
        self._run = run
        self._docker = docker
        self._kind = kind

    def _call(self, what: str, args: list[str], data: str | None = None) -> str:
        rc, out, err = self._run(args, data=data, environ_update={"KIND_EXPERIMENTAL_PROVIDER": "docker"})
        if rc != 0:
            raise TenancyError(
                f"{what} failed: {err.strip() or out.strip() or f'exit status {rc}'}", rc=rc, stdout=out, stderr=err
            )
        return out

    def nodes(self, cluster: str) -> list[dict[str, t.Any]]:
        """The containers of a kind cluster, running or not, as docker inspect tells them."""
        listed = self._call(
            "docker ps", [self._docker, "ps", "--all", "--quiet", "--filter", f"label={CLUSTER_LABEL}={cluster}"]
        ).split()
        if not listed:
            return []
        return t.cast(
            "list[dict[str, t.Any]]",
            json.loads(self._call("docker inspect", [self._docker, "inspect", "--type", "container", *listed])),
        )

    def start(self, containers: list[str]) -> None:
        self._call("docker start", [self._docker, "start", *containers])

    def copy(self, container: str, source: str, place: str) -> None:
        """A host file, links followed, into a container; its directory is made first."""
        self.script(container, f"mkdir -p $(dirname {place})")
        self._call(f"Copying {source} to {container}", [self._docker, "cp", "--follow-link", source, f"{container}:{place}"])

    def script(self, container: str, script: str, *args: str) -> str:
        """What a bash script in a container prints; it stops at the first failure."""
        command = [self._docker, "exec", "--interactive", container, "bash", "-e", "-s", "--", *args]
        return self._call(f"A script in {container}", command, data=script)

    def kubectl(self, control_plane: str, *args: str) -> str:
        """kubectl as the cluster's administrator, in its control plane."""
        command = [self._docker, "exec", control_plane, "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf"]
        return self._call(f"kubectl {args[0]}", [*command, "--request-timeout=10s", *args])

    def create_cluster(self, name: str, image: str | None, config: dict[str, t.Any], kubeconfig: str, timeout: int) -> None:
        args = [self._kind, "create", "cluster", "--name", name, "--config", "-", "--kubeconfig", kubeconfig]
        bounded = ["timeout", "--kill-after=10", str(timeout), *args, *(["--image", image] if image else [])]
        try:
            self._call("kind create cluster", bounded, data=json.dumps(config))
        except TenancyError as exc:
            if exc.details.get("rc") not in TIMED_OUT:
                raise
            raise TenancyError(f"kind create cluster did not end within {timeout} s: {exc.message}", **exc.details) from exc

    def delete_cluster(self, name: str, kubeconfig: str) -> None:
        self._call("kind delete cluster", [self._kind, "delete", "cluster", "--name", name, "--kubeconfig", kubeconfig])

    def kubeconfig(self, name: str) -> str:
        return self._call("kind get kubeconfig", [self._kind, "get", "kubeconfig", "--name", name])


class Engine:
    """Verbs over the host's Docker itself, as a service of systemd."""

    def __init__(self, run: Runner, timeout: int) -> None:
        self._run = run
        self._timeout = timeout

    def _call(self, args: list[str], timeout: int = QUESTION) -> tuple[int, str, str]:
        path = f"{os.environ.get('PATH', os.defpath)}:{PATH}"
        return self._run(["timeout", "--kill-after=10", str(timeout), *args], environ_update={"PATH": path, "LC_ALL": "C"})

    def info(self) -> dict[str, t.Any] | None:
        """What Docker runs with; None when it does not answer."""
        rc, out, _err = self._call(["docker", "info", "--format", "{{json .}}"])
        found = json.loads(out) if rc == 0 else {}
        # Without the server some releases tell about the client only, and succeed.
        return found if "Runtimes" in found and not found.get("ServerErrors") else None

    def containers(self) -> list[str]:
        """The names of those that run."""
        rc, out, err = self._call(["docker", "ps", "--format", "{{.Names}}"])
        if rc != 0:
            raise TenancyError(f"docker ps failed: {err.strip()}")
        return sorted(out.split())

    def validate(self, content: bytes, name: str) -> None:
        """Have dockerd check a configuration before it becomes the real one, if it can.

        :arg name: how the message calls the file.
        """
        with tempfile.NamedTemporaryFile(suffix=".json") as stream:
            stream.write(content)
            stream.flush()
            rc, out, err = self._call(["dockerd", "--validate", "--config-file", stream.name])
            said = (err.strip() or out.strip()).replace(stream.name, name)
        # Docker learnt this in 23.0.
        if rc not in (0, NOT_FOUND) and "unknown flag: --validate" not in said:
            raise TenancyError(f"dockerd refuses what {name} would become, so it is left as it is: {said}")

    def failed(self) -> bool:
        """Whether the service ended by itself; one that somebody stopped did not."""
        _rc, out, _err = self._call(["systemctl", "is-active", "docker"])
        return out.strip() in ("failed", "activating")

    def reload(self) -> None:
        self._service("reload")

    def restart(self) -> None:
        # A few starts in a short time, and systemd refuses the next.
        self._call(["systemctl", "reset-failed", "docker.service", "docker.socket"])
        self._service("restart")

    def _service(self, verb: str) -> None:
        rc, out, err = self._call(["systemctl", verb, "docker"], self._timeout)
        if rc != 0:
            raise TenancyError(f"systemctl {verb} docker failed: {err.strip() or out.strip() or f'exit status {rc}'}")

    def words(self) -> str:
        """The last that Docker said."""
        for args in (
            ["journalctl", "--unit=docker", "--lines=20", "--output=cat", "--no-pager"],
            ["systemctl", "status", "docker", "--lines=20", "--no-pager"],
        ):
            _rc, out, _err = self._call(args)
            if out.strip():
                return out.strip()
        return "nothing"
