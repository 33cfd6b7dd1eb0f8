# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Run the probe of ordinary workloads."""

from __future__ import annotations

import secrets
import typing as t

from .._common.errors import WaitTimeout
from .._common.values import JsonObject
from .._common.wait import Deadline, wait_for
from .._probe.lifecycle import PODS, own_namespace
from .._probe.status import record
from .plan import Settings, manifests
from .status import foreign_schedulers, outcome

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube

CHECKS = ("page", "scheduler")
# What pods come from in the probe's namespace.
KINDS = (("apps/v1", "Deployment"), *PODS)


def probe(kube: Kube, settings: Settings, deadline: Deadline) -> list[JsonObject]:
    """Serve a page, fetch it, and return the record of each of CHECKS."""
    token = secrets.token_hex(16)

    def observe() -> tuple[tuple[str, str] | None, str]:
        verdict, reason = outcome(kube.list("v1", "Pod", settings.namespace), token)
        return ((verdict, reason) if verdict else None), reason

    with own_namespace(kube, settings.namespace, deadline, KINDS):
        for manifest in manifests(settings, token, round(deadline.left())):
            kube.create(manifest)
        try:
            verdict, reason = wait_for("the web page", observe, deadline, interval=0.5)
        except WaitTimeout as exc:
            verdict, reason = "failed", exc.message
        foreign = foreign_schedulers(kube.list("v1", "Pod", settings.namespace), settings.scheduler_name)
        seconds = deadline.elapsed()
        placed = ("failed" if foreign else "passed", ", ".join(foreign) or settings.scheduler_name)
        return [record("page", verdict, reason, seconds), record("scheduler", *placed, seconds)]
