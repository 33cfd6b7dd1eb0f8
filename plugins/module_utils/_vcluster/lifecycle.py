# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The life of one virtual cluster on one host cluster: present, paused, absent."""

from __future__ import annotations

import functools
import typing as t

from .._admission.lifecycle import ensure_policies, ensure_record_policies, remove_policies, remove_record_policies
from .._admission.plan import policies
from .._common.errors import ApiError, Refused, TenancyError, WaitTimeout, check_all
from .._common.names import TENANT_LABEL, namespace_of
from .._common.ownership import MARKER_LABEL, annotations_of, is_owned, labels_of, last_write
from .._common.pods import pods_gone
from .._common.run import Result
from .._common.synced import marker
from .._common.values import Change, JsonObject, utc_now
from .._common.wait import wait_for
from .._helm.lifecycle import HelmRelease
from .._queues.validation import parse
from .._queues.values import leaves
from . import validation
from .classes import ListedClasses
from .control_plane import SETTLING, Ask, ControlPlane, Readiness, expired
from .facts import (
    CILIUM,
    CONTROL_PLANE,
    CONTROL_PLANE_POLICY,
    ENFORCED,
    LEAST_QUOTA,
    NETWORK_ANNOTATION,
    NETWORK_POLICY,
    PODS_ENDED_ANNOTATION,
    RENDERED_ANNOTATION,
    SYNCED_CLUSTER_KINDS,
    SYNCED_KINDS,
    UNENFORCED,
    cluster_role_name,
    minor_version,
)
from .inventory import configs
from .overlaps import collisions
from .records import Records
from .status import is_paused, is_zero_trust, judge, lost_pods
from .values import (
    Wanted,
    has_dns,
    has_network_policies,
    is_described,
    namespace_metadata,
    narrowed_egress,
    new_namespace,
    pause_patch,
    pod_networks,
    recorded,
    resume_patch,
    wanted,
    with_defaults,
)

if t.TYPE_CHECKING:
    from .._adapters.helm import Chart
    from .._common.run import Run

# Finds the chart of a version, or raises TenancyError.
FindChart = t.Callable[[str], "Chart"]
# Probes, in a namespace of this name, whether the network enforces policies; returns that, and the record of each path.
NetworkProbe = t.Callable[[str], tuple[bool, list[JsonObject]]]

RBAC = "rbac.authorization.k8s.io/v1"
# What a difference of the host's Kubernetes is called in changes.
_RENDERED = "host_kubernetes"
# (API version, kind, name).
Ref = tuple[str, str, str]


class VirtualCluster:
    """One virtual cluster on one host cluster.

    :arg run: its options are those of module vcluster.
    """

    def __init__(self, run: Run, ask: Ask, find_chart: FindChart, probe_network: NetworkProbe) -> None:
        self.run = run
        self.kube = run.kube
        self.ask = ask
        self.find_chart = find_chart
        self.probe_network = probe_network
        self.name: str = run.params["name"]
        self.namespace = namespace_of(self.name, run.params["namespace"])
        self.release = HelmRelease(run.kube, run.helm, self.name, self.namespace)
        self.plane = ControlPlane(run.kube, self.name, self.namespace)
        self.classes = ListedClasses(run)
        self.records = Records(run, self.name, self.namespace, self._end_syncer)
        # Whether this run starts the control plane, or starts it again.
        self.starts = False

    def own_namespace(self) -> JsonObject | None:
        """Read the namespace.

        :raises TenancyError: when it is not this tenant's.
        """
        live = self.kube.get("v1", "Namespace", self.namespace)
        if live is None:
            return None
        if not is_owned(live):
            raise TenancyError(f"namespace: {self.namespace} exists and was not made by this collection; it stays untouched.")
        tenant = labels_of(live).get(TENANT_LABEL)
        if tenant != self.name:
            raise TenancyError(f"namespace: {self.namespace} belongs to tenant {tenant}, not to {self.name}.")
        return live

    # --- present ---

    def present(self) -> Result:
        """Create, change or resume it, and wait until clients can use it."""
        asked = self._checked()
        live = self.own_namespace()
        usable = None if _is_terminating(live) else live
        if usable:
            self.records.guard()
        release = self.release.inspect() if usable else None
        if release and not is_described(self.run.params):
            asked = recorded(release, usable)
        else:
            options = with_defaults(self.run.params)
            validation.check_skew(options["version"], options["kubernetes_version"], self.kube.version())
        self._refuse_history(asked, bool(usable))
        changes = self._changes(asked, usable)
        chart = self._previewed(asked) if changes else None
        network = self._network(asked, usable, bool(changes))
        ended = expired(self.plane.secret()) if release else None
        # That was the last check; everything below writes.
        if not usable:
            ensure_record_policies(self.run, self.name)
        bounds = self._policies(asked)
        if bounds:
            ensure_policies(self.run, self.name, bounds)
        self._ensure_namespace(live, asked, network)
        if asked.trust == "zero":
            self.classes.ensure_listed()
        if chart:
            self._apply(chart, asked, changes)
        if has_network_policies(asked.values):
            self._narrow_network(bool(chart))
        self._resume()
        if ended:
            self._renew_certificate(ended)
        self._restart_crashed()
        if is_zero_trust(usable) and asked.trust != "zero":
            self.classes.remove_unneeded(leaving=self.namespace)
        ready = {} if self.run.check_mode else self._wait_until_ready(asked)
        if not bounds and not asked.recorded:
            remove_policies(self.run, self.name)
        return self.run.result(namespace=self.namespace, version=asked.version, network_policies=network, **ready)

    def _checked(self) -> Wanted:
        """Return what the options describe, with defaults, once nothing is wrong with them."""
        options = with_defaults(self.run.params)
        described = wanted(options)
        check_all(
            lambda: validation.check_name(self.name),
            lambda: validation.check_namespace(options["namespace"]),
            lambda: validation.check_version(options["version"], options["kubernetes_version"]),
            lambda: validation.check_node_selector(options["node_selector"]),
            lambda: validation.check_trust(options["trust"], options["version"]),
            lambda: validation.check_moved(options["values"], options["version"]),
            lambda: validation.check_values(described.values),
            lambda: validation.check_quota(options["quota"]),
            lambda: validation.check_expires(options["expires"]),
            lambda: validation.check_network(options["network"], options["trust"], options["values"]),
            lambda: validation.check_room(described.values, ("the control plane", LEAST_QUOTA)),
            lambda: _leaf_names(options["host_queues"]),
        )
        return described

    def _policies(self, asked: Wanted) -> list[JsonObject]:
        """Return the policies of the host's API server that keep the tenant's pods from GPUs of others; none where those are recorded."""
        params = self.run.params
        if asked.recorded:
            return []
        queues = _leaf_names(params["host_queues"]) if asked.host_scheduler else None
        return policies(self.name, asked.trust, queues, params["gpu_quota"] is not None, params["gpu_sharing"])

    def _refuse_history(self, asked: Wanted, exists: bool) -> None:
        """Refuse what does not go with what is in the namespace."""
        release = self.release.found
        if exists and release is None:
            for other in self.kube.list("apps/v1", "StatefulSet", self.namespace, CONTROL_PLANE):
                if other["metadata"]["name"] != self.name:
                    raise TenancyError(
                        f"namespace: {self.namespace} already holds the virtual cluster {other['metadata']['name']}."
                    )
        if release and release.status != "pending-install" and not self.run.params["force_version"]:
            validation.check_upgrade(release.chart_version, asked.version)
        if release and release.status == "deployed":
            validation.check_store(release.values, asked.values)

    def _changes(self, asked: Wanted, namespace: JsonObject | None) -> list[Change]:
        """List what differs of the release, and the host's Kubernetes where the chart was rendered for another one, or nobody knows."""
        changes = self.release.changes(asked.version, asked.values)
        noted, host = annotations_of(namespace).get(RENDERED_ANNOTATION), self._host
        known = asked.recorded or namespace is None or not host or noted == host
        return changes if known else [*changes, (_RENDERED, noted, host)]

    @functools.cached_property
    def _host(self) -> str:
        """The minor version of the host cluster's Kubernetes."""
        return minor_version(self.kube.version())

    def _previewed(self, asked: Wanted) -> Chart:
        """Return the chart, once neither it nor another virtual cluster stands against the values."""
        chart = self.find_chart(asked.version)
        self._refuse_shared_gpus(asked)
        self.release.preview(chart, asked.values)
        return chart

    def _refuse_shared_gpus(self, asked: Wanted) -> None:
        """Refuse GPUs that another virtual cluster books without seeing this one."""
        key = f"{self.namespace}/{self.name}"
        found = configs(self.kube)
        overlaps = collisions(self.kube.list("v1", "Node"), found.read | {key: asked.values}, only=key)
        if overlaps:
            raise TenancyError(
                "node_selector: " + "; ".join(overlaps) + ". Give them different nodes, or a gpu_quota each that fit together.",
                overlaps=overlaps,
            )

    def _network(self, asked: Wanted, namespace: JsonObject | None, changed: bool) -> str | None:
        """Find out whether the network enforces the policies that the values make.

        :returns: ENFORCED, UNENFORCED, or None where there are no policies, or where that is not known.
        :raises TenancyError: when it does not, and that is not accepted.
        """
        if not has_network_policies(asked.values):
            return None
        noted = annotations_of(namespace).get(NETWORK_ANNOTATION)
        accepted: bool = self.run.params["accept_unenforced"]
        known = asked.recorded or (not changed and (noted == ENFORCED or (noted == UNENFORCED and accepted)))
        network = noted if self.run.check_mode or known else self._probed_network(asked.trust, accepted)
        if network == UNENFORCED:
            self.run.warn(
                f"{self.name}: The cluster's network does not enforce network policies, which was accepted: pods of others reach "
                "the tenant's."
            )
        return network

    def _probed_network(self, trust: str | None, accepted: bool) -> str:
        # Several tenants are made at once, each with a probe of its own.
        enforced, results = self.probe_network(self.name)
        if not enforced and not accepted:
            seen = "; ".join(result["reason"] for result in results if result["verdict"] != ENFORCED)
            raise TenancyError(
                f"trust: {trust} rests on network policies, and the cluster's network does not enforce them: {seen}. Have a "
                "network plugin that does, or take the tenant as it is: by kubegpu_accept_unenforced_network_policies in an inventory, by "
                "accept_unenforced of this module.",
                results=results,
            )
        return ENFORCED if enforced else UNENFORCED

    def _ensure_namespace(self, live: JsonObject | None, asked: Wanted, network: str | None) -> None:
        """Have the namespace, and on it what others know the tenant by."""
        metadata = namespace_metadata(asked, network)
        if live is None or _is_terminating(live):
            metadata["annotations"][RENDERED_ANNOTATION] = self._host
            self.run.change("namespace", None, self.namespace)
            self.run.take(
                f"create namespace {self.namespace}", "it does not exist", lambda: self._create_namespace(live, metadata)
            )
            return
        changed = []
        for kind, entries in metadata.items():
            for key, after in entries.items():
                before, name = (live["metadata"].get(kind) or {}).get(key), key.rpartition("/")[2]
                if before != after:
                    self.run.change(name, before, after, last_write(live, ("metadata", kind, key)))
                    changed.append(name)
        if changed:
            self.run.take(
                f"note {', '.join(changed)} on namespace {self.namespace}",
                "others know the tenant by it",
                lambda: self.kube.patch("v1", "Namespace", self.namespace, {"metadata": metadata}),
            )

    def _create_namespace(self, live: JsonObject | None, metadata: JsonObject) -> None:
        if live:
            self._wait_until_gone()
        self.kube.create(new_namespace(self.name, self.namespace, metadata))

    def _apply(self, chart: Chart, asked: Wanted, changes: list[Change]) -> None:
        release = self.release.found
        self.run.change_all(changes, self.release.write)
        self.starts = True
        why = "it is not installed" if release is None else ", ".join(what for what, _before, _after in changes) + " differ"
        self.run.take(
            f"{'upgrade' if release else 'install'} the Helm release {self.name} with vCluster {asked.version}",
            why,
            lambda: self._rendered(chart, asked, any(what == _RENDERED for what, _before, _after in changes)),
        )

    def _rendered(self, chart: Chart, asked: Wanted, other_host: bool) -> None:
        """Apply the chart, and only then note for which Kubernetes of the host, so that a run that is killed before that does it again."""
        self.release.apply(chart, asked.values, self.run.deadline)
        if other_host:
            self.kube.patch("v1", "Namespace", self.namespace, {"metadata": {"annotations": {RENDERED_ANNOTATION: self._host}}})

    def _narrow_network(self, applied: bool) -> None:
        """Keep the control plane from pods of others, which the chart's policy lets it reach at the ports of API servers.

        Not where that would keep it from the host cluster's API server, too.

        :arg applied: whether the chart was just applied, which makes the policy what the chart has.
        """
        name = CONTROL_PLANE_POLICY.format(self.name)
        live = self.kube.get(*NETWORK_POLICY, name, self.namespace)
        if live is None or self.kube.served(*CILIUM):
            return
        before = live["spec"].get("egress") or []
        after = narrowed_egress(before, pod_networks(self.kube.list("v1", "Node")))
        if before == after:
            return
        if not applied:
            write = last_write(live, ("spec", "egress"))
            self.run.change(f"NetworkPolicy {name}", "reaches pods of others", "does not", write)
        patch = functools.partial(self.kube.patch, *NETWORK_POLICY, name, {"spec": {"egress": after}}, self.namespace)
        self.run.take(f"narrow NetworkPolicy {name}", "the chart's reaches pods of others", patch)

    def _resume(self) -> None:
        workload = self.plane.workload() if self.release.found else None
        if workload and is_paused(workload):
            self.run.change("state", "paused", "running", last_write(workload, ("spec", "replicas")))
            self.starts = True
            self.run.take("start the control plane", "it is paused", lambda: self._scale(workload, resume_patch(workload)))

    def _renew_certificate(self, ended: str) -> None:
        self.run.change("certificate", f"expired {ended}", "renewed")
        self.starts = True
        # Certificates are renewed, and the Secret written, when the control plane starts (pkg/certs/ensure.go).
        self.run.take("restart the control plane", f"its certificate expired {ended}", lambda: self._delete(self.plane.pods()))

    def _restart_crashed(self) -> None:
        """Restart what crashed before this run: its cause may be mended, and the kubelet would wait minutes to try again."""
        pods = self.plane.pods() if self.release.found else []
        verdict = judge(self.plane.workload(), pods) if pods else None
        if verdict and verdict.crashed:
            pod = verdict.crashed[0]
            self.starts = True
            crashed = [item for item in pods if item["metadata"]["name"] == pod]
            self.run.take(f"restart pod {pod}", verdict.seen, lambda: self._delete(crashed))

    def _wait_until_ready(self, asked: Wanted) -> JsonObject:
        settling = SETTLING if self.starts else 0.0
        dns = has_dns(asked.values)
        readiness = Readiness(self.plane, self.ask, self.run.deadline, dns, self.kube.proxy_url, settling)
        return wait_for(f"virtual cluster {self.name}", readiness.probe, self.run.deadline)

    # --- paused ---

    def paused(self) -> Result:
        """End its control plane and its pods, and keep its data."""
        workload = self.plane.workload() if self.own_namespace() else None
        if workload is None:
            raise TenancyError(
                f"name: there is no virtual cluster {self.name} in namespace {self.namespace} that could be paused."
            )
        pods = self.plane.synced("v1", "Pod")
        lost = lost_pods(pods)
        if lost and not self.run.params["accept_lost_pods"]:
            raise TenancyError(
                f"accept_lost_pods: {len(lost)} pods of tenant {self.name} have no controller that brings them back after the pause: "
                f"{', '.join(lost)}. Have controllers make them, such as Deployments or Jobs, or accept that they are lost: by "
                "kubegpu_accept_lost_pods in an inventory, by accept_lost_pods of this module.",
                lost_pods=lost,
            )
        if not is_paused(workload):
            self.run.change("state", "running", "paused", last_write(workload, ("spec", "replicas")))
            patch = pause_patch(workload, utc_now())
            self.run.take("end the control plane", "the tenant is to pause", lambda: self._scale(workload, patch))
        else:
            for pod in pods:
                if not _is_terminating(pod):
                    self.run.change(f"Pod {pod['metadata']['name']}", "present", None)
        if self.run.changes:
            for_good = f", {', '.join(lost)} for good: no controller makes them anew" if lost else ""
            self.run.take("end the tenant's pods", f"the tenant is to pause{for_good}", self._wait_for_rest)
        elif not self.run.check_mode:
            self._wait_for_rest()
        return self.run.result(namespace=self.namespace, lost_pods=lost)

    def _end_syncer(self) -> None:
        """End the control plane, with what writes to the host cluster for its tenant, and wait until it has ended."""
        workload = self.plane.workload()
        if workload is not None:
            self._scale(workload, {"spec": {"replicas": 0}})

        def ended() -> tuple[bool | None, str]:
            return (None, "it still runs") if self.plane.pods() else (True, "")

        wait_for(f"the end of virtual cluster {self.name}", ended, self.run.deadline.share(1 / 4))

    def _scale(self, workload: JsonObject, patch: JsonObject) -> None:
        self.kube.patch("apps/v1", workload["kind"], self.name, patch, self.namespace)

    def _delete(self, pods: list[JsonObject]) -> None:
        for pod in pods:
            if not _is_terminating(pod):
                self.kube.delete("v1", "Pod", pod["metadata"]["name"], self.namespace)

    def _wait_for_rest(self) -> None:
        wait_for(f"the end of virtual cluster {self.name}", self._at_rest, self.run.deadline)

    def _at_rest(self) -> tuple[bool | None, str]:
        """Observe whether the control plane has ended; only then delete its pods, which it would make again."""
        pods = self.plane.pods()
        if not pods:
            pods = self.plane.synced("v1", "Pod")
            self._delete(pods)
        return (None, ", ".join(pod["metadata"]["name"] for pod in pods)) if pods else (True, "")

    # --- absent ---

    def absent(self) -> Result:
        """Remove it with all that it left on the host cluster, and wait until that is gone."""
        keep: bool = self.run.params["keep_volumes"]
        namespace = self.own_namespace()
        usable = namespace is not None and not _is_terminating(namespace)
        if usable:
            self.records.clear()
        release = self.release.inspect() if usable else None
        scoped = self._cluster_scoped()
        if release:
            self.run.change("release", f"{release.chart}-{release.chart_version}", None, self.release.write)
            self.run.take(
                f"uninstall the Helm release {self.name}", "it is installed", lambda: self.release.remove(self.run.deadline)
            )
        if namespace and keep:
            self._remove_synced(installed=release is not None)
        elif namespace:
            self.run.change("namespace", self.namespace, None, last_write(namespace, ("metadata", "labels")))
            self.run.take(f"remove namespace {self.namespace}", "it exists", lambda: self._remove_namespace(namespace))
        for _api_version, kind, name in scoped:
            self.run.change(f"{kind} {name}", "present", None)
        if self.run.changes:
            self.run.take("remove what lies outside its namespace", "nothing else would", self._remove_cluster_scoped)
        remove_policies(self.run, self.name)
        remove_record_policies(self.run, self.name)
        self.classes.remove_unneeded(leaving="" if keep else self.namespace)
        return self.run.result(namespace=self.namespace)

    def _remove_synced(self, installed: bool) -> None:
        """Remove what it wrote into its namespace; where it was installed until now, that is no change of its own."""
        kinds = [*SYNCED_KINDS, ("v1", "Pod")]
        leftovers = [item for kind in kinds for item in self.plane.synced(*kind) if not _is_terminating(item)]
        if not installed:
            for item in leftovers:
                self.run.change(f"{item['kind']} {item['metadata']['name']}", "present", None)
        if installed or leftovers:
            self.run.take("remove what the virtual cluster wrote into its namespace", "its volumes are kept", self._sweep)

    def _sweep(self) -> None:
        # Objects go by themselves only where they have an owner.
        for api_version, kind in SYNCED_KINDS:
            for item in self.plane.synced(api_version, kind):
                self.kube.delete(api_version, kind, item["metadata"]["name"], self.namespace)
        self._wait_for_rest()

    def _remove_namespace(self, namespace: JsonObject) -> None:
        if not _is_terminating(namespace):
            # Nothing can be created in it from now on: the control plane makes no pod again.
            self.kube.delete("v1", "Namespace", self.namespace)
        self._empty_namespace()
        self._wait_until_gone()

    def _empty_namespace(self) -> None:
        """Delete what takes long to end, give it some time, and have the namespace looked at again.

        kube-controller-manager looks at a deleted namespace after 5 s and, where it finds pods, again only after half of their
        longest grace period, also when they ended long before; but 5 s after any change of the namespace
        (pkg/controller/namespace).
        """
        for claim in self.kube.list("v1", "PersistentVolumeClaim", self.namespace):
            self.kube.delete("v1", "PersistentVolumeClaim", claim["metadata"]["name"], self.namespace)
        # A control plane whose data goes has nothing to finish.
        for pod in self.kube.list("v1", "Pod", self.namespace, CONTROL_PLANE):
            self.kube.delete("v1", "Pod", pod["metadata"]["name"], self.namespace, grace_seconds=1)
        self._delete(self.kube.list("v1", "Pod", self.namespace))
        ended = functools.partial(pods_gone, self.kube, self.namespace)
        try:
            wait_for(f"the end of the pods in {self.namespace}", ended, self.run.deadline.share(1 / 8), interval=0.5)
            change = {"metadata": {"annotations": {PODS_ENDED_ANNOTATION: "true"}}}
            self.kube.patch("v1", "Namespace", self.namespace, change)
        except (WaitTimeout, ApiError) as exc:
            # Pods that do not end are what the wait for the namespace tells; and it may be gone already.
            if isinstance(exc, ApiError) and exc.status != 404:
                raise

    def _wait_until_gone(self) -> None:
        """Wait until the namespace is gone, with the volumes whose storage class promises to delete them with their claim."""
        wait_for(f"the removal of namespace {self.namespace}", self._gone, self.run.deadline)

    def _gone(self) -> tuple[bool | None, str]:
        namespace = self.kube.get("v1", "Namespace", self.namespace)
        if namespace:
            conditions = namespace.get("status", {}).get("conditions") or []
            reasons = [condition["message"] for condition in conditions if condition["status"] == "True"]
            return None, "; ".join(reasons) or "the namespace is still there"
        volumes = [
            volume["metadata"]["name"]
            for volume in self.kube.list("v1", "PersistentVolume")
            if (volume["spec"].get("claimRef") or {}).get("namespace") == self.namespace
            and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        ]
        return (None, f"volumes {', '.join(volumes)}") if volumes else (True, "")

    def _cluster_scoped(self) -> list[Ref]:
        """List what of this virtual cluster lies outside its namespace."""
        refs: list[Ref] = []
        role = cluster_role_name(self.name, self.namespace)
        owner = {"meta.helm.sh/release-name": self.name, "meta.helm.sh/release-namespace": self.namespace}
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            if owner.items() <= annotations_of(self.kube.get(RBAC, kind, role)).items():
                refs.append((RBAC, kind, role))
        selector = f"{MARKER_LABEL}={marker(self.name, self.namespace)}"
        for api_version, kind in SYNCED_CLUSTER_KINDS:
            refs += [(api_version, kind, item["metadata"]["name"]) for item in self.kube.list(api_version, kind, None, selector)]
        return refs

    def _remove_cluster_scoped(self) -> None:
        # Helm has removed some of it by now, and the syncer may have written more.
        for api_version, kind, name in self._cluster_scoped():
            self.kube.delete(api_version, kind, name)


def _is_terminating(item: JsonObject | None) -> bool:
    return item is not None and "deletionTimestamp" in item["metadata"]


def _leaf_names(tree: t.Any) -> list[str]:
    """Return the names of the queues of the option host_queues to which work is submitted.

    :raises TenancyError: with all ``problems`` of the tree.
    """
    try:
        return [queue.name for queue in leaves(parse(tree))]
    except TenancyError as exc:
        problems = [f"host_{problem}" for problem in exc.problems]
        raise Refused("\n".join(problems), problems) from exc
