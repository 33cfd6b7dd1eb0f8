# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge tenants by what lies on their host cluster: what they are, and whether there is anything to do for them.

A tenant needs no work while what was verified last still stands: the same was asked for, everything that the host cluster shows
of it is as it was then, and not too much time has passed. All of that is read for all tenants at once, by a few LISTs.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import typing as t

from .._common.documents import parse_json
from .._common.names import HOST_SCHEDULER_LABEL, KAI_NAMESPACE, KAI_SCHEDULERS, KUBECONFIG_SECRET, TENANT_LABEL
from .._common.ownership import annotations_of, labels_of, own
from .._common.pods import container_statuses, image_tag, is_ended
from .._common.synced import synced_from
from .._common.text import shown
from .._common.values import JsonObject, stamp, stamped
from .._desired.model import Tenant
from .._metrics.plan import shown as shown_object
from .._nodes.status import owners
from .._vcluster import facts as vc
from .._vcluster.status import control_plane_pods, is_paused, judge, kubernetes_version
from .._vcluster.values import expiry
from .facts import CHANGE, RECORD, RECORDED, VERIFY

_OWN_KEYS = "kubegpu.tenancy/"
# Images of one tenant that are named at most: those of a control plane, and of a KAI Scheduler, which has about a dozen.
_MOST_IMAGES = 40

Key = t.TypeVar("Key", str, "str | None")


# --- what was verified -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Verified:
    """What was verified of a tenant, and what that rests on.

    :ivar wanted: digest of its desired state; ``fingerprint``, of what the host cluster showed of it.
    :ivar at: when, in UTC.
    :ivar results: the checks, as the probes of this collection return them.
    """

    wanted: str
    fingerprint: str
    at: datetime.datetime
    results: tuple[JsonObject, ...]

    def data(self) -> dict[str, str]:
        """Return the data of a ConfigMap that records it."""
        return {
            "wanted": self.wanted,
            "fingerprint": self.fingerprint,
            "at": stamp(self.at),
            "results": json.dumps(self.results),
        }


def verified(record: JsonObject | None) -> Verified | None:
    """Read the ConfigMap that records a verification; None where there is none, or it cannot be read as one."""
    data = (record or {}).get("data") or {}
    try:
        at = stamped(data["at"])
        results = tuple({key: result[key] for key in ("name", "verdict")} | result for result in parse_json(data["results"]))
        return Verified(data["wanted"], data["fingerprint"], at, results)
    except (KeyError, TypeError, ValueError):
        return None


def results(parts: t.Mapping[str, JsonObject]) -> list[JsonObject]:
    """Return the results of all checks of a tenant that are recorded, also of a probe that failed.

    :arg parts: what the parts of the work on it returned, by their names.
    """
    return [result for part in RECORDED for result in (parts.get(part) or {}).get("results") or []]


# --- what there is -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Live:
    """What the host cluster shows of one tenant.

    :ivar namespace: None where it has none; ``workload``, its control plane's StatefulSet or Deployment, and ``service`` alike.
    :ivar pods: of its namespace, synced ones included.
    :ivar nodes: those labelled for it.
    :ivar secret: with its kubeconfig.
    :ivar record: ConfigMap of what was verified last.
    :ivar host_scheduler: pods of the host cluster's KAI Scheduler, where that places the tenant's pods.
    :ivar policies: of the host cluster's API server, by which its pods keep to its queues there.
    :ivar metrics: objects of its namespace by which a Prometheus, and no other client, reads its KAI Scheduler.
    :ivar bounds: NetworkPolicies, ResourceQuotas and LimitRanges of its namespace that its virtual cluster did not bring.
    """

    namespace: JsonObject | None = None
    workload: JsonObject | None = None
    service: JsonObject | None = None
    pods: tuple[JsonObject, ...] = ()
    nodes: tuple[JsonObject, ...] = ()
    secret: JsonObject | None = None
    record: JsonObject | None = None
    host_scheduler: tuple[JsonObject, ...] = ()
    policies: tuple[JsonObject, ...] = ()
    metrics: tuple[JsonObject, ...] = ()
    bounds: tuple[JsonObject, ...] = ()

    @property
    def state(self) -> str:
        """absent, paused, running, starting, crashing or removing."""
        if self.namespace is None:
            return "absent"
        if "deletionTimestamp" in self.namespace["metadata"]:
            return "removing"
        if self.workload is None:
            return "starting"
        if is_paused(self.workload):
            return "paused"
        verdict = judge(self.workload, control_plane(self))
        return "running" if verdict.ready else "crashing" if verdict.crashed else "starting"

    @property
    def verified(self) -> Verified | None:
        """What was verified last; None where nothing readable is recorded."""
        return verified(self.record)

    @property
    def vcluster_version(self) -> str | None:
        """Version of the chart by which its control plane was installed last."""
        return labels_of(self.workload).get("chart", "").removeprefix(f"{vc.CHART}-") or None

    @property
    def kubernetes_version(self) -> str | None:
        """Version of its own Kubernetes, by the image of its control plane."""
        return kubernetes_version(self.workload) if self.workload else None

    @property
    def scheduler_version(self) -> str | None:
        """Version of the KAI Scheduler that places its pods; None where none is known.

        Of its own one, the version that this collection installed: what its pods say, its administrator can write. Of the host
        cluster's, what its pods run.
        """
        for pod in self.host_scheduler:
            if labels_of(pod).get("app") in KAI_SCHEDULERS:
                return image_tag(str(pod["spec"]["containers"][0].get("image", ""))) or None
        return annotations_of(self.namespace).get(vc.SCHEDULER_ANNOTATION)

    @property
    def created(self) -> str | None:
        """When its namespace was made; None where it has none."""
        return t.cast("str | None", (self.namespace or {}).get("metadata", {}).get("creationTimestamp"))

    @property
    def images(self) -> dict[str, str]:
        """What its control plane and the KAI Scheduler that places its pods run: the nodes' digest of each image, by its name.

        Its administrator may start any pod beside its own KAI Scheduler's, so no more are named than a release has.
        """
        statuses = [status for pod in _parts(self) if _stays(pod) for status in container_statuses(pod)]
        found = {shown(one["image"]): shown(str(one["imageID"]).rpartition("@")[2]) for one in statuses if one.get("imageID")}
        return dict(list(found.items())[:_MOST_IMAGES])


def control_plane(live: Live) -> list[JsonObject]:
    """Return the pods of a tenant's control plane."""
    return control_plane_pods(live.workload["metadata"]["name"] if live.workload else None, live.pods)


def _of_kai(live: Live) -> list[JsonObject]:
    """Return the pods of the KAI Scheduler that was installed for a tenant, by the namespace that only its administrator writes to."""
    if vc.SCHEDULER_ANNOTATION not in annotations_of(live.namespace):
        return []
    return [pod for pod in live.pods if synced_from(pod) == KAI_NAMESPACE]


def _parts(live: Live) -> list[JsonObject]:
    """Return the pods of a tenant's control plane, and of the KAI Scheduler that places its pods."""
    return [*control_plane(live), *_of_kai(live), *live.host_scheduler]


def temporary(live: t.Mapping[str, Live], now: datetime.datetime) -> list[JsonObject]:
    """Return the tenants that are needed for a while only, in the order of their names: until when, and whether that is over."""
    found = {name: expiry(item.namespace) for name, item in sorted(live.items())}
    return [{"name": name, "expires": stamp(end), "expired": end <= now} for name, end in found.items() if end]


# --- what it is compared by --------------------------------------------------------------------------------------


def digest(data: t.Any) -> str:
    """Return a short digest of plain data, the same for the same content."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()[:16]


def fingerprint(live: Live) -> str:
    """Return a digest of everything on the host cluster that the verification of a tenant rests on.

    Its own pods come and go; those of its control plane and of the KAI Scheduler that places its pods do not, unless something
    changed.
    """
    metadata = (live.workload or {}).get("metadata", {})
    ports = (live.service or {}).get("spec", {}).get("ports") or []
    read_by = {item["kind"]: shown_object(item, item) for item in live.metrics}
    return digest(
        {
            "control plane": [metadata.get("uid"), metadata.get("generation")],
            "pods": sorted({(pod["metadata"]["uid"], _restarts(pod)) for pod in _parts(live) if _stays(pod)}),
            "nodes": sorted(map(_shape, live.nodes)),
            "policies": sorted((item["metadata"]["uid"], item["metadata"].get("generation", 0)) for item in live.policies),
            "bounds": sorted((item["kind"], item["metadata"]["name"], digest(item.get("spec"))) for item in live.bounds),
            "labels": {key: value for key, value in labels_of(live.namespace).items() if _OWN_KEYS in key},
            "annotations": {key: value for key, value in annotations_of(live.namespace).items() if _OWN_KEYS in key},
            "address": [[port.get("port"), port.get("nodePort")] for port in ports],
            "certificate authority": ((live.secret or {}).get("data") or {}).get("certificate-authority"),
        }
        | ({"metrics": read_by} if read_by else {})
    )


def _stays(pod: JsonObject) -> bool:
    """Tell whether a pod is neither ended, as those of finished Jobs, nor being deleted, as those just replaced."""
    return not is_ended(pod) and "deletionTimestamp" not in pod["metadata"]


def _restarts(pod: JsonObject) -> int:
    return sum(status.get("restartCount", 0) for status in pod.get("status", {}).get("containerStatuses") or [])


def _shape(node: JsonObject) -> tuple[str, str, str, bool, list[str]]:
    """Return what a node is to a scheduler. What makes it unusable, such as a lost kubelet, taints it."""
    status, spec = node.get("status", {}), node.get("spec", {})
    info, allocatable = status.get("nodeInfo", {}), json.dumps(status.get("allocatable", {}), sort_keys=True)
    taints = sorted(f"{taint['key']}={taint.get('value', '')}:{taint['effect']}" for taint in spec.get("taints") or [])
    return node["metadata"]["name"], allocatable, str(info.get("bootID", "")), bool(spec.get("unschedulable")), taints


# --- what there is to do -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Due:
    """What there is to do for a tenant, each with its reason in ``reasons``."""

    work: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def due(
    tenant: Tenant, wanted: str, live: Live, has_kubeconfig: bool, max_age: int, now: datetime.datetime, host: str = ""
) -> Due:
    """Decide what there is to do for a tenant.

    :arg wanted: digest of everything that is wanted of it.
    :arg has_kubeconfig: whether its kubeconfig is in its place, and leads where its virtual cluster is.
    :arg max_age: seconds for which a verification stands while nothing changes.
    :arg host: minor version of the host cluster's Kubernetes; empty where it is not known.
    """
    if tenant.state == "absent":
        leftovers = [what for what, there in (("its namespace", live.namespace), ("labels of nodes", live.nodes)) if there]
        leftovers += ["its kubeconfig"] if has_kubeconfig else []
        return Due((CHANGE,), (f"still there: {', '.join(leftovers)}",)) if leftovers else Due()
    if tenant.state == "paused":
        # Of one that was never made there is nothing to pause, and nothing to keep.
        return Due() if live.state in ("paused", "absent") else Due((CHANGE,), (f"it is {live.state}, not paused",))
    if differing := _differing(wanted, live, has_kubeconfig, host):
        return Due((CHANGE, VERIFY), tuple(differing))
    doubt = _doubt(live.verified, max_age, now)
    return Due((VERIFY,), (doubt,)) if doubt else Due()


def _differing(wanted: str, live: Live, has_kubeconfig: bool, host: str) -> list[str]:
    """Return why a tenant that is to be present has to be worked on."""
    if live.state != "running":
        return [f"it is {live.state}"]
    reasons = []
    last = live.verified
    if last is None:
        reasons.append("the record of its verification cannot be read" if live.record else "it was never verified")
    elif last.wanted != wanted:
        reasons.append("something else is wanted of it than when it was verified")
    elif last.fingerprint != fingerprint(live):
        reasons.append("its control plane, scheduler, nodes or namespace changed since it was verified")
    rendered = annotations_of(live.namespace).get(vc.RENDERED_ANNOTATION)
    if host and rendered != host:
        reasons.append(
            f"its chart was rendered for Kubernetes {shown(rendered or 'of a version that was not noted')}, and the host cluster has {host}"
        )
    if not has_kubeconfig:
        reasons.append("its kubeconfig is missing, or leads elsewhere")
    return reasons


def _doubt(last: Verified | None, max_age: int, now: datetime.datetime) -> str:
    """Return why a verification does not stand though nothing changed; empty when it does."""
    if last is None:
        return "it was never verified"
    age = (now - last.at).total_seconds()
    if age > max_age:
        return f"it was verified {age:.0f} s ago, and that stands for {max_age} s"
    if age < 0:
        return "it was verified later than now: the clock was set back"
    # What was accepted is no reason to look again.
    stands = all(result["verdict"] in ("passed", "accepted") for result in last.results)
    return "" if stands else "not all checks passed"


# --- all of them -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class HostObjects:
    """What lies on a host cluster of all tenants, read once. Of objects that a tenant made, pods alone count.

    :ivar namespaces: those with the label of this collection.
    :ivar workloads: StatefulSets and Deployments of control planes; ``services`` alike.
    :ivar pods: of control planes, and those of tenants' KAI Schedulers.
    :ivar secrets: those with the kubeconfigs of virtual clusters.
    :ivar records: ConfigMaps of what was verified last.
    :ivar host_scheduler: pods of the host cluster's own KAI Scheduler.
    :ivar policies: of its API server, for tenants' pods, and their bindings.
    :ivar metrics: what a Prometheus reads tenants' metrics by.
    :ivar bounds: NetworkPolicies, ResourceQuotas and LimitRanges.
    """

    namespaces: t.Iterable[JsonObject]
    workloads: t.Iterable[JsonObject]
    pods: t.Iterable[JsonObject]
    nodes: t.Iterable[JsonObject]
    secrets: t.Iterable[JsonObject]
    records: t.Iterable[JsonObject]
    services: t.Iterable[JsonObject] = ()
    host_scheduler: t.Iterable[JsonObject] = ()
    policies: t.Iterable[JsonObject] = ()
    metrics: t.Iterable[JsonObject] = ()
    bounds: t.Iterable[JsonObject] = ()


def gather(objects: HostObjects) -> dict[str, Live]:
    """Sort what lies on a host cluster by tenant.

    :returns: by name, tenants of which only labels of nodes are left included.
    """
    workload_in, service_in, secret_in, record_in = map(
        _by_name, (objects.workloads, objects.services, objects.secrets, objects.records)
    )
    pods_in, metrics_in, bounds_in = (
        _grouped((_namespace_of(item), item) for item in items)
        for items in (objects.pods, own(objects.metrics), own(objects.bounds))
    )
    policies_of = _grouped((labels_of(policy).get(TENANT_LABEL), policy) for policy in objects.policies)
    nodes_of = _grouped((owner, node) for node in objects.nodes for owner in owners(labels_of(node)))
    scheduler = tuple(objects.host_scheduler)
    live = {name: Live(nodes=theirs) for name, theirs in nodes_of.items()}
    for namespace in objects.namespaces:
        name, where = labels_of(namespace).get(TENANT_LABEL), namespace["metadata"]["name"]
        if name is not None:
            live[name] = Live(
                namespace,
                workload_in.get((where, name)),
                service_in.get((where, name)),
                pods_in.get(where, ()),
                nodes_of.get(name, ()),
                secret_in.get((where, f"{KUBECONFIG_SECRET}{name}")),
                record_in.get((where, RECORD)),
                scheduler if HOST_SCHEDULER_LABEL in labels_of(namespace) else (),
                policies_of.get(name, ()),
                metrics_in.get(where, ()),
                bounds_in.get(where, ()),
            )
    return live


def _namespace_of(item: JsonObject) -> str:
    return str(item["metadata"]["namespace"])


def _by_name(items: t.Iterable[JsonObject]) -> dict[tuple[str, str], JsonObject]:
    """Return objects that no tenant made, by namespace and name."""
    return {(_namespace_of(item), item["metadata"]["name"]): item for item in own(items)}


def _grouped(pairs: t.Iterable[tuple[Key, JsonObject]]) -> dict[Key, tuple[JsonObject, ...]]:
    """Return the objects of each key, in their order."""
    grouped: dict[Key, list[JsonObject]] = {}
    for key, item in pairs:
        grouped.setdefault(key, []).append(item)
    return {key: tuple(items) for key, items in grouped.items()}
