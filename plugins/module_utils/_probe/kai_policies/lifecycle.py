# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Run the probe of KAI Scheduler's policies in one cluster."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ..._common.errors import TenancyError
from ..._common.names import KAI_NAMESPACE, POD_GROUP, QUEUE_API_VERSION, QUEUE_KIND, SHARD, TOPOLOGY
from ..._common.ownership import is_owned
from ..._common.values import JsonObject
from ..._common.wait import Deadline, wait_for, when_webhook_answers
from ..._kai.status import scheduler_version
from ..._kai.validation import release
from ..._nodes.status import with_labels
from ..._queues.validation import parse
from ..._queues.values import manifest, pool_of
from ..facts import FAILED, NOT_TRIED, PASSED
from ..lifecycle import CLEAN_UP, INTERVAL, empty_namespace, own_namespace
from ..plan import Settings
from ..status import concluded, result
from .facts import CHECKS, FIRST, HOLD, PARENT, SECOND, TOPOLOGY_NAME
from .plan import Room, Scenario, Step, room, scenario
from .status import difference

if t.TYPE_CHECKING:
    from ..._common.run import Result, Run

# What pods come from first.
KINDS = (("batch/v1", "Job"), ("v1", "Pod"), POD_GROUP)


def probe(run: Run) -> Result:
    """Run the checks that are asked for, one after the other.

    :raises TenancyError: when a check failed, with all results.
    """
    return concluded(PolicyProbe(run).run_checks(), run.deadline.elapsed())


class PolicyProbe:
    """One run of the checks in one cluster."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.kube = run.kube
        self.settings = Settings.of(run.params)

    def run_checks(self) -> list[JsonObject]:
        """Return the results of all checks, in the order of CHECKS."""
        names = sorted(self.run.params["checks"], key=CHECKS.index)
        if self.run.check_mode:
            return [result(name, "", NOT_TRIED, "check mode") for name in names]
        self._remove_queues()
        with own_namespace(self.kube, self.settings.namespace, self.run.deadline, KINDS, self.run.params["namespace_labels"]):
            return [self._check(name, self.run.deadline.share(1 / (len(names) - done))) for done, name in enumerate(names)]

    def _check(self, name: str, deadline: Deadline) -> JsonObject:
        """Run one check in its part of the time; what others do meanwhile decides whether it can be."""
        found = scenario(name, self._room(), self.settings)
        if isinstance(found, str):
            return result(name, "", NOT_TRIED, found)
        began = deadline.clock()
        try:
            self._ensure_queues(found, deadline)
            for step in found.steps:
                self._perform(step, deadline)
            verdict, reason = PASSED, found.outcome
        except TenancyError as exc:
            verdict, reason = FAILED, exc.message
        finally:
            self._clear()
        return result(name, "", verdict, reason, deadline.clock() - began)

    def _room(self) -> Room:
        # Its queues are for the nodes without a pool.
        nodes = [node for node in with_labels(self.kube.list("v1", "Node"), self.settings.node_selector) if not pool_of(node)]
        shard = next((item for item in self.kube.list(*SHARD) if item["metadata"]["name"] == "default"), {})
        return dataclasses.replace(
            room(nodes, self.kube.list("v1", "Pod"), self.settings),
            strategy=((shard.get("spec") or {}).get("placementStrategy") or {}).get("gpu"),
            topologies=self.kube.served(*TOPOLOGY),
            job_gangs=self._job_gangs(),
        )

    def _job_gangs(self) -> bool:
        try:
            return release(scheduler_version(self.kube.list("apps/v1", "Deployment", KAI_NAMESPACE))).job_gangs
        except TenancyError:
            # A build of one's own.
            return False

    def _ensure_queues(self, wanted: Scenario, deadline: Deadline) -> None:
        for queue in parse(wanted.tree()).values():
            create = functools.partial(self.kube.create, manifest(queue))
            when_webhook_answers(f"the webhook of queue {queue.name}", create, deadline)

    def _remove_queues(self) -> None:
        """Remove the probe's queues and topology, leaves first; of this run, or of one that was killed."""
        kinds = [(QUEUE_API_VERSION, QUEUE_KIND, name) for name in (FIRST, SECOND, PARENT)]
        for api_version, kind, name in [*kinds, (*TOPOLOGY, TOPOLOGY_NAME)]:
            if is_owned(self.kube.get(api_version, kind, name)):
                self.kube.delete(api_version, kind, name)

    def _perform(self, step: Step, deadline: Deadline) -> None:
        """Create what a step says, and wait until what has to follow is so, and stays so.

        :raises TenancyError: when it does not come to that in time.
        """
        if step.clears:
            self._empty(deadline)
        for item in step.objects:
            self.kube.create(item)
        since: list[float] = []

        def followed() -> tuple[bool | None, str]:
            wrong = difference(step, self.kube.list("v1", "Pod", self.settings.namespace))
            if wrong:
                since.clear()
                return None, wrong
            since.append(deadline.clock())
            stays = since[-1] - since[0] >= HOLD
            return (True, "") if stays else (None, "it has only been so for a moment")

        wait_for(f"{', '.join(f'{count} {group}' for group, count in step.running.items())} to run", followed, deadline, INTERVAL)

    def _clear(self) -> None:
        try:
            self._empty(self.run.deadline.extended(CLEAN_UP))
        finally:
            # Also where pods do not end: nothing else would remove the queues of this probe.
            self._remove_queues()

    def _empty(self, deadline: Deadline) -> None:
        empty_namespace(self.kube, self.settings.namespace, deadline, KINDS)
