# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from base64 import b64encode

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.modules import tenant_nodes
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi, written_by
from ansible_collections.kubegpu.tenancy.tests.unit.clock import Clock
from ansible_collections.kubegpu.tenancy.tests.unit.runs import untimed

LABEL = "tenant.kubegpu.tenancy/"
TENANTS = ({"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}}, {"name": "web", "trust": "high"})


class Nodes(InMemoryApi):
    """Nodes with so many GPUs each."""

    def __init__(self, **nodes: int) -> None:
        super().__init__(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"a": "b"}},
                "spec": {},
                "status": {"capacity": {"nvidia.com/gpu": str(gpus)} if gpus else {}},
            }
            for name, gpus in nodes.items()
        )

    def node(self, name):
        return self.objects[("v1", "Node", None, name)]

    def labels(self) -> dict[str, list[str]]:
        return {
            item["metadata"]["name"]: [key.removeprefix(LABEL) for key in item["metadata"]["labels"] if key.startswith(LABEL)]
            for item in self.list("v1", "Node")
        }


def call(kube, state="present", tenants=TENANTS, check_mode=False, only=()):
    kube.writes.clear()
    params = {"state": state, "tenants": None if tenants is None else list(tenants), "only": list(only)}
    result = tenant_nodes.reconcile(Run(params, check_mode, kube, deadline=Clock().deadline(60)))
    return untimed(result)


def test_life_of_an_assignment():
    kube = Nodes(w1=0, w2=4, w3=4)
    predicted = call(kube, check_mode=True)
    assert kube.writes == []
    made = call(kube)
    assert (
        made
        == predicted
        == {
            "changed": True,
            "diff": {"before": {"w1": [], "w2": []}, "after": {"w1": ["web"], "w2": ["ml"]}},
            "assignments": {"ml": ["w2"], "web": ["w1"]},
            "steps": [
                {"step": "label node w1", "why": "it is to belong to web"},
                {"step": "label node w2", "why": "it is to belong to ml"},
            ],
        }
    )
    assert kube.labels() == {"w1": ["web"], "w2": ["ml"], "w3": []}

    again = call(kube)
    assert not again["changed"]
    assert again["diff"] == {"before": {}, "after": {}}
    assert kube.writes == []

    assert call(kube, "absent", [{"name": "ml"}])["diff"] == {"before": {"w2": ["ml"]}, "after": {"w2": []}}
    assert call(kube, "absent", None, check_mode=True)["changed"]
    assert call(kube, "absent", None) == {
        "changed": True,
        "diff": {"before": {"w1": ["web"]}, "after": {"w1": []}},
        "steps": [{"step": "label node w1", "why": "it is to belong to no tenant"}],
    }
    assert not call(kube, "absent", None)["changed"]
    assert all(node["metadata"]["labels"] == {"a": "b"} for node in kube.list("v1", "Node"))


def test_nodes_of_a_tenant_with_zero_trust_are_its_own():
    kube = Nodes(w1=0, w2=4)
    zero = (TENANTS[0] | {"trust": "zero"}, TENANTS[1])
    taint = "taint kubegpu.tenancy/dedicated=ml"
    made = call(kube, tenants=zero)
    assert made["diff"]["after"] == {"w1": ["web"], "w2": ["ml", taint]}
    assert made["steps"][1] == {"step": "label and taint node w2", "why": "it is to belong to ml"}
    assert not call(kube, tenants=zero)["changed"]
    assert call(kube)["diff"] == {"before": {"w2": ["ml", taint]}, "after": {"w2": ["ml"]}}
    call(kube, tenants=zero)
    assert call(kube, "absent", [{"name": "ml"}])["diff"] == {"before": {"w2": ["ml", taint]}, "after": {"w2": []}}
    assert kube.node("w2")["spec"]["taints"] == []


def test_who_changed_a_node_is_said():
    kube = Nodes(w1=0, w2=4)
    zero = (TENANTS[0] | {"trust": "zero"}, TENANTS[1])
    call(kube, tenants=zero)
    node = kube.node("w2")
    node["metadata"]["labels"][f"{LABEL}ml"] = "yes"
    kube.put(written_by(node, "kubectl-label", "2026-11-24T10:02:00Z", ("metadata", "labels", f"{LABEL}ml")))
    assert call(kube, tenants=zero)["diff"]["written"] == {"w2": {"since": "2026-11-24T10:02:00Z", "by": "kubectl-label"}}

    kube.node("w2")["spec"]["taints"] = [{"key": "other", "effect": "NoSchedule"}]
    kube.put(written_by(kube.node("w2"), "kubectl-taint", "2026-11-24T11:00:00Z", ("spec", "taints")))
    assert call(kube, tenants=zero)["diff"]["written"] == {"w2": {"since": "2026-11-24T11:00:00Z", "by": "kubectl-taint"}}

    # Of a label that was taken away nothing is noted.
    del kube.node("w2")["metadata"]["labels"][f"{LABEL}ml"], kube.node("w2")["metadata"]["managedFields"]
    assert "written" not in call(kube, tenants=zero)["diff"]


def test_a_label_with_another_value_is_mended():
    kube = Nodes(w1=0, w2=4)
    call(kube)
    kube.node("w2")["metadata"]["labels"][f"{LABEL}ml"] = "yes"
    assert call(kube)["diff"] == {"before": {"w2": []}, "after": {"w2": ["ml"]}}
    assert not call(kube)["changed"]


def test_too_few_nodes_touch_nothing():
    kube = Nodes(w1=0)
    with pytest.raises(TenancyError, match="ml needs 1 nodes with GPUs; 0 are its own, 0 of all 0 are free"):
        call(kube)
    assert kube.writes == []


def test_only_the_tenants_that_are_named_are_acted_on():
    kube = Nodes(w1=0, w2=4, w3=4)
    call(kube)
    two = (TENANTS[0] | {"gpu_nodes": {"count": 2}}, TENANTS[1], {"name": "new", "trust": "high"})
    assert call(kube, tenants=two, only=["new"])["diff"]["after"] == {"w1": ["new", "web"]}
    gone = (TENANTS[0] | {"state": "absent"}, TENANTS[1])
    assert not call(kube, tenants=gone, only=["web"])["changed"]
    assert call(kube, tenants=gone)["diff"] == {"before": {"w2": ["ml"]}, "after": {"w2": []}}


def meanwhile(kube, *bodies, node="w2"):
    """Have another client change a node between each reading and the writing that follows it."""
    changes = iter(bodies)
    patch = kube.patch

    def conflicting(api_version, kind, name, body, namespace=None):
        if name == node and (change := next(changes, None)):
            patch(api_version, kind, name, change)
        return patch(api_version, kind, name, body, namespace)

    kube.patch = conflicting


ZERO = (TENANTS[0] | {"trust": "zero"}, TENANTS[1])
OTHER = {"key": "other", "effect": "NoExecute"}
OWN = {"key": "kubegpu.tenancy/dedicated", "value": "ml", "effect": "NoSchedule"}


def test_what_somebody_else_changed_meanwhile_is_not_lost():
    kube = Nodes(w1=0, w2=4)
    meanwhile(kube, {"spec": {"taints": [OTHER]}})
    result = call(kube, tenants=ZERO)
    assert kube.node("w2")["spec"]["taints"] == [OTHER, OWN]
    assert kube.labels()["w2"] == ["ml"]
    assert result["diff"]["after"]["w2"] == ["ml", "taint kubegpu.tenancy/dedicated=ml"]
    assert not call(kube, tenants=ZERO)["changed"]


def test_a_node_that_several_runs_change_at_the_same_time_is_written_in_the_end():
    kube = Nodes(w1=0, w2=4)
    meanwhile(kube, *({"metadata": {"labels": {"a": str(number)}}} for number in range(5)))
    call(kube)
    assert kube.labels()["w2"] == ["ml"]


def test_a_node_that_somebody_else_changes_again_and_again_is_an_error():
    kube = Nodes(w1=0, w2=4)
    meanwhile(kube, *({"metadata": {"labels": {"a": str(number)}}} for number in range(10)))
    with pytest.raises(TenancyError, match="node w2: another client changed it 10 times") as caught:
        call(kube)
    assert caught.value.details["status"] == 409
    assert kube.labels()["w2"] == []
    # What was written to other nodes stays, and the next run goes on from there.
    assert kube.labels()["w1"] == ["web"]
    assert call(kube)["diff"]["after"] == {"w2": ["ml"]}


def test_a_node_that_another_run_gave_away_meanwhile_is_not_booked_twice():
    kube = Nodes(w1=0, w2=4)
    meanwhile(kube, {"metadata": {"labels": {f"{LABEL}theirs": "true"}}})
    with pytest.raises(TenancyError, match="node w2: another run gave it to theirs meanwhile"):
        call(kube)
    assert kube.labels()["w2"] == ["theirs"]


def test_giving_up_a_node_does_not_depend_on_who_gets_it():
    kube = Nodes(w1=0, w2=4)
    call(kube)
    meanwhile(kube, {"metadata": {"labels": {f"{LABEL}theirs": "true"}}})
    call(kube, "absent", [{"name": "ml"}])
    assert kube.labels()["w2"] == ["theirs"]


def test_a_node_that_became_as_wanted_meanwhile_counts_as_changed():
    kube = Nodes(w1=0, w2=4)
    meanwhile(kube, {"metadata": {"labels": {f"{LABEL}ml": "true"}}})
    assert call(kube)["diff"]["after"]["w2"] == ["ml"]


def test_a_node_that_was_removed_meanwhile_is_an_error():
    kube = Nodes(w1=0, w2=4)
    kube.fail("patch", "Node", ApiError("Changing Node w1 failed", status=409))
    kube.get = lambda *_args: None
    with pytest.raises(TenancyError, match="node w1: it was removed from the cluster meanwhile"):
        call(kube)


def test_other_errors_are_passed_on():
    kube = Nodes(w1=0, w2=4)
    kube.fail("patch", "Node", ApiError("Changing Node w1 failed: forbidden", status=403))
    with pytest.raises(TenancyError, match="forbidden"):
        call(kube)


# --- tenants that are to be absent -------------------------------------------------------------------------------

MOVE = (TENANTS[0] | {"state": "absent"}, {"name": "new", "trust": "high", "gpu_nodes": {"count": 1}}, TENANTS[1])


def virtual_cluster(name):
    config = yaml.safe_dump({"controlPlane": {"distro": {"k8s": {"scheduler": {"enabled": True}}}}})
    metadata = {"name": f"vc-config-{name}", "namespace": f"tenant-{name}", "labels": {"app": "vcluster"}}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "data": {"config.yaml": b64encode(config.encode()).decode()},
    }


def test_the_nodes_of_a_tenant_that_is_to_be_absent_are_free_once_it_is_gone():
    kube = Nodes(w1=0, w2=4)
    call(kube)
    kube.put(virtual_cluster("ml"))
    # Before it is removed, check mode sees that all tenants can have their nodes.
    assert call(kube, tenants=MOVE, check_mode=True)["diff"]["after"] == {"w2": ["new"]}
    kube.drop("v1", "Secret", "vc-config-ml", "tenant-ml")
    assert call(kube, tenants=MOVE)["diff"] == {"before": {"w2": ["ml"]}, "after": {"w2": ["new"]}}


def test_a_tenant_that_could_not_be_removed_keeps_its_nodes():
    kube = Nodes(w1=0, w2=4, w3=4)
    call(kube)
    kube.put(virtual_cluster("ml"))
    assert call(kube, tenants=MOVE)["assignments"] == {"new": ["w3"], "web": ["w1"]}
    assert kube.labels() == {"w1": ["web"], "w2": ["ml"], "w3": ["new"]}
    assert not call(kube, tenants=MOVE)["changed"]


def test_a_refusal_says_how_to_get_the_nodes_of_tenants_that_are_still_there():
    kube = Nodes(w1=0, w2=4)
    call(kube)
    kube.put(virtual_cluster("ml"))
    with pytest.raises(TenancyError) as caught:
        call(kube, tenants=MOVE)
    assert [problem.text for problem in caught.value.problems] == [
        (
            "kubegpu_tenants[1] (new).gpu_nodes.count: new needs 1 nodes with GPUs; 0 are its own, 0 of all 1 are free. Nodes are held by ml. "
            "ml is to be absent and still there: a run that acts on it removes it, or says why it cannot."
        )
    ]
    # A run that does not act on it does not count on its nodes.
    with pytest.raises(TenancyError, match="ml is to be absent and still there"):
        call(kube, tenants=MOVE, only=["new"], check_mode=True)
    with pytest.raises(TenancyError, match=r"ml is not listed: `ansible-playbook .* -e kubegpu_only=ml` removes it"):
        call(kube, tenants=MOVE[1:])


def test_problems_have_the_paths_of_the_inventory():
    with pytest.raises(TenancyError) as caught:
        call(Nodes(w1=0), tenants=(MOVE[0], {"name": "b", "trust": "high", "gpu_nodes": {"names": ["n9"]}}))
    assert caught.value.problems[0].text.startswith("kubegpu_tenants[1] (b).gpu_nodes.names[0]: n9 is not a node of the cluster")
