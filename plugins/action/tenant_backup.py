# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes backups of tenants by the module of the same name, and keeps them in a folder of the controller."""

from __future__ import annotations

import contextlib
import os
import typing as t
import uuid

from ansible.module_utils.parsing.convert_bool import boolean

from ..module_utils._common.errors import Problem, Refused, TenancyError, explained
from ..module_utils._common.quantity import whole
from ..module_utils._common.text import shown
from ..plugin_utils._backups import Store, listing
from ..plugin_utils._transfer import FileTransfer, Vault, failure, vault_of

Data = dict[str, t.Any]


def unsaved(names: list[str], result: Data) -> list[str]:
    """Return which of these tenants exist, or may exist, and have no backup by this task."""
    saved = {record["tenant"] for record in result["backups"]}
    absent = {
        one["name"]
        for one in result.get("tenants", [])
        if [problem["code"] for problem in one.get("problems", [])] == ["no-tenant"]
    }
    return [name for name in names if name not in saved | absent]


class ActionModule(FileTransfer):
    """See the module's documentation."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: Data | None = None) -> Data:
        args = self._task.args
        try:
            vault = vault_of(self._loader) if boolean(args.get("encrypt", False), strict=False) else None
            with contextlib.nullcontext("") if self._task.check_mode else self._host_folder() as path:
                args["path"] = path
                return self._taken(tmp, task_vars, vault)
        except TenancyError as exc:
            return failure(exc)

    def _taken(self, tmp: str | None, task_vars: Data | None, vault: Vault | None) -> Data:
        """Run the module, and keep what it leaves in its folder."""
        args = self._task.args
        stores = {name: Store(args["folder"], self._cluster(task_vars), name) for name in args["tenants"]}
        args["run"] = uuid.uuid4().hex
        args["forget"] = {name: store.leftovers_of() for name, store in stores.items()}
        with contextlib.ExitStack() as stack:
            if not self._task.check_mode:
                for name, store in stores.items():
                    stack.enter_context(store.leftovers.during(name, args["run"]))
            result = super().run(tmp, task_vars)
            problems = [Problem.of(problem) for problem in result.get("problems", [])]
            if not self._task.check_mode:
                result["backups"] = list(self._kept(result, stores, vault, problems))
                result["unsaved"] = unsaved(args["tenants"], result)
                self._forget(result, stores)
        # In check mode, what there is, is listed.
        result["listing"] = listing({name: store.all() for name, store in stores.items()})
        if problems:
            return result | failure(Refused("\n".join(problem.text for problem in problems), problems))
        return result

    def _forget(self, result: Data, stores: dict[str, Store]) -> None:
        """Forget the runs whose snapshots of volumes are deleted, or belong to a backup."""
        saved = {record["tenant"] for record in result["backups"]}
        for one in result.get("tenants", []):
            name, runs = one["name"], one.get("forgotten", [])
            own = [self._task.args["run"]] if name in saved or not one.get("leaves_snapshots", True) else []
            for run in (*runs, *own):
                # A file that stays does no harm: what a backup names is not deleted.
                with contextlib.suppress(OSError):
                    stores[name].leftovers.remove(name, run)

    def _kept(self, result: Data, stores: dict[str, Store], vault: Vault | None, problems: list[Problem]) -> t.Iterator[Data]:
        """Keep the backups that the module made, and yield the record of each; add to ``problems`` why one was not kept."""
        for record in result.get("backups", []):
            store = stores[record["tenant"]]
            try:
                path = os.path.join(self._task.args["path"], f"{record['tenant']}.tar.gz")
                kept = store.keep(record, self._fetched(path, record["size"]), vault.encrypt if vault else None)
                try:
                    store.prune(whole(self._task.args.get("keep", 7)), kept)
                except OSError as exc:
                    problems.append(
                        Problem("not-deleted", f"{record['tenant']}: an older backup cannot be deleted: {shown(exc)}")
                    )
                if kept.path not in [one.path for one in store.all()]:
                    raise TenancyError(f"{kept.path} or its record was deleted since it was written. Repeat the backup.")
            except Exception as exc:
                problems.append(Problem("not-kept", f"{record['tenant']}: {explained(exc)}"))
            else:
                yield kept.record | {"path": kept.path}
