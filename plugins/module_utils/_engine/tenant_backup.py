# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Take backups of tenants, several at once, into a folder of the host."""

from __future__ import annotations

import typing as t

from .._adapters.progress_file import ProgressFile
from .._adapters.run_lock import locked
from .._adapters.snapshot_file import SnapshotFile
from .._backup.facts import BACKUP_OF, BACKUP_RUN
from .._backup.lifecycle import Backup
from .._common.errors import Problem, Refused, TenancyError, explained
from .._common.names import namespace_of
from .._common.parallel import concurrently
from .._common.run import Result
from .._vcluster.control_plane import ControlPlane

if t.TYPE_CHECKING:
    from .._kernel.module import ClusterRun

ARGUMENT_SPEC: dict[str, t.Any] = {
    "tenants": {"type": "list", "elements": "str", "required": True},
    # The action plugin keeps what the module leaves in its folder ``path``, and says which runs left snapshots.
    "folder": {"type": "path", "required": True},
    "cluster": {"type": "str"},
    "keep": {"type": "int", "default": 7},
    "encrypt": {"type": "bool", "default": False},
    "path": {"type": "path"},
    "run": {"type": "str", "default": ""},
    "forget": {"type": "dict", "default": {}},
    "progress": {"type": "path"},
    "timeout": {"type": "int", "default": 600},
}
LEAST = {"keep": 1}


def reconcile(run: ClusterRun) -> Result:
    """Take a backup of each tenant; one that fails does not stop the others."""
    params, progress = run.params, ProgressFile(run.params["progress"] or "")

    def save(name: str) -> Result:
        part = run.part({"timeout": params["timeout"]})
        labels = {BACKUP_OF: name, BACKUP_RUN: params["run"]}
        backup = Backup(part, ControlPlane(part.kube, name, namespace_of(name)), labels)
        done: Result = {"name": name, "forgotten": []}
        try:
            with progress.during(name, "Take a backup"):
                if not part.check_mode:
                    done["forgotten"] = [
                        one for one in params["forget"].get(name, []) if backup.volumes.forget(labels | {BACKUP_RUN: one})
                    ]
                done["record"] = backup.save(SnapshotFile(f"{params['path']}/{name}.tar.gz"))
        except Exception as exc:
            problems = exc.problems if isinstance(exc, TenancyError) else [Problem("failed", explained(exc))]
            done["problems"] = [problem.data() for problem in problems]
            done["leaves_snapshots"] = not (part.check_mode or backup.volumes.forget(labels))
        finally:
            progress.done(name)
        return part.result(**done)

    # A run that changes tenants would change what a snapshot holds while that is made.
    with locked(str(params["kubeconfig"] or ""), run.deadline):
        results = concurrently(save, dict.fromkeys(params["tenants"]))
    whole = {
        "changed": any("record" in result for result in results),
        "backups": [result["record"] for result in results if "record" in result],
        "tenants": results,
    }
    problems = [Problem.of(problem).within(f"{result['name']}: ") for result in results for problem in result.get("problems", [])]
    if problems:
        error = Refused("\n".join(problem.text for problem in problems), problems)
        error.details |= whole
        raise error
    return whole
