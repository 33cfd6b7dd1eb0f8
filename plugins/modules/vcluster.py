#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.vcluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vcluster
short_description: Virtual cluster of a tenant
version_added: 0.1.0
description:
  - Creates, changes and removes a virtual cluster in a namespace of its own, with vCluster's chart and its open source image.
  - It is ready when its API server answers an authenticated request at the address clients will use, not when a pod says so.
  - Values that the chart accepts but the control plane dies of, features that need a licence, versions known to be bad and
    upgrades that are not supported upstream are refused before anything is touched.
  - Unfinished Helm releases, as a killed run leaves them, are repaired.
  - Where the client certificate in the Secret C(vc-NAME) has expired, the control plane is restarted, because vCluster renews
    certificates when it starts. Versions before 0.34 may not, and have to be upgraded then.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  state:
    description:
      - V(present) creates or changes the virtual cluster and waits until it is ready.
      - V(absent) removes it with its namespace, volumes and cluster-scoped objects, and waits until they are gone.
      - V(paused) ends its control plane and all of its pods, and keeps its data. V(present) starts it again.
    type: str
    choices: [present, absent, paused]
    default: present
  name:
    description:
      - Name of the tenant, of its virtual cluster and of the Helm release.
    type: str
    required: true
  namespace:
    description:
      - Namespace on the host cluster, which holds this virtual cluster only. It defaults to V(tenant-NAME).
      - It is created with a label of ours. A namespace without that label is never touched.
    type: str
  version:
    description:
      - Version of vCluster's chart and image.
    type: str
    default: 0.36.1
  force_version:
    description:
      - Whether to go back to an older version, or to skip a minor one, which upstream does not test.
    type: bool
    default: false
  keep_volumes:
    description:
      - With O(state=absent), keeps the namespace and the volumes in it. O(state=present) finds its data there again.
    type: bool
    default: false
  kubernetes_version:
    description:
      - Kubernetes version of the virtual cluster, such as V(v1.35.4). It defaults to the chart's.
    type: str
  own_scheduler:
    description:
      - Whether pods are placed by a scheduler inside the virtual cluster, which another scheduler installed there needs.
      - Otherwise the host cluster's scheduler places them.
    type: bool
    default: false
  node_selector:
    description:
      - Labels of the host's nodes that the virtual cluster sees and uses.
      - When empty, the virtual cluster sees all nodes if O(own_scheduler=true), and none of the real ones otherwise.
      - Virtual clusters do not see each other's GPUs as taken. Nodes on which two of them would book the same ones are refused.
    type: dict
    default: {}
  host_scheduler:
    description:
      - A scheduler of the host cluster, other than its default one, that the tenant's pods name. V(kai) is KAI Scheduler.
      - Objects on the host get no owner then, because KAI follows owners and may not read those of vCluster, and the namespace gets the
        label C(kubegpu.tenancy/scheduler=kai), to which a KAI Scheduler can be limited by C(global.namespaceLabelSelector).
    type: str
    choices: [kai]
  gpu_quota:
    description:
      - GPU devices that the tenant's pods hold at most, by a quota of the host cluster, and with it the quotas of O(trust=partial).
      - Virtual clusters with schedulers of their own share a node only where their quotas fit on it together.
    type: int
  accept_unenforced:
    description:
      - Whether a profile that rests on network policies is accepted on a cluster whose network does not enforce them, which a short probe
        finds out. The tenant is then noted as such, and never as protected.
    type: bool
    default: false
  probe_image:
    description:
      - Image of that probe's pods, with busybox's C(sh), C(httpd) and C(wget). It defaults to that of
        M(kubegpu.tenancy.network_policy_probe).
    type: str
  trust:
    description:
      - Isolation profile. V(high) adds nothing.
      - V(partial) bounds the tenant's namespace by a quota and a limit range and holds its pods to the pod security standard
        V(baseline). Containers without limits of their own get 4 CPUs and 4Gi.
      - V(zero) is V(partial) with the pod security standard V(restricted).
      - No profile separates networks, and none is a boundary against someone who breaks out of a container, because tenants share
        kernels.
    type: str
    choices: [high, partial, zero]
    default: high
  timeout:
    description:
      - Seconds for the whole change, waits included.
    type: int
    default: 300
notes:
  - With a Service of type C(ClusterIP) in O(values) nothing outside the cluster can ask the API server. The readiness of its pod
    has to do then.
extends_documentation_fragment:
  - kubegpu.tenancy._helm
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.vcluster_kubeconfig
"""

EXAMPLES = r"""
- name: Give the team a virtual cluster with its own scheduler on its own nodes
  kubegpu.tenancy.vcluster:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    own_scheduler: true
    node_selector:
      tenant.kubegpu.tenancy/team-ml: "true"

- name: Hold a team to a quota, pin Kubernetes and place the control plane on infrastructure nodes
  kubegpu.tenancy.vcluster:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: web
    trust: partial
    kubernetes_version: v1.35.4
    values:
      controlPlane:
        coredns:
          deployment:
            image: registry.example/coredns/coredns:1.14.2
        statefulSet:
          scheduling:
            nodeSelector:
              node-role.example/infra: "true"

- name: Free what the team holds over the holidays
  kubegpu.tenancy.vcluster:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    state: paused

- name: Remove the tenant and everything of it
  kubegpu.tenancy.vcluster:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    state: absent
"""

RETURN = r"""
namespace:
  description: Namespace of the virtual cluster on the host cluster.
  returned: success
  type: str
  sample: tenant-team-ml
version:
  description: Version of vCluster.
  returned: when O(state=present)
  type: str
  sample: 0.36.1
network_policies:
  description: V(enforced) or V(unenforced), as a probe saw it. Null where the tenant has none.
  returned: when O(state=present)
  type: str
  sample: enforced
kubernetes_version:
  description: Version the virtual cluster's API server reports.
  returned: when O(state=present), not in check mode, and clients outside the cluster can reach it
  type: str
  sample: v1.36.0
server:
  description: Address of the virtual cluster's API server.
  returned: when O(state=present), not in check mode, and clients outside the cluster can reach it
  type: str
  sample: https://172.18.0.3:31234
seconds:
  description: Seconds the change took, waits included.
  returned: success
  type: float
  sample: 31.4
problems:
  description: Everything that is wrong with what was asked for, each with its path. Nothing was changed then.
  returned: when options were refused
  type: list
  elements: str
  sample: ["values.controlPlane.statefulset: the chart has no such key. Did you mean statefulSet?"]
"""

import datetime
import time
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import (
    HELM_ARG_SPEC,
    UNFINISHED,
    Chart,
    Helm,
    Release,
    find_chart,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, ask, finish, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError, check_all
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Change, differences, outcome
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kubeconfig import values as kc
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import collisions
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_network import plan as network_probe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts as vc
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.found import configs

Object = dict[str, t.Any]
Result = dict[str, t.Any]
Ask = t.Callable[[Object, str], Object]


class VirtualCluster:
    """One virtual cluster on one host cluster."""

    def __init__(self, params: t.Mapping[str, t.Any], kube: Kube, helm: Helm, ask: Ask = ask) -> None:
        self.params = params
        self.kube = kube
        self.helm = helm
        self.ask = ask
        self.name: str = params["name"]
        self.namespace: str = params["namespace"] or f"tenant-{self.name}"
        self.started = time.monotonic()

    def left(self) -> int:
        return max(1, int(self.started + self.params["timeout"] - time.monotonic()))

    def seconds(self) -> float:
        return round(time.monotonic() - self.started, 1)

    def own_namespace(self) -> Object | None:
        """The namespace, refused when it is not this tenant's."""
        found = self.kube.get("v1", "Namespace", self.namespace)
        if found is None:
            return None
        labels = found["metadata"].get("labels", {})
        if not vc.OWNED_LABELS.items() <= labels.items():
            raise TenancyError(f"namespace: {self.namespace} exists and was not made by this collection; it stays untouched.")
        if labels.get(vc.TENANT_LABEL) != self.name:
            raise TenancyError(
                f"namespace: {self.namespace} belongs to tenant {labels.get(vc.TENANT_LABEL)}, not to {self.name}."
            )
        return found

    # --- present ---

    def present(self, check_mode: bool) -> Result:
        params = self.params
        values, chart = self._checked()
        namespace = self.own_namespace()
        here = None if namespace and "deletionTimestamp" in namespace["metadata"] else namespace
        release = self.helm.release(self.name, self.namespace) if here else None
        self._refuse_history(release, values, bool(here))

        changes = _changes(release, params["version"], values)
        ended = self._ended(self._secret()) if release else None
        if changes:
            self._refuse_rivals(values)
            self.helm.template(self.name, self.namespace, chart, values)
        network = self._network(values, here, bool(changes), check_mode)
        # That was the last check; everything below writes.
        around = self._list_classes(check_mode) + self._have_namespace(namespace, here, network, check_mode)
        if changes and not check_mode:
            self._install(release, chart, values)
        changes = around + changes
        workload = self._workload() if release else None
        if workload and vc.is_paused(workload):
            changes.append(("state", "paused", "running"))
            if not check_mode:
                self._scale(workload, **vc.resumed(workload))
        if ended:
            changes.append(("certificate", f"expired {ended}", "renewed"))
            if not check_mode:
                # Certificates are renewed, and the Secret written, when the control plane starts (pkg/certs/ensure.go).
                for pod in self._pods():
                    self.kube.delete("v1", "Pod", pod["metadata"]["name"], self.namespace)
        result = outcome(changes, namespace=self.namespace, version=params["version"], network_policies=network)
        if network == vc.UNENFORCED:
            told = (
                "The cluster's network does not enforce network policies, which was accepted: pods of others reach the tenant's."
            )
            result["warnings"] = [f"{self.name}: {told}"]
        if not check_mode:
            # What crashed before this run may have been mended since; the kubelet would wait minutes to find out.
            if crashed := vc.judge(workload, self._pods()).crashed:
                self.kube.delete("v1", "Pod", crashed[0], self.namespace)
            result |= wait_for(f"virtual cluster {self.name}", self._ready, self.left())
        return result | {"seconds": self.seconds()}

    def _checked(self) -> tuple[Object, Chart]:
        """The values and the chart, once nothing is wrong with the parameters."""
        params = self.params
        check_all(
            lambda: vc.check_name(self.name),
            lambda: vc.check_namespace(params["namespace"]),
            lambda: vc.check_version(params["version"], params["kubernetes_version"]),
            lambda: vc.check_node_selector(params["node_selector"]),
            lambda: vc.check_trust(params["trust"], params["version"]),
            lambda: vc.check_moved(params["values"], params["version"]),
            self._values,
        )
        vc.check_skew(params["version"], params["kubernetes_version"], self.kube.version())
        upstream = Chart(vc.CHART, params["version"], vc.REPOSITORY)
        return self._values(), find_chart(params["chart_source"], vc.CHART, params["version"], upstream)

    def _refuse_history(self, release: Release | None, values: Object, exists: bool) -> None:
        """Refuse what does not go with what is in the namespace."""
        if exists and release is None:
            self._refuse_others()
        if release and release.status != "pending-install" and not self.params["force_version"]:
            vc.check_upgrade(release.chart_version, self.params["version"])
        if release and release.status == "deployed":
            vc.check_store(release.values, values)

    def _values(self) -> Object:
        params = self.params
        return vc.tenant_values(
            params["own_scheduler"],
            params["node_selector"],
            params["trust"],
            params["kubernetes_version"],
            params["values"],
            host_kai=params["host_scheduler"] == "kai",
            gpu_quota=params["gpu_quota"],
            dedicated_to=self.name if params["trust"] == "zero" else "",
        )

    def _network(self, values: Object, namespace: Object | None, changed: bool, check_mode: bool) -> str | None:
        """Whether the network enforces the policies these values make; None where they make none, or where that is not known."""
        if not vc.makes_network_policies(values):
            return None
        noted: str | None = ((namespace or {}).get("metadata", {}).get("annotations") or {}).get(vc.NETWORK_NOTE)
        accepted = self.params["accept_unenforced"]
        if check_mode or (noted and not changed and (noted == vc.ENFORCED or accepted)):
            return noted
        # Several tenants are made at once, each with a probe of its own.
        image = {"image": self.params["probe_image"]} if self.params["probe_image"] else {}
        enforced, results = network_probe.look(self.kube, f"{network_probe.NAME}-{self.name}"[:63].rstrip("-"), **image)
        if not enforced and not accepted:
            seen = "; ".join(result["reason"] for result in results if result["verdict"] != vc.ENFORCED)
            raise TenancyError(
                f"trust: {self.params['trust']} rests on network policies, and the cluster's network does not enforce them: {seen}. Have a "
                "network plugin that does, or take the tenant as it is by accept_unenforced.",
                results=results,
            )
        return vc.ENFORCED if enforced else vc.UNENFORCED

    def _list_classes(self, check_mode: bool) -> list[Change]:
        """Have the classes listed that every tenant of trust zero needs."""
        if self.params["trust"] != "zero":
            return []
        missing = vc.classes_to_list([item for kind in vc.CLASSES for item in self.kube.list(*kind)])
        return self._mark(missing, vc.LISTED_BY_US, check_mode)

    def _unlist_classes(self, namespace: Object | None, check_mode: bool) -> list[Change]:
        """Take back what the last tenant of trust zero leaves."""

        def is_zero(item: Object) -> bool:
            return (item["metadata"].get("annotations") or {}).get(vc.TRUST_NOTE) == "zero"

        if namespace is None or not is_zero(namespace):
            return []
        owned = ",".join(f"{key}={value}" for key, value in vc.OWNED_LABELS.items())
        others = [item for item in self.kube.list("v1", "Namespace", None, owned) if item["metadata"]["name"] != self.namespace]
        if any(is_zero(item) for item in others):
            return []
        mark = f"{vc.LISTED_CLASS}={vc.LISTED_BY_US}"
        return self._mark([item for kind in vc.CLASSES for item in self.kube.list(*kind, None, mark)], None, check_mode)

    def _mark(self, classes: list[Object], value: str | None, check_mode: bool) -> list[Change]:
        changes: list[Change] = []
        for item in classes:
            metadata = item["metadata"]
            changes.append((f"{item['kind']} {metadata['name']}", (metadata.get("labels") or {}).get(vc.LISTED_CLASS), value))
            if not check_mode:
                body = {"metadata": {"labels": {vc.LISTED_CLASS: value}}}
                self.kube.patch(item["apiVersion"], item["kind"], metadata["name"], body)
        return changes

    def _notes(self, network: str | None) -> Object:
        """Metadata of the namespace by which others know what the tenant is."""
        return {
            "annotations": {vc.TRUST_NOTE: self.params["trust"], vc.NETWORK_NOTE: network},
            "labels": {vc.HOST_SCHEDULER_LABEL: self.params["host_scheduler"]},
        }

    def _have_namespace(self, found: Object | None, here: Object | None, network: str | None, check_mode: bool) -> list[Change]:
        """Have the namespace, with its notes.

        :arg here: the one that was found, unless it is on its way out.
        """
        notes = self._notes(network)
        if here is None:
            if not check_mode:
                if found:
                    self._wait_until_gone()
                given = {kind: {key: value for key, value in noted.items() if value} for kind, noted in notes.items()}
                given["labels"] |= vc.OWNED_LABELS | {vc.TENANT_LABEL: self.name}
                self.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace} | given})
            return [("namespace", None, self.namespace)]
        changes = [
            (key.rpartition("/")[2], before, wanted)
            for kind, noted in notes.items()
            for key, wanted in noted.items()
            if (before := (here["metadata"].get(kind) or {}).get(key)) != wanted
        ]
        if changes and not check_mode:
            self.kube.patch("v1", "Namespace", self.namespace, {"metadata": notes})
        return changes

    def _refuse_rivals(self, values: Object) -> None:
        """Refuse GPUs that another virtual cluster books without seeing this one."""
        me = f"{self.namespace}/{self.name}"
        clusters = configs(self.kube) | {me: values}
        told = [line for line in collisions(self.kube.list("v1", "Node"), clusters) if me in line]
        if told:
            raise TenancyError(
                "node_selector: " + "; ".join(told) + ". Give them different nodes, or a gpu_quota each that fit together.",
                overlaps=told,
            )

    def _refuse_others(self) -> None:
        for found in self.kube.list("apps/v1", "StatefulSet", self.namespace, vc.CONTROL_PLANE):
            if found["metadata"]["name"] != self.name:
                raise TenancyError(f"namespace: {self.namespace} already holds the virtual cluster {found['metadata']['name']}.")

    def _install(self, release: Release | None, chart: Chart, values: Object) -> None:
        if release and release.status in ("pending-install", "uninstalling"):
            self.helm.uninstall(self.name, self.namespace, self.left())
        elif release and release.status in UNFINISHED:
            self.kube.delete("v1", "Secret", release.record, self.namespace)
        self.helm.upgrade(self.name, self.namespace, chart, values, self.left())

    def _ready(self) -> tuple[Result | None, str]:
        """One look at whether clients can use the virtual cluster; raises when it never will be usable."""
        workload, pods = self._workload(), self._pods()
        verdict = vc.judge(workload, pods)
        if verdict.crashed:
            raise TenancyError(
                f"The control plane of virtual cluster {self.name} crashes again and again. "
                f"Its last words: {self._log(*verdict.crashed)}",
                last_seen=verdict.seen,
            )
        if not verdict.ready:
            return None, verdict.seen
        secret = self._secret()
        if secret is None:
            return None, f"its kubeconfig Secret vc-{self.name} does not exist yet"
        if ended := self._ended(secret):
            return None, f"the certificate in its Secret vc-{self.name} expired {ended}; vCluster before 0.34 may not renew it"
        service = self.kube.get("v1", "Service", self.name, self.namespace)
        server, why = kc.server_address(service, pods)
        if server is None:
            unreachable = service is not None and service["spec"].get("type") not in ("NodePort", "LoadBalancer")
            return ({}, "") if unreachable else (None, why)
        config = kc.kubeconfig(secret, self.name, server)
        try:
            version = self.ask(config, "/version")["gitVersion"]
            self.ask(config, vc.READY_PATH)
            dns = self.ask(config, vc.DNS_PATH) if vc.has_dns(self.params["values"]) else None
        except TenancyError as exc:
            return None, exc.message
        if dns and not dns.get("status", {}).get("availableReplicas"):
            return None, "its cluster DNS, Deployment coredns, has no pod that answers yet"
        return {"server": server, "kubernetes_version": version}, ""

    def _workload(self) -> Object | None:
        """Its StatefulSet, or its Deployment when it keeps no data."""
        kinds = ("StatefulSet", "Deployment")
        return next(filter(None, (self.kube.get("apps/v1", kind, self.name, self.namespace) for kind in kinds)), None)

    def _secret(self) -> Object | None:
        return self.kube.get("v1", "Secret", f"vc-{self.name}", self.namespace)

    @staticmethod
    def _ended(secret: Object | None) -> str | None:
        return kc.expired(secret or {}, datetime.datetime.now(datetime.UTC))

    def _pods(self) -> list[Object]:
        return self.kube.list("v1", "Pod", self.namespace, f"{vc.CONTROL_PLANE},release={self.name}")

    def _log(self, pod: str, container: str) -> str:
        for previous in (True, False):
            try:
                log = self.kube.logs(pod, self.namespace, container, lines=200, previous=previous)
            except TenancyError as exc:
                return f"(no log: {exc.message})"
            if words := vc.last_words(log):
                return words
        return "(no log)"

    # --- paused ---

    def paused(self, check_mode: bool) -> Result:
        workload = self._workload() if self.own_namespace() else None
        if workload is None:
            raise TenancyError(
                f"name: there is no virtual cluster {self.name} in namespace {self.namespace} that could be paused."
            )
        changes: list[Change] = [] if vc.is_paused(workload) else [("state", "running", "paused")]
        if not check_mode:
            if changes:
                now = datetime.datetime.now(datetime.UTC)
                self._scale(workload, 0, vc.paused(workload, now))
            wait_for(f"the end of virtual cluster {self.name}", self._at_rest, self.left())
        return outcome(changes, namespace=self.namespace, seconds=self.seconds())

    def _scale(self, workload: Object, replicas: int, annotations: dict[str, str | None]) -> None:
        body = {"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}
        self.kube.patch("apps/v1", workload["kind"], self.name, body, self.namespace)

    def _at_rest(self) -> tuple[bool | None, str]:
        """Whether the control plane has ended, and then the pods that it can no longer bring back."""
        pods = self._pods()
        if not pods:
            pods = self.kube.list("v1", "Pod", self.namespace, f"{vc.MARKER_LABEL}={self.name}")
            for pod in pods:
                if "deletionTimestamp" not in pod["metadata"]:
                    self.kube.delete("v1", "Pod", pod["metadata"]["name"], self.namespace)
        return (None, ", ".join(pod["metadata"]["name"] for pod in pods)) if pods else (True, "")

    # --- absent ---

    def absent(self, check_mode: bool) -> Result:
        namespace = self.own_namespace()
        terminating = namespace is not None and "deletionTimestamp" in namespace["metadata"]
        release = self.helm.release(self.name, self.namespace) if namespace and not terminating else None
        changes: list[Change] = []
        if release:
            changes.append(("release", f"{release.chart}-{release.chart_version}", None))
        keep = self.params["keep_volumes"]
        if namespace and not keep:
            changes.append(("namespace", self.namespace, None))
        changes += [(f"{kind} {name}", "present", None) for _api, kind, name in self._cluster_scoped()]
        if changes and not check_mode:
            self._unlist_classes(namespace, check_mode)
            if release:
                self.helm.uninstall(self.name, self.namespace, self.left())
            if keep:
                self._remove_synced()
                wait_for(f"the end of virtual cluster {self.name}", self._at_rest, self.left())
            elif namespace and not terminating:
                self.kube.delete("v1", "Namespace", self.namespace)
            if namespace and not keep:
                self._wait_until_gone()
            for api_version, kind, name in self._cluster_scoped():
                self.kube.delete(api_version, kind, name)
        return outcome(changes, namespace=self.namespace, seconds=self.seconds())

    def _remove_synced(self) -> None:
        """Remove what it wrote into its namespace, which goes by itself only where it has an owner."""
        for api_version, kind in vc.SYNCED_KINDS:
            for item in self.kube.list(api_version, kind, self.namespace, f"{vc.MARKER_LABEL}={self.name}"):
                self.kube.delete(api_version, kind, item["metadata"]["name"], self.namespace)

    def _wait_until_gone(self) -> None:
        """The namespace, and the volumes whose storage class promises to delete them with their claim."""

        def gone() -> tuple[bool | None, str]:
            namespace = self.kube.get("v1", "Namespace", self.namespace)
            if namespace:
                conditions = namespace.get("status", {}).get("conditions") or []
                told = [condition["message"] for condition in conditions if condition["status"] == "True"]
                return None, "; ".join(told) or "the namespace is still there"
            volumes = [
                volume["metadata"]["name"]
                for volume in self.kube.list("v1", "PersistentVolume")
                if (volume["spec"].get("claimRef") or {}).get("namespace") == self.namespace
                and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
            ]
            return (None, f"volumes {', '.join(volumes)}") if volumes else (True, "")

        wait_for(f"the removal of namespace {self.namespace}", gone, self.left())

    def _cluster_scoped(self) -> list[tuple[str, str, str]]:
        """What of this virtual cluster lies outside its namespace."""
        found = []
        rbac, role = "rbac.authorization.k8s.io/v1", vc.cluster_role_name(self.name, self.namespace)
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            item = self.kube.get(rbac, kind, role)
            owner = (item or {}).get("metadata", {}).get("annotations", {})
            if (
                owner.get("meta.helm.sh/release-name") == self.name
                and owner.get("meta.helm.sh/release-namespace") == self.namespace
            ):
                found.append((rbac, kind, role))
        selector = f"{vc.MARKER_LABEL}={vc.marker(self.name, self.namespace)}"
        for api_version, kind in vc.SYNCED_CLUSTER_KINDS:
            found += [(api_version, kind, item["metadata"]["name"]) for item in self.kube.list(api_version, kind, None, selector)]
        return found


def _changes(release: Release | None, version: str, values: Object) -> list[Change]:
    if release is None:
        return [("version", None, version), ("values", None, values)]
    changes: list[Change] = []
    if release.status != "deployed":
        changes.append(("release", release.status, "deployed"))
    if release.chart_version != version:
        changes.append(("version", release.chart_version, version))
    return changes + differences(release.values, values)


def run(params: t.Mapping[str, t.Any], kube: Kube, helm: Helm, check_mode: bool, ask: Ask = ask) -> Result:
    cluster = VirtualCluster(params, kube, helm, ask)
    reach = {"present": cluster.present, "paused": cluster.paused, "absent": cluster.absent}[params["state"]]
    return reach(check_mode)


ARGUMENT_SPEC: dict[str, t.Any] = HELM_ARG_SPEC | {
    "state": {"type": "str", "choices": ["present", "absent", "paused"], "default": "present"},
    "name": {"type": "str", "required": True},
    "force_version": {"type": "bool", "default": False},
    "keep_volumes": {"type": "bool", "default": False},
    "namespace": {"type": "str"},
    "version": {"type": "str", "default": "0.36.1"},
    "kubernetes_version": {"type": "str"},
    "own_scheduler": {"type": "bool", "default": False},
    "node_selector": {"type": "dict", "default": {}},
    "host_scheduler": {"type": "str", "choices": ["kai"]},
    "gpu_quota": {"type": "int"},
    "accept_unenforced": {"type": "bool", "default": False},
    "probe_image": {"type": "str"},
    "trust": {"type": "str", "choices": ["high", "partial", "zero"], "default": "high"},
    "timeout": {"type": "int", "default": 300},
}


def main() -> None:
    module = kube_module(argument_spec=ARGUMENT_SPEC)
    try:
        helm = Helm.connect(module._module.run_command, module.params)
        finish(module, run(module.params, Kube.connect(module), helm, module.check_mode))
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)


if __name__ == "__main__":
    main()
