# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Restore one tenant from a backup that stands in a file of the host."""

from __future__ import annotations

import typing as t

from .._adapters.asking import ask
from .._adapters.kubernetes import Kube
from .._adapters.progress_file import ProgressFile
from .._adapters.run_lock import locked
from .._adapters.snapshot_file import SnapshotFile
from .._backup.lifecycle import Restoration
from .._backup.status import counted
from .._backup.validation import checked_record
from .._common.errors import refusal
from .._common.names import namespace_of
from .._common.run import Result
from .._vcluster.control_plane import Ask, ControlPlane

if t.TYPE_CHECKING:
    from .._common.run import Run

ARGUMENT_SPEC: dict[str, t.Any] = {
    "name": {"type": "str", "required": True},
    # By these, the action plugin chooses a backup, whose archive and record it hands to the module.
    "folder": {"type": "path", "required": True},
    "cluster": {"type": "str"},
    "tenant": {"type": "str"},
    "backup": {"type": "str", "default": "latest"},
    "volumes": {"type": "str", "default": "missing", "choices": ["missing", "all"]},
    "path": {"type": "path"},
    "record": {"type": "dict"},
    "progress": {"type": "path"},
    "timeout": {"type": "int", "default": 600},
}


def connected(config: Result) -> Kube:
    """Return the adapter to the API server of a kubeconfig."""
    return Kube.connect(kubeconfig=config)


def reconcile(run: Run, ask: Ask = ask, connect: t.Callable[[Result], Kube] = connected) -> Result:
    """Restore the tenant, once the file is what its record says."""
    params = run.params
    record, file = checked_record(params["record"], "record"), SnapshotFile(params["path"])
    if not run.check_mode:
        check_file(file, record)
    plane = ControlPlane(run.kube, params["name"], namespace_of(params["name"]))
    progress = ProgressFile(params["progress"] or "")
    with progress.during(params["name"], "Restore"), locked(str(params["kubeconfig"] or ""), run.deadline):
        ready = Restoration(run, plane, ask, connect, params["volumes"] == "all").restore(file, record)
    return run.result(**ready)


def check_file(file: SnapshotFile, record: Result) -> None:
    """Refuse a file that is not the one of its record.

    :raises TenancyError: where its checksum is another one, or the archive is damaged, or holds nothing.
    """
    size, digest = file.checksum()
    if (size, digest) != (record["size"], record["sha256"]):
        raise refusal(
            "damaged-backup", f"{file.path} has {size} bytes and SHA-256 {digest}, and its record names another checksum."
        )
    counted(file.names())
