# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Callback plugin kubegpu.tenancy.brief."""

from __future__ import annotations

DOCUMENTATION = r"""
name: brief
type: stdout
short_description: Ansible's default output, with who waits for what and without included files
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Shows what the callback P(ansible.builtin.default#callback) shows, but for two things.
  - When a task begins that may wait, which is one with a timeout, it says for which host. Several tenants are worked on side by side, and
    Ansible itself shows a task only when it has ended.
  - Files that are included are not shown, unless with C(-v). The playbooks of this collection consist of many.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - To be chosen, by C(stdout_callback) in section C([defaults]) of C(ansible.cfg).
"""

import typing as t

from ansible.plugins.callback.default import CallbackModule as Default


class CallbackModule(Default):
    """See DOCUMENTATION."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "kubegpu.tenancy.brief"

    def v2_runner_on_start(self, host: t.Any, task: t.Any) -> None:
        """Say which host may have to wait now, and for what."""
        super().v2_runner_on_start(host, task)
        # What has a condition of its own may be skipped.
        if any(str(name).endswith("timeout") for name in task.args) and not task.when:
            self._display.display(f"{host.get_name()}: {task.get_name().strip()} ...")

    def v2_playbook_on_include(self, included_file: t.Any) -> None:
        """Show an included file where the user asked for more."""
        if self._display.verbosity:
            super().v2_playbook_on_include(included_file)
