# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merge the evidence in a folder of the controller into the state of a fleet, and write that as data, as a page and as series."""

from __future__ import annotations

import json
import os
import typing as t

from ansible.plugins.action import ActionBase

from ..module_utils._adapters import files
from ..module_utils._common.errors import TenancyError
from ..module_utils._common.values import stamp, utc_now
from ..plugin_utils._fleet_files import pages, state
from ..plugin_utils._fleet_metrics import metrics
from ..plugin_utils._fleet_page import page

ARGUMENT_SPEC = {
    "folder": {"type": "path", "required": True},
    "dest": {"type": "path"},
    "clusters": {"type": "list", "elements": "str"},
    "backups": {"type": "dict", "default": {}},
}


class ActionModule(ActionBase):
    """See the module's documentation."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Write the state of the fleet, and return what it says of each cluster."""
        super().run(tmp, task_vars)
        _result, args = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        folder = os.path.abspath(os.path.expanduser(args["folder"]))
        dest = os.path.abspath(os.path.expanduser(args["dest"])) if args["dest"] else folder
        try:
            found = state(folder, stamp(utc_now()), args["clusters"] or None, args["backups"])
            if not self._task.check_mode:
                files.make_directories(dest)
                files.write_file(os.path.join(dest, "fleet.json"), f"{json.dumps(found, indent=2)}\n".encode())
                files.write_file(os.path.join(dest, "fleet.html"), page(found, pages(found, folder, dest)).encode())
                files.write_file(os.path.join(dest, "fleet.prom"), metrics(found, args["backups"]).encode())
        except TenancyError as exc:
            return {"failed": True, "msg": exc.message} | exc.details
        results = {one["name"]: one["result"] for one in found["clusters"]}
        # The files say something about clusters, and are no part of them.
        return {"changed": False, "results": results, "unread": found["unread"], "dest": dest}
