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

from .._common.documents import Unreadable, parse_json
from .._common.errors import CommandFailed, TenancyError
from .._common.text import shown
from .nvkind_output import nvkind_error
from .programs import CUT_SHORT, Programs, last_lines

# kind v0.33.0, pkg/cluster/internal/providers/docker/constants.go.
CLUSTER_LABEL = "io.x-k8s.kind.cluster"
# Variables that must not reach nvkind, as of commit 24c190e. All but the last set its flags (cmd/nvkind/cluster_create.go), and
# KIND_CLUSTER_RETAIN sets two at once, which no value suits. With the last, `kind get nodes` prints a line more, of which nvkind
# takes every word for a node.
NVKIND_VARIABLES = (
    "KIND_CLUSTER_NAME",
    "KIND_CLUSTER_IMAGE",
    "KIND_CLUSTER_RETAIN",
    "KIND_CLUSTER_CONFIG_TEMPLATE",
    "KIND_CLUSTER_CONFIG_VALUES",
    "NVKIND_SKIP_GPU_SETUP",
    "KIND_EXPERIMENTAL_PROVIDER",
)
# How to get a program that is missing.
PROGRAMS = {
    "docker": "install Docker",
    "kind": "install kind, see https://kind.sigs.k8s.io",
    "nvkind": "build it from github.com/NVIDIA/nvkind, which has no releases (known here is commit 24c190e), or use engine kind",
}

# Script of the host with a file and a command, which gets the file as its input, and the file's mode and size as its last arguments.
_SEND = 'seen=$(stat --dereference --format "%a %s" "$0") && exec "$@" $seen <"$0"'
# Script of a container with a place, and the mode and the size of its input. Where docker is killed, the input ends early.
_WRITE = """trap 'rm -f "$1.new"' EXIT
mkdir -p "$(dirname "$1")"
cat >"$1.new"
[[ $(stat --format %s "$1.new") == "$3" ]] || { echo "it arrived in part" >&2; exit 1; }
chmod "$2" "$1.new"
mv --no-target-directory "$1.new" "$1"
"""
# How a program ended that took longer than it may; the other exit statuses of CUT_SHORT mean that it was killed.
_LATE = 124


class Docker(Programs):
    """Verbs over the host's containers. Every method raises TenancyError with the program's error message."""

    def program(self, name: str) -> str:
        """Return the path of a program.

        :raises TenancyError: when the host does not have it, with how to get it.
        """
        path = self._find(name)
        if path is None:
            raise TenancyError(f"This host has no {name}: {PROGRAMS[name]}.")
        return path

    def _call(self, what: str, args: list[str], data: str | None = None, **environment: str) -> str:
        rc, out, err = self._run(args, data=data, environ_update={"KIND_EXPERIMENTAL_PROVIDER": "docker"} | environment)
        if rc != 0:
            said, printed = last_lines(err), last_lines(out)
            message = said.strip() or printed.strip() or f"exit status {rc}"
            raise CommandFailed(f"{what} failed: {message}", rc=rc, stdout=printed, stderr=said)
        return out

    def _listed(self, label: str) -> list[str]:
        """Return the IDs of containers by label, running or not."""
        return self._call("docker ps", [self.program("docker"), "ps", "--all", "--quiet", "--filter", f"label={label}"]).split()

    def has_network(self, name: str) -> bool:
        """Tell whether Docker has a network."""
        listing = [self.program("docker"), "network", "ls", "--quiet", "--filter", f"name=^{name}$"]
        return bool(self._call("docker network ls", listing).strip())

    def remove_network(self, name: str) -> None:
        """Remove a network, if there is one."""
        if self.has_network(name):
            self._call("docker network rm", [self.program("docker"), "network", "rm", name])

    def others(self, cluster: str) -> bool:
        """Tell whether there are nodes of other clusters."""
        return bool(set(self._listed(CLUSTER_LABEL)) - set(self._listed(f"{CLUSTER_LABEL}={cluster}")))

    def nodes(self, cluster: str) -> list[dict[str, t.Any]]:
        """Return the containers of a kind cluster, running or not, as docker inspect prints them."""
        listed = self._listed(f"{CLUSTER_LABEL}={cluster}")
        if not listed:
            return []
        try:
            found = parse_json(self._call("docker inspect", [self.program("docker"), "inspect", "--type", "container", *listed]))
        except Unreadable as exc:
            raise TenancyError(f"docker inspect printed what cannot be read: {shown(exc)}.") from exc
        return t.cast("list[dict[str, t.Any]]", found)

    def start(self, containers: list[str]) -> None:
        """Start containers that are stopped."""
        self._call("docker start", [self.program("docker"), "start", *containers])

    def copy(self, container: str, source: str, place: str) -> None:
        """Copy a host file, links followed, into a container; its directory is made first.

        Not by ``docker cp``: Docker 29.5 and Debian's 28.5.2 refuse it for a container with a mount below a link, as GPUs have below /var/run
        (github.com/moby/moby/issues/52653).
        """
        inside = [self.program("docker"), "exec", "--interactive", container, "bash", "-e", "-c", _WRITE, "--", place]
        self._call(f"Copying {source} to {container}", ["sh", "-c", _SEND, source, *inside])

    def script(self, container: str, script: str, *args: str) -> str:
        """Run a bash script in a container, which stops at the first failure, and return what it prints."""
        command = [self.program("docker"), "exec", "--interactive", container, "bash", "-e", "-s", "--", *args]
        return self._call(f"A script in {container}", command, data=script)

    def kubectl(self, control_plane: str, *args: str) -> str:
        """Run kubectl in a cluster's control plane as its administrator, and return what it prints."""
        command = [self.program("docker"), "exec", control_plane, "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf"]
        return self._call(f"kubectl {args[0]}", [*command, "--request-timeout=10s", *args])

    def create_cluster(self, name: str, image: str | None, config: dict[str, t.Any], kubeconfig: str, timeout: int) -> None:
        """Make a cluster with kind.

        :arg timeout: seconds.
        :arg kubeconfig: a file for kind alone, which locks it, and leaves the lock behind when it is killed.
        """
        args = [self.program("kind"), "create", "cluster", "--name", name, "--config", "-", "--kubeconfig", kubeconfig]
        self._bounded("kind create cluster", timeout, args + _image(image), data=json.dumps(config))

    def create_by_nvkind(self, name: str, image: str | None, template: str, kubeconfig: str, timeout: int) -> None:
        """Make a cluster with nvkind; an error need not mean that the cluster is not there.

        :arg timeout: seconds.
        :arg template: the file with the configuration.
        :arg kubeconfig: as for kind, and by environment: nvkind does not pass its flag on to the programs it runs.
        """
        args = [self.program("nvkind"), "cluster", "create", "--name", name, "--config-template", template]
        unset = ["env", *(f"--unset={variable}" for variable in NVKIND_VARIABLES)]
        # nvkind runs the other programs from its PATH.
        places = dict.fromkeys(os.path.dirname(self.program(program)) for program in ("kind", "docker"))
        environment = {
            "PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), *places]),
            "KUBECONFIG": kubeconfig,
            # Of the kubectl that it runs.
            "KUBECACHEDIR": os.path.join(os.path.dirname(kubeconfig), "cache"),
        }
        try:
            self._bounded("nvkind cluster create", timeout, args + _image(image), prefix=unset, **environment)
        except CommandFailed as exc:
            if exc.rc in CUT_SHORT:
                raise
            reason = nvkind_error(exc.stderr) or exc.message
            raise exc.saying(f"nvkind cluster create ended with status {exc.rc}: {reason}") from exc

    def _bounded(
        self,
        what: str,
        timeout: int,
        args: list[str],
        prefix: t.Sequence[str] = (),
        data: str | None = None,
        **environment: str,
    ) -> None:
        """Run a program for at most ``timeout`` seconds."""
        try:
            self._call(what, [*prefix, "timeout", "--kill-after=10", str(timeout), *args], data, **environment)
        except CommandFailed as exc:
            if exc.rc not in CUT_SHORT:
                raise
            end = f"{'' if exc.rc == _LATE else 'was killed, or '}did not end within {timeout} s"
            raise exc.saying(f"{what} {end}: {exc.message}") from exc

    def delete_cluster(self, name: str, kubeconfig: str) -> None:
        """Delete a cluster with kind, because nvkind has no such command."""
        args = [self.program("kind"), "delete", "cluster", "--name", name, "--kubeconfig", kubeconfig]
        self._call("kind delete cluster", args)

    def kubeconfig(self, name: str) -> str:
        """Return the administrator's kubeconfig of a cluster."""
        return self._call("kind get kubeconfig", [self.program("kind"), "get", "kubeconfig", "--name", name])


def _image(image: str | None) -> list[str]:
    return ["--image", image] if image else []
