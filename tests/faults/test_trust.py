# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a tenant's administrator can do to others from within, by the tenant's trust; writes docs/attacks.md."""

from __future__ import annotations

import json
import os
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT, Cluster, Lab

PROFILES = ("high", "partial", "zero")
TENANTS = [{"name": "victim", "trust": "high"}] + [
    {"name": f"attacker-{trust}", "trust": trust, "gpu_nodes": {"count": 1}} for trust in PROFILES
]
VARIABLES = {
    "lab_gpus": 6,
    "lab_network_policies": True,
    "nvkind_workers": [{"gpus": [0, 1]}, {"gpus": [2, 3]}, {"gpus": [4, 5]}],
    "kubegpu_tenants": [tenant | {"vcluster": {"kubernetes_version": "v1.35.4"}} for tenant in TENANTS],
}
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
STOPPED, POSSIBLE = "stopped", "**possible**"


class Attacker:
    """The administrator of a tenant, with nothing but its kubeconfig.

    :ivar other: another tenant, which nothing protects.
    """

    def __init__(self, cluster: Cluster, name: str, other: Attacker | None = None) -> None:
        self.other = other
        self.host = cluster.kube
        self.name = name
        self.kube = Kube.connect(kubeconfig=str(cluster.kubeconfig.parent / "tenants" / f"{name}.yml"))
        node = next(item for item in self.host.list("v1", "Node", None, f"tenant.kubegpu.tenancy/{name}=true"))
        self.node: str = node["metadata"]["name"]

    def run(self, name: str, script: str, spec: dict[str, Any] | None = None, **container: Any) -> tuple[bool, str]:
        """Whether a pod ran to its end well, and its last words or why it did not."""
        (harmless,) = HARMLESS["containers"]
        (more,) = (spec or {}).get("containers", [{}])
        told = {"command": ["/bin/sh", "-c", f"{{ {script}; }} > /dev/termination-log 2>&1"]}
        spec = HARMLESS | (spec or {}) | {"containers": [harmless | told | more | container]}
        metadata = {"name": name, "namespace": "default"}
        try:
            self.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        except TenancyError as exc:
            return False, exc.message
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline:
            pod = self.kube.get("v1", "Pod", name, "default") or {"status": {}}
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                (status,) = pod["status"]["containerStatuses"]
                ended = status["state"]["terminated"]
                return ended["exitCode"] == 0, str(ended.get("message", ended.get("reason", ""))).strip()
            if refused := self._warnings(name):
                return False, refused
            time.sleep(0.5)
        return False, f"it never started: {pod['status']}"

    def _warnings(self, name: str) -> str:
        events = self.kube.list("v1", "Event", "default")
        words = ("violates PodSecurity", "forbidden", "not found", "does not exist", "is not allowed", "exceeded quota")
        told = [event["message"] for event in events if event["involvedObject"].get("name") == name]
        return next((message for message in told if any(word in message for word in words)), "")


def harmless(attacker: Attacker) -> tuple[bool, str]:
    """Not an attack: what shows that the pods of the attacks fail by what the attacks add."""
    return attacker.run("harmless", "true")


def gpu_device_by_host_path(attacker: Attacker) -> tuple[bool, str]:
    volumes = [{"name": "device", "hostPath": {"path": "/dev/nvidia0"}}]
    mounts = [{"name": "device", "mountPath": "/dev/nvidia0"}]
    return attacker.run("host-path", "ls /dev/nvidia0", {"volumes": volumes}, volumeMounts=mounts)


def all_gpus_by_environment(attacker: Attacker) -> tuple[bool, str]:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    return attacker.run("all-gpus", "nvidia-smi -L | grep GPU", {"runtimeClassName": "nvidia"}, env=env)


def privileged_pod(attacker: Attacker) -> tuple[bool, str]:
    return attacker.run(
        "privileged", "ls /dev/nvidia0", securityContext={"privileged": True, "runAsUser": 0, "runAsNonRoot": False}
    )


def root_in_a_container(attacker: Attacker) -> tuple[bool, str]:
    return attacker.run("root", "id -u | grep -x 0", {"securityContext": {"runAsUser": 0}}, securityContext={})


def the_hosts_network(attacker: Attacker) -> tuple[bool, str]:
    return attacker.run("host-network", "ip link show cni0 || ip link | grep veth", {"hostNetwork": True})


def the_hosts_processes(attacker: Attacker) -> tuple[bool, str]:
    return attacker.run("host-processes", "ps | grep kubelet | grep -v grep", {"hostPID": True})


def fetch_the_page(host: Kube, tenant: str) -> str:
    services = host.list("v1", "Service", f"tenant-{tenant}")
    (service,) = [item for item in services if item["metadata"]["name"].startswith("page-x-")]
    return f"wget -q -T 5 -O - http://{service['spec']['clusterIP']}:8080/hostname"


def service_of_an_unprotected_tenant(attacker: Attacker) -> tuple[bool, str]:
    return attacker.run("service", f"sleep 15; {fetch_the_page(attacker.host, 'victim')}")


def the_same_at_once_when_a_pod_starts(attacker: Attacker) -> tuple[bool, str]:
    # Who gets through, the page or the policy, is a race; an attacker tries again.
    for number in range(8):
        possible, said = attacker.run(f"service-at-once-{number}", fetch_the_page(attacker.host, "victim"))
        if possible:
            break
    return possible, said


def its_own_service_from_another_tenant(attacker: Attacker) -> tuple[bool, str]:
    assert attacker.other
    serve_a_page(attacker.kube)
    # The page is known by now to whoever enforces policies.
    time.sleep(15)
    return attacker.other.run(f"to-{attacker.name}", fetch_the_page(attacker.host, attacker.name))


def the_host_clusters_api_with_its_own_token(attacker: Attacker) -> tuple[bool, str]:
    (api,) = [item for item in attacker.host.list("v1", "Service", "default") if item["metadata"]["name"] == "kubernetes"]
    token = "$(cat /var/run/secrets/kubernetes.io/serviceaccount/token)"
    url = f"https://{api['spec']['clusterIP']}/api/v1/namespaces/tenant-victim/pods"
    ask = f'wget -q -T 5 --no-check-certificate --header "Authorization: Bearer {token}" -O - {url}'
    return attacker.run("host-api", ask)


def a_pod_on_another_tenants_node(attacker: Attacker) -> tuple[bool, str]:
    nodes = attacker.host.list("v1", "Node")
    theirs = sorted(
        item["metadata"]["name"]
        for item in nodes
        if item["metadata"]["name"] != attacker.node and "attacker" in str(item["metadata"].get("labels"))
    )
    return attacker.run("elsewhere", "true", {"nodeName": theirs[0], "tolerations": [{"operator": "Exists"}]})


def labels_of_a_node(attacker: Attacker) -> tuple[bool, str]:
    label = {"stolen-by": attacker.name}
    try:
        attacker.kube.patch("v1", "Node", attacker.node, {"metadata": {"labels": label}})
    except TenancyError as exc:
        return False, exc.message
    time.sleep(5)
    node = attacker.host.get("v1", "Node", attacker.node)
    assert node
    return node["metadata"]["labels"].items() >= label.items(), "the host's node keeps its labels"


def more_services_than_a_quota_allows(attacker: Attacker) -> tuple[bool, str]:
    for number in range(60):
        metadata = {"name": f"many-{number}", "namespace": "default"}
        spec = {"ports": [{"port": 80}], "selector": {"a": "b"}}
        try:
            attacker.kube.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        except TenancyError as exc:
            return False, exc.message
    return True, ""


Attack = Callable[[Attacker], tuple[bool, str]]
# What was seen; a change of it has to be understood, and then written here.
ATTACKS: dict[Attack, tuple[str, str, str]] = {
    gpu_device_by_host_path: (POSSIBLE, STOPPED, STOPPED),
    all_gpus_by_environment: (POSSIBLE, POSSIBLE, POSSIBLE),
    privileged_pod: (POSSIBLE, STOPPED, STOPPED),
    root_in_a_container: (POSSIBLE, POSSIBLE, STOPPED),
    the_hosts_network: (POSSIBLE, STOPPED, STOPPED),
    the_hosts_processes: (POSSIBLE, STOPPED, STOPPED),
    service_of_an_unprotected_tenant: (POSSIBLE, STOPPED, STOPPED),
    # The engine learns a pod's address from the API server, which is told once the pod runs.
    the_same_at_once_when_a_pod_starts: (POSSIBLE, POSSIBLE, POSSIBLE),
    its_own_service_from_another_tenant: (POSSIBLE, STOPPED, STOPPED),
    the_host_clusters_api_with_its_own_token: (STOPPED, STOPPED, STOPPED),
    a_pod_on_another_tenants_node: (STOPPED, STOPPED, STOPPED),
    labels_of_a_node: (STOPPED, STOPPED, STOPPED),
    more_services_than_a_quota_allows: (POSSIBLE, STOPPED, STOPPED),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    lab = Lab("kubegpu-faults-trust", f"--extra-vars={json.dumps(VARIABLES)}")
    try:
        lab.site()
        made = Cluster(lab, Path(os.environ["KUBEGPU_CACHE"]))
        serve_a_page(Kube.connect(kubeconfig=str(made.kubeconfig.parent / "tenants" / "victim.yml")))
        yield made
    finally:
        said = lab.play("cleanup")
        assert (lab.code, lab.everything()) == (0, []), said[-4000:]


def serve_a_page(tenant: Kube) -> None:
    metadata = {"name": "page", "namespace": "default", "labels": {"app": "page"}}
    (container,) = HARMLESS["containers"]
    spec = HARMLESS | {"containers": [container | {"command": ["httpd", "-f", "-p", "8080", "-h", "/etc"]}]}
    tenant.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    ports = {"selector": {"app": "page"}, "ports": [{"port": 8080}]}
    tenant.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": ports})
    deadline = time.monotonic() + 60
    while (tenant.get("v1", "Pod", "page", "default") or {"status": {}})["status"].get("phase") != "Running":
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_what_each_profile_stops(cluster: Cluster) -> None:
    victim = Attacker(cluster, "victim")
    attackers = [Attacker(cluster, f"attacker-{trust}", victim) for trust in PROFILES]
    for attacker in [victim, *attackers]:
        assert harmless(attacker) == (True, "Completed")
    seen: dict[Attack, tuple[str, ...]] = {}
    reasons: dict[str, list[str]] = {}
    for attack in ATTACKS:
        found = [attack(attacker) for attacker in attackers]
        seen[attack] = tuple(POSSIBLE if possible else STOPPED for possible, _reason in found)
        reasons[attack.__name__] = [reason[:200] for _possible, reason in found]
    rows = [f"| {attack.__name__.replace('_', ' ')} | {' | '.join(row)} |" for attack, row in seen.items()]
    head = """\
        # What a tenant can do to others

        Tried in the lab by the administrator of a tenant of each trust, with nothing but its kubeconfig, on nodes of its
        own, without own schedulers, network policies enforced by SIG Network's kube-network-policies. Made by
        `tests/faults/test_trust.py`; what the profiles do is in [trust.md](trust.md).

        | attempt | `high` | `partial` | `zero` |
        |---|---|---|---|
        """
    (ROOT / "docs/attacks.md").write_text(textwrap.dedent(head) + "\n".join(rows) + "\n")
    assert seen == ATTACKS, json.dumps(reasons, indent=1)
