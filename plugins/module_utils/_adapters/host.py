# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to the GPU host that a module runs on: its GPUs, NVIDIA's programs, and what its kernel allows."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import socket
import typing as t

from .._common.errors import CommandFailed, TenancyError
from .._common.nvidia import PROGRAMS, TOOLKIT_CONFIG, Gpu, parse_gpus, parse_minor
from .._common.quantity import whole
from .._common.wait import Deadline, wait_for
from .programs import Programs

# See linux/capability.h.
CAP_SYS_RESOURCE = 24


class Host(Programs):
    """Questions to the host."""

    def gpus(self) -> list[Gpu]:
        """Return the host's GPUs.

        :raises TenancyError: without NVIDIA's driver, or when it does not work.
        """
        binary = self._find("nvidia-smi")
        if binary is None:
            raise TenancyError("workers: asks for GPUs, but this host has no nvidia-smi: is NVIDIA's driver installed?")
        rc, out, err = self._run([binary, "-L"])
        if rc != 0:
            raise CommandFailed(f"nvidia-smi -L failed: {err.strip() or out.strip()}", rc=rc)
        minors = (parse_minor(_read(path)) for path in glob.glob("/proc/driver/nvidia/gpus/*/information"))
        return parse_gpus(out, dict(minor for minor in minors if minor))

    def programs(self) -> dict[str, tuple[str, str]]:
        """Return path and SHA-256 checksum of each of NVIDIA's programs that a node needs, by name.

        :raises TenancyError: when one is missing.
        """
        paths = {name: self._find(name) for name in PROGRAMS}
        missing = [name for name, path in paths.items() if path is None]
        if missing:
            raise TenancyError(f"This host lacks {', '.join(missing)}: install NVIDIA's container toolkit.")
        return {name: (path, _checksum(path)) for name, path in paths.items() if path}

    def toolkit_config(self) -> tuple[str, str] | None:
        """Return path and SHA-256 checksum of the container toolkit's configuration, or None when there is none."""
        return (TOOLKIT_CONFIG, _checksum(TOOLKIT_CONFIG)) if os.path.exists(TOOLKIT_CONFIG) else None

    def output(self, program: str, *args: str) -> tuple[int, str]:
        """Run a program, and return its exit status with what it printed, or 127 where the host does not have it."""
        binary = self._find(program)
        if binary is None:
            return 127, f"{program} is not on this host"
        rc, out, err = self._run([binary, *args])
        return rc, out if rc == 0 else err.strip() or out.strip()

    def kernel_limit(self, name: str) -> int:
        """Return a setting of the kernel that is a number.

        :raises TenancyError: when the kernel has no such setting, or it is no number.
        """
        path = f"/proc/sys/{name.replace('.', '/')}"
        try:
            return whole(_read(path))
        except (OSError, ValueError) as exc:
            raise TenancyError(f"limits: {name} is no setting of this host's kernel with a number: {exc}") from exc

    def cgroup_v1(self) -> bool:
        """Tell whether the host has cgroup v1."""
        return not os.path.exists("/sys/fs/cgroup/cgroup.controllers")

    def user_namespace(self) -> bool:
        """Tell whether root lacks a capability that kubelet expects, as in a user namespace."""
        effective = next(line.split()[1] for line in _read("/proc/self/status").splitlines() if line.startswith("CapEff:"))
        return not int(effective, 16) >> CAP_SYS_RESOURCE & 1


@contextlib.contextmanager
def lock(cluster: str, deadline: Deadline) -> t.Iterator[None]:
    """Hold the lock of a cluster while the block runs.

    A run whose controller was killed is still at work on the host, and the next one has to wait for it. The lock is a
    socket's abstract address, which Linux frees when the process that holds it ends, however it ends.

    :raises TenancyError: when another process still holds it at the deadline.
    """
    with socket.socket(socket.AF_UNIX) as address:

        def probe() -> tuple[bool | None, str]:
            try:
                address.bind(f"\0kubegpu/{cluster}")
            except OSError as exc:
                if exc.errno != errno.EADDRINUSE:
                    raise
                return None, "another process of nvkind_cluster is at work on it"
            return True, ""

        wait_for(f"the end of another run on the cluster {cluster}", probe, deadline)
        yield


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def _checksum(path: str) -> str:
    with open(path, "rb") as stream:
        digest = hashlib.sha256()
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
