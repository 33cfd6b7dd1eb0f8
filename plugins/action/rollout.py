# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take clusters to what the inventory says, wave after wave, by runs of playbooks on the controller."""

from __future__ import annotations

import typing as t

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._adapters.playbooks import Playbooks
from ..module_utils._common.errors import TenancyError
from ..module_utils._common.text import LONGEST_LINE, shown
from ..module_utils._common.values import utc_now
from ..module_utils._rollout.lifecycle import Lifecycle
from ..module_utils._rollout.plan import is_done, lines
from ..module_utils._rollout.validation import rollout
from ..module_utils._rollout.values import Rollout
from ..plugin_utils._rollout_runs import Folder, Run, taken_over

Data = dict[str, t.Any]

ARGUMENT_SPEC = {
    "clusters": {"type": "list", "elements": "str", "required": True},
    "rollouts": {"type": "list", "elements": "dict", "required": True},
    "groups": {"type": "dict", "required": True},
    "servers": {"type": "dict", "default": {}},
    "playbooks": {"type": "dict", "default": {}},
}


class ActionModule(ActionBase):
    """See the module's documentation."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: Data | None = None) -> Data:
        """Check the rollout, take it to its end or to its first failure, and return which clusters have what."""
        super().run(tmp, task_vars)
        _result, args = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        try:
            wanted = rollout(args["rollouts"], args["clusters"], args["groups"], args["servers"])
            folder = Folder(wanted.folder, wanted.name)
            with folder.held() as lock:
                return self._taken(wanted, folder, Playbooks(lock), args["playbooks"])
        except TenancyError as exc:
            return {"failed": True, "msg": exc.message} | exc.details

    def _taken(self, wanted: Rollout, folder: Folder, playbooks: Playbooks, names: Data) -> Data:
        """Return the result of the rollout, and take no step of it in check mode."""
        options = taken_over(context.CLIARGS)
        parts = ["pending", *(["alerts"] if wanted.stop_when else [])]
        run = Run(playbooks.run, folder, options, self._vault_passwords(), names, parts)
        life = Lifecycle(wanted, run, folder, _say, utc_now, playbooks.sleep)
        record = life.begin()
        result: Data = {"changed": not is_done(record), "clusters": record["clusters"], "lines": lines(wanted, record)}
        if self._task.check_mode:
            return result
        record = life.go_on(record)
        result |= {"clusters": record["clusters"], "lines": lines(wanted, record)}
        if not is_done(record):
            result |= {"failed": True, "msg": "\n".join(["The rollout stopped.", *result["lines"]])}
        return result

    def _vault_passwords(self) -> dict[str, bytes]:
        """Return the passwords of vault that this run was given or asked for, so that no other run asks again."""
        return {name: bytes(secret.bytes) for name, secret in self._loader._vault.secrets or ()}


def _say(line: str) -> None:
    Display().display(shown(line, LONGEST_LINE))
