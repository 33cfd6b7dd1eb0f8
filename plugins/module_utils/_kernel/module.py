# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The kernel of modules that work on a cluster: arguments in, one deadline, one result or one error out."""

from __future__ import annotations

import threading
import typing as t

from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule

from .._adapters.helm import HELM_ARG_SPEC, Helm
from .._adapters.kubernetes import Kube
from .._common.run import Params, Result, Run
from .ansible_module import QuietModule
from .host_module import ModuleRun, conclude


class ClusterRun(ModuleRun):
    """A run whose adapters are made from the module's options when they are first used."""

    def __init__(self, module: QuietModule, kubernetes: AnsibleK8SModule) -> None:
        super().__init__(module)
        self._kubernetes = kubernetes
        # Parts of the work, which may be under way at once, share the connection.
        self._connecting = threading.Lock()

    @property
    def kube(self) -> Kube:
        with self._connecting:
            if self._kube is None:
                self._kube = Kube.connect(self._kubernetes, self.deadline)
        return self._kube

    @property
    def helm(self) -> Helm:
        if self._helm is None:
            self._helm = Helm.connect(self.run_program, self.params, self.deadline)
        return self._helm

    def part(self, params: Params, kubeconfig: str | None = None) -> Run:
        """Return a run of a part of the work, with options, a deadline and results of its own.

        :arg kubeconfig: path of that of another API server, such as a tenant's; None for the one of this run.
        """
        return PartRun(self, params, kubeconfig)


class PartRun(Run):
    """A run of a part of a module's work; several may be under way at once."""

    def __init__(self, whole: ClusterRun, params: Params, kubeconfig: str | None) -> None:
        super().__init__(params, whole.check_mode)
        self._whole = whole
        self._kubeconfig = kubeconfig

    @property
    def kube(self) -> Kube:
        if self._kube is None:
            self._kube = (
                Kube.connect(deadline=self.deadline, kubeconfig=self._kubeconfig)
                if self._kubeconfig
                else self._whole.kube.within(self.deadline)
            )
        return self._kube

    @property
    def helm(self) -> Helm:
        if self._helm is None:
            whole = self._whole.params
            of_host = {key: whole[key] for key in ("kubeconfig", "context")}
            way = {"kubeconfig": self._kubeconfig, "context": None} if self._kubeconfig else of_host
            self._helm = Helm.connect(self._whole.run_program, way | {"helm_binary": whole["helm_binary"]}, self.deadline)
        return self._helm

    def warn(self, text: str) -> None:
        self._whole.warn(text)


def run_module(
    reconcile: t.Callable[[ClusterRun], Result],
    argument_spec: dict[str, t.Any],
    *,
    helm: bool = False,
    least: t.Mapping[str, float] | None = None,
    **kwargs: t.Any,
) -> None:
    """Run a module from its arguments, kubernetes.core's authentication options among them, to its result.

    :arg reconcile: does the work and returns the result, usually by ``Run.result``.
    :arg helm: whether the module takes the options of a chart as well.
    :arg least: the smallest numbers that options take, by their names; a timeout is one second at least.
    :arg kwargs: for AnsibleModule, such as ``required_if``.
    """
    spec = AUTH_ARG_SPEC | (HELM_ARG_SPEC if helm else {}) | argument_spec
    made: list[QuietModule] = []

    def make(**arguments: t.Any) -> QuietModule:
        made.append(QuietModule(**arguments))
        return made[0]

    # kubernetes.core's class checks the libraries and keeps what a kubeconfig holds out of the log; it hides the module it makes.
    kubernetes = AnsibleK8SModule(module_class=make, **({"argument_spec": spec, "supports_check_mode": True} | kwargs))
    conclude(reconcile, ClusterRun(made[0], kubernetes), least)
