# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What we know about KAI Scheduler's releases, as data.

A fact holds for a range of versions, not for a minor: 0.9.2 and 0.9.3 were cut from main, 0.9.4 to 0.9.20 from the 0.9
branch, and the two install differently. The source stands beside each row; "#" is an issue or pull request of
kai-scheduler/KAI-Scheduler, a path is one in its repository at the tags of that range.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for

Object = dict[str, t.Any]
Values = dict[str, t.Any]
Version = tuple[int, int, int]
T = t.TypeVar("T")

CHART = RELEASE_NAME = "kai-scheduler"
# The charts' own clean-up has this name built in until 0.15 (#1618), so there is no other.
NAMESPACE = "kai-scheduler"
RESERVATION_NAMESPACE = "kai-resource-reservation"
SCALE_ADJUST_NAMESPACE = "kai-scale-adjust"
SCHEDULER_NAME = "kai-scheduler"
CONFIG = ("kai.scheduler/v1", "Config", "kai-config")
SHARD = ("kai.scheduler/v1", "SchedulingShard")
OPERATOR = "kai-operator"
# Label "app" of the scheduler's pods, before and since 0.10.
SCHEDULERS = ("scheduler", "kai-scheduler-default")

# test/e2e/modules/wait/kai_config.go: what upstream waits for, on the Config and on each shard.
CONDITIONS = ("Deployed", "Available", "DependenciesFulfilled")

# Tags of each line, first and last known (git tag; pkg.go.dev for 0.18). There is no 0.11, and 0.20 is retracted in
# go.mod: never "the latest by number".
LINES: tuple[tuple[Version, Version], ...] = (
    ((0, 7, 0), (0, 7, 13)),
    ((0, 8, 0), (0, 8, 5)),
    ((0, 9, 0), (0, 9, 20)),
    ((0, 10, 0), (0, 10, 5)),
    ((0, 12, 0), (0, 12, 23)),
    ((0, 13, 0), (0, 13, 4)),
    ((0, 14, 0), (0, 14, 9)),
    ((0, 15, 0), (0, 15, 3)),
    ((0, 16, 0), (0, 16, 9)),
    ((0, 17, 0), (0, 17, 0)),
    ((0, 18, 0), (0, 18, 6)),
)
RETRACTED = ((0, 20),)

_EVER: Version = (0, 0, 0)
_OPEN: Version = (999, 0, 0)


@dataclasses.dataclass(frozen=True)
class Fact:
    """Something that is so from ``first`` to ``last``, both included."""

    first: Version
    last: Version
    value: t.Any
    source: str


_OLD_HOME = "oci://ghcr.io/nvidia/kai-scheduler/kai-scheduler"
_NEW_HOME = "oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler"

_OPERANDS = ("pod-grouper", "binder", "queue-controller", "podgroup-controller", "admission")

CRDS = (
    "bindrequests.scheduling.run.ai",
    "podgroups.scheduling.run.ai",
    "queues.scheduling.run.ai",
    "configs.kai.scheduler",
    "schedulingshards.kai.scheduler",
    "topologies.kai.scheduler",
)

FACTS: dict[str, tuple[Fact, ...]] = {
    # Where the chart is; its images are beside it.
    "chart": (
        Fact(_EVER, (0, 9, 15), _OLD_HOME, ".github/workflows/push-artifacts.yaml"),
        Fact((0, 9, 16), (0, 9, 99), _NEW_HOME, ".github/workflows/push-artifacts.yaml"),
        Fact((0, 10, 0), (0, 12, 17), _OLD_HOME, ".github/workflows/push-artifacts.yaml"),
        Fact((0, 12, 18), (0, 12, 99), _NEW_HOME, ".github/workflows/push-artifacts.yaml"),
        Fact((0, 13, 0), (0, 13, 0), _OLD_HOME, ".github/workflows/push-artifacts.yaml"),
        Fact((0, 13, 1), _OPEN, _NEW_HOME, ".github/workflows/push-artifacts.yaml"),
    ),
    # What precedes the number in the chart's tag.
    "tag_prefix": (
        Fact(_EVER, (0, 18, 4), "v", ".github/workflows/push-artifacts.yaml"),
        Fact((0, 18, 5), _OPEN, "", "chart dependencies of kai-resource-management (inferred for the chart itself)"),
    ),
    # Kind of installation: Deployments by Helm, or an operator that acts on a Config.
    "operator": (
        Fact(_EVER, (0, 8, 99), False, "deployments/kai-scheduler/templates/services"),
        Fact((0, 9, 0), _OPEN, True, "deployments/kai-scheduler/templates/services/operator.yaml"),
    ),
    # The SchedulingShard "default", from which the operator makes the scheduler's Deployment.
    "shard": (
        Fact(_EVER, (0, 9, 99), False, "deployments/kai-scheduler/templates"),
        Fact((0, 10, 0), _OPEN, True, "deployments/kai-scheduler/templates/default-shard.yaml"),
    ),
    # The Deployments without which nothing is scheduled.
    "deployments": (
        Fact(
            _EVER,
            (0, 8, 99),
            ("binder", "podgrouper", "podgroup-controller", "queuecontroller", "scheduler"),
            "deployments/kai-scheduler/templates/services",
        ),
        Fact((0, 9, 0), (0, 9, 99), (OPERATOR, "scheduler", *_OPERANDS), "templates/services, pkg/operator/operands"),
        Fact((0, 10, 0), _OPEN, (OPERATOR, "kai-scheduler-default", *_OPERANDS), "templates/services, pkg/operator/operands"),
    ),
    # The CRDs of its objects.
    "crds": (
        Fact(_EVER, (0, 8, 99), CRDS[:3], "cmd of the image crd-upgrader"),
        Fact((0, 9, 0), (0, 10, 99), CRDS[:5], "deployments/kai-scheduler/crds"),
        Fact((0, 12, 0), _OPEN, CRDS, "deployments/kai-scheduler/crds"),
    ),
    # Whether its operator does not start without the CRD of NVIDIA's GPU operator.
    "needs_cluster_policy": (
        Fact(_EVER, (0, 8, 99), False, "no operator"),
        Fact((0, 9, 0), (0, 10, 99), True, "pkg/operator/controller/config_controller.go, #649, #659"),
        Fact((0, 12, 0), _OPEN, False, "#717"),
    ),
    # How many levels of queues are scheduled, exactly; None for any number.
    "queue_levels": (
        Fact(_EVER, (0, 12, 99), 2, "pkg/scheduler/actions/utils/job_order_by_queue.go"),
        Fact((0, 13, 0), _OPEN, None, "pkg/scheduler/actions/utils/job_order_by_queue.go"),
    ),
    "default_queues": (
        Fact(_EVER, (0, 9, 99), (), "deployments/kai-scheduler/templates"),
        Fact((0, 10, 0), _OPEN, ("default-parent-queue", "default-queue"), "templates/default-queue.yaml"),
    ),
    # What `helm uninstall` leaves: its clean-up hook removes nothing, Deployments, or the Config as well.
    "uninstall_removes": (
        Fact(_EVER, (0, 9, 4), "all", "ownership of the Config's operands (inferred)"),
        Fact((0, 9, 5), (0, 10, 1), "nothing", "templates/kai-config.yaml is a hook, no templates/hooks/post"),
        Fact((0, 10, 2), (0, 12, 99), "deployments", "templates/hooks/post/post-delete-job.yaml, #751"),
        Fact((0, 13, 0), _OPEN, "all", "templates/hooks/post/post-delete-job.yaml"),
    ),
    # Keys in the chart's values; None where the chart has none.
    "gpu_sharing_key": (Fact(_EVER, _OPEN, "global.gpuSharing", "values.yaml; after 0.17 deprecated, but honoured"),),
    "cdi_key": (
        Fact(_EVER, (0, 9, 1), "binder.cdi", "templates/services/binder.yaml"),
        Fact((0, 9, 2), (0, 9, 3), None, "templates/kai-config.yaml"),
        Fact((0, 9, 4), (0, 9, 99), "binder.cdi", "templates/services/binder.yaml"),
        Fact((0, 10, 0), (0, 12, 10), None, "templates/kai-config.yaml"),
        Fact((0, 12, 11), _OPEN, "binder.cdiEnabled", "templates/kai-config.yaml"),
    ),
    # Where the RuntimeClass of reservation pods has to be set; None where it is nvidia already, or cannot be set.
    "reservation_runtime_key": (
        Fact(_EVER, (0, 9, 6), None, "none can be set: needs nvidia as the nodes' default runtime, #340"),
        Fact((0, 9, 7), (0, 9, 99), "global.resourceReservation.runtimeClassName", "templates/services/binder.yaml"),
        Fact((0, 10, 0), (0, 15, 99), None, "pkg/common/constants: DefaultRuntimeClassName"),
        Fact((0, 16, 0), _OPEN, "binder.runtimeClassName", "templates/kai-config.yaml (the docs name another key)"),
    ),
    # Whether a hook looks for Topologies of Kueue, to copy them; a pod that every installation waits for.
    "topology_migration": (
        Fact(_EVER, (0, 11, 99), False, "templates/hooks: no such job"),
        Fact((0, 12, 0), _OPEN, True, "templates/hooks/pre/topology-migration/job.yaml, topologyMigration.enabled"),
    ),
    # Requests per second that keep the operator from taking a core: it answers its own status changes without pause.
    "operator_qps": (
        Fact(_EVER, (0, 12, 99), None, "no such loop seen with v0.12.0"),
        Fact((0, 13, 0), (0, 13, 99), 5, "seen: v0.13.1 changes its SchedulingShard's status 13,314 times in 17 minutes"),
        Fact((0, 14, 0), _OPEN, None, "not tried"),
    ),
    # Long-term support, of a year.
    "long_term": (
        Fact(_EVER, (0, 8, 99), False, "SUPPORT.md"),
        Fact((0, 9, 0), (0, 9, 99), True, "SUPPORT.md: transitional"),
        Fact((0, 10, 0), (0, 10, 99), False, "SUPPORT.md"),
        Fact((0, 12, 0), (0, 12, 99), True, "SUPPORT.md: from 0.12 on, even numbers are"),
        Fact((0, 13, 0), (0, 13, 99), False, "SUPPORT.md"),
        Fact((0, 14, 0), (0, 14, 99), True, "SUPPORT.md"),
        Fact((0, 15, 0), (0, 15, 99), False, "SUPPORT.md"),
        Fact((0, 16, 0), (0, 16, 99), True, "SUPPORT.md"),
        Fact((0, 17, 0), (0, 17, 99), False, "SUPPORT.md"),
        Fact((0, 18, 0), _OPEN, True, "SUPPORT.md: even numbers are"),
    ),
    # The last month with corrections, as YYYY-MM; None where it is not known yet.
    "end_of_support": (
        Fact(_EVER, (0, 8, 99), "2025-09", "SUPPORT.md: never listed, followed by 0.9"),
        Fact((0, 9, 0), (0, 9, 99), "2026-09", "SUPPORT.md"),
        Fact((0, 10, 0), (0, 10, 99), "2025-12", "SUPPORT.md: until 0.12"),
        Fact((0, 12, 0), (0, 12, 99), "2026-12", "SUPPORT.md"),
        Fact((0, 13, 0), (0, 13, 99), "2026-03", "SUPPORT.md: until 0.14"),
        Fact((0, 14, 0), (0, 14, 99), "2027-03", "SUPPORT.md"),
        Fact((0, 15, 0), (0, 15, 99), "2026-06", "SUPPORT.md: until 0.16"),
        Fact((0, 16, 0), (0, 16, 99), "2027-06", "SUPPORT.md"),
        Fact((0, 17, 0), (0, 17, 99), "2026-10", "SUPPORT.md: until 0.18"),
        Fact((0, 18, 0), (0, 18, 99), "2027-10", "SUPPORT.md: a year"),
        Fact((0, 19, 0), _OPEN, None, "not released when this was written"),
    ),
    # Minor versions of Kubernetes that upstream tests with, both included; None where it does not say.
    "kubernetes": (
        Fact(_EVER, (0, 13, 99), None, "SUPPORT.md"),
        Fact((0, 14, 0), (0, 15, 99), ((1, 31), (1, 35)), "SUPPORT.md"),
        Fact((0, 16, 0), _OPEN, ((1, 28), (1, 36)), "SUPPORT.md"),
    ),
    # An upgrade makes the Config anew, and with it service accounts: a scheduler that goes on is not authorised any more.
    "restart_after_upgrade": (
        Fact(_EVER, (0, 9, 4), False, "templates/kai-config.yaml is no hook"),
        Fact((0, 9, 5), (0, 12, 21), True, "templates/kai-config.yaml is a hook, #1536"),
        Fact((0, 12, 22), (0, 12, 99), False, "templates/hooks: kai-config-deployer"),
        Fact((0, 13, 0), (0, 14, 5), True, "templates/kai-config.yaml is a hook, #1536"),
        Fact((0, 14, 6), (0, 14, 99), False, "templates/hooks: kai-config-deployer"),
        Fact((0, 15, 0), (0, 15, 2), True, "templates/kai-config.yaml is a hook, #1536"),
        Fact((0, 15, 3), _OPEN, False, "templates/hooks: kai-config-deployer"),
    ),
}

_RESERVATION_RACE = (
    "when pods that share GPUs start at once, a GPU's reservation can be taken away while it is used, and the GPU is given twice"
)
HAZARDS: tuple[Fact, ...] = (
    Fact(_EVER, (0, 12, 99), "its pod webhook stops every pod of the cluster while it does not answer", "#104, #227, #883"),
    Fact(_EVER, (0, 9, 15), _RESERVATION_RACE, "#1103"),
    Fact((0, 10, 0), (0, 12, 18), _RESERVATION_RACE, "#1103"),
    Fact((0, 13, 0), (0, 14, 0), _RESERVATION_RACE, "#1103; seen here with v0.13.1"),
    Fact(_EVER, (0, 9, 6), "GPU sharing needs nvidia as the default runtime of the nodes", "#340"),
)

# What can be left in a cluster, whatever the release. Webhooks fail closed, so they go first.


@dataclasses.dataclass(frozen=True)
class Passage:
    """Something to know of a way from one release to another: ``start`` and ``end`` are ranges, both ends included."""

    start: tuple[Version, Version]
    end: tuple[Version, Version]
    what: str
    source: str


PASSAGES: tuple[Passage, ...] = (
    Passage((_EVER, (0, 8, 99)), ((0, 9, 0), _OPEN), "helm brings no CRDs with an upgrade: they are applied first", "#549"),
    Passage(
        (_EVER, (0, 12, 99)), ((0, 13, 0), _OPEN), "queues below the second level are scheduled from now on", "release notes"
    ),
    Passage(
        ((0, 13, 0), _OPEN),
        (_EVER, (0, 12, 99)),
        "queues below the second level would not be scheduled any more",
        "see queue_levels",
    ),
    Passage(
        ((0, 13, 0), (0, 13, 99)),
        ((0, 14, 0), _OPEN),
        "kept values break the chart: all values are given anew",
        "values.yaml: prometheus",
    ),
    Passage(
        (_EVER, (0, 15, 99)),
        ((0, 16, 0), _OPEN),
        "pods with whole GPUs get no RuntimeClass any more, and reservation pods only the one that is set",
        "values.yaml: admission.gpuFractionRuntimeClassName, binder.runtimeClassName",
    ),
    Passage(
        (_EVER, (0, 14, 99)),
        ((0, 15, 0), _OPEN),
        "scheduler.additionalArgs is gone, scheduler.args is a map of strings",
        "values.yaml",
    ),
)

# Keys of users' values that moved: the old one, the first release without it, the new one or None.
RENAMED: tuple[tuple[str, Version, str | None], ...] = (
    ("webhookmanager", (0, 9, 0), None),
    ("scheduler.additionalArgs", (0, 10, 0), "scheduler.args, from 0.15 on"),
    ("binder.additionalArgs", (0, 10, 0), None),
    ("binder.cdi", (0, 10, 0), "binder.cdiEnabled, from 0.12.11 on"),
    ("global.resourceReservation.runtimeClassName", (0, 10, 0), "binder.runtimeClassName"),
    ("binder.resourceReservation.runtimeClassName", (0, 7, 0), "binder.runtimeClassName, whatever upstream's documentation says"),
    ("admission.cdi", (0, 7, 0), "binder.cdiEnabled, whatever upstream's values.yaml says"),
)

WEBHOOKS: tuple[tuple[str, str], ...] = (
    ("MutatingWebhookConfiguration", "mutating-kai-admission"),  # pkg/apis/kai/v1/admission
    ("ValidatingWebhookConfiguration", "validating-kai-admission"),
    ("ValidatingWebhookConfiguration", "kai-queue-validation-v2"),  # pkg/apis/kai/v1/queue_controller
    ("ValidatingWebhookConfiguration", "kai-podgroup-validation-v2alpha2"),  # pkg/apis/kai/v1/pod_group_controller
    ("MutatingWebhookConfiguration", "kai-binder"),  # 0.7, 0.8: templates
    ("ValidatingWebhookConfiguration", "kai-binder"),
    ("ValidatingWebhookConfiguration", "kai-queuecontroller"),
)
# Cluster-scoped objects of hooks: Helm does not record them (templates/hooks).
HOOK_ROLES = ("kai-scheduler-crd-manager", "kai-topology-migration", "post-delete-cleanup", "kai-config-deployer")
KUEUE_TOPOLOGIES = "topologies.kueue.x-k8s.io"
OWNED_LABELS = {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}
# Enough of NVIDIA's CRD for an operator that lists its objects.
CLUSTER_POLICY_CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterpolicies.nvidia.com", "labels": OWNED_LABELS},
    "spec": {
        "group": "nvidia.com",
        "scope": "Cluster",
        "names": {
            "kind": "ClusterPolicy",
            "listKind": "ClusterPolicyList",
            "plural": "clusterpolicies",
            "singular": "clusterpolicy",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@dataclasses.dataclass(frozen=True)
class Release:
    """One release with every fact that holds for it; the fields are described in FACTS.

    :ivar version: as users name it, with a leading v.
    :ivar known: False for a release newer than what the table was made from.
    """

    version: str
    known: bool
    chart: str
    tag_prefix: str
    operator: bool
    shard: bool
    deployments: tuple[str, ...]
    crds: tuple[str, ...]
    needs_cluster_policy: bool
    queue_levels: int | None
    default_queues: tuple[str, ...]
    uninstall_removes: str
    gpu_sharing_key: str
    cdi_key: str | None
    reservation_runtime_key: str | None
    topology_migration: bool
    operator_qps: int | None
    long_term: bool
    end_of_support: str | None
    kubernetes: tuple[tuple[int, int], tuple[int, int]] | None
    restart_after_upgrade: bool
    hazards: tuple[str, ...]

    @property
    def chart_version(self) -> str:
        return self.tag_prefix + self.version.removeprefix("v")

    @property
    def registry(self) -> str:
        """Where the images are. Charts packaged from the source, and release assets, name another one."""
        return self.chart.removeprefix("oci://").rpartition("/")[0]

    @property
    def scheduler(self) -> str:
        """The Deployment of the scheduler, whose pods carry its name as label ``app``."""
        return next(name for name in self.deployments if "scheduler" in name)

    def values(self, gpu_sharing: bool, cdi: bool | None = None, kueue: bool = False) -> Values:
        """What has to be set for this release to work as asked.

        :arg cdi: whether the device plugin hands GPUs out by CDI; None leaves it to KAI.
        :arg kueue: whether the cluster has Kueue's Topologies, which some releases copy.
        """
        settings: dict[str, t.Any] = {"global.registry": self.registry, self.gpu_sharing_key: gpu_sharing}
        if cdi is not None:
            if self.cdi_key is None:
                raise TenancyError(f"cdi: cannot be set in KAI Scheduler {self.version}. v0.12.11 and later can.")
            settings[self.cdi_key] = cdi
        if gpu_sharing and self.reservation_runtime_key:
            settings[self.reservation_runtime_key] = "nvidia"
        if self.topology_migration and not kueue:
            settings["topologyMigration.enabled"] = False
        if self.operator_qps:
            settings["operator.qps"] = self.operator_qps
        values: Values = {}
        for path, value in settings.items():
            *groups, key = path.split(".")
            inner = values
            for group in groups:
                inner = inner.setdefault(group, {})
            inner[key] = value
        return values


def number(version: str) -> Version:
    """A version, with or without its leading v, for comparison."""
    found = re.fullmatch(r"v?(\d+)\.(\d+)\.(\d+)", version)
    if not found:
        raise TenancyError(f"version: {version!r} is not a version of KAI Scheduler such as v0.13.1.")
    return int(found[1]), int(found[2]), int(found[3])


def release(version: str) -> Release:
    """What is known about a version, with or without its leading v.

    A version newer than the table is taken for the newest one, and says so.
    """
    exact = number(version)
    if exact[:2] in RETRACTED:
        raise TenancyError(f"version: {version} of KAI Scheduler was retracted upstream. Known are {_known()}.")
    line = next((line for line in LINES if line[0][:2] == exact[:2]), None)
    if line is None and exact < LINES[-1][0]:
        raise TenancyError(f"version: there is no KAI Scheduler {version} that this collection knows. Known are {_known()}.")
    values = {name: next(fact.value for fact in facts if fact.first <= exact <= fact.last) for name, facts in FACTS.items()}
    hazards = tuple(f"{fact.value} ({fact.source})" for fact in HAZARDS if fact.first <= exact <= fact.last)
    known = line is not None and exact <= line[1]
    return Release(version=f"v{version.removeprefix('v')}", known=known, hazards=hazards, **values)


def passages(before: str, after: str) -> list[str]:
    """What is known to happen on the way from one version to another."""
    start, end = number(before), number(after)
    return [
        f"{passage.what} ({passage.source})"
        for passage in PASSAGES
        if passage.start[0] <= start <= passage.start[1] and passage.end[0] <= end <= passage.end[1]
    ]


def renamed(values: Values, version: str) -> list[str]:
    """Which of a user's values the release's chart would ignore, and where they are now."""
    found = []
    for path, gone, new in RENAMED:
        inner: t.Any = values
        for key in path.split("."):
            inner = inner.get(key) if isinstance(inner, dict) else None
        if inner is not None and number(version) >= gone:
            found.append(f"values.{path}: is not read by {version}. " + (f"Use {new}." if new else "Nothing replaces it."))
    return found


def _known() -> str:
    return ", ".join(f"v{major}.{minor}.{first}" + (f"-{last[2]}" if last[2] else "") for (major, minor, first), last in LINES)


# --- readiness ---------------------------------------------------------------------------------------------------


def unready(objects: t.Iterable[Object]) -> list[str]:
    """What a Config and SchedulingShards still lack, by the conditions for their current generation."""
    lacking = []
    for item in objects:
        generation = item["metadata"].get("generation")
        conditions = {condition["type"]: condition for condition in item.get("status", {}).get("conditions") or []}
        for name in CONDITIONS:
            condition = conditions.get(name, {})
            if condition.get("status") != "True" or condition.get("observedGeneration") != generation:
                said = condition.get("message") or "not reported yet"
                lacking.append(f"{item['kind']} {item['metadata']['name']} is not {name}: {said}")
                break
    return lacking


def without_ca(webhooks: t.Iterable[Object]) -> list[str]:
    """Which webhook configurations cannot be called yet, because the job that gives them a CA has not run."""
    return [
        f"{item['kind']} {item['metadata']['name']} has no CA yet"
        for item in webhooks
        if (item["kind"], item["metadata"]["name"]) in WEBHOOKS
        and not all(webhook["clientConfig"].get("caBundle") for webhook in item.get("webhooks", []))
    ]


def unavailable(names: t.Iterable[str], deployments: t.Iterable[Object]) -> list[str]:
    """Which of the named Deployments are missing or not completely rolled out."""
    found = {item["metadata"]["name"]: item for item in deployments}
    lacking = []
    for name in names:
        item = found.get(name)
        if item is None:
            lacking.append(f"Deployment {name} does not exist")
            continue
        status, wanted = item.get("status", {}), item["spec"].get("replicas", 1)
        current = status.get("observedGeneration") == item["metadata"].get("generation")
        ready = min(status.get("availableReplicas", 0), status.get("updatedReplicas", 0)) if current else 0
        if ready < wanted:
            lacking.append(f"Deployment {name} has {ready} of {wanted} pods available")
        elif status.get("replicas", 0) > wanted:
            lacking.append(f"Deployment {name} still has old pods")
    return lacking


def troubles(pods: t.Iterable[Object]) -> list[str]:
    """Why pods do not start, such as an image that cannot be pulled."""
    found = []
    for pod in pods:
        statuses = pod.get("status", {}).get("containerStatuses") or []
        for waiting in (status.get("state", {}).get("waiting") or {} for status in statuses):
            if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                found.append(f"pod {pod['metadata']['name']}: {waiting['reason']} {waiting.get('message', '')}".rstrip())
    return found


def when_webhook_answers(what: str, write: t.Callable[[], T], timeout: float) -> T:
    """Write, and again while the webhook that has to agree does not answer.

    The queue controller has no readiness probe, so it counts as ready before it listens (#1980).
    """

    def attempt() -> tuple[list[T] | None, str]:
        try:
            return [write()], ""
        except TenancyError as exc:
            if "failed calling webhook" not in exc.message:
                raise
            return None, exc.message

    return wait_for(what, attempt, timeout)[0]
