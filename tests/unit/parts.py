# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the work on a tenant, which note how they were called."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import tenant as engine
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import verification
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine.work import TenantReport, Work
from ansible_collections.kubegpu.tenancy.plugins.modules import tenants as module

PARTS = (
    "vcluster",
    "vcluster_kubeconfig",
    "kai_metrics",
    "former_schedulers",
    "chart_scheduler",
    "kai_scheduler",
    "kai_queues",
    "rehearsal_gate",
    "tenant_nodes",
    "scheduler_queues",
)
PROBES = ("probe", "tenant_record")
DEFAULTS = {name: option.get("default") for name, option in module.ARGUMENT_SPEC.items()} | {
    "kubeconfigs": "/k",
    "kubeconfig": None,
}


class Parts:
    """What takes the place of the parts, of which each is tested by itself: notes how it was called, and answers as it is told.

    :ivar calls: name of the part, or the kind of a probe, kubeconfig, and the options that were given.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str | None, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {}
        self._running = threading.local()
        for name in (*PARTS, *PROBES):
            file = engine if name in PARTS else verification
            spec = getattr(file, name).ARGUMENT_SPEC
            monkeypatch.setattr(file, name, SimpleNamespace(ARGUMENT_SPEC=spec, reconcile=self._part(name)))

    def start(self, params: Any, kubeconfig: str | None) -> Run:
        self._running.kubeconfig = kubeconfig
        return Run(params)

    def _part(self, name: str) -> Any:
        def reconcile(run: Run) -> dict[str, Any]:
            called = run.params.get("kind", name)
            self.calls.append((called, self._running.kubeconfig, run.params))
            answer = self.answers.get(called, {})
            if isinstance(answer, Exception):
                raise answer
            return {"changed": False, "diff": {"before": {}, "after": {}}} | answer

        return reconcile

    def bring(self, tenant: dict[str, Any], check_mode: bool = False, state: str = "", **params: Any) -> TenantReport:
        (wanted,) = tenants_from([tenant])
        work = Work(self.start, wanted, DEFAULTS | params, check_mode)
        engine.change(work, state)
        return work.report

    def verify(self, tenant: dict[str, Any], check_mode: bool = False, **params: Any) -> TenantReport:
        (wanted,) = tenants_from([tenant])
        work = Work(self.start, wanted, DEFAULTS | params, check_mode)
        verification.verify(work, "digest")
        return work.report

    @property
    def names(self) -> list[str]:
        return [name for name, _kubeconfig, _params in self.calls]

    def options(self, part: str) -> dict[str, Any]:
        (found,) = [params for name, _kubeconfig, params in self.calls if name == part]
        return found
