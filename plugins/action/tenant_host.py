# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a tenant a host of the inventory, for each host of a play, where ansible.builtin.add_host runs once for all of them."""

from __future__ import annotations

import typing as t

from ansible.inventory.group import to_safe_group_name
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """See the module's documentation."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the host as Ansible's strategy plugins take it, which add it to the inventory."""
        super().run(tmp, task_vars)
        _result, args = self.validate_argument_spec(
            argument_spec={
                "name": {"type": "str", "required": True},
                "groups": {"type": "list", "elements": "str", "default": []},
                "variables": {"type": "dict", "default": {}},
            }
        )
        cluster = str((task_vars or {})["inventory_hostname"])
        groups = [to_safe_group_name(name, replacer="_", force=True, silent=True) for name in args["groups"]]
        host = {
            "host_name": f"{cluster}/{args['name']}",
            "groups": groups,
            "host_vars": args["variables"] | {"kubegpu_cluster": cluster},
        }
        # The strategy plugin acts on this key, as it does for add_host.
        return {"changed": False, "add_host": host}
