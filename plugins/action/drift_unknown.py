# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""End the work on a host with the exit status of one that was not reached."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """See the module's documentation."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return that the host is not reached, with the reasons, where there are any."""
        super().run(tmp, task_vars)
        _result, args = self.validate_argument_spec(
            argument_spec={"reasons": {"type": "list", "elements": "str", "required": True}}
        )
        reasons = "\n".join(args["reasons"])
        return {"changed": False} | (
            {"unreachable": True, "msg": f"It could not be told what differs. {reasons}"} if reasons else {}
        )
