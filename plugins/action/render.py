# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has the module of the same name make the files of tenants on the cluster's host, and writes them into a folder of the controller."""

from __future__ import annotations

import os
import re
import typing as t

from ..module_utils._common.errors import TenancyError, refusal
from ..plugin_utils import _rendered
from ..plugin_utils._quiet import QuietAction
from ..plugin_utils._transfer import failure

Data = dict[str, t.Any]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


class ActionModule(QuietAction):
    """See the module's documentation."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: Data | None = None) -> Data:
        """Write what differs, once the module refused nothing."""
        args = self._task.args
        args["name"] = str(args.get("name") or (task_vars or {}).get("inventory_hostname", "localhost"))
        try:
            if not _NAME.fullmatch(args["name"]):
                raise refusal("not-a-name", f"name: {args['name']!r} is no name of a folder.")
            folder = os.path.join(os.path.abspath(os.path.expanduser(str(args["folder"]))), args["name"])
            found = _rendered.read(folder)
            args["former"] = _rendered.former(found)
            result = super().run(tmp, task_vars)
            return result if result.get("failed") else self._written(result, folder, found)
        except TenancyError as exc:
            return failure(exc)

    def _written(self, result: Data, folder: str, found: _rendered.Found) -> Data:
        wanted = result["files"]
        differing = _rendered.changes(found, wanted, whole=not self._task.args["cluster"]["only"])
        if not self._task.check_mode:
            _rendered.write(folder, differing)
        paths = sorted(f"{tenant}/{path}" for tenant, texts in wanted.items() for path in texts)
        diffs = [change.diff() for change in differing]
        return result | {"changed": bool(differing), "folder": folder, "files": paths, "diff": diffs}
