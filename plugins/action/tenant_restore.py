# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chooses a backup in a folder of the controller, and restores a tenant from it by the module of the same name."""

from __future__ import annotations

import os
import typing as t

from ..module_utils._common.errors import TenancyError
from ..plugin_utils._backups import Store
from ..plugin_utils._transfer import FileTransfer, failure, vault_of

Data = dict[str, t.Any]


class ActionModule(FileTransfer):
    """See the module's documentation."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: Data | None = None) -> Data:
        args = self._task.args
        try:
            store = Store(str(args.get("folder", "")), self._cluster(task_vars), str(args.get("tenant") or args.get("name", "")))
            kept = store.choose(str(args.get("backup", "latest")))
            content = store.load(kept, lambda content: vault_of(self._loader).decrypt(content))
        except TenancyError as exc:
            return failure(exc)
        args["path"] = args.get("path") or os.path.join(self._task_folder(), "restore.tar.gz")
        args["record"] = kept.record
        if not self._task.check_mode:
            self._sent(content, args["path"])
        return super().run(tmp, task_vars) | {"backup": kept.record}
