# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The files of one kind cluster on its host: registry mirrors, kubeconfig, and the marks of what an earlier run did not finish."""

from __future__ import annotations

import functools
import os
import typing as t

from .._common.values import Change
from . import plan
from .validation import NETWORK_MARKER

if t.TYPE_CHECKING:
    from .._adapters.files import Files
    from .._common.run import Run


class HostFiles:
    """The files of one cluster.

    :arg top: the host's folder for this collection's state, and ``kubeconfigs`` that for kubeconfigs: only there are folders
        removed, and made for root alone.
    :ivar state: folder of this cluster.
    :ivar certs: folder of its registry mirrors, which every node has mounted.
    :ivar scratch: path for a kubeconfig that is not needed; ``template`` alike for what nvkind reads. Both are there only while the
        cluster is made.
    :ivar network: file that exists while Docker has a network that it did not have before the first cluster of this collection.
    """

    def __init__(self, run: Run, files: Files, name: str, top: str, kubeconfigs: str) -> None:
        self._run = run
        self._files = files
        self._top = top
        self._kubeconfigs = kubeconfigs
        self._clusters = os.path.join(top, "kind")
        self.kubeconfig: str = run.params["kubeconfig"]
        self.state = os.path.join(self._clusters, name)
        self.certs = os.path.join(self.state, "certs.d")
        # Exists while a cluster is made or deleted, with what the engine needs: a cluster with it is half-made.
        self._making = os.path.join(self.state, "making")
        self.scratch = os.path.join(self._making, "kubeconfig")
        self.template = os.path.join(self._making, "template.yml")
        self.network = os.path.join(self._clusters, NETWORK_MARKER)

    # --- the making ---

    @property
    def is_half_made(self) -> bool:
        """Whether an earlier run began to make or delete the cluster, and did not finish."""
        return self._files.exists(self._making)

    def begin(self) -> None:
        """Note on the host that the cluster is half-made from here on."""
        self.finish()
        self._files.make_directories(self._making, 0o700)

    def finish(self) -> None:
        """Take that note away."""
        self._files.remove_tree(self._making, self.state)

    def forget(self) -> None:
        """Take the note of a cluster away that was deleted, and its folder where nothing else is in it."""
        self.finish()
        self._files.remove_empty(self.state, self._clusters)

    # --- what is written ---

    def write_mirrors(self, mirrors: t.Mapping[str, t.Any]) -> None:
        """Write the registry mirrors, host files that every node has mounted: a change reaches them at once."""
        if not self._run.check_mode:
            self._files.make_directories(self.certs)
        for registry in self._files.names(self.certs):
            if registry not in mirrors:
                path = os.path.join(self.certs, registry)
                gone = (f"mirror of {registry}", "there", None)
                remove = functools.partial(self._files.remove_tree, path, self.certs)
                change(self._run, f"remove the mirror of {registry}", "it is not wanted", gone, remove)
        for registry, mirror in mirrors.items():
            path = os.path.join(self.certs, registry, "hosts.toml")
            self._write(f"mirror of {registry}", path, plan.hosts_toml(mirror).encode(), 0o644)

    def write_kubeconfig(self, content: bytes) -> None:
        """Write the kubeconfig, for its owner alone."""
        self._write("kubeconfig", self.kubeconfig, content, 0o600)

    def _write(self, what: str, path: str, content: bytes, mode: int) -> None:
        before = self._files.read(path)
        if before == content:
            return

        def write() -> None:
            if path == self.kubeconfig:
                self.make_kubeconfig_folder()
            else:
                self._files.make_directories(os.path.dirname(path))
            self._files.write(path, content, mode)

        why = "it does not exist" if before is None else "it differs"
        change(self._run, f"write the {what}", why, (what, None if before is None else "different", path), write)

    def make_kubeconfig_folder(self) -> None:
        """Make the folder of the kubeconfig, if it is missing; only this collection's own is for root alone."""
        folder = os.path.dirname(self.kubeconfig)
        owned = f"{os.path.normpath(folder)}/".startswith(f"{self._kubeconfigs}/")
        self._files.make_directories(folder, 0o700 if owned else 0o755)

    def mark_network(self) -> None:
        """Note that Docker's network comes with this cluster."""
        self._files.write(self.network, b"", 0o600)

    def write_template(self, content: str) -> None:
        """Write what nvkind makes the cluster of."""
        self._files.write(self.template, content.encode(), 0o600)

    # --- the removal ---

    def remove(self) -> None:
        """Remove the kubeconfig and the cluster's folder."""
        for path, remove in ((self.kubeconfig, self._files.remove), (self.state, self._remove_state)):
            if self._files.exists(path):
                gone = (path, "there", None)
                change(self._run, f"remove {path}", "it belongs to the cluster", gone, functools.partial(remove, path))

    def _remove_state(self, path: str) -> None:
        self._files.remove_tree(path, self._clusters)

    @property
    def is_network_marked(self) -> bool:
        """Whether Docker's network came with a cluster of this collection."""
        return self._files.exists(self.network)

    def forget_network(self) -> None:
        """Take the note of Docker's network away."""
        self._files.remove(self.network)

    def remove_empty(self) -> None:
        """Remove the folders that held the kubeconfig and the state of clusters, where nothing is in them."""
        self._files.remove_empty(os.path.dirname(self.kubeconfig), self._kubeconfigs)
        self._files.remove_empty(self._clusters, self._top)


def change(run: Run, what: str, why: str, difference: Change, action: t.Callable[[], object]) -> None:
    """Record a change and take the step that makes it."""
    run.change(*difference)
    run.perform(what, why, action)
