# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a tenant a host of the inventory, for each host of a play, where ansible.builtin.add_host runs once for all of them."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ..plugin_utils._limit import group_name, left_out
from ..plugin_utils._quiet import quiet


class ActionModule(ActionBase):
    """See the module's documentation."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Hand the host to ansible.builtin.add_host, because each release of ansible-core adds it in a way of its own."""
        super().run(tmp, task_vars)
        _result, args = self.validate_argument_spec(
            argument_spec={
                "name": {"type": "str", "required": True},
                "groups": {"type": "list", "elements": "str", "default": []},
                "variables": {"type": "dict", "default": {}},
            }
        )
        known = task_vars or {}
        cluster = str(known["inventory_hostname"])
        groups = list(map(group_name, args["groups"]))
        if problem := left_out(str(known.get("ansible_limit") or ""), cluster, args["name"], groups):
            return {"failed": True, "msg": problem}
        task = self._task.copy()
        task.args = args["variables"] | {"name": f"{cluster}/{args['name']}", "groups": groups, "kubegpu_cluster": cluster}
        add_host = self._shared_loader_obj.action_loader.get(
            "ansible.builtin.add_host",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        return quiet(add_host.run(task_vars=task_vars))
