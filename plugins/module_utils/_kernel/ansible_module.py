# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""AnsibleModule that shows its arguments without what may be secret in them."""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule

from .._common.secrets import without_secrets


class QuietModule(AnsibleModule):
    """An AnsibleModule whose arguments are shown with digests of charts' values, on the controller and in the host's log.

    The option ``no_log`` of values would take each word in them out of all that the module says, and ``AnsibleModule(no_log=True)``
    is overruled by the task, which always says whether it wants a log.
    """

    params: dict[str, t.Any]

    def exit_json(self, **kwargs: t.Any) -> None:
        super().exit_json(**self._invocation() | kwargs)

    def fail_json(self, msg: str, **kwargs: t.Any) -> None:
        super().fail_json(msg, **self._invocation() | kwargs)

    def _log_invocation(self) -> None:
        """Write to the host's log that the module runs, and with what."""
        given = self.params
        self.params = without_secrets(given)
        try:
            super()._log_invocation()
        finally:
            self.params = given

    def _invocation(self) -> dict[str, t.Any]:
        """Return what a result says of the arguments, which -vvv shows; from ansible-core 2.21 on only on request."""
        # Before the arguments were read, there are none.
        return {"invocation": {"module_args": without_secrets(getattr(self, "params", {}))}}
