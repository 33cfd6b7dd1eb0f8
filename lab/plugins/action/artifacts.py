# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the controller, as the lab does, so that it can tell how a build of many minutes gets on."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

from ..plugin_utils._pull import choose
from ..plugin_utils._recipe import recipe

display = Display()

ARGUMENT_SPEC: dict[str, t.Any] = {
    "cache": {"type": "path", "required": True},
    "role_files": {"type": "path", "required": True},
    "versions": {"type": "dict", "required": True},
    "lab": {"type": "dict", "required": True},
    "source": {"type": "str", "choices": ["auto", "build", "pull"], "default": "auto"},
    "mirror": {"type": "str", "default": ""},
    "host_image": {"type": "path"},
}


class ActionModule(ActionBase):
    """See the module's documentation."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        _result, args = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        name = args["lab"]["name"]
        try:
            parts = recipe(args["versions"], args["lab"])
            builder = choose(
                args["source"],
                args["mirror"],
                parts,
                Path(args["cache"]),
                Path(args["role_files"]),
                lambda line: display.display(f"{name}: {line}", color="cyan"),
            )
            missing = builder.missing()
            if missing and not self._task.check_mode:
                builder.build()
            if args["host_image"]:
                file = Path(args["host_image"])
                # A cache that was copied here has no folder for it.
                file.parent.mkdir(parents=True, exist_ok=True)
                with open(file, "wb") as out:
                    builder.write_image_tar(parts.host, out)
        except TenancyError as exc:
            return {"failed": True, "msg": exc.message} | exc.details
        return {
            "changed": bool(missing),
            "built": missing,
            "charts": str(builder.charts),
            "registry": str(builder.registry),
            "host_image": f"{parts.host.ref}:{builder.image_key(parts.host)}",
            "stop_signal": parts.host.stop_signal,
            "component_tags": builder.recipe.component_tags,
        }
