# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Volcano: queues without children from a tenant's tree, gangs by its own Job, and why they wait."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._common.schema import Problems
from ..._common.values import JsonObject, Values, deep_merge, value_at
from ..._common.variables import VOLCANO
from ..._probe.plan import POD_OPTIONS
from ..family import Family, Probe, Read, differing
from ..model import Entry, Scheduler
from .facts import QUEUE_API, REPOSITORY
from .lifecycle import reconcile_queues
from .pending import waiting
from .plan import plan
from .probe import NAMESPACE, probe
from .validation import check_pod_security, known, read_queues, release
from .values import chart_values, manifest

if t.TYPE_CHECKING:
    from ..._adapters.kubernetes import Kube
    from ..._common.parties import Unread
    from ..._common.pods import Answer
    from ..._common.run import Run
    from ..._common.values import Key

_QUEUES_PATH = f"/apis/{QUEUE_API}/queues"


class Volcano(Family):
    title = "Volcano"
    chart = (VOLCANO, REPOSITORY)
    has_queues = True
    probe = Probe("volcano_scheduling", probe, {**POD_OPTIONS, "namespace": NAMESPACE, "timeout": 120, "queues": []})

    def checked(self, entry: Entry, problems: Problems) -> Scheduler:
        scheduler = super().checked(entry, problems)
        # As the chart's archive is named; images have a v.
        version = scheduler.version.removeprefix("v")
        if version:
            problems.ask(f"{entry.here}.", lambda: release(version))
        problems.ask(f"{entry.path}.", lambda: read_queues(entry.queues, version))
        values = deep_merge(chart_values(known(version), entry.tolerations), scheduler.values)
        return dataclasses.replace(scheduler, version=version, values=values)

    def check_virtual_cluster(self, scheduler: Scheduler, values: Values) -> None:
        if scheduler.version:
            check_pod_security(scheduler.version, value_at(values, "policies.podSecurityStandard"))

    def documents(
        self, scheduler: Scheduler, queues: t.Sequence[JsonObject], manifests: t.Sequence[JsonObject]
    ) -> dict[str, list[JsonObject]]:
        found = read_queues(list(queues), scheduler.version)
        return super().documents(scheduler, queues, manifests) | {"queues.yaml": list(map(manifest, found.values()))}

    def reconcile_queues(self, run: Run, queues: t.Sequence[JsonObject], version: str) -> list[str]:
        wanted = read_queues(list(queues), version)
        reconcile_queues(run, wanted)
        return list(wanted)

    def compare_queues(self, queues: t.Sequence[JsonObject], read: Read) -> tuple[list[str], None]:
        live = read(_QUEUES_PATH)
        return differing(lambda: plan(read_queues(list(queues)), live)), None

    def waiting(self, kube: Kube, pods: t.Sequence[JsonObject]) -> tuple[dict[Key, Answer], list[Unread]]:
        return waiting(kube, pods)
