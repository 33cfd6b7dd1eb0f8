# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""KAI Scheduler, in a virtual cluster or shared by several tenants of a host cluster: what the inventory, files and queues have of it.

How it is installed, upgraded and removed is in _kai, and its queues in _queues.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..._common.errors import TenancyError
from ..._common.names import POD_GROUP, QUEUE_API_VERSION, SHARD
from ..._common.schema import Problems
from ..._common.text import shown
from ..._common.values import JsonObject, Values, deep_merge
from ..._kai import validation as kai
from ..._kai.facts import LEAST_QUOTA, POOL_QUOTA, RELEASE_NAME
from ..._kai.values import chart_values, config_in, memory_limit_values, namespace, runtime_class_values
from ..._probe.kai_scheduling.facts import CHECKS
from ..._probe.kai_scheduling.lifecycle import probe
from ..._probe.plan import KAI_OPTIONS
from ..._queues.plan import plan
from ..._queues.pools import ShardPlan, have_pools, plan_shards
from ..._queues.status import counted
from ..._queues.validation import parse
from ..._queues.values import manifest
from ..family import LONGEST_NAME, Family, Probe, Read, differing
from ..model import Entry, Scheduler
from ..status import listed

if t.TYPE_CHECKING:
    from ..._common.run import Params
    from ..._kai.facts import Release

_SHARDS_PATH = f"/apis/{SHARD[0]}/schedulingshards"
_QUEUES_PATH = f"/apis/{QUEUE_API_VERSION}/queues"
_POD_GROUPS_PATH = f"/apis/{POD_GROUP[0]}/podgroups"
# Of queues that cannot be read, as many are named as people read.
_MOST_UNREAD = 10
# What every KAI Scheduler of a tenant is checked for.
_CHECKS = ("cpu", "gpu", "gang", "gang_too_large", "over_limit")
# The hazard that check "burst" looks for. Where it is accepted, the check is not needed.
_RACE = "#1103"


class Kai(Family):
    title = "KAI Scheduler"
    probe = Probe(
        "kai_scheduling",
        probe,
        {
            **KAI_OPTIONS,
            "namespace": "kai-probe",
            "timeout": 240,
            "queues": [],
            "checks": list(CHECKS),
            "accept_hazards": [],
            "node_selector": {},
            "namespace_labels": {},
            "max_age": None,
        },
    )

    def checked(self, entry: Entry, problems: Problems) -> Scheduler:
        """Check a release, and whether it can schedule these queues; the version is then as upstream writes it."""
        scheduler, here, path = entry.scheduler, entry.here, entry.path
        for key in ("chart", "repository"):
            if entry.given.get(key):
                problems.add("not-applicable", f"{here}.{key}", "KAI Scheduler's chart is known; leave it out.")
        problems.ask(f"{here}.", lambda: kai.check_hazard_names(scheduler.accept_hazards))
        if "version" not in entry.given:
            problems.add("missing", f"{here}.version", "is missing.")
            return scheduler
        release = problems.ask(f"{here}.", lambda: kai.release(scheduler.version))
        limits = (release.queue_levels, release.version) if release else ()
        found = problems.ask(f"{path}.", lambda: parse(entry.queues, *limits))
        if release is None:
            return scheduler
        problems.ask(f"{path}.", lambda: kai.check_node_pools(release, found or {}))
        problems.ask(f"{here}.", lambda: kai.check_runtime_class(release, entry.runtime_class, scheduler.gpu_sharing))
        asked = memory_limit_values(release) if scheduler.gpu_memory_enforced else {}
        values = deep_merge(deep_merge(_platform_values(entry, release), asked), scheduler.values)
        if scheduler.gpu_memory_enforced:
            problems.ask(f"{here}.", lambda: kai.check_memory_limits(release, scheduler.gpu_sharing, values))
        return dataclasses.replace(scheduler, version=release.version, values=values)

    def needs(self, scheduler: Scheduler, queues: t.Sequence[JsonObject]) -> list[tuple[str, JsonObject]]:
        try:
            pools = sorted({queue.pool for queue in parse(list(queues)).values() if queue.pool})
        except TenancyError:
            # What is wrong with the queues is told elsewhere.
            pools = []
        return [("KAI Scheduler", LEAST_QUOTA), *((f"the scheduler of node pool {pool}", POOL_QUOTA) for pool in pools)]

    def default_values(self, scheduler: Scheduler) -> Values:
        return chart_values(kai.release(scheduler.version), scheduler.gpu_sharing)

    def release_name(self, scheduler: Scheduler) -> str:
        return RELEASE_NAME

    def documents(
        self, scheduler: Scheduler, queues: t.Sequence[JsonObject], manifests: t.Sequence[JsonObject]
    ) -> dict[str, list[JsonObject]]:
        found = parse(list(queues))
        shards = plan_shards(found, [], [], "present", ()).create
        # Hooks of the chart would make it, and do not run.
        config = config_in(manifests)
        return {
            "namespace.yaml": [namespace(scheduler.accept_hazards)],
            "config.yaml": [config] if config else [],
            "queues.yaml": [*shards, *map(manifest, found.values())],
        }

    def compare_queues(self, queues: t.Sequence[JsonObject], read: Read) -> tuple[list[str], list[JsonObject]]:
        live, unread = counted(read(_QUEUES_PATH), read(_POD_GROUPS_PATH))
        reasons = [shown(one.sentence) for one in unread[:_MOST_UNREAD]]
        reasons += differing(lambda: plan(parse(list(queues)), live, "exact"))
        return [*reasons, *_differing_shards(queues, live, read)], live

    def probe_options(self, scheduler: Scheduler, params: Params) -> Params:
        checks = [*_CHECKS, *(["fraction"] if scheduler.gpu_sharing else [])]
        checks += ["burst"] if scheduler.gpu_sharing and _RACE not in scheduler.accept_hazards else []
        return {"checks": checks, "accept_hazards": scheduler.accept_hazards, "runtime_class": params["runtime_class"]}


def _platform_values(entry: Entry, release: Release) -> Values:
    """Return the values that the platform asks for, which the user's are merged over."""
    tolerations: Values = {"global": {"tolerations": list(entry.tolerations)}} if entry.tolerations and entry.on_host else {}
    return deep_merge(runtime_class_values(release, entry.runtime_class), tolerations)


def _differing_shards(queues: t.Sequence[JsonObject], live: list[JsonObject], read: Read) -> list[str]:
    """Return a reason that names the SchedulingShards that differ, or why that cannot be told; none where all are as desired.

    They are read only where a queue is, or is to be, in a node pool.
    """
    try:
        wanted = parse(list(queues))
        shards = plan_shards(wanted, live, read(_SHARDS_PATH), "exact", ()) if have_pools(wanted, live) else ShardPlan()
    except TenancyError as exc:
        return [f"its SchedulingShards differ: {shown(exc.message)}"]
    names = sorted([*(item["metadata"]["name"] for item in shards.create), *shards.delete])
    return [f"its SchedulingShards differ: {listed(names, LONGEST_NAME)}"] if names else []
