# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A third family: what a scheduler needs beside its class and its row, which is nothing."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._artifacts.plan import of_tenant
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import load_manifests
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import refusal
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS, annotations_of, is_owned
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.pods import Answer
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import key_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import KAI
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import kai_pending_info, probe, scheduler_queues
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.plan import POD_OPTIONS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.status import concluded, record
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._render.plan import Chart, Target, files
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.families import FAMILIES
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.family import Family, Probe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.lifecycle import compare_queues
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.parts import Parts
from ansible_collections.kubegpu.tenancy.tests.unit.pending import node, pod
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

MODULE_UTILS = Path(__file__).parents[5] / "plugins/module_utils"
# Where names of families stand: the names, the table, and a module that is one family's own.
OF_FAMILIES = {"_common/variables.py", "_schedulers/families.py", "_engine/volcano_queues.py"}
# KAI Scheduler is more than a family: the shared scheduler, what is rehearsed, and what has hazards.
KNOWN = sorted(FAMILIES.keys() - {KAI})
NAME, CHART = "lottery", ("lottery", "https://lottery.example/charts")
TENANT = {
    "name": "ml",
    "trust": "high",
    "gpu_nodes": {"count": 1},
    "scheduler": {"name": NAME, "version": "1.2.0"},
    "queues": [{"name": "a"}, {"name": "b"}],
}
QUEUES_PATH = f"/api/v1/namespaces/{NAME}/configmaps"


def draw(run):
    return concluded([record(f"drawn in {queue['name']}", "passed", "") for queue in run.params["queues"]], 0.0)


class Lottery(Family):
    """Draws pods. Its queues are ConfigMaps."""

    title = "Lottery"
    chart = CHART
    has_queues = True
    probe = Probe("lottery_scheduling", draw, {**POD_OPTIONS, "namespace": "lottery-probe", "timeout": 60, "queues": []})

    def checked(self, entry, problems):
        found = problems.ask(f"{entry.path}.", lambda: parse(entry.queues))
        if any(queue.parent for queue in (found or {}).values()):
            problems.add("queues-too-deep", f"{entry.path}.queues", "a lottery has no children.")
        return super().checked(entry, problems)

    def needs(self, scheduler, queues):
        return [("the lottery", {"requests.memory": "100Gi"})]

    def check_virtual_cluster(self, scheduler, values):
        if "integrations" in values:
            raise refusal("not-applicable", "vcluster.values: a lottery has no integrations.")

    def documents(self, scheduler, queues, manifests):
        return super().documents(scheduler, queues, manifests) | {"queues.yaml": self._objects(queues)}

    def reconcile_queues(self, run, queues, version):
        for item in self._objects(queues):
            run.perform(f"write {item['metadata']['name']}", "the tree has it", lambda item=item: run.kube.apply(item))
        return [queue["name"] for queue in queues]

    def compare_queues(self, queues, read):
        live = {item["metadata"]["name"] for item in read(QUEUES_PATH) if is_owned(item)}
        return [f"its queues differ: {name}" for name in sorted(live ^ {queue["name"] for queue in queues})], None

    def probe_options(self, scheduler, params):
        return {"tolerations": params["tolerations"]}

    def waiting(self, kube, pods):
        lost = [one for one in pods if "lottery.example/lost" in annotations_of(one)]
        return {key_of(one): Answer("lost", "It drew a blank.", "Try again.") for one in lost}, []

    def _objects(self, queues):
        return [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": queue["name"], "namespace": NAME, "labels": dict(OWNED_LABELS)},
            }
            for queue in queues
        ]


@pytest.fixture(autouse=True)
def _row(monkeypatch):
    """Start the collection with another row."""
    monkeypatch.setitem(FAMILIES, NAME, Lottery())
    for module in (probe, scheduler_queues):
        importlib.reload(module)
    yield
    monkeypatch.undo()
    for module in (probe, scheduler_queues):
        importlib.reload(module)


def tenant(**more):
    (found,) = tenants_from([TENANT | more])
    return found


def test_an_inventory_is_checked_by_its_rules():
    assert tenant().own_scheduler.name == NAME
    with refuses("wrong-type"):
        tenant(queues=[1])
    with refuses("queues-too-deep"):
        tenant(queues=[{"name": "a", "children": [{"name": "b"}]}])
    with refuses("not-applicable"):
        tenant(vcluster={"values": {"integrations": {}}})
    with refuses("no-room-in-quota") as caught:
        tenant(quota={"requests.memory": "50Gi"})
    assert "the lottery" in caught.value.problems[0].text


def test_its_chart_comes_from_where_all_charts_come_from():
    _vcluster, own = of_tenant(tenant(), "/charts")
    assert (own.release, own.namespace, own.chart, own.version, own.source) == (NAME, NAME, NAME, "1.2.0", "/charts")
    other = TENANT["scheduler"] | {"chart": NAME, "repository": "https://mirror.example"}
    assert of_tenant(tenant(scheduler=other), "/charts")[1].source == ""


def test_its_objects_are_among_the_rendered_files():
    target = Target("helm", "./clusters/dc1", "flux-system", False, "1.35", True, {}, {})
    charts = [Chart(item, []) for item in of_tenant(tenant(), "")]
    found = files(tenant(), charts, target)
    assert [item["metadata"]["name"] for item in load_manifests(found["inside/queues.yaml"]) if item] == ["a", "b"]
    assert [item["metadata"]["name"] for item in load_manifests(found["inside/namespace.yaml"]) if item] == [NAME]


def test_it_is_installed_by_its_chart_and_then_gets_its_queues(monkeypatch):
    with monkeypatch.context() as patched:
        parts = Parts(patched)
        parts.bring(TENANT, chart_source="oci://registry.example/charts")
    assert parts.names[-2:] == ["chart_scheduler", "scheduler_queues"]
    assert parts.options("chart_scheduler")["chart"] == f"oci://registry.example/charts/{NAME}"
    asked = parts.options("scheduler_queues")
    api = InMemoryApi([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}}])
    assert scheduler_queues.reconcile(make_run(asked, api))["leaves"] == ["a", "b"]

    def read(_config, path):
        assert path == QUEUES_PATH
        return api.list("v1", "ConfigMap", NAME)

    assert compare_queues(tenant(), {}, read)[0].reasons == ()
    assert compare_queues(tenant(queues=[{"name": "a"}]), {}, read)[0].reasons == ("its queues differ: b",)


def test_it_is_checked_by_its_probe(monkeypatch):
    with monkeypatch.context() as patched:
        parts = Parts(patched)
        parts.answers["lottery_scheduling"] = {"results": [record("drawn in a", "passed", "")]}
        parts.verify(TENANT, tolerations=[{"operator": "Exists"}])
    assert parts.names == ["lottery_scheduling", "tenant_record"]
    asked = parts.options("lottery_scheduling")
    assert asked["tolerations"] == [{"operator": "Exists"}]
    options = dict.fromkeys(probe.ARGUMENT_SPEC) | {"kind": "lottery_scheduling", "queues": asked["queues"]}
    assert [one["name"] for one in probe.reconcile(make_run(options))["results"]] == ["drawn in a", "drawn in b"]


def pending(one):
    params = {name: option.get("default") for name, option in kai_pending_info.ARGUMENT_SPEC.items()}
    return kai_pending_info.reconcile(make_run(params, InMemoryApi([node(), one])))


def test_what_it_says_elsewhere_is_why_a_pod_waits():
    (row,) = pending(pod("train-0", annotations={"lottery.example/lost": ""}, schedulerName=NAME))["pods"]
    assert (row["reason"], row["message"], row["advice"]) == ("lost", "It drew a blank.", "Try again.")


def test_a_family_that_fails_takes_no_other_answer_with_it(monkeypatch):
    def fail(_kube, _pods):
        raise KeyError("lost")

    monkeypatch.setattr(FAMILIES[NAME], "waiting", fail)
    found = pending(pod("train-0", schedulerName=NAME))
    assert [row["reason"] for row in found["pods"]] == ["no_scheduler"]
    assert [sentence.split(":")[0] for sentence in found["unread"]] == ["what Lottery says cannot be read"]


@pytest.mark.parametrize("family", KNOWN)
def test_a_family_is_named_in_its_package_and_in_its_row_alone(family):
    naming = []
    for path in sorted(MODULE_UTILS.rglob("*.py")):
        name = str(path.relative_to(MODULE_UTILS))
        if name in OF_FAMILIES or name.startswith(f"_schedulers/{family}/"):
            continue
        tree = ast.parse(path.read_text())
        documented = {
            id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        }
        words = [one.id for one in ast.walk(tree) if isinstance(one, ast.Name)]
        words += [one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute)]
        words += [str(one.value) for one in ast.walk(tree) if isinstance(one, ast.Constant) and id(one) not in documented]
        if any(re.search(rf"\b{family}\b", word, re.IGNORECASE) for word in words):
            naming.append(name)
    assert naming == []
