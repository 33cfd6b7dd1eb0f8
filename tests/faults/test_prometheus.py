# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus, its operator and kube-state-metrics on a host cluster: what they read, the rules, and alerts that are raised by their causes.

The programs are the real ones. So that no alert takes half an hour, a copy of the rules is loaded beside them, with other names and shorter times.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import (
    FRACTION_NOTE,
    KAI_NAMESPACE,
    KAI_SCHEDULER_NAME,
    QUEUE_LABEL,
    RESERVATION_NAMESPACE,
    SHARD,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_SELECTOR
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import ADMISSION, OPERATOR
from ansible_collections.kubegpu.tenancy.plugins.module_utils._metrics import facts
from ansible_collections.kubegpu.tenancy.tests.faults.labs import CONTROL_PLANE, KAI, ROOT, Cluster, Lab, changed
from ansible_collections.kubegpu.tenancy.tests.faults.test_frameworks import IMAGE, module_of
from ansible_collections.kubegpu.tenancy.tests.unit.test_dashboard import TARGETS

NAME = "kubegpu-prometheus"
NAMESPACE, LABELS = "monitoring", {"release": "lab"}
METRICS = {"kubegpu_metrics": {"provider": "service_monitor", "namespace": NAMESPACE, "labels": LABELS}}
# A GPU for each queue of the team.
GPUS = 2
VARIABLES: dict[str, Any] = {
    "lab_gpus": 2 * GPUS,
    "lab_frameworks": ["prometheus", "prometheus-operator", "kube-state-metrics"],
    "nvkind_workers": [{"count": GPUS}, {"count": GPUS}],
    "kubegpu_shared_scheduler": KAI | {"gpu_sharing": True},
    "kubegpu_tenants": [
        {
            "name": "team",
            "trust": "high",
            "gpu_nodes": {"names": ["kubegpu-worker"]},
            "scheduler": KAI,
            "queues": [{"name": "work", "gpu": {"quota": 1}}, {"name": "edge", "gpu": {"quota": 1}}],
        },
        {
            "name": "guests",
            "trust": "high",
            "gpu_nodes": {"names": ["kubegpu-worker2"]},
            "scheduler": {"name": "kai", "shared": True},
            "queues": [{"name": "guests", "gpu": {"quota": GPUS}}],
        },
    ],
}
RULES = (ROOT / "roles/monitoring/files/kubegpu.rules.yml").read_text()
MONITORING = "monitoring.coreos.com/v1"
DEPLOYMENT = ("apps/v1", "Deployment")
SCHEDULER = "kai-scheduler-default"
WEBHOOK = "ValidatingWebhookConfiguration"
KINDS = ("ClusterRole", "ClusterRoleBinding", "ServiceAccount", "Service", "Deployment")
# Workers are stopped here, and nothing of the monitoring with them.
PLACE = {
    "nodeSelector": {"kubernetes.io/hostname": CONTROL_PLANE},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}],
}
PROMETHEUS = {
    "apiVersion": MONITORING,
    "kind": "Prometheus",
    "metadata": {"name": "lab", "namespace": NAMESPACE},
    "spec": {
        "version": "v3.16.0",
        "replicas": 1,
        "serviceAccountName": "prometheus",
        "scrapeInterval": "5s",
        "evaluationInterval": "5s",
        "serviceMonitorNamespaceSelector": {},
        "serviceMonitorSelector": {"matchLabels": LABELS},
        "ruleSelector": {"matchLabels": LABELS},
        "securityContext": {"runAsUser": 65532, "runAsNonRoot": True, "fsGroup": 65532},
        **PLACE,
    },
}
POD = "prometheus-lab-0"
SECRETS = "/var/run/secrets/kubernetes.io/serviceaccount"
API_SERVER = {
    "port": "https",
    "scheme": "https",
    "interval": "15s",
    "bearerTokenFile": f"{SECRETS}/token",
    "tlsConfig": {"caFile": f"{SECRETS}/ca.crt", "serverName": "kubernetes"},
    "metricRelabelings": [
        {"sourceLabels": ["__name__"], "regex": "apiserver_admission_webhook_rejection_count", "action": "keep"}
    ],
}
SECONDS = 240


def monitor(name: str, namespace: str, labels: dict[str, str], endpoint: dict[str, Any]) -> dict[str, Any]:
    """What the chart kube-prometheus-stack brings beside the operator: a ServiceMonitor for a Service."""
    spec = {"namespaceSelector": {"matchNames": [namespace]}, "selector": {"matchLabels": labels}, "endpoints": [endpoint]}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": LABELS}
    return {"apiVersion": MONITORING, "kind": "ServiceMonitor", "metadata": metadata, "spec": spec}


def quick_groups() -> list[dict[str, Any]]:
    """The rules under other names, with ranges of a minute, and alerts that wait for ten seconds."""
    text = re.sub(r"\[\d+[mh]\]", "[1m]", RULES).replace(":kubegpu_gpus", ":quick_gpus")
    groups: list[dict[str, Any]] = yaml.safe_load(text)["groups"]
    for group in groups:
        group |= {"name": f"quick-{group['name']}", "interval": "5s"}
        for rule in group["rules"]:
            if "alert" in rule:
                rule |= {"alert": rule["alert"].replace("Kubegpu", "Quick"), "for": "10s"}
    return groups


def pod(name: str, queue: str, gpus: int, **notes: str) -> dict[str, Any]:
    """A pod of a team that stays; with an annotation, it may ask for a part of a GPU in place of whole ones."""
    resources = {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "infinity"]} | resources
    metadata = {"name": name, "namespace": "default", "labels": {QUEUE_LABEL: queue}, "annotations": notes}
    spec = {"schedulerName": KAI_SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@contextlib.contextmanager
def there(kube: Kube, item: dict[str, Any]) -> Iterator[None]:
    """Have a pod for a while."""
    kube.create(item)
    try:
        yield
    finally:
        kube.delete("v1", "Pod", item["metadata"]["name"], item["metadata"]["namespace"], grace_seconds=0)


@contextlib.contextmanager
def without(kube: Kube, namespace: str, *names: str) -> Iterator[None]:
    """Have no pods of Deployments for a while, of an operator before what it would mend."""

    def scale(name: str, replicas: int) -> None:
        kube.patch(*DEPLOYMENT, name, {"spec": {"replicas": replicas}}, namespace)

    def gone() -> tuple[bool | None, str]:
        left = [one["metadata"]["name"] for one in kube.list("v1", "Pod", namespace, f"app={name}")]
        return (None, ", ".join(left)) if left else (True, "")

    try:
        for name in names:
            scale(name, 0)
            wait_for(f"the end of {name}", gone, SECONDS, 1.0)
        yield
    finally:
        for name in reversed(names):
            scale(name, 1)


@contextlib.contextmanager
def hourly(kube: Kube) -> Iterator[None]:
    """Have a KAI Scheduler that begins a cycle each hour."""

    def every(period: str | None) -> None:
        kube.patch(*SHARD, "default", {"spec": {"args": {"schedule-period": period}}})

    every("1h")
    try:
        yield
    finally:
        every(None)


@contextlib.contextmanager
def webhook(kube: Kube, address: str) -> Iterator[None]:
    """Have an API server that asks an address before it takes what KAI Scheduler writes for each pod that it places."""
    rule = {"apiGroups": ["scheduling.run.ai"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["bindrequests"]}
    answers = {"failurePolicy": "Ignore", "timeoutSeconds": 15, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    hook = {"name": "slow.example.com", "clientConfig": {"url": f"https://{address}:8080/"}, "rules": [rule]} | answers
    kube.create({"apiVersion": ADMISSION, "kind": WEBHOOK, "metadata": {"name": "slow"}, "webhooks": [hook]})
    try:
        yield
    finally:
        kube.delete(ADMISSION, WEBHOOK, "slow")


@contextlib.contextmanager
def asking(kube: Kube, queue: str) -> Iterator[Callable[[], object]]:
    """Yield a function that creates one more pod of a queue, without a GPU; in the end all pods of the queue are gone."""
    numbers = itertools.count()
    try:
        yield lambda: kube.create(pod(f"asked-{next(numbers)}", queue, 0))
    finally:
        remove(kube, "default", f"{QUEUE_LABEL}={queue}")


def remove(kube: Kube, namespace: str, labels: str) -> None:
    """Delete pods at once."""
    for item in kube.list("v1", "Pod", namespace, labels):
        kube.delete("v1", "Pod", item["metadata"]["name"], namespace, grace_seconds=0)


class Watch:
    """A cluster with Prometheus, and the administrators of its teams.

    :ivar team: with a KAI Scheduler of its own; ``guests``, with the shared one.
    """

    def __init__(self, lab: Lab, cache: Path) -> None:
        self.lab = lab
        self.cluster = Cluster(lab, cache)
        self.kube = self.cluster.kube
        self.kubectl = str(next(cache.glob("programs/kubernetes-*/kubectl")))
        self.team, self.guests = (
            Kube.connect(kubeconfig=str(Path(f"~/.kube/kubegpu/{lab.name}/tenants/{name}.yml").expanduser()))
            for name in ("team", "guests")
        )

    # --- the monitoring ---

    def run(self, *args: str) -> str:
        """Run kubectl as the administrator of the host cluster."""
        command = [self.kubectl, f"--kubeconfig={self.cluster.kubeconfig}", *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def install(self) -> None:
        """Have the operator, a Prometheus and kube-state-metrics, by the manifests of their modules."""
        operator, metrics = module_of("prometheus-operator") / "example", module_of("kube-state-metrics") / "examples/standard"
        crds = operator / "prometheus-operator-crd"
        self.run("apply", "--server-side", f"--filename={crds}")
        self.run("wait", "--for=condition=Established", "--timeout=60s", f"--filename={crds}")
        self.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for folder in (operator / "rbac/prometheus-operator", operator / "rbac/prometheus", metrics):
            for path in sorted(folder.glob("*.yaml")):
                for item in yaml.safe_load_all(path.read_text()):
                    if item["kind"] in KINDS:
                        self.kube.apply(placed(item))
        for name in ("prometheus-operator", "kube-state-metrics"):
            self.run("rollout", "status", f"deployment/{name}", f"--namespace={NAMESPACE}", "--timeout=240s")
        self.kube.apply(PROMETHEUS)
        labels = {"app.kubernetes.io/name": "kube-state-metrics"}
        self.kube.apply(monitor("kube-state-metrics", NAMESPACE, labels, {"port": "http-metrics", "honorLabels": True}))
        self.kube.apply(monitor("api-server", "default", {"component": "apiserver"}, API_SERVER))
        metadata = {"name": "quick", "namespace": NAMESPACE, "labels": LABELS}
        spec = {"groups": quick_groups()}
        self.kube.apply({"apiVersion": MONITORING, "kind": "PrometheusRule", "metadata": metadata, "spec": spec})

    # --- what Prometheus says ---

    def ask(self, what: str, **query: str) -> Any:
        """Ask Prometheus, by way of the API server."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{POD}:9090/proxy/api/v1/{what}?{urllib.parse.urlencode(query)}"
        return json.loads(self.run("get", "--raw", path))["data"]

    def series(self, expression: str) -> list[dict[str, str]]:
        """Return the labels of each series that an expression has now."""
        return [one["metric"] for one in self.ask("query", query=expression)["result"]]

    def await_series(self, expression: str, good: Callable[[list[dict[str, str]]], bool]) -> None:
        def probe() -> tuple[bool | None, str]:
            try:
                found = self.series(expression)
            except AssertionError as exc:
                # The pod is yet to start.
                return None, str(exc)
            return (True, "") if good(found) else (None, str(found))

        wait_for(expression, probe, SECONDS, 5.0)

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts of the quick rules, pending or firing."""
        found: list[dict[str, Any]] = self.ask("alerts")["alerts"]
        return [one for one in found if one["labels"]["alertname"].startswith("Quick")]

    def raised(self, name: str, again: Callable[[], object] = lambda: None, **labels: str) -> None:
        """Wait until an alert fires, right after its cause began, and print after how many seconds it did.

        :arg again: is called before each look.
        """
        began = time.monotonic()

        def probe() -> tuple[bool | None, str]:
            again()
            found = self.alerts()
            fires = [one for one in found if one["state"] == "firing" and one["labels"]["alertname"] == f"Quick{name}"]
            good = [one for one in fires if labels.items() <= one["labels"].items()]
            return (True, "") if good else (None, str([(one["labels"], one["state"]) for one in found]))

        wait_for(f"the alert {name}", probe, SECONDS, 3.0)
        print(f"{name} was raised {time.monotonic() - began:.0f} s after its cause")

    def calm(self) -> None:
        """Wait until no alert is raised any more."""

        def probe() -> tuple[bool | None, str]:
            found = [(one["labels"], one["state"]) for one in self.alerts()]
            return (True, "") if not found else (None, str(found))

        wait_for("the end of all alerts", probe, SECONDS, 5.0)

    # --- causes ---

    def running(self, kube: Kube, name: str) -> None:
        def probe() -> tuple[bool | None, str]:
            live = kube.get("v1", "Pod", name, "default") or {}
            return (True, "") if (live.get("status") or {}).get("phase") == "Running" else (None, str(live.get("status")))

        wait_for(f"pod {name}", probe, SECONDS, 2.0)

    @contextlib.contextmanager
    def stopped_kubelet(self, node: str) -> Iterator[None]:
        """Have a node that starts no pod. For 40 seconds the cluster takes it for ready."""
        self.cluster.on_node(node, "systemctl", "stop", "kubelet")
        try:
            yield
        finally:
            self.cluster.on_node(node, "systemctl", "start", "kubelet")
            self.run("wait", "--for=condition=Ready", "--timeout=240s", f"node/{node}")

    @contextlib.contextmanager
    def halted(self, namespace: str, name: str) -> Iterator[str]:
        """Halt the only container of a pod on the host cluster, and yield the pod's address.

        :arg name: the beginning of the pod's.
        """
        pods = [one for one in self.kube.list("v1", "Pod", namespace) if one["metadata"]["name"].startswith(name)]
        (found,) = [one for one in pods if "deletionTimestamp" not in one["metadata"]]
        container = found["status"]["containerStatuses"][0]["containerID"].partition("://")[2]
        kill = ("ctr", "--namespace=k8s.io", "tasks", "kill", "--signal")
        self.cluster.on_node(found["spec"]["nodeName"], *kill, "SIGSTOP", container)
        try:
            yield found["status"]["podIP"]
        finally:
            self.cluster.on_node(found["spec"]["nodeName"], *kill, "SIGCONT", container)


def placed(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object of upstream's examples for the namespace and the node of the monitoring."""
    if not item["kind"].startswith("Cluster"):
        item["metadata"]["namespace"] = NAMESPACE
    for subject in item.get("subjects", ()):
        subject["namespace"] = NAMESPACE
    if item["kind"] == "Deployment":
        item["spec"]["template"]["spec"] |= PLACE
    return item


@pytest.fixture(name="watch", scope="module")
def _watch() -> Iterator[Watch]:
    with Lab(NAME, f"--extra-vars={json.dumps(VARIABLES)}") as lab:
        lab.site()
        watch = Watch(lab, Path(os.environ["KUBEGPU_CACHE"]))
        watch.install()
        metrics = f"--extra-vars={json.dumps(METRICS)}"
        lab.site(metrics)
        # The API server fills in nothing that would differ.
        assert changed(lab.site(metrics)) == 0
        yield watch


def test_the_queues_of_a_tenant_and_of_the_shared_scheduler_are_read(watch: Watch) -> None:
    def queues(*wanted: str) -> Callable[[list[dict[str, str]]], bool]:
        return lambda found: set(wanted) <= {one["queue_name"] for one in found}

    watch.await_series('kai_queue_info{namespace="tenant-team",service="kubegpu-metrics"}', queues("work", "edge"))
    watch.await_series('kai_queue_info{namespace="kai-scheduler"}', queues("guests"))
    watch.await_series("max by (namespace, queue_name) (kai_queue_allocated_gpus)", queues("work", "edge", "guests"))
    # By this label, every series says whose it is.
    watch.await_series('kai_queue_info{kubegpu_tenancy_tenant="team"}', queues("work", "edge"))
    for namespace in ("tenant-team", KAI_NAMESPACE):
        for name in ("kai_e2e_scheduling_latency_milliseconds", "kai_queue_fair_share_gpu", "rest_client_requests_total"):
            watch.await_series(f'{name}{{namespace="{namespace}"}}', bool)
    watch.await_series('apiserver_admission_webhook_rejection_count or up{service="kubernetes"} == 1', bool)


def test_all_rules_are_loaded_and_evaluated(watch: Watch) -> None:
    def probe() -> tuple[list[dict[str, Any]] | None, str]:
        groups = watch.ask("rules")["groups"]
        unhealthy = [
            (rule["name"], rule.get("lastError")) for group in groups for rule in group["rules"] if rule["health"] != "ok"
        ]
        return (None, str(unhealthy)) if unhealthy else (groups, "")

    groups = wait_for("the rules", probe, SECONDS, 5.0)
    wanted = {
        (group["name"], rule.get("alert") or rule["record"])
        for group in yaml.safe_load(RULES)["groups"]
        for rule in group["rules"]
    }
    assert wanted <= {(group["name"], rule["name"]) for group in groups for rule in group["rules"]}
    watch.await_series(f"node:kubegpu_gpus_allocatable:max == {GPUS}", lambda found: len(found) == 2)
    # Nothing of it alerts without a cause.
    watch.calm()


def test_the_queries_of_the_dashboard_are_answered(watch: Watch) -> None:
    answers = {
        target["expr"]: len(watch.series(target["expr"].replace("$namespace", "tenant-.*|kai-scheduler")))
        for _panel, target in TARGETS
    }
    # No GPU is held, none is used without DCGM exporter, no queue is below its fair share, and no alert is raised.
    expected = {query for query in answers if "promised" in query or not re.search("held|used|ALERTS|below_fair_share", query)}
    assert {query for query in expected if not answers[query]} == set()


def test_usage_is_not_measured(watch: Watch) -> None:
    with without(watch.kube, NAMESPACE, "kube-state-metrics"):
        watch.raised("UsageNotMeasured")
    watch.calm()


def test_a_queue_is_below_its_fair_share(watch: Watch) -> None:
    """A pod of a queue that is due one GPU asks for two, one of which another queue has by right."""
    with there(watch.team, pod("holder", "edge", 1)):
        watch.running(watch.team, "holder")
        with there(watch.team, pod("wide", "work", 2)):
            watch.raised("QueueStarved", namespace="tenant-team", queue_name="work")
    watch.calm()


def test_a_gpu_is_held_twice(watch: Watch) -> None:
    """A second scheduler, which does not know of the first, gives a pod the node; its kubelet is not there to refuse."""
    thief = pod("thief", "none", GPUS)
    thief["spec"] |= {"nodeName": "kubegpu-worker", "schedulerName": "another"}
    with there(watch.team, pod("holder", "edge", 1)):
        watch.running(watch.team, "holder")
        with watch.stopped_kubelet("kubegpu-worker"), there(watch.kube, thief):
            watch.raised("GpuHeldTwice", node="kubegpu-worker")
    watch.calm()


def test_a_reservation_does_not_run(watch: Watch) -> None:
    """The node hangs when the pod comes that is to hold a GPU for pods with parts of it."""
    with watch.stopped_kubelet("kubegpu-worker2"), there(watch.guests, pod("part", "guests", 0, **{FRACTION_NOTE: "0.5"})):
        watch.raised("ReservationLost", namespace=RESERVATION_NAMESPACE)
    watch.calm()


def test_a_scheduler_is_gone(watch: Watch) -> None:
    with without(watch.team, KAI_NAMESPACE, OPERATOR, SCHEDULER):
        watch.raised("SchedulerMissing", namespace="tenant-team")
    watch.calm()


def test_a_scheduler_does_not_answer(watch: Watch) -> None:
    with watch.halted("tenant-team", SCHEDULER):
        watch.raised("SchedulerNotRead", namespace="tenant-team")
    watch.calm()


def test_a_scheduler_stands_still(watch: Watch) -> None:
    """Somebody lets it begin a cycle each hour. The first one sees a queue that is below its fair share."""
    with there(watch.team, pod("holder", "edge", 1)):
        watch.running(watch.team, "holder")
        with there(watch.team, pod("wide", "work", 2)), hourly(watch.team):
            watch.raised("SchedulerStandsStill", namespace="tenant-team")
    watch.calm()


def test_a_scheduler_is_slow(watch: Watch) -> None:
    """For each pod that it places, it waits for its API server, and that one for a webhook that does not answer."""
    halted, asks = watch.halted("tenant-team", "queue-controller"), asking(watch.team, "work")
    with halted as address, webhook(watch.team, address), asks as again:
        watch.raised("SchedulerSlow", again, namespace="tenant-team")
    watch.calm()


def test_the_api_server_takes_no_credentials_of_a_scheduler(watch: Watch) -> None:
    """The service account of the pod grouper is made anew, and its pod goes on with the token of the former one (#1536)."""
    (account,) = {
        item["spec"]["template"]["spec"]["serviceAccountName"]
        for item in watch.team.list(*DEPLOYMENT, KAI_NAMESPACE)
        if item["metadata"]["name"] == "pod-grouper"
    }
    with without(watch.team, KAI_NAMESPACE, OPERATOR):
        former = watch.team.get("v1", "ServiceAccount", account, KAI_NAMESPACE)
        assert former is not None
        watch.team.delete("v1", "ServiceAccount", account, KAI_NAMESPACE)
        metadata = {"name": account, "namespace": KAI_NAMESPACE, "labels": former["metadata"].get("labels") or {}}
        watch.team.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        # Of each pod it writes something to its API server.
        with asking(watch.team, "work") as again:
            watch.raised("SchedulerUnauthorized", again, namespace="tenant-team")
        remove(watch.team, KAI_NAMESPACE, "app=pod-grouper")
    watch.calm()


def test_a_webhook_does_not_answer(watch: Watch) -> None:
    """Without the webhook of the shared KAI Scheduler, the host cluster refuses the pods of all teams."""
    with without(watch.kube, KAI_NAMESPACE, OPERATOR, "admission"), asking(watch.guests, "guests") as again:
        watch.raised("WebhookSilent", again)
    watch.calm()


def test_without_the_variable_nothing_of_it_is_left(watch: Watch) -> None:
    kinds = (facts.PROMETHEUS_RULE, facts.CONFIG_MAP, facts.SERVICE_MONITOR, facts.SERVICE, facts.NETWORK_POLICY)

    def made() -> list[tuple[str, str]]:
        selector = f"{OWNED_SELECTOR},{facts.LABEL}"
        found = [item for kind in kinds for item in watch.kube.list(*kind, None, selector)]
        return [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in found]

    assert {(NAMESPACE, facts.RULES_NAME), (NAMESPACE, facts.DASHBOARD_NAME), (KAI_NAMESPACE, facts.NAME)} < set(made())
    watch.lab.site()
    assert made() == []
