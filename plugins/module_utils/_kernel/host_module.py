# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The kernel of modules that work on a host alone; without Kubernetes' client, whose import takes half a second."""

from __future__ import annotations

import re
import traceback
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.parameters import remove_values
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Result, Run

AnyRun = t.TypeVar("AnyRun", bound="ModuleRun")


class ModuleRun(Run):
    """A run of an Ansible module."""

    def __init__(self, module: AnsibleModule) -> None:
        super().__init__(module.params, module.check_mode)
        self.module = module

    def find_program(self, name: str) -> str | None:
        """Return the path of a program on the host, or None; /usr/local/bin counts even where a service's PATH lacks it."""
        return t.cast("str | None", self.module.get_bin_path(name, opt_dirs=["/usr/local/bin"]))


def run_host_module(reconcile: t.Callable[[ModuleRun], Result], argument_spec: dict[str, t.Any], **kwargs: t.Any) -> None:
    """Run a module that needs no cluster from its arguments to its result.

    :arg reconcile: does the work and returns the result, usually by ``Run.result``.
    :arg kwargs: for AnsibleModule, such as ``required_if``.
    """
    conclude(reconcile, ModuleRun(AnsibleModule(argument_spec=argument_spec, supports_check_mode=True, **kwargs)))


def conclude(reconcile: t.Callable[[AnyRun], Result], run: AnyRun) -> None:
    """Have the work done, and end the module with its result or its error."""
    module = run.module
    try:
        result = reconcile(run)
    except TenancyError as exc:
        _show(run)
        # By itself, ansible-core shows where an error comes from only if its own settings say so.
        origin = {"traceback": traceback.format_exc()} if module._verbosity >= 3 else {}
        module.fail_json(msg=_legible(exc.message), **{key: _legible(detail) for key, detail in exc.details.items()}, **origin)
    _show(run)
    module.exit_json(**result)


def _legible(detail: t.Any) -> t.Any:
    """Return a text without the characters for which Ansible shows it as one long quoted line, such as the pictures in kind's output.

    They are those beyond U+FFFF, which the YAML library takes for not printable.
    """
    return re.sub(r"[\U00010000-\U0010ffff]", "", detail) if isinstance(detail, str) else detail


def _show(run: ModuleRun) -> None:
    for warning in run.warnings:
        # ansible-core 2.19 takes secrets out of results, but not out of warnings.
        run.module.warn(remove_values(warning, run.module.no_log_values))
