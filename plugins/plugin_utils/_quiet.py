# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""Results that hold what may be secret: later tasks have them whole, and no output of Ansible shows them."""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Iterator

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action.normal import ActionModule as NormalAction

from ..module_utils._common.secrets import without_secrets

Result = dict[str, t.Any]


def quiet(result: Result) -> Result:
    """Return a result that is not shown, at any verbosity, if it holds charts' values or a password.

    It is what ``no_log`` does to a task, but a failure is shown: people have to read it, and it holds none. What a task registers is
    whole either way.
    """
    if result.get("failed") or without_secrets(result) == result:
        return result
    return result | {"_ansible_no_log": True}


class QuietAction(NormalAction):
    """Runs a module as Ansible does without an action plugin, but for what is shown of its result."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> Result:
        try:
            with self._unlogged():
                return quiet(super().run(tmp, task_vars))
        except AnsibleConnectionFailure:
            # The connection of SSH says "error censored" then; another try says why the host is not reached.
            self._low_level_execute_command("true")
            raise

    @contextlib.contextmanager
    def _unlogged(self) -> Iterator[None]:
        """Have the connection not show what the module answers; that of SSH does from -vvv on, unless the task says no_log."""
        context = self._connection._play_context
        before, context.no_log = context.no_log, True
        try:
            yield
        finally:
            context.no_log = before
