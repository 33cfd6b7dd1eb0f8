# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import NAMESPACE, RESERVATION_NAMESPACE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import manifest
from ansible_collections.kubegpu.tenancy.plugins.modules.kai_probe import reconcile
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

TREE = [{"name": "ml", "gpu": {"limit": 4}, "children": [{"name": "a", "gpu": {"limit": 4}}, {"name": "b", "gpu": {"limit": 2}}]}]


class Cluster(InMemoryApi):
    """A cluster whose scheduler does at once what KAI should.

    :arg stuck: names of pods that stay pending; ``refused``, of those that a webhook denies.
    :arg log: of KAI's operator. None where it cannot be read.
    """

    def __init__(self, gpus=4, stuck=(), refused=(), log=""):
        super().__init__(manifest(queue) for queue in parse(TREE).values())
        self.log = log
        self.stuck = stuck
        self.refused = refused
        self.most = 0
        self.order = []
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": {"nvidia.com/gpu": str(gpus)}, "conditions": ready}
        self.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}, "status": status})
        self.have_pod("kai-operator-1", NAMESPACE, {"labels": {"app": "kai-operator"}})
        for n in (0, 1):
            notes = {"run.ai/reserve_for_gpu_index": f"GPU-{n}"}
            self.have_pod(f"reservation-{n}", RESERVATION_NAMESPACE, {"annotations": notes})
        self.react("create", "Namespace", self._add_account)
        self.react("create", "Pod", self._schedule)

    def have_pod(self, name, namespace, metadata):
        metadata = {"name": name, "namespace": namespace} | metadata
        self.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}, "status": {}})

    @property
    def record(self):
        return self.objects.get(("v1", "ConfigMap", NAMESPACE, "kubegpu-probe"))

    def probe_left(self):
        """What is left in the probe's namespace, and the namespace."""
        return [key for key in self.objects if "kai-probe" in key]

    def get(self, api_version, kind, name, namespace=None):
        found = super().get(api_version, kind, name, namespace)
        # The leaf's status counts the halves while they run.
        halves = [pod for pod in self.order if pod.startswith("fraction")]
        return found | {"status": {"allocated": {"nvidia.com/gpu": "1500m"}}} if kind == "Queue" and halves else found

    def create(self, definition):
        if definition["metadata"]["name"] in self.refused:
            raise TenancyError("admission webhook denied the request")
        return super().create(definition)

    def _add_account(self, namespace):
        metadata = {"name": "default", "namespace": namespace["metadata"]["name"]}
        self.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})

    def _schedule(self, pod):
        name, metadata = pod["metadata"]["name"], pod["metadata"]
        pending = name.startswith(("over", "gang-too-large")) or name in self.stuck
        group = metadata.get("annotations", {}).get("pod-group-name", name)
        metadata["annotations"] = metadata.get("annotations", {}) | {"pod-group-name": group}
        phase = "Pending" if pending else "Running" if name.startswith("fraction") else "Succeeded"
        self.put(pod | {"spec": pod["spec"] | ({} if pending else {"nodeName": "n"}), "status": {"phase": phase}})
        if pending:
            reasons = [{"reason": "OverLimit", "message": "too much"}]
            kept = {"metadata": {"name": group, "namespace": metadata["namespace"]}}
            self.put(
                {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
                | kept
                | {"status": {"schedulingConditions": [{"reasons": reasons}]}}
            )
        self.order.append(name)
        self.most = max(self.most, sum(key[3].startswith("gpu") for key in self.objects if key[1] == "Pod"))

    def logs(self, name, namespace, **_bounds):
        self._require("Reading the log of", "v1", "Pod", name, namespace)
        if namespace == NAMESPACE:
            if self.log is None:
                raise TenancyError("GET log failed: connection refused", status=None)
            return self.log
        return f"GPU 0: X (UUID: GPU-{1 if name.endswith('3') else 0})"


def run(options, kube, check_mode):
    return reconcile(make_run(options, kube, check_mode=check_mode))


def params(**changes):
    return {
        "queues": TREE,
        "checks": ["cpu", "gpu", "fraction", "gang", "gang_too_large", "over_limit"],
        "image": "busybox",
        "gpu_resource": "nvidia.com/gpu",
        "runtime_class": "nvidia",
        "tolerations": [],
        "namespace": "kai-probe",
        "scheduler_name": "kai-scheduler",
        "timeout": 20,
        "max_age": 0,
    } | changes


def verdicts(results):
    return {(result["name"], result["queue"]): result["verdict"] for result in results}


def test_all_is_well():
    kube = Cluster()
    result = run(params(), kube, False)
    assert set(verdicts(result["results"]).values()) == {"passed"}
    assert len(result["results"]) == 12
    assert result["results"][-1]["name"] == "logs"
    assert result["changed"] is False
    assert kube.probe_left() == []
    assert kube.order[-3:] == ["fraction-1", "fraction-2", "fraction-3"]


def test_one_free_gpu_is_used_by_one_after_the_other():
    kube = Cluster(gpus=1)
    result = run(params(checks=["gpu", "fraction"]), kube, False)
    assert verdicts(result["results"]) == {
        ("gpu", "a"): "passed",
        ("gpu", "b"): "passed",
        ("fraction", "a"): "not_tried",
        ("logs", ""): "passed",
    }
    assert kube.most == 1


def test_a_scheduler_that_lost_its_rights_shows_in_its_log():
    kube = Cluster(log="I1 all is well\nE1 nodes is forbidden: User cannot list\n")
    with pytest.raises(
        TenancyError, match=r"logs: 1 lines about authorisation or webhooks that do not work, such as kai-operator-1: E1 nodes is"
    ):
        run(params(checks=["cpu"]), kube, False)
    assert kube.probe_left() == []


def test_time_runs_out():
    kube = Cluster(gpus=2, stuck=("gpu-a",))
    with pytest.raises(TenancyError, match=r"1 of 4 checks failed\. gpu in a: no verdict in time") as caught:
        run(params(checks=["gpu", "fraction"], timeout=2), kube, False)
    found = {("gpu", "a"): "failed", ("gpu", "b"): "passed", ("fraction", "a"): "not_tried", ("logs", ""): "passed"}
    assert verdicts(caught.value.details["results"]) == found
    assert kube.probe_left() == []


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
    kube.have_pod("kai-operator-1", NAMESPACE, {"labels": {"app": "kai-operator"}, "uid": "another"})
    assert run(asked, kube, False)["recorded"] is False
    kube.record["data"]["report"] = kube.record["data"]["report"].replace(first["at"][:4], "2020")
    assert run(asked, kube, False)["recorded"] is False


def test_a_record_of_a_failure_does_not():
    kube = Cluster(log="Unauthorized")
    asked = params(checks=["cpu"], max_age=60)
    for _time in range(2):
        with pytest.raises(TenancyError, match="logs: 1 lines"):
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
            if namespace != NAMESPACE and self.silent:
                self.silent -= 1
                raise TenancyError("GET log failed: bad gateway", status=502)
            return super().logs(name, namespace, **bounds)

    assert set(verdicts(run(params(checks=["gpu"]), Shy(), False)["results"]).values()) == {"passed"}
    Shy.silent = 10**6
    with pytest.raises(TenancyError, match="gpu in a: no verdict in time: the log of pod gpu-a cannot be read: GET log failed"):
        run(params(checks=["gpu"]), Shy(), False)


def test_pods_are_listed_once_before_the_checks():
    kube = Cluster()
    run(params(), kube, True)
    assert [read for read in kube.reads if read[1] == "Pod"] == [("list", "Pod", None)]
