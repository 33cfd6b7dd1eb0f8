# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook usage and a real Prometheus, with a month whose answer is known. Needs no lab."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT
from ansible_collections.kubegpu.tenancy.tests.faults.metrics import Scrapes, Server, at

FIRST, LAST = at(1), at(1, month=11)
# The Prometheus restarts, and is down for three and a half hours.
DOWN = (at(20, 3), at(20, 6, 30))
H100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"
NODES = {
    "n1": (8, "NVIDIA H100 80GB HBM3", ["ml"]),
    "n2": (8, "NVIDIA H100 80GB HBM3", ["a", "b"]),
    "n3": (4, "NVIDIA L4", ["web"]),
}
# Namespace, pod, node, GPUs, and when it ran.
PODS = [
    ("tenant-ml", "t-0", "n1", 4, FIRST, at(16, 12)),
    ("tenant-ml", "t-1", "n1", 2, FIRST, LAST),
    ("tenant-a", "a-0", "n2", 2, FIRST, LAST),
    ("tenant-web", "w-0", "n3", 2, FIRST, LAST),
    ("tenant-gone", "g-0", "n3", 2, at(5), at(12)),
    ("batch", "x-0", "n2", 1, FIRST, at(5, 4)),
    # By it, the shared KAI Scheduler holds a GPU of which a and b have halves.
    ("kai-resource-reservation", "gpu-reservation-n2", "n2", 1, FIRST, LAST),
]
QUOTAS = {"tenant-a": 4, "tenant-b": 4, "tenant-gone": 2}
UTILISATION = {"tenant-ml": 50, "tenant-a": 25, "tenant-web": 100}
OWN = {"service": "kubegpu-metrics", "namespace": "tenant-ml", "job": "tenant-ml/kubegpu-metrics"}
SHARED = {"service": "queue-controller", "namespace": "kai-scheduler"}
KSM = {"service": "kube-state-metrics", "job": "kube-state-metrics"}
KAI = {"name": "kai", "version": "v0.16.8"}
TENANTS = [
    {
        "name": "ml",
        "trust": "high",
        "gpu_nodes": {"count": 1},
        "scheduler": KAI,
        "queues": [
            {
                "name": "ml",
                "gpu": {"quota": 8},
                "children": [{"name": "training", "gpu": {"quota": 6}}, {"name": "notebooks", "gpu": {"quota": 2}}],
            }
        ],
    },
    *(
        {
            "name": name,
            "trust": "high",
            "gpu_nodes": {"names": ["n2"], "shared_gpus": 4, "share_gpus_with": "any"},
            "scheduler": {"name": "kai", "shared": True},
            "queues": [{"name": name, "gpu": {"quota": 4, "limit": 4}}],
        }
        for name in ("a", "b")
    ),
    {"name": "web", "trust": "partial", "gpu_nodes": {"names": ["n3"]}},
]
# Of 744 hours, three and a half were not measured.
HOURS = 740.5
HELD = {
    ("ml", H100): 2 * HOURS + 4 * 372,
    ("a", H100): 2.5 * HOURS,
    ("b", H100): 0.5 * HOURS,
    ("web", L4): 2 * HOURS,
    ("gone", L4): 2 * 168,
}


def month() -> Scrapes:
    """Make the series of October 2026."""
    made = Scrapes(FIRST, LAST, DOWN, {"cluster": "dc1"})
    for node, (gpus, product, owners) in NODES.items():
        allocatable = KSM | {"node": node, "resource": "nvidia_com_gpu", "unit": "integer"}
        made.add("kube_node_status_allocatable", allocatable, (FIRST, LAST, gpus))
        labels = {f"label_tenant_kubegpu_tenancy_{owner}": "true" for owner in owners}
        made.add("kube_node_labels", KSM | {"node": node, "label_nvidia_com_gpu_product": product.replace(" ", "-")} | labels)
    for namespace, pod, node, gpus, begin, end in PODS:
        of_pod(made, namespace, pod, node, gpus, begin, end)
    # It waits, without a node.
    waiting = KSM | {"namespace": "tenant-ml", "pod": "late"}
    made.add(
        "kube_pod_container_resource_requests", waiting | {"container": "c", "resource": "nvidia_com_gpu"}, (FIRST, at(9), 8)
    )
    made.add("kube_pod_status_phase", waiting | {"phase": "Pending"}, (FIRST, at(9), 1))
    made.add("kube_pod_status_scheduled", waiting | {"condition": "true"}, (FIRST, at(9), 0))
    # A tenant's own pods serve what would be another tenant's.
    forged = OWN | {"exported_namespace": "tenant-web", "pod": "w-1", "node": "n3", "container": "c"}
    made.add("kube_pod_container_resource_requests", forged | {"resource": "nvidia_com_gpu"}, (FIRST, LAST, 100))
    for namespace in ("tenant-ml", "tenant-a", "tenant-b", "tenant-web"):
        made.add("kube_namespace_status_phase", KSM | {"namespace": namespace, "phase": "Active"})
    made.add("kube_namespace_status_phase", KSM | {"namespace": "tenant-gone", "phase": "Active"}, (at(5), at(12), 1))
    for namespace, gpus in QUOTAS.items():
        quota = KSM | {"namespace": namespace, "resourcequota": "q", "resource": "requests.nvidia.com/gpu", "type": "hard"}
        made.add("kube_resourcequota", quota, (*((at(5), at(12)) if namespace == "tenant-gone" else (FIRST, LAST)), gpus))
    devices(made)
    queues(made)
    elsewhere(made)
    return made


def elsewhere(made: Scrapes) -> None:
    """Add series of another cluster, with nodes and tenants of the same names."""
    there = {"cluster": "dc2"}
    made.add("kube_node_status_allocatable", KSM | there | {"node": "n1", "resource": "nvidia_com_gpu"}, (FIRST, LAST, 16))
    name = KSM | there | {"namespace": "tenant-web", "pod": "w-0"}
    made.add(
        "kube_pod_container_resource_requests",
        name | {"container": "c", "node": "n1", "resource": "nvidia_com_gpu"},
        (FIRST, LAST, 9),
    )
    made.add("kube_pod_status_phase", name | {"phase": "Running"})
    made.add("kube_pod_status_scheduled", name | {"condition": "true"})
    made.add("kai_queue_allocated_gpus", OWN | there | {"queue_name": "training", "pod": "queue-controller-0"}, (FIRST, LAST, 90))


def of_pod(made: Scrapes, namespace: str, pod: str, node: str, gpus: int, begin: int, end: int) -> None:
    """Add the series of a pod that ended four days before it was deleted."""
    deleted = min(LAST, end + 4 * 24 * 3600) if namespace == "tenant-ml" else end
    name = KSM | {"namespace": namespace, "pod": pod, "uid": pod}
    asks = name | {"container": "c", "node": node, "resource": "nvidia_com_gpu", "unit": "integer"}
    made.add("kube_pod_container_resource_requests", asks, (begin, deleted, gpus))
    made.add("kube_pod_status_phase", name | {"phase": "Running"}, (begin, end, 1), (end, deleted, 0))
    made.add("kube_pod_status_phase", name | {"phase": "Succeeded"}, (begin, end, 0), (end, deleted, 1))
    made.add("kube_pod_status_scheduled", name | {"condition": "true"}, (begin, deleted, 1))


def devices(made: Scrapes) -> None:
    """Add DCGM exporter's series, a GPU of each pod by its turn; the others are idle."""
    for node, (count, product, _owners) in NODES.items():
        numbers = iter(range(count))
        for namespace, pod, where, gpus, begin, end in PODS:
            for _gpu in range(gpus if where == node and namespace in UTILISATION else 0):
                whose = {"exported_namespace": namespace, "exported_pod": pod}
                device(made, node, product, next(numbers), whose, (begin, end, UTILISATION[namespace]))
        for number in numbers:
            device(made, node, product, number, {}, (FIRST, LAST, 0))


def device(made: Scrapes, node: str, product: str, number: int, whose: dict[str, str], span: tuple[int, int, float]) -> None:
    target = {"service": "nvidia-dcgm-exporter", "namespace": "gpu-operator", "Hostname": node, "modelName": product}
    made.add("DCGM_FI_DEV_GPU_UTIL", target | {"UUID": f"GPU-{node}-{number}", "gpu": str(number)} | whose, span)


def queues(made: Scrapes) -> None:
    """Add the series of the queues of both KAI Schedulers; a parent's has what its children have."""
    half = at(16, 12)
    own = {
        "ml": (8, [(FIRST, half, 6), (half, LAST, 2)]),
        "training": (6, [(FIRST, half, 4), (half, LAST, 0)]),
        "notebooks": (2, [(FIRST, LAST, 2)]),
        # Made by the tenant, listed nowhere.
        "mine": (1000, [(FIRST, LAST, 1000)]),
    }
    shared = {"a": (4, [(FIRST, LAST, 2.5)]), "b": (4, [(FIRST, LAST, 0.5)])}
    for target, known in ((OWN, own), (SHARED, shared)):
        for queue, (quota, spans) in known.items():
            labels = target | {"queue_name": queue, "queue_metadata_name": queue, "pod": "queue-controller-0"}
            made.add("kai_queue_info", labels)
            made.add("kai_queue_deserved_gpus", labels, (FIRST, LAST, quota))
            made.add("kai_queue_allocated_gpus", labels, *spans)


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("prometheus"))
    server.load(month())
    with server:
        yield server


@pytest.fixture(name="report", scope="module")
def _report(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the playbook; return the folder with its files, and the output beside them."""
    folder = tmp_path_factory.mktemp("usage")
    prices = {H100: 2.5, L4: 0.5}
    usage = {"url": server.url, "labels": {"cluster": "dc1"}, "token": "very-secret", "prices": prices, "currency": "EUR"}
    host = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "kubegpu_cluster_provider": "existing",
        "kubegpu_kubeconfig": "/nowhere",
        "kubegpu_tenants": TENANTS,
        "kubegpu_shared_scheduler": KAI | {"gpu_sharing": True},
        "kubegpu_usage": usage | {"folder": str(folder)},
    }
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps({"kubegpu_clusters": {"hosts": {"dc1": host}}}))
    command = [
        "ansible-playbook",
        str(ROOT / "playbooks/usage.yml"),
        f"--inventory={inventory}",
        "-e",
        "usage_month=2026-10",
        "-vvv",
    ]
    environment = os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "output").write_text(done.stdout + done.stderr)
    return folder


def data(report: Path) -> dict[str, Any]:
    (cluster,) = json.loads((report / "usage.json").read_text())["clusters"]
    return dict(cluster)


def near(value: float) -> Any:
    """A tenth of a percent."""
    return pytest.approx(value, rel=0.001, abs=0.2)


def test_the_month_has_the_answer_that_is_known(report: Path) -> None:
    found = {(row["tenant"], row["product"]): row for row in data(report)["tenants"]}
    assert {key: row["held"] for key, row in found.items()} == {key: near(value) for key, value in HELD.items()}
    promised = {"ml": 8 * HOURS, "a": 4 * HOURS, "b": 4 * HOURS, "web": 4 * HOURS, "gone": 2 * 168}
    assert {key[0]: row["promised"] for key, row in found.items()} == {name: near(value) for name, value in promised.items()}
    used = {"ml": 0.5 * HELD["ml", H100], "a": 0.25 * 2 * HOURS, "b": 0, "web": 2 * HOURS, "gone": 0}
    assert {key[0]: row["used"] for key, row in found.items()} == {name: near(value) for name, value in used.items()}
    assert found["a", H100]["use_not_measured"] == near(0.5 * HOURS)
    assert found["ml", H100]["cost"] == near(2.5 * HELD["ml", H100])
    for row in found.values():
        assert row["held"] + row["idle"] == pytest.approx(row["promised"] + row["borrowed"], abs=1e-3)


def test_tenants_and_what_is_left_are_what_the_cluster_had(report: Path) -> None:
    cluster = data(report)
    sums = {key: sum(row[key] for row in cluster["cluster_days"]) for key in ("had", "held", "other", "free", "not_measured")}
    assert sums["had"] == near(20 * HOURS)
    assert sums["other"] == near(100)
    assert sums["held"] + sums["other"] + sums["free"] == pytest.approx(sums["had"], abs=1e-3)
    assert sum(row["held"] for row in cluster["tenants"]) == pytest.approx(sums["held"], abs=1e-3)
    assert cluster["products"] == {H100: near(16 * HOURS), L4: near(4 * HOURS)}


def test_the_restart_is_a_gap_and_not_zero(report: Path) -> None:
    cluster = data(report)
    missing = {one["what"]: one["hours"] for one in cluster["not_measured"]}
    # Prometheus takes the last sample before the restart for five minutes more.
    assert missing == {"GPUs": pytest.approx(3.5, abs=0.1), "use of GPUs": pytest.approx(3.5, abs=0.1)}
    (day,) = [row for row in cluster["cluster_days"] if row["day"] == "2026-10-20"]
    assert (day["hours"], day["not_measured"]) == (24, pytest.approx(3.5, abs=0.1))
    assert day["had"] == pytest.approx(20 * 20.5, abs=2)
    assert "Not measured: GPUs, 3.4 hours." in (report / "output").read_text()


def test_queues_are_counted_once(report: Path) -> None:
    found = {row["queue"]: row["held"] for row in data(report)["queues"]}
    assert found == {
        "ml/training": near(4 * 372),
        "ml/notebooks": near(2 * HOURS),
        "a": near(2.5 * HOURS),
        "b": near(0.5 * HOURS),
    }


def test_it_agrees_with_the_samples_themselves(report: Path, server: Server) -> None:
    """Another way: each sample stands for five minutes, in one query over the month, without steps and hours."""
    ways = {
        "t-1": "sum(sum_over_time(kube_pod_container_resource_requests{pod='t-1'}[31d]))",
        "t-0": "sum(sum_over_time(kube_pod_container_resource_requests{pod='t-0'}[372h] offset 372h))",
    }
    raw = {pod: server.value(query, LAST) / 12 for pod, query in ways.items()}
    (ml,) = [row for row in data(report)["tenants"] if row["tenant"] == "ml"]
    assert ml["held"] == near(raw["t-0"] + raw["t-1"])
    raw_use = server.value("sum(sum_over_time(DCGM_FI_DEV_GPU_UTIL{exported_namespace='tenant-ml'}[31d]))", LAST) / 1200
    assert ml["used"] == near(raw_use)


def test_files_for_programs_and_people(report: Path) -> None:
    with (report / "usage.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert sum(float(row["held"]) for row in rows if row["tenant"] == "ml") == near(HELD["ml", H100])
    assert sum(float(row["cost"]) for row in rows if row["tenant"] == "web") == near(0.5 * HELD["web", L4])
    page = (report / "usage.html").read_text()
    assert "<script" not in page
    assert page.count("<li><span>2026-10-") == 31
    assert "very-secret" not in (report / "output").read_text()
    assert not [path for path in report.iterdir() if path.suffix != ".json" and "very-secret" in path.read_text()]


# Runs the module's work by itself, and prints what was counted, the seconds of computing, and the most memory in MiB.
WORK = """
import json, resource, sys, time
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine.usage_info import ARGUMENT_SPEC, reconcile
given = {name: spec.get("default") for name, spec in ARGUMENT_SPEC.items()} | json.loads(sys.argv[1])
usage = reconcile(Run(given))["usage"]
print(json.dumps([usage, time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def work(**given: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WORK, json.dumps(given)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def test_the_day_on_which_clocks_go_back_has_25_hours(server: Server) -> None:
    span = {"begin": "2026-10-24T22:00:00Z", "end": "2026-10-25T23:00:00Z"}
    done = work(url=server.url, labels={"cluster": "dc1"}, time_zone="Europe/Berlin", **span)
    found = json.loads(done.stdout)[0]
    assert [(row["day"], row["hours"], row["had"]) for row in found["cluster"]] == [("2026-10-25", 25.0, 500.0)]
    assert {row["tenant"]: row["held"] for row in found["tenants"]} == {"a": 50.0, "b": 0.0, "ml": 50.0, "web": 50.0}


def test_a_server_that_does_not_answer_is_named() -> None:
    done = work(url="http://127.0.0.1:1", month="2026-10", timeout=5)
    assert "Reading measured: http://127.0.0.1:1/api/v1/query_range cannot be read" in done.stderr


def test_a_month_of_200_queues_takes_seconds(tmp_path: Path) -> None:
    """Twenty tenants with ten queues each, below one of their own, on 25 nodes. Seconds of computing, of the module and of Prometheus."""
    tenants = [
        {
            "name": f"t{tenant}",
            "scheduler": {"name": "kai", "shared": False},
            "gpu_nodes": {"count": 1},
            "queues": [{"name": f"t{tenant}", "children": [{"name": f"q{number}"} for number in range(10)]}],
        }
        for tenant in range(20)
    ]
    server = Server(tmp_path)
    for begin in range(FIRST, LAST, 8 * 24 * 3600):
        server.load(many_queues(begin, min(LAST, begin + 8 * 24 * 3600), tenants))
    with server:
        before = server.computed()
        done = work(url=server.url, month="2026-10", tenants=tenants)
        of_server = server.computed() - before
    assert done.returncode == 0, done.stderr
    found, seconds, memory = json.loads(done.stdout)
    assert len({(row["tenant"], row["queue"]) for row in found["queues"]}) == 200
    assert sum(row["held"] for row in found["queues"]) == pytest.approx(200 * 0.5 * 744)
    assert sum(row["had"] for row in found["cluster"]) == pytest.approx(200 * 744)
    print(f"{seconds:.1f} s, of Prometheus {of_server:.1f} s, {memory:.0f} MiB")
    assert seconds + of_server <= 30
    assert memory <= 500


def many_queues(begin: int, end: int, tenants: list[dict[str, Any]]) -> Scrapes:
    made = Scrapes(begin, end)
    for node in range(25):
        allocatable = KSM | {"node": f"n{node}", "resource": "nvidia_com_gpu"}
        made.add("kube_node_status_allocatable", allocatable, (begin, end, 8))
    for tenant in tenants:
        target = {"service": "kubegpu-metrics", "namespace": f"tenant-{tenant['name']}"}
        for queue in (tenant["name"], *(f"q{number}" for number in range(10))):
            gpus = 5 if queue == tenant["name"] else 0.5
            for name, value in (("info", 1), ("deserved_gpus", gpus), ("allocated_gpus", gpus)):
                made.add(f"kai_queue_{name}", target | {"queue_name": queue}, (begin, end, value))
    return made
