# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to Docker, kind and nvkind: the only file that runs their programs."""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind.plan import CLUSTER_LABEL, NVKIND_VARIABLES, nvkind_words

# What a program is to be had from.
PROGRAMS = {
    "docker": "install Docker",
    "kind": "install kind, see https://kind.sigs.k8s.io",
    "nvkind": "build it from github.com/NVIDIA/nvkind, which has no releases (known here is commit 24c190e), or use engine kind",
}

# What kind calls its network, which it makes with the first cluster and never removes.
NETWORK = "kind"

# How timeout(1) ends when it had to end its program, and when that was killed, by it or by somebody else.
_KILLED = "was killed, or did not end within {} s"
CUT_SHORT = {124: "did not end within {} s", 137: _KILLED, -9: _KILLED}


class Runner(t.Protocol):
    """What this adapter needs of an Ansible module: AnsibleModule.run_command."""

    def __call__(
        self, args: list[str], *, data: str | None = None, environ_update: dict[str, str] | None = None
    ) -> tuple[int, str, str]: ...


class Docker:
    """Verbs over the host's containers. Every method raises TenancyError with the program's own words."""

    def __init__(self, run: Runner, find: t.Callable[[str], str | None]) -> None:
        self._run = run
        self._find = find

    def program(self, name: str) -> str:
        """Where a program is."""
        path = self._find(name)
        if path is None:
            raise TenancyError(f"This host has no {name}: {PROGRAMS[name]}.")
        return path

    def _call(self, what: str, args: list[str], data: str | None = None, **environment: str) -> str:
        rc, out, err = self._run(args, data=data, environ_update={"KIND_EXPERIMENTAL_PROVIDER": "docker"} | environment)
        if rc != 0:
            raise TenancyError(
                f"{what} failed: {err.strip() or out.strip() or f'exit status {rc}'}", rc=rc, stdout=out, stderr=err
            )
        return out

    def _listed(self, label: str) -> list[str]:
        """Containers by label, running or not."""
        return self._call("docker ps", [self.program("docker"), "ps", "--all", "--quiet", "--filter", f"label={label}"]).split()

    def has_network(self) -> bool:
        """Whether there is the network that kind puts all clusters into."""
        listing = [self.program("docker"), "network", "ls", "--quiet", "--filter", f"name=^{NETWORK}$"]
        return bool(self._call("docker network ls", listing).strip())

    def remove_network(self) -> None:
        if self.has_network():
            self._call("docker network rm", [self.program("docker"), "network", "rm", NETWORK])

    def others(self, cluster: str) -> bool:
        """Whether there are nodes of other clusters."""
        return bool(set(self._listed(CLUSTER_LABEL)) - set(self._listed(f"{CLUSTER_LABEL}={cluster}")))

    def nodes(self, cluster: str) -> list[dict[str, t.Any]]:
        """The containers of a kind cluster, running or not, as docker inspect tells them."""
        listed = self._listed(f"{CLUSTER_LABEL}={cluster}")
        if not listed:
            return []
        return t.cast(
            "list[dict[str, t.Any]]",
            json.loads(self._call("docker inspect", [self.program("docker"), "inspect", "--type", "container", *listed])),
        )

    def start(self, containers: list[str]) -> None:
        self._call("docker start", [self.program("docker"), "start", *containers])

    def copy(self, container: str, source: str, place: str) -> None:
        """A host file, links followed, into a container; its directory is made first."""
        self.script(container, f"mkdir -p $(dirname {place})")
        command = [self.program("docker"), "cp", "--follow-link", source, f"{container}:{place}"]
        self._call(f"Copying {source} to {container}", command)

    def script(self, container: str, script: str, *args: str) -> str:
        """What a bash script in a container prints; it stops at the first failure."""
        command = [self.program("docker"), "exec", "--interactive", container, "bash", "-e", "-s", "--", *args]
        return self._call(f"A script in {container}", command, data=script)

    def kubectl(self, control_plane: str, *args: str) -> str:
        """kubectl as the cluster's administrator, in its control plane."""
        command = [self.program("docker"), "exec", control_plane, "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf"]
        return self._call(f"kubectl {args[0]}", [*command, "--request-timeout=10s", *args])

    def create_cluster(self, name: str, image: str | None, config: dict[str, t.Any], kubeconfig: str, timeout: int) -> None:
        """By kind.

        :arg kubeconfig: a file for kind alone, which locks it, and leaves the lock behind when it is killed.
        """
        args = [self.program("kind"), "create", "cluster", "--name", name, "--config", "-", "--kubeconfig", kubeconfig]
        self._bounded("kind create cluster", timeout, args + _image(image), data=json.dumps(config))

    def create_by_nvkind(self, name: str, image: str | None, template: str, kubeconfig: str, timeout: int) -> None:
        """By nvkind; a failure need not mean that the cluster is not there.

        :arg template: the file with the configuration.
        :arg kubeconfig: as for kind, and by environment: nvkind does not pass its flag on to the programs it runs.
        """
        args = [self.program("nvkind"), "cluster", "create", "--name", name, "--config-template", template]
        unset = ["env", *(f"--unset={variable}" for variable in NVKIND_VARIABLES)]
        # It looks for the other programs itself.
        places = dict.fromkeys(os.path.dirname(self.program(program)) for program in ("kind", "docker"))
        environment = {
            "PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), *places]),
            "KUBECONFIG": kubeconfig,
            # Of the kubectl that it runs.
            "KUBECACHEDIR": os.path.join(os.path.dirname(kubeconfig), "cache"),
        }
        try:
            self._bounded("nvkind cluster create", timeout, args + _image(image), prefix=unset, **environment)
        except TenancyError as exc:
            if exc.details["rc"] in CUT_SHORT:
                raise
            words = nvkind_words(exc.details["stderr"]) or exc.message
            raise TenancyError(f"nvkind cluster create ended with status {exc.details['rc']}: {words}", **exc.details) from exc

    def _bounded(
        self,
        what: str,
        timeout: int,
        args: list[str],
        prefix: t.Sequence[str] = (),
        data: str | None = None,
        **environment: str,
    ) -> None:
        try:
            self._call(what, [*prefix, "timeout", "--kill-after=10", str(timeout), *args], data, **environment)
        except TenancyError as exc:
            if exc.details["rc"] not in CUT_SHORT:
                raise
            end = CUT_SHORT[exc.details["rc"]].format(timeout)
            raise TenancyError(f"{what} {end}: {exc.message}", **exc.details) from exc

    def delete_cluster(self, name: str, kubeconfig: str) -> None:
        """By kind: nvkind has no such command."""
        args = [self.program("kind"), "delete", "cluster", "--name", name, "--kubeconfig", kubeconfig]
        self._call("kind delete cluster", args)

    def kubeconfig(self, name: str) -> str:
        return self._call("kind get kubeconfig", [self.program("kind"), "get", "kubeconfig", "--name", name])


def _image(image: str | None) -> list[str]:
    return ["--image", image] if image else []
