# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the administrator of a tenant tries against others, what came of it, and what stops it.

Outcomes stand in the order of the tenants: with nodes of its own, trust high, partial, zero; with nodes and the host cluster's
KAI Scheduler shared, trust high, partial. They were seen; a change of one has to be understood, and then written here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import (
    FRACTION_NOTE,
    GPU_GROUP_LABEL,
    KAI_NAMESPACE,
    MEMORY_NOTE,
    QUEUE_LABEL,
    RESERVATION_APP,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._metrics.facts import KAI_PORT
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Cluster

POSSIBLE, STOPPED = "**possible**", "stopped"
IMAGE = "docker.io/library/busybox:1.37.0"
# A pod that even the strictest profile takes, so that only what an attack adds can be what is refused.
HARMLESS: dict[str, Any] = {
    "terminationGracePeriodSeconds": 1,
    "restartPolicy": "Never",
    "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "attack",
            "image": IMAGE,
            "command": ["/bin/sh", "-c", "true"],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "resources": {"limits": {"cpu": "100m", "memory": "32Mi"}},
        }
    ],
}
PRIVILEGED = {"privileged": True, "runAsUser": 0, "runAsNonRoot": False}
# Ports of the page that a tenant serves. Of the second, the control plane of a tenant reaches any address.
HTTP, HTTPS = 8080, 8443
# Bound of the tenants that have one, so that an attack on it takes seconds.
CONFIGMAPS = 20
Outcome = tuple[bool, str]


class Attacker:
    """The administrator of a tenant, with nothing but its kubeconfig.

    :ivar host: the host cluster, to know what to attack, and to see what came of it.
    :ivar other: another tenant.
    """

    def __init__(self, cluster: Cluster, name: str, other: Attacker | None = None) -> None:
        self.host = Kube.connect(kubeconfig=str(cluster.kubeconfig))
        self.kube = Kube.connect(kubeconfig=str(cluster.kubeconfig.parent / "tenants" / f"{name}.yml"))
        self.name, self.namespace = name, f"tenant-{name}"
        self._other = other

    @property
    def other(self) -> Attacker:
        assert self._other
        return self._other

    def run(
        self,
        name: str,
        script: str = "true",
        spec: dict[str, Any] | None = None,
        labels: dict[str, str] | None = None,
        notes: dict[str, str] | None = None,
        **container: Any,
    ) -> Outcome:
        """Run a pod; return whether it ended well, and its last words or why it did not."""
        (harmless,) = HARMLESS["containers"]
        command = {"command": ["/bin/sh", "-c", f"{{ {script}; }} > /dev/termination-log 2>&1"]}
        spec = HARMLESS | (spec or {}) | {"containers": [harmless | command | container]}
        metadata = {"name": name, "namespace": "default", "labels": labels or {}, "annotations": notes or {}}
        try:
            self.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        except TenancyError as exc:
            return False, exc.message
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            pod = self.kube.get("v1", "Pod", name, "default") or {"status": {}}
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                (status,) = pod["status"]["containerStatuses"]
                ended = status["state"]["terminated"]
                return ended["exitCode"] == 0, str(ended.get("message", ended.get("reason", ""))).strip()
            if refused := self.refusal(name):
                return False, refused
            time.sleep(0.5)
        return False, f"it never ended: {pod['status']}"

    def refusal(self, name: str) -> str:
        """Return what an event says of why an object is not let in; empty where none does."""
        words = ("violates PodSecurity", "forbidden", "not found", "does not exist", "is not allowed", "exceeded quota")
        events = self.kube.list("v1", "Event", "default")
        messages = [str(event.get("message", "")) for event in events if event["involvedObject"].get("name") == name]
        # What does not find the object itself came too early.
        return next(
            (message for message in messages if any(word in message for word in words) and f'"{name}" not found' not in message),
            "",
        )

    def on_host(self, kind: str, name: str) -> dict[str, Any]:
        """Return what the host cluster has of an object of the tenant's namespace default."""
        found = self.host.get("v1", kind, f"{name}-x-default-x-{self.name}", self.namespace)
        assert found, name
        return found

    def create_many(self, kind: str, names: Iterable[str], **fields: Any) -> None:
        for name in names:
            metadata = {"name": name, "namespace": "default"}
            self.kube.create({"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields})

    def exceeds(self, kind: str, bound: int) -> Outcome:
        """Tell whether the host cluster comes to have more objects of a kind than a bound."""
        deadline = time.monotonic() + 60
        while (count := len(self.host.list("v1", kind, self.namespace))) <= bound:
            events = self.kube.list("v1", "Event", "default")
            if any("exceeded quota" in str(event.get("message")) for event in events) or time.monotonic() > deadline:
                return False, f"{count} are there"
            time.sleep(1)
        return True, f"{count} are there"

    def serve_a_page(self) -> None:
        metadata = {"name": "page", "namespace": "default", "labels": {"app": "page"}}
        (container,) = HARMLESS["containers"]
        containers = [
            container | {"name": f"port-{port}", "command": ["httpd", "-f", "-p", str(port), "-h", "/etc"]}
            for port in (HTTP, HTTPS)
        ]
        self.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": HARMLESS | {"containers": containers}})
        ports = [{"name": f"port-{port}", "port": port} for port in (HTTP, HTTPS)]
        self.create_many("Service", ["page"], spec={"selector": {"app": "page"}, "ports": ports})
        deadline = time.monotonic() + 60
        while (self.kube.get("v1", "Pod", "page", "default") or {"status": {}})["status"].get("phase") != "Running":
            assert time.monotonic() < deadline
            time.sleep(0.5)

    def page(self) -> str:
        """Return the command that reads this tenant's page by the host cluster's address of its Service."""
        return fetch(f"{self.on_host('Service', 'page')['spec']['clusterIP']}:{HTTP}")

    def bait(self, name: str) -> None:
        """Make a Service, without a selector, whose endpoints are the address of the other tenant's page."""
        address = self.other.on_host("Pod", "page")["status"]["podIP"]
        ports = [{"name": f"port-{port}", "port": port} for port in (HTTP, HTTPS)]
        self.create_many("Service", [name], spec={"ports": ports})
        self.create_many("Endpoints", [name], subsets=[{"addresses": [{"ip": address}], "ports": ports}])
        self.kube.create(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": name}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [address]}],
                "ports": ports,
            }
        )


def fetch(address: str) -> str:
    return f"wget -q -T 5 -O - http://{address}/hostname"


@dataclasses.dataclass(frozen=True)
class Attack:
    """An attempt.

    :ivar does: what it does, in a sentence.
    :ivar by: what stops it, where something does, and why nothing does elsewhere.
    :ivar alone: outcomes for tenants with nodes of their own; none where it needs a scheduler that is shared.
    :ivar beside: outcomes for tenants that share nodes and the host cluster's KAI Scheduler.
    """

    does: str
    by: str
    alone: tuple[str, ...]
    beside: tuple[str, ...]
    attempt: Callable[[Attacker], Outcome]


ATTACKS: list[Attack] = []
Attempt = Callable[[Attacker], Outcome]


def attack(by: str, alone: str, beside: str) -> Callable[[Attempt], Attempt]:
    """Register an attempt, whose docstring says what it does; outcomes are words, ``possible`` or ``stopped``."""

    def register(attempt: Attempt) -> Attempt:
        outcomes = [tuple(POSSIBLE if word == "possible" else STOPPED for word in words.split()) for words in (alone, beside)]
        ATTACKS.append(Attack(str(attempt.__doc__).rstrip("."), by, outcomes[0], outcomes[1], attempt))
        return attempt

    return register


# --- the node and its devices ------------------------------------------------------------------------------------


@attack("pod security standard", alone="possible stopped stopped", beside="possible stopped")
def gpu_device_by_host_path(attacker: Attacker) -> Outcome:
    """A GPU's device as a volume of the node's folder."""
    volumes = [{"name": "device", "hostPath": {"path": "/dev/nvidia0"}}]
    mounts = [{"name": "device", "mountPath": "/dev/nvidia0"}]
    return attacker.run("host-path", "ls /dev/nvidia0", {"volumes": volumes}, volumeMounts=mounts)


@attack(
    "policy of the API server, where others have GPUs on the node", alone="possible possible possible", beside="stopped stopped"
)
def all_gpus_by_environment(attacker: Attacker) -> Outcome:
    """All GPUs of its node, by an environment variable."""
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    return attacker.run("all-gpus", "nvidia-smi -L | grep GPU", {"runtimeClassName": "nvidia"}, env=env)


@attack("pod security standard", alone="possible stopped stopped", beside="possible stopped")
def privileged_pod(attacker: Attacker) -> Outcome:
    """A privileged pod, which sees all devices."""
    return attacker.run("privileged", "ls /dev/nvidia0", securityContext=PRIVILEGED)


@attack(
    "vCluster, which checks the standard before it passes a pod on", alone="possible stopped stopped", beside="possible stopped"
)
def privileged_pod_where_the_namespace_says_so(attacker: Attacker) -> Outcome:
    """The same, with its namespace labelled for privileged pods."""
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    # vCluster puts the label right; who is first is a race, and an attacker tries again.
    for number in range(4):
        attacker.kube.patch("v1", "Namespace", "default", label)
        outcome = attacker.run(f"privileged-{number}", "ls /dev/nvidia0", securityContext=PRIVILEGED)
        if outcome[0] or "it never ended" in outcome[1]:
            break
    return outcome


@attack("pod security standard", alone="possible stopped stopped", beside="possible stopped")
def privileged_ephemeral_container(attacker: Attacker) -> Outcome:
    """A privileged container added to a pod that runs, as debuggers do."""
    (harmless,) = HARMLESS["containers"]
    spec = HARMLESS | {"containers": [harmless | {"command": ["sleep", "120"]}]}
    attacker.create_many("Pod", ["debugged"], spec=spec)
    deadline = time.monotonic() + 60
    while (pod := attacker.kube.get("v1", "Pod", "debugged", "default") or {"status": {}})["status"].get("phase") != "Running":
        assert time.monotonic() < deadline, pod["status"]
        time.sleep(0.5)
    debugger = {"name": "debug", "image": IMAGE, "command": ["ls", "/dev/nvidia0"], "securityContext": PRIVILEGED}
    containers = attacker.kube.client.require("v1", "Pod").subresources["ephemeralcontainers"]
    body = {"spec": {"ephemeralContainers": [debugger]}}
    try:
        containers.patch(body=body, name="debugged", namespace="default", content_type="application/strategic-merge-patch+json")
    except Exception as exc:
        return False, str(exc)
    while time.monotonic() < deadline:
        pod = attacker.kube.get("v1", "Pod", "debugged", "default") or {"status": {}}
        (status,) = pod["status"].get("ephemeralContainerStatuses") or [{}]
        if ended := status.get("state", {}).get("terminated"):
            return ended["exitCode"] == 0, str(ended)
        time.sleep(0.5)
    return False, f"it never started: {pod['status']}"


@attack("pod security standard `restricted`", alone="possible possible stopped", beside="possible possible")
def root_in_a_container(attacker: Attacker) -> Outcome:
    """Root in a container."""
    return attacker.run("root", "id -u | grep -x 0", {"securityContext": {"runAsUser": 0}}, securityContext={})


@attack("pod security standard", alone="possible stopped stopped", beside="possible stopped")
def the_hosts_network(attacker: Attacker) -> Outcome:
    """The node's network."""
    return attacker.run("host-network", "ip link show cni0 || ip link | grep veth", {"hostNetwork": True})


@attack("pod security standard", alone="possible stopped stopped", beside="possible stopped")
def the_hosts_processes(attacker: Attacker) -> Outcome:
    """The node's processes."""
    return attacker.run("host-processes", "ps | grep kubelet | grep -v grep", {"hostPID": True})


@attack("pod security standard", alone="possible stopped stopped", beside="possible stopped")
def a_port_of_the_node(attacker: Attacker) -> Outcome:
    """A port of its node."""
    return attacker.run("host-port", ports=[{"containerPort": HTTP, "hostPort": 31999}])


@attack("vCluster, which passes no priority class on", alone="stopped stopped stopped", beside="stopped stopped")
def a_priority_that_evicts_others(attacker: Attacker) -> Outcome:
    """The priority of system pods, to evict those of others."""
    possible, said = attacker.run("critical", spec={"priorityClassName": "system-node-critical"})
    return possible and attacker.on_host("Pod", "critical")["spec"].get("priority", 0) > 0, said


@attack("vCluster, which sets the node selector of the tenant's nodes", alone="stopped stopped stopped", beside="stopped stopped")
def a_pod_on_a_node_that_is_not_its_own(attacker: Attacker) -> Outcome:
    """A pod on a node that is not its own, by the node's name and a toleration for everything."""
    label = f"tenant.kubegpu.tenancy/{attacker.name}"
    names = [item["metadata"]["name"] for item in attacker.host.list("v1", "Node") if label not in item["metadata"]["labels"]]
    return attacker.run("elsewhere", "true", {"nodeName": sorted(names)[0], "tolerations": [{"operator": "Exists"}]})


@attack("vCluster, which does not pass a node's labels on", alone="stopped stopped stopped", beside="stopped stopped")
def labels_of_a_node(attacker: Attacker) -> Outcome:
    """Another label on its node."""
    label = {"stolen-by": attacker.name}
    (node, *_others) = attacker.kube.list("v1", "Node")
    try:
        attacker.kube.patch("v1", "Node", node["metadata"]["name"], {"metadata": {"labels": label}})
    except TenancyError as exc:
        return False, exc.message
    time.sleep(5)
    live = attacker.host.get("v1", "Node", node["metadata"]["name"])
    assert live
    return live["metadata"]["labels"].items() >= label.items(), "the host cluster's node keeps its labels"


@attack("the kubelet, which wants a credential", alone="stopped stopped stopped", beside="stopped stopped")
def the_kubelet_of_its_node(attacker: Attacker) -> Outcome:
    """All pods of its node, from the kubelet's port."""
    (node, *_others) = attacker.host.list("v1", "Node", None, f"tenant.kubegpu.tenancy/{attacker.name}=true")
    address = next(item["address"] for item in node["status"]["addresses"] if item["type"] == "InternalIP")
    return attacker.run("kubelet", f"wget -q -T 5 --no-check-certificate -O - https://{address}:10250/pods")


@attack("vCluster, whose proxy shows a tenant its own pods", alone="stopped stopped stopped", beside="stopped stopped")
def pods_of_others_by_the_proxy_of_its_node(attacker: Attacker) -> Outcome:
    """All pods of its node, by the node's proxy in its API server."""
    (node, *_others) = attacker.kube.list("v1", "Node")
    own = {item["metadata"]["uid"] for item in attacker.kube.list("v1", "Pod")}
    own |= {item["metadata"]["uid"] for item in attacker.host.list("v1", "Pod", attacker.namespace)}
    try:
        answer = attacker.kube.client.request("read a node's pods", f"/api/v1/nodes/{node['metadata']['name']}/proxy/pods")
    except TenancyError as exc:
        return False, exc.message
    shown = json.loads(answer)["items"] or []
    return any(item["metadata"]["uid"] not in own for item in shown), f"{len(shown)} pods"


# --- the network -------------------------------------------------------------------------------------------------


@attack("network policies of the chart", alone="possible stopped stopped", beside="possible stopped")
def service_of_another_tenant(attacker: Attacker) -> Outcome:
    """A Service of a tenant of trust `high`."""
    return attacker.run("service", f"sleep 15; {attacker.other.page()}")


@attack(
    "nothing: the engine learns a pod's address after the pod runs ([isolation](../explanation/isolation.md))",
    alone="possible possible possible",
    beside="possible possible",
)
def the_same_at_once_when_a_pod_starts(attacker: Attacker) -> Outcome:
    """The same in the first moment of a pod."""
    # Who gets through, the page or the policy, is a race; an attacker tries again.
    for number in range(8):
        outcome = attacker.run(f"service-at-once-{number}", attacker.other.page())
        if outcome[0]:
            break
    return outcome


@attack("network policies of the chart", alone="possible stopped stopped", beside="possible stopped")
def its_own_service_from_another_tenant(attacker: Attacker) -> Outcome:
    """The other way: its own Service, from a tenant of trust `high`."""
    attacker.serve_a_page()
    # The page is known by now to the plugin that enforces policies.
    time.sleep(15)
    return attacker.other.run(f"to-{attacker.name}", attacker.page())


@attack("network policies of the chart", alone="possible stopped stopped", beside="possible stopped")
def a_service_of_its_own_for_anothers_address(attacker: Attacker) -> Outcome:
    """A Service of its own, whose endpoints are another tenant's pod."""
    attacker.bait("bait")
    return attacker.run("to-bait", f"sleep 15; {fetch(f'bait:{HTTP}')}")


def by_its_api_server(attacker: Attacker, port: int) -> Outcome:
    """Read the other tenant's page by the proxy of the attacker's API server, which connects to the addresses of pods alone."""
    name, address = f"forged-{port}", attacker.other.on_host("Pod", "page")["status"]["podIP"]
    # What no scheduler places, vCluster does not pass on, so that nothing puts its status right.
    attacker.create_many("Pod", [name], spec=HARMLESS | {"schedulerName": "nobody"})
    status = attacker.kube.client.require("v1", "Pod").subresources["status"]
    body = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
    status.patch(body=body, name=name, namespace="default", content_type="application/merge-patch+json")
    try:
        return True, attacker.kube.client.request(
            "read a page by the API server", f"/api/v1/namespaces/default/pods/{name}:{port}/proxy/hostname"
        )
    except TenancyError as exc:
        return False, exc.message


@attack("network policies of the chart", alone="possible stopped stopped", beside="possible stopped")
def the_same_by_its_api_server(attacker: Attacker) -> Outcome:
    """The same by the proxy of its API server, to a pod that says that it has the other one's address."""
    return by_its_api_server(attacker, HTTP)


@attack(
    "network policies of the chart, of which module `vcluster` narrows the one for the control plane",
    alone="possible stopped stopped",
    beside="possible stopped",
)
def the_same_at_a_port_of_https(attacker: Attacker) -> Outcome:
    """The same at port 8443."""
    return by_its_api_server(attacker, HTTPS)


@attack("DNS of its own, which answers for the same domain", alone="stopped stopped stopped", beside="stopped stopped")
def a_name_of_its_own_for_anothers_service(attacker: Attacker) -> Outcome:
    """A Service of type ExternalName with the host cluster's name of another tenant's Service."""
    name = attacker.other.on_host("Service", "page")["metadata"]["name"]
    spec = {"type": "ExternalName", "externalName": f"{name}.{attacker.other.namespace}.svc.cluster.local"}
    attacker.create_many("Service", ["alias"], spec=spec)
    return attacker.run("to-alias", f"sleep 15; {fetch(f'alias:{HTTP}')}")


@attack("network policies of the chart", alone="possible stopped stopped", beside="possible stopped")
def names_of_others_from_the_hosts_dns(attacker: Attacker) -> Outcome:
    """The address of another tenant's Service, from the host cluster's DNS."""
    dns = attacker.host.get("v1", "Service", "kube-dns", "kube-system")
    assert dns
    page = attacker.other.on_host("Service", "page")
    name = f"{page['metadata']['name']}.{attacker.other.namespace}.svc.cluster.local"
    return attacker.run("dns", f"sleep 15; nslookup {name} {dns['spec']['clusterIP']} | grep {page['spec']['clusterIP']}")


@attack("the host cluster, which does not know the token", alone="stopped stopped stopped", beside="stopped stopped")
def the_host_clusters_api_with_its_own_token(attacker: Attacker) -> Outcome:
    """Pods of another tenant, from the host cluster's API by the token of a pod."""
    token = "$(cat /var/run/secrets/kubernetes.io/serviceaccount/token)"
    url = f"https://{host_api(attacker)}/api/v1/namespaces/{attacker.other.namespace}/pods"
    ask = f'wget -q -T 5 --no-check-certificate --header "Authorization: Bearer {token}" -O - {url}'
    return attacker.run("host-api", ask)


@attack(
    "network policies of the chart; vCluster renames the labels by which the control plane is let through",
    alone="possible stopped stopped",
    beside="possible stopped",
)
def the_host_clusters_api_with_labels_of_its_control_plane(attacker: Attacker) -> Outcome:
    """A connection to the host cluster's API, by a pod with the labels of its control plane."""
    pods = attacker.host.list("v1", "Pod", attacker.namespace, "app=vcluster")
    labels = {key: pods[0]["metadata"]["labels"][key] for key in ("app", "release")}
    return attacker.run("labels", f"sleep 15; nc -w 5 {host_api(attacker)} 443 -e true", labels=labels)


def host_api(attacker: Attacker) -> str:
    service = attacker.host.get("v1", "Service", "kubernetes", "default")
    assert service
    return str(service["spec"]["clusterIP"])


@attack("the control plane, whose store listens to itself only", alone="stopped stopped stopped", beside="stopped stopped")
def the_store_of_its_control_plane(attacker: Attacker) -> Outcome:
    """The store behind its API server."""
    (pod, *_others) = attacker.host.list("v1", "Pod", attacker.namespace, "app=vcluster")
    address = pod["status"]["podIP"]
    return attacker.run("store", f"nc -w 2 {address} 2379 -e true || nc -w 2 {address} 2380 -e true")


# --- objects -----------------------------------------------------------------------------------------------------


@attack("a namespace of its own on the host cluster", alone="stopped stopped stopped", beside="stopped stopped")
def two_names_that_become_one(attacker: Attacker) -> Outcome:
    """Names that are one when vCluster joins them with their namespaces, to replace what others have."""

    def of_others() -> dict[tuple[str, str], Any]:
        """Return the other tenant's Services, and those of the attacker's control plane, which have no names of vCluster's making."""
        listed = [
            (item["metadata"]["namespace"], item["metadata"]["name"], item["spec"])
            for item in attacker.host.list("v1", "Service")
        ]
        return {
            (namespace, name): spec
            for namespace, name, spec in listed
            if namespace == attacker.other.namespace or (namespace == attacker.namespace and "-x-" not in name)
        }

    before = of_others()
    for namespace, name in (("a-x-b", "p"), ("b", "p-x-a"), ("b", "page-x-default-x-" + attacker.other.name)):
        if attacker.kube.get("v1", "Namespace", namespace) is None:
            attacker.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        metadata = {"name": name, "namespace": namespace}
        # Where the joined name is one that the attacker itself has, vCluster refuses it.
        with contextlib.suppress(TenancyError):
            attacker.kube.create(
                {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": HTTP}]}}
            )
    time.sleep(5)
    return of_others() != before, "Services of others are as they were"


# Last of the attacks that make objects: nothing has room after them.
@attack("quota of its namespace", alone="possible stopped stopped", beside="stopped stopped")
def more_services_than_a_quota_allows(attacker: Attacker) -> Outcome:
    """60 Services, to fill the host cluster's API."""
    try:
        attacker.create_many("Service", [f"many-{n}" for n in range(60)], spec={"ports": [{"port": 80}], "selector": {"a": "b"}})
    except TenancyError as exc:
        return False, exc.message
    return attacker.exceeds("Service", 60)


@attack("quota of its namespace", alone="possible stopped stopped", beside="stopped stopped")
def more_configmaps_than_a_quota_allows(attacker: Attacker) -> Outcome:
    """A pod with more ConfigMaps than the tenant may have."""
    names = [f"many-{number}" for number in range(CONFIGMAPS + 5)]
    attacker.create_many("ConfigMap", names, data={"a": "b"})
    (harmless,) = HARMLESS["containers"]
    env_from = [{"configMapRef": {"name": name, "optional": True}} for name in names]
    attacker.create_many("Pod", ["many"], spec=HARMLESS | {"containers": [harmless | {"envFrom": env_from}]})
    return attacker.exceeds("ConfigMap", CONFIGMAPS)


# --- the scheduler that is shared --------------------------------------------------------------------------------

POLICY = "policy of the API server"


def gpu_pod(attacker: Attacker, name: str, queue: str | None, gpus: int = 1, **more: Any) -> Outcome:
    """Run a pod of the host cluster's KAI Scheduler."""
    labels = {QUEUE_LABEL: queue} if queue else {}
    limits = {"cpu": "100m", "memory": "32Mi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    spec = {"schedulerName": more.pop("scheduler", "kai-scheduler")}
    return attacker.run(name, "true", spec, labels | more.pop("labels", {}), resources={"limits": limits}, **more)


def read_metrics(host: Kube) -> str:
    """Return the command that reads what the host cluster's KAI Scheduler tells of queues; it fails where no pod of it answers."""
    pods = [pod for pod in host.list("v1", "Pod", KAI_NAMESPACE) if pod["status"].get("podIP")]
    addresses = " ".join(pod["status"]["podIP"] for pod in pods)
    return f"for a in {addresses}; do wget -q -T 3 -O - http://$a:{KAI_PORT}/metrics | grep -m 1 kai_queue_info && exit 0; done; exit 1"


@attack("network policy of the host cluster, with `kubegpu_metrics`", alone="", beside="stopped stopped")
def metrics_of_the_scheduler(attacker: Attacker) -> Outcome:
    """The metrics of the host cluster's KAI Scheduler, which name the queues of all tenants."""
    return attacker.run("metrics", read_metrics(attacker.host))


@attack(POLICY, alone="", beside="stopped stopped")
def the_queue_of_another_tenant(attacker: Attacker) -> Outcome:
    """A GPU in the queue of another tenant."""
    return gpu_pod(attacker, "foreign-queue", attacker.other.name)


@attack(POLICY, alone="", beside="stopped stopped")
def the_default_queue(attacker: Attacker) -> Outcome:
    """A GPU in KAI Scheduler's default queue, which has no limit."""
    return gpu_pod(attacker, "default-queue", "default-queue")


@attack(POLICY, alone="", beside="stopped stopped")
def no_queue(attacker: Attacker) -> Outcome:
    """A GPU in no queue."""
    return gpu_pod(attacker, "no-queue", None)


@attack(POLICY, alone="", beside="stopped stopped")
def past_the_scheduler(attacker: Attacker) -> Outcome:
    """A GPU past KAI Scheduler."""
    return gpu_pod(attacker, "past-kai", attacker.name, scheduler="default-scheduler")


@attack(POLICY, alone="", beside="stopped stopped")
def a_part_of_a_gpu(attacker: Attacker) -> Outcome:
    """A part of a GPU, for a tenant that gets whole ones."""
    return gpu_pod(attacker, "part", attacker.name, 0, notes={FRACTION_NOTE: "0.5"})


@attack(POLICY, alone="", beside="stopped stopped")
def memory_of_a_gpu(attacker: Attacker) -> Outcome:
    """Memory of a GPU, for a tenant that gets whole ones."""
    return gpu_pod(attacker, "memory", attacker.name, 0, notes={MEMORY_NOTE: "2000"})


@attack(POLICY, alone="", beside="stopped stopped")
def a_place_on_a_gpu_that_others_share(attacker: Attacker) -> Outcome:
    """A place among pods that share a GPU, by the label of their group."""
    return gpu_pod(attacker, "group", attacker.name, 0, labels={GPU_GROUP_LABEL: "x"})


@attack(POLICY, alone="", beside="stopped stopped")
def a_reservation_of_its_own(attacker: Attacker) -> Outcome:
    """A pod that passes for KAI Scheduler's reservation of a GPU."""
    labels = {"app": RESERVATION_APP, GPU_GROUP_LABEL: "x"}
    return attacker.run("reservation", labels=labels)
