# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The kernel of every module: arguments in, one deadline, one result or one error out."""

from __future__ import annotations

import traceback
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.parameters import remove_values
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import HELM_ARG_SPEC, Helm
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Result, Run
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule

Reconcile = t.Callable[[Run], Result]


class ModuleRun(Run):
    """A run whose adapters are made from the module's options when they are first used."""

    def __init__(self, module: AnsibleModule, kubernetes: AnsibleK8SModule | None) -> None:
        super().__init__(module.params, module.check_mode)
        self.module = module
        self._kubernetes = kubernetes

    @property
    def kube(self) -> Kube:
        if self._kube is None:
            self._kube = Kube.connect(self._kubernetes, self.deadline)
        return self._kube

    @property
    def helm(self) -> Helm:
        if self._helm is None:
            self._helm = Helm.connect(self.module.run_command, self.params)
        return self._helm

    def find_program(self, name: str) -> str | None:
        """Return the path of a program on the host, or None; /usr/local/bin counts even where a service's PATH lacks it."""
        return t.cast("str | None", self.module.get_bin_path(name, opt_dirs=["/usr/local/bin"]))


def run_module(
    reconcile: t.Callable[[ModuleRun], Result] | Reconcile,
    argument_spec: dict[str, t.Any],
    *,
    cluster: bool = True,
    helm: bool = False,
    **kwargs: t.Any,
) -> None:
    """Run a module from its arguments to its result.

    :arg reconcile: does the work and returns the result, usually by ``Run.result``.
    :arg cluster: whether the module takes kubernetes.core's authentication options; ``helm``, those of a chart as well.
    :arg kwargs: for AnsibleModule, such as ``required_if``.
    """
    spec = (AUTH_ARG_SPEC if cluster else {}) | (HELM_ARG_SPEC if helm else {}) | argument_spec
    made: list[AnsibleModule] = []

    def make(**arguments: t.Any) -> AnsibleModule:
        made.append(AnsibleModule(**arguments))
        return made[0]

    # kubernetes.core's class checks the libraries and keeps what a kubeconfig holds out of the log; it hides the module it makes.
    options = {"argument_spec": spec, "supports_check_mode": True} | kwargs
    kubernetes = AnsibleK8SModule(module_class=make, **options) if cluster else None
    module = made[0] if made else make(**options)
    run = ModuleRun(module, kubernetes)
    try:
        result = reconcile(run)
    except TenancyError as exc:
        _show(run)
        # By itself, ansible-core shows where an error comes from only if its own settings say so.
        origin = {"traceback": traceback.format_exc()} if module._verbosity >= 3 else {}
        module.fail_json(msg=exc.message, **exc.details, **origin)
    _show(run)
    module.exit_json(**result)


def _show(run: ModuleRun) -> None:
    for warning in run.warnings:
        # ansible-core 2.19 takes secrets out of results, but not out of warnings.
        run.module.warn(remove_values(warning, run.module.no_log_values))
