# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from decimal import Decimal

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import KAI_NAMESPACE, POD_GROUP, RESERVATION_NAMESPACE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine.probe import reconcile
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_scheduling.facts import SHARING
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import manifest
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

TREE = [{"name": "ml", "gpu": {"limit": 4}, "children": [{"name": "a", "gpu": {"limit": 4}}, {"name": "b", "gpu": {"limit": 2}}]}]


class Cluster(InMemoryApi):
    """A cluster whose scheduler does at once what KAI should.

    :arg stuck: names of pods that stay pending; ``refused``, of pods that a webhook denies.
    :arg log: of KAI's operator. None where it cannot be read.
    :arg lost: the GPU, by number, whose reservation is removed when a second pod shares it.
    :arg memory: value of the node's label.
    """

    def __init__(self, gpus=4, stuck=(), refused=(), log="", lost=None, memory=""):
        super().__init__(manifest(queue) for queue in parse(TREE).values())
        self.log = log
        self.stuck = stuck
        self.refused = refused
        self.lost = lost
        self.most = 0
        self.order = []
        # Of each GPU that is shared, what each pod has of it.
        self.shared = {}
        labels = {"nvidia.com/gpu.memory": memory} if memory else {}
        offered = {"nvidia.com/gpu": str(gpus)}
        status = {"allocatable": offered, "capacity": offered, "conditions": [{"type": "Ready", "status": "True"}]}
        self.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}, "spec": {}, "status": status})
        self.have_pod("kai-operator-1", KAI_NAMESPACE, {"labels": {"app": "kai-operator"}})
        self.react("create", "Namespace", self.add_account)
        self.react("create", "Pod", self._schedule)
        self.react("delete", "Pod", self._free)

    def have_pod(self, name, namespace, metadata, **status):
        metadata = {"name": name, "namespace": namespace} | metadata
        self.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}, "status": status})

    def have_group(self, name, namespace, queue, status):
        metadata = {"name": name, "namespace": namespace}
        self.put(
            {"apiVersion": POD_GROUP[0], "kind": POD_GROUP[1], "metadata": metadata, "spec": {"queue": queue}, "status": status}
        )

    @property
    def record(self):
        return self.objects.get(("v1", "ConfigMap", KAI_NAMESPACE, "kubegpu-probe"))

    def probe_left(self):
        """What is left in the probe's namespace, and the namespace."""
        return [key for key in self.objects if "kai-probe" in key and key[1] != "PodGroup"]

    def create(self, definition):
        if definition["metadata"]["name"] in self.refused:
            raise TenancyError("admission webhook denied the request")
        return super().create(definition)

    def _schedule(self, pod):
        name, metadata = pod["metadata"]["name"], pod["metadata"]
        pending = name.startswith(("over", "gang-too-large")) or name in self.stuck
        asked = metadata.get("annotations", {})
        group = asked.get("pod-group-name", name)
        status = {}
        if name in self.stuck:
            pass
        elif pending:
            status = {"schedulingConditions": [{"reasons": [{"reason": "OverLimit", "message": "too much"}]}]}
        elif asked.keys() & {"gpu-fraction", "gpu-memory"}:
            part = Decimal(asked.get("gpu-fraction", "0.5"))
            gpu = next(gpu for gpu in range(9) if sum(self.shared.get(gpu, {}).values()) + part <= 1)
            metadata["labels"] |= {"runai-gpu-group": f"g-{gpu}"}
            if gpu not in self.shared:
                self.reserve(gpu)
            elif gpu == self.lost:
                self.drop("v1", "Pod", f"reservation-{gpu}", RESERVATION_NAMESPACE)
            self.shared.setdefault(gpu, {})[name] = part
            status = {"resourcesStatus": {"allocated": {"nvidia.com/gpu": str(part)}}}
        metadata["annotations"] = asked | {"pod-group-name": group}
        phase = "Pending" if pending else "Running" if "resourcesStatus" in status else "Succeeded"
        self.put(pod | {"spec": pod["spec"] | ({} if pending else {"nodeName": "n"}), "status": {"phase": phase}})
        self.have_group(group, metadata["namespace"], metadata["labels"]["kai.scheduler/queue"], status)
        self._count()
        self.order.append(name)
        self.most = max(self.most, sum(key[3].startswith("gpu-") for key in self.objects if key[1] == "Pod"))

    def reserve(self, gpu):
        metadata = {"labels": {"runai-gpu-group": f"g-{gpu}"}, "annotations": {"run.ai/reserve_for_gpu_index": f"GPU-{gpu}"}}
        self.have_pod(f"reservation-{gpu}", RESERVATION_NAMESPACE, metadata, phase="Running")

    def _free(self, pod):
        self.drop(*POD_GROUP, pod["metadata"]["name"], pod["metadata"]["namespace"])
        for gpu, parts in list(self.shared.items()):
            if parts.pop(pod["metadata"]["name"], None) and not parts:
                del self.shared[gpu]
                self.drop("v1", "Pod", f"reservation-{gpu}", RESERVATION_NAMESPACE)
        self._count()

    def _count(self):
        """Write the status of the queues, as KAI's controllers do when they see a change."""
        for queue in self.list("scheduling.run.ai/v2", "Queue"):
            groups = [group for group in self.list(*POD_GROUP) if group["spec"]["queue"] == queue["metadata"]["name"]]
            allocated = [group["status"].get("resourcesStatus", {}).get("allocated", {}) for group in groups]
            total = sum(Decimal(amounts.get("nvidia.com/gpu", "0")) for amounts in allocated)
            self.put(queue | {"status": {"allocated": {"nvidia.com/gpu": str(total)}}})

    def logs(self, name, namespace, **_bounds):
        self._require("Reading the log of", "v1", "Pod", name, namespace)
        if namespace == KAI_NAMESPACE:
            if self.log is None:
                raise ApiError("GET log failed: connection refused", status=None)
            return self.log
        return f"GPU 0: X (UUID: GPU-{next((gpu for gpu, parts in self.shared.items() if name in parts), 0)})"


def run(options, kube, check_mode):
    return reconcile(make_run(options, kube, check_mode=check_mode))


def params(**changes):
    return {"kind": "kai_scheduling", "queues": TREE, "timeout": 120} | changes


def verdicts(results):
    return {(result["name"], result["queue"]): result["verdict"] for result in results}


def test_all_is_well():
    kube = Cluster(memory="143771")
    result = run(params(), kube, False)
    assert set(verdicts(result["results"]).values()) == {"passed"}
    assert len(result["results"]) == 15
    assert result["results"][-1]["name"] == "logs"
    assert result["changed"] is False
    assert kube.probe_left() == []
    parts = [f"fraction-{n}" for n in range(1, 4)] + [f"quarters-{n}" for n in range(1, 5)]
    assert kube.order[-17:-8] == [*parts, "gpu-memory-1", "gpu-memory-2"]
    assert kube.order[-8:] == [f"burst-{n}" for n in range(1, 9)]


def test_one_free_gpu_is_used_by_one_after_the_other():
    kube = Cluster(gpus=1)
    result = run(params(checks=["gpu", *SHARING]), kube, False)
    assert verdicts(result["results"]) == {
        ("gpu", "a"): "passed",
        ("gpu", "b"): "passed",
        ("fraction", "a"): "passed",
        ("quarters", "a"): "passed",
        ("gpu_memory", "a"): "not_tried",
        ("burst", "a"): "not_tried",
        ("logs", ""): "passed",
    }
    assert kube.most == 1
    assert kube.order[-7:-4] == ["fraction-1", "fraction-2", "fraction-3"]
    reasons = {found["name"]: found["reason"] for found in result["results"]}
    assert reasons["fraction"].startswith("0.5 + 0.25 + 0.25 on GPU-0; each GPU is reserved")
    assert reasons["burst"] == "it needs 2 free GPUs, there are 1"
    assert reasons["gpu_memory"] == "no node with a free GPU has the label nvidia.com/gpu.memory"


LOST = "GPU-1 on node n, used by burst-3, burst-4, is reserved by no pod, and so free for others"


def test_a_burst_that_loses_a_reservation_fails_and_names_the_gpu():
    kube = Cluster(lost=1)
    with pytest.raises(TenancyError, match=rf"1 of 2 checks failed\. burst in a: {LOST} \(#1103\)") as caught:
        run(params(checks=["burst"]), kube, False)
    # Not before a reservation that was being made had its time.
    assert caught.value.details["results"][0]["seconds"] >= 5
    assert kube.probe_left() == []


def test_a_lost_reservation_that_is_accepted_is_told_and_fails_nothing():
    asked = params(checks=["cpu", "burst"], accept_hazards=["#1103"], max_age=60)
    kube = Cluster(lost=1)
    result = run(asked, kube, False)
    burst = result["results"][2]
    assert (burst["name"], burst["verdict"], burst["reason"]) == ("burst", "accepted", f"{LOST} (#1103)")
    assert verdicts(result["results"]) == {
        ("cpu", "a"): "passed",
        ("cpu", "b"): "passed",
        ("burst", "a"): "accepted",
        ("logs", ""): "passed",
    }
    # It stands as long as it is accepted.
    assert run(asked, kube, False)["recorded"]
    with pytest.raises(TenancyError, match="free for others"):
        run(asked | {"accept_hazards": []}, kube, False)


def test_a_reservation_that_is_made_late_is_not_called_lost():
    class Slow(Cluster):
        """The reservation is there only after the first look at all pods."""

        def logs(self, name, namespace, **bounds):
            if name == "burst-8":
                self.reserve(1)
            return super().logs(name, namespace, **bounds)

    assert set(verdicts(run(params(checks=["burst"]), Slow(lost=1), False)["results"]).values()) == {"passed"}


def test_a_gpu_that_others_share_may_take_some_of_the_pods():
    kube = Cluster()
    kube.reserve(0)
    kube.shared[0] = {"work": Decimal("0.5")}
    result = run(params(checks=["fraction"]), kube, False)["results"][0]
    assert (result["verdict"], result["reason"].count(" on GPU-")) == ("passed", 2)
    assert result["reason"].startswith("0.5 on GPU-0, 0.25 + 0.25 on GPU-1")


class Returning(Cluster):
    """A half of another pod comes back while the probe runs.

    :arg before: the probe's pod before which it comes; ``until``, the one before which it ends again.
    """

    def __init__(self, before, until):
        super().__init__()
        self.before, self.until = before, until

    def create(self, definition):
        name = definition["metadata"]["name"]
        if name == self.before:
            gpu = next(gpu for gpu in range(9) if sum(self.shared.get(gpu, {}).values()) + Decimal("0.5") <= 1)
            if gpu not in self.shared:
                self.reserve(gpu)
            self.shared.setdefault(gpu, {})["work"] = Decimal("0.5")
            self.have_pod("work", "default", {"labels": {"runai-gpu-group": f"g-{gpu}"}}, phase="Running")
        elif name == self.until:
            self.drop("v1", "Pod", "work", "default")
            for parts in self.shared.values():
                parts.pop("work", None)
        return super().create(definition)


@pytest.mark.parametrize(("before", "until"), [("fraction-1", ""), ("fraction-2", ""), ("fraction-2", "fraction-3")])
def test_a_gpu_that_others_come_to_share_meanwhile_may_take_some_of_the_pods(before, until):
    """As after a resume: a Deployment's half comes back once the scheduler runs, and the probe runs at once."""
    kube = Returning(before, until)
    result = run(params(checks=["fraction"]), kube, False)["results"][0]
    assert (result["verdict"], result["reason"].count(" on GPU-")) == ("passed", 2)


class Taken(Cluster):
    """Pods of others take GPUs before a pod of the probe is created, which then stays pending.

    :arg gpus: how many they take; ``before``, the probe's pod.
    """

    def __init__(self, gpus, before, **more):
        super().__init__(stuck=(before,), **more)
        self.taken, self.before = gpus, before

    def create(self, definition):
        if definition["metadata"]["name"] == self.before:
            containers = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(self.taken)}}}]
            metadata = {"name": "work", "namespace": "default"}
            spec = {"nodeName": "n", "containers": containers}
            self.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
        return super().create(definition)


@pytest.mark.parametrize(("check", "before"), [("gpu", "gpu-b"), ("burst", "burst-8")])
def test_gpus_that_others_take_meanwhile_fail_nothing(check, before):
    """As after a resume: a Deployment's whole GPUs come back once the scheduler runs."""
    results = run(params(checks=[check]), Taken(4, before), False)["results"]
    verdicts_of = [(found["verdict"], found["reason"]) for found in results if found["verdict"] != "passed"]
    needed = {"gpu": 1, "burst": 4}[check]
    assert verdicts_of == [("not_tried", f"it needs {needed} free GPUs, there are 0: others took theirs meanwhile")]


def test_gpus_that_are_free_and_not_given_out_fail_all_the_same():
    with pytest.raises(TenancyError, match="gpu in b: no verdict in time"):
        run(params(checks=["gpu"]), Taken(3, "gpu-b"), False)


def test_the_queues_status_from_before_a_pause_does_not_count():
    """It still has a GPU that ended with the pause, and is written when KAI's controllers see the next change."""
    kube = Cluster()
    queue = kube.get("scheduling.run.ai/v2", "Queue", "a")
    kube.put(queue | {"status": {"allocated": {"nvidia.com/gpu": "1"}}})
    assert set(verdicts(run(params(checks=["fraction"]), kube, False)["results"]).values()) == {"passed"}


def test_a_scheduler_that_lost_its_rights_shows_in_its_log():
    kube = Cluster(log="I1 all is well\nE1 nodes is forbidden: User cannot list\n")
    with pytest.raises(TenancyError, match=r"logs: it lacks a right \(1 lines, such as kai-operator-1: E1 nodes is"):
        run(params(checks=["cpu"]), kube, False)
    assert kube.probe_left() == []


def test_a_check_that_cannot_end_leaves_time_for_the_others():
    kube = Cluster(gpus=2, stuck=("gpu-a", "fraction-2"))
    with pytest.raises(TenancyError, match=r"2 of 5 checks failed\. gpu in a: no verdict in time") as caught:
        run(params(checks=["gpu", "fraction", "burst"], timeout=60), kube, False)
    results = caught.value.details["results"]
    found = {
        ("gpu", "a"): "failed",
        ("gpu", "b"): "passed",
        ("fraction", "a"): "failed",
        ("burst", "a"): "passed",
        ("logs", ""): "passed",
    }
    assert verdicts(results) == found
    # Half of the minute, and half of what was left.
    seconds = {(found["name"], found["queue"]): found["seconds"] for found in results}
    assert (seconds["gpu", "b"], 29 <= seconds["gpu", "a"] <= 30, 14 <= seconds["fraction", "a"] <= 15.5) == (0.5, True, True)
    assert caught.value.details["seconds"] <= 60
    assert kube.probe_left() == []


def test_all_of_the_time_is_the_last_checks_and_no_more():
    with pytest.raises(TenancyError, match="burst in a: no verdict in time: pod burst-1 is pending") as caught:
        run(params(checks=["burst"], timeout=30), Cluster(stuck=("burst-1",)), False)
    assert 29 <= caught.value.details["results"][0]["seconds"] <= 30


def test_checks_for_which_no_time_is_left_are_not_tried():
    class Late(Cluster):
        """Its namespace's service account takes nearly all of the time."""

        def add_account(self, namespace):
            super().add_account(namespace)
            clock.now += 19.8

    options = params(checks=["cpu", "fraction"], timeout=20)
    made = make_run(options, Late())
    clock = made.deadline.clock
    results = reconcile(made)["results"]
    assert [(found["verdict"], found["reason"]) for found in results[:-1]] == [("not_tried", "no time was left of 20 s")] * 3


@pytest.mark.parametrize(
    ("log", "told"),
    [("E1122 10:00 cache.go:1] no leader\n", "; the scheduler's last error: E1122 10:00 cache.go:1] no leader"), ("I1 fine", "")],
)
def test_a_pod_that_nobody_explains_carries_the_schedulers_last_error(log, told):
    kube = Cluster(stuck=("cpu-a",), log=log)
    kube.have_pod("scheduler-1", KAI_NAMESPACE, {"labels": {"app": "scheduler"}})
    with pytest.raises(TenancyError, match="cpu in a: no verdict in time") as caught:
        run(params(checks=["cpu"]), kube, False)
    reason = next(found["reason"] for found in caught.value.details["results"] if found["verdict"] == "failed")
    assert reason == f"no verdict in time: pod cpu-a is pending: no reason given yet{told}"


def test_a_pod_that_does_not_start_carries_its_newest_warning():
    kube = Cluster(stuck=("cpu-a",))
    for name, pod, kind, minute in (
        ("1", "cpu-a", "Warning", 1),
        ("2", "cpu-a", "Warning", 3),
        ("3", "cpu-a", "Normal", 4),
        ("4", "x", "Warning", 5),
    ):
        event = {"metadata": {"name": name, "namespace": "kai-probe"}, "involvedObject": {"name": pod}, "type": kind}
        kube.put(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "message": f"no\nsandbox {name}",
                "lastTimestamp": f"2026-11-22T12:0{minute}:00Z",
            }
            | event
        )
    with pytest.raises(TenancyError, match="no verdict in time: pod cpu-a is pending: no reason given yet; no sandbox 2"):
        run(params(checks=["cpu"]), kube, False)


def test_kais_own_pods_are_looked_at():
    kube = Cluster()
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}
    kube.have_pod("reservation-x", RESERVATION_NAMESPACE, {}, containerStatuses=[{"name": "reserve", "state": waiting}])
    with pytest.raises(TenancyError, match="logs: pod reservation-x: reserve: ErrImagePull no such host"):
        run(params(checks=["cpu"]), kube, False)


def test_a_refused_pod_fails_its_check_only():
    with pytest.raises(TenancyError, match="fraction in a: admission webhook denied the request"):
        run(params(checks=["cpu", "fraction"]), Cluster(refused=("fraction-2",)), False)


def test_check_mode_runs_nothing():
    kube = Cluster()
    assert set(verdicts(run(params(), kube, True)["results"]).values()) == {"not_tried"}
    assert kube.order == []


def test_a_namespace_of_others_is_refused():
    kube = Cluster()
    kube.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kai-probe"}})
    with pytest.raises(TenancyError, match=r"not owned by kubegpu\.tenancy"):
        run(params(), kube, False)
    assert kube.probe_left() == [("v1", "Namespace", None, "kai-probe")]


def test_a_record_stands_in_while_all_is_as_it_was():
    kube = Cluster()
    asked = params(checks=["cpu"], max_age=60)
    first = run(asked, kube, False)
    assert (first["recorded"], kube.order) == (False, ["cpu-a", "cpu-b"])
    assert run(asked, kube, False) == first | {"recorded": True}
    assert run(asked, kube, True)["recorded"]
    assert kube.order == ["cpu-a", "cpu-b"]

    assert run(asked | {"max_age": 0}, kube, False)["recorded"] is False
    assert run(asked | {"checks": ["gpu"]}, kube, False)["recorded"] is False
    assert run(asked, kube, False)["recorded"] is False
    for option, value in (("tolerations", [{"operator": "Exists"}]), ("namespace", "kai-probe-2"), ("image", "other")):
        assert run(asked, kube, False)["recorded"]
        assert run(asked | {option: value}, kube, False)["recorded"] is False
        assert run(asked, kube, False)["recorded"] is False
    kube.have_pod("kai-operator-1", KAI_NAMESPACE, {"labels": {"app": "kai-operator"}, "uid": "another"})
    assert run(asked, kube, False)["recorded"] is False
    kube.record["data"]["report"] = kube.record["data"]["report"].replace(first["at"][:4], "2020")
    assert run(asked, kube, False)["recorded"] is False


def test_nothing_is_recorded_unless_an_age_is_given():
    kube = Cluster()
    for _time in range(2):
        assert run(params(checks=["cpu"]), kube, False)["recorded"] is False
    assert kube.record is None
    assert run(params(checks=["cpu"], max_age=0), kube, False)["recorded"] is False
    assert kube.record is not None


def test_a_record_of_a_failure_does_not():
    kube = Cluster(log="Unauthorized")
    asked = params(checks=["cpu"], max_age=60)
    for _time in range(2):
        with pytest.raises(TenancyError, match=r"logs: the API server refuses its credentials \(401"):
            run(asked, kube, False)


def test_a_log_that_cannot_be_read_does_not_pass():
    kube = Cluster(log=None)
    asked = params(checks=["cpu"], max_age=60)
    for _time in range(2):
        result = run(asked, kube, False)
        # It is no failure, and no evidence either: nothing stands in for the next probe.
        assert result["recorded"] is False
        assert verdicts(result["results"])["logs", ""] == "not_tried"
        assert "of pod kai-operator-1: GET log failed: connection refused" in result["results"][-1]["reason"]


def test_a_probes_log_that_cannot_be_read_is_read_again():
    class Shy(Cluster):
        silent = 3

        def logs(self, name, namespace, **bounds):
            if namespace != KAI_NAMESPACE and self.silent:
                self.silent -= 1
                raise ApiError("GET log failed: bad gateway", status=502)
            return super().logs(name, namespace, **bounds)

    assert set(verdicts(run(params(checks=["gpu"]), Shy(), False)["results"]).values()) == {"passed"}
    Shy.silent = 10**6
    with pytest.raises(TenancyError, match="gpu in a: no verdict in time: the log of pod gpu-a cannot be read: GET log failed"):
        run(params(checks=["gpu"]), Shy(), False)


def test_pods_are_listed_once_before_the_checks():
    kube = Cluster()
    run(params(), kube, True)
    assert [read for read in kube.reads if read[1] == "Pod"] == [("list", "Pod", None)]


def test_it_keeps_to_the_nodes_and_the_namespace_labels_it_is_given():
    kube = Cluster()
    kube.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "of-others", "labels": {}},
            "spec": {},
            "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}},
        }
    )
    for node in kube.list("v1", "Node"):
        if node["metadata"]["name"] != "of-others":
            kube.patch("v1", "Node", node["metadata"]["name"], {"metadata": {"labels": {"pool": "shared"}}})
    kube.created = []
    create = kube.create

    def keep(definition):
        kube.created.append(definition)
        return create(definition)

    kube.create = keep
    asked = {"node_selector": {"pool": "shared"}, "namespace_labels": {"served": "yes"}}
    run(params(checks=["gpu", "burst"], **asked), kube, False)
    pods = [item for item in kube.created if item["kind"] == "Pod"]
    # Of the other node's GPUs none counts as free.
    assert len([pod for pod in pods if pod["metadata"]["name"].startswith("burst")]) == 8
    assert all(pod["spec"]["nodeSelector"] == {"pool": "shared"} for pod in pods)
    (namespace,) = [item for item in kube.created if item["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"] == {"served": "yes", "app.kubernetes.io/managed-by": "kubegpu.tenancy"}


def test_nodes_that_do_not_exist_are_named():
    with pytest.raises(TenancyError, match=r"node_selector: no node of the cluster has pool=none"):
        run(params(node_selector={"pool": "none"}), Cluster(), False)
