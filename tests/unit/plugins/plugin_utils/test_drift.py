# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift, by the variables that site.yml leaves behind in check mode."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._differences import REGISTERED
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._drift import WITHOUT_STEPS, drift, lines
from ansible_collections.kubegpu.tenancy.tests.unit.growth import MOST, growth
from ansible_collections.kubegpu.tenancy.tests.unit.hostvars import BLUEPRINT, REMOVED, WORKED, Inventory, live
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import tasks_in

ROOT = Path(__file__).parents[4]
# Where site.yml makes changes.
PLACES = [
    *(ROOT / "playbooks/tasks").glob("*.yml"),
    *(ROOT / "playbooks/plays").glob("*.yml"),
    *(path for name in ("docker_nvidia_runtime", "nvkind", "device_plugin", "kai_scheduler", "monitoring", "gateway")
      for path in (ROOT / "roles" / name / "tasks").glob("*.yml")),
]  # fmt: skip
# site.yml gives no host back, and check mode installs no packages and takes no backups. A shared scheduler that has to go is in the reports.
APART = (
    "back_up",
    "renewal_note",
    "renewed",
    "verify",
    "former_shared_scheduler",
    "_remove",
    "_limits_absent",
    "_packages",
    "_repository",
    "_install",
)
READS = ("info", "probe", "gate", "plan", "record")
BUILTIN = ("copy", "file", "template", "lineinfile", "helm", "k8s")
UPGRADE = {
    "changed": True,
    "diff": {"before": {"version": "v0.12.0", "queues": 2}, "after": {"version": "v0.13.1", "queues": 2, "sharing": True}},
    "steps": [{"step": "upgrade the chart", "why": "version"}],
}


def found(inventory):
    return drift(inventory.hostvars, inventory.clusters)


def changes(task: dict) -> bool:
    modules = [key.split(".") for key in task if key.count(".") == 2]
    return (
        any(
            (parts[:2] == ["kubegpu", "tenancy"] and parts[2].rpartition("_")[2] not in READS) or parts[2] in BUILTIN
            for parts in modules
        )
        and task.get("changed_when") is not False
    )


def test_everything_that_site_can_change_is_compared():
    registered = {
        (path.relative_to(ROOT), task["name"]): task.get("register")
        for path in PLACES
        if path.stem not in APART and path.stem != "absent"
        for task in tasks_in(yaml.safe_load(path.read_text()))
        if changes(task)
    }
    assert len(registered) > 10
    # What module tenants did is compared part by part.
    assert {key for key, name in registered.items() if name not in {*REGISTERED, WORKED, REMOVED}} == set()
    everything = "".join(path.read_text() for path in PLACES)
    assert [name for name in REGISTERED if f"register: {name}\n" not in everything] == []


def module_of(task: dict) -> str:
    return next(key for key in task if key.count(".") == 2)


def test_of_every_difference_it_is_said_what_site_would_do():
    used = {
        task["register"]: module_of(task)
        for path in PLACES
        for task in tasks_in(yaml.safe_load(path.read_text()))
        if task.get("register") in REGISTERED
    }
    ours = {name: module.rpartition(".")[2] for name, module in used.items() if module.startswith("kubegpu.tenancy.")}
    assert {REGISTERED[name] for name in used.keys() - ours.keys()} == WITHOUT_STEPS.keys()
    documented = {
        name: (ROOT / f"plugins/modules/{module}.py").read_text().partition("RETURN =")[2] for name, module in ours.items()
    }
    assert [name for name, text in documented.items() if "\nsteps:\n" not in text] == []


@pytest.mark.parametrize("subject", WITHOUT_STEPS)
def test_modules_of_others_have_a_step_too(subject):
    (name,) = [name for name, about in REGISTERED.items() if about == subject]
    result = found(Inventory().cluster(**{name: {"changed": True}}))
    assert [(step["subject"], step["step"]) for step in result["steps"]] == [(subject, WITHOUT_STEPS[subject])]


def test_nothing_differs():
    result = found(Inventory().cluster(_nvkind_cluster={"changed": False}).worked(parts={"KAI Scheduler": {"changed": False}}))
    assert result == {"clusters": {"gpu1": "agrees"}, "differences": [], "steps": [], "blueprints": {}, "unknown": []}
    assert lines(result) == ["Everything is as the inventory says."]


def test_the_blueprint_that_says_what_is_wanted_is_named():
    inventory = Inventory().cluster().cluster(name="gpu2")
    inventory.hostvars["gpu1"]["_kubegpu"] |= {"blueprint": BLUEPRINT}
    result = found(inventory)
    assert result["blueprints"] == {"gpu1": BLUEPRINT}
    assert lines(result) == [
        "Everything is as the inventory says.",
        "gpu1: wanted by blueprint gpu-host-2026-11-23, sha256:5d5d5d5d5d5d, overridden by the inventory: ml.scheduler.version",
    ]


def test_each_difference_says_since_when_and_by_whom_where_that_is_known():
    diff = {
        "before": {"w1": ["ml"], "w2": ["ml"]},
        "after": {"w1": [], "w2": []},
        "written": {"w1": {"since": "2026-11-24T10:02:00Z", "by": "kubectl-label"}},
    }
    limit = {"after_header": "/etc/a", "before": "1", "after": "2", "written": {"/etc/a": {"since": "T", "by": "owner root"}}}
    both = {
        "_kubegpu_nodes": {"changed": True, "diff": diff},
        "_docker_nvidia_runtime_kept_limits": {"changed": True, "diff": limit},
    }
    result = found(Inventory().cluster(**both))
    assert [(row["what"], row["since"], row["by"]) for row in result["differences"]] == [
        ("/etc/a", "T", "owner root"),
        ("w1", "2026-11-24T10:02:00Z", "kubectl-label"),
        ("w2", "", ""),
    ]
    assert lines(result) == [
        "gpu1: kernel limits, over reboots, /etc/a: 1, wanted 2 (since T, by owner root)",
        'gpu1: nodes of tenants, w1: ["ml"], wanted [] (since 2026-11-24T10:02:00Z, by kubectl-label)',
        'gpu1: nodes of tenants, w2: ["ml"], wanted []',
    ]


def test_what_was_verified_since_says_that_too():
    upgrade = UPGRADE | {"diff": UPGRADE["diff"] | {"written": {"version": {"since": "T", "by": "Helm, revision 3"}}}}
    inventory = Inventory().cluster(found=[live(verified_at="2026-11-23T10:00:00Z")]).worked(parts={"KAI Scheduler": upgrade})
    assert lines(found(inventory))[0] == (
        "gpu1/ml: KAI Scheduler, version: v0.12.0, wanted v0.13.1 "
        "(since T, by Helm, revision 3; it was as desired at 2026-11-23T10:00:00Z)"
    )


def test_each_difference_is_named_with_its_place_and_what_site_would_do():
    inventory = Inventory().cluster(found=[live(verified_at="2026-11-23T10:00:00Z")]).worked(parts={"KAI Scheduler": UPGRADE})
    assert lines(found(inventory)) == [
        "gpu1/ml: KAI Scheduler, version: v0.12.0, wanted v0.13.1 (it was as desired at 2026-11-23T10:00:00Z)",
        "gpu1/ml: KAI Scheduler, sharing: nothing, wanted true (it was as desired at 2026-11-23T10:00:00Z)",
        "gpu1/ml: KAI Scheduler: site would upgrade the chart (version)",
    ]


@pytest.mark.parametrize(
    ("name", "result", "said"),
    [
        (
            "_docker_nvidia_runtime_limits",
            {
                "changed": True,
                "results": [
                    {"changed": False},
                    {"changed": True, "diff": {"before": "128\n", "after": "8192", "after_header": "/proc/x"}},
                ],
            },
            "kernel limits, /proc/x: 128, wanted 8192",
        ),
        (
            "_kubegpu_nodes",
            {"changed": True, "diff": {"before": {"n1 label": "a"}, "after": {}}},
            "nodes of tenants, n1 label: a, wanted nothing",
        ),
        (
            "_kubegpu_kubeconfigs",
            {"changed": True, "diff": [{"before": {"a": {"b": 1}}, "after": {"a": "c" * 50}}]},
            'kubeconfigs on the controller, a: {"b": 1}, wanted ' + "c" * 40 + "…",
        ),
        ("_kubegpu_shared_metrics", {"changed": True}, "metrics of the shared KAI Scheduler"),
    ],
)
def test_results_of_every_form(name, result, said):
    assert lines(found(Inventory().cluster(**{name: result}))) == [f"gpu1: {said}"]


@pytest.mark.parametrize(
    ("decided", "said"),
    [
        ({}, "leave {} (kubegpu_unlisted: remove, in a run without kubegpu_only, takes it away)"),
        ({"kubegpu_unlisted": "remove"}, "remove {} (kubegpu_unlisted is remove)"),
    ],
)
def test_what_is_not_listed_differs(decided, said):
    assert lines(found(Inventory().cluster(unlisted=["old"], shared="v0.13.1", variables=decided))) == [
        "gpu1: tenant that is not listed, old: there, wanted nothing",
        f"gpu1: tenant that is not listed: site would {said.format('old')}",
        "gpu1: shared scheduler that is not wanted, kai: v0.13.1, wanted nothing",
        f"gpu1: shared scheduler that is not wanted: site would {said.format('kai')}",
    ]


def test_what_could_not_be_compared_is_no_agreement():
    inventory = Inventory().cluster(_kubegpu_failure="Compare: timed out").cluster(name="gpu2").without("gpu2", "_kubegpu_ledger")
    result = found(inventory)
    assert result["unknown"] == ["gpu1: Compare: timed out", "gpu2: it was not reached, see the output above"]
    assert lines(result)[0] == "COULD NOT TELL gpu1: Compare: timed out"


def test_each_cluster_is_named_and_what_is_not_known_counts_more_than_what_differs():
    inventory = Inventory().cluster().cluster(name="gpu2", unlisted=["old"])
    assert found(inventory)["clusters"] == {"gpu1": "agrees", "gpu2": "differs"}
    inventory.cluster(name="gpu3", unlisted=["old"], _kubegpu_failure="Compare: timed out")
    result = found(inventory)
    assert result["clusters"] == {"gpu1": "agrees", "gpu2": "differs", "gpu3": "unknown"}
    said = lines(result)
    assert [line for line in said if "site would" not in line] == [
        "gpu2: tenant that is not listed, old: there, wanted nothing",
        "gpu3: tenant that is not listed, old: there, wanted nothing",
        "gpu1: everything is as the inventory says",
        "COULD NOT TELL gpu3: Compare: timed out",
    ]


def test_a_cluster_without_its_kubeconfig_could_not_be_read_and_one_that_is_gone_differs():
    made = {"changed": True, "readable": False, "kubeconfig": "/etc/kubegpu/gpu1/cluster.yml"}
    unread = found(
        Inventory().cluster(_nvkind_cluster=made | {"diff": {"before": {}, "after": {"kubeconfig": made["kubeconfig"]}}})
    )
    assert (unread["clusters"], unread["unknown"]) == (
        {"gpu1": "unknown"},
        ["gpu1: its device plugin and tenants were not read, because /etc/kubegpu/gpu1/cluster.yml is not its kubeconfig"],
    )
    gone = found(Inventory().cluster(_nvkind_cluster=made | {"diff": {"before": {}, "after": {"cluster gpu1": {}}}}))
    assert (gone["clusters"], gone["unknown"]) == ({"gpu1": "differs"}, [])


def test_the_cost_of_drift_follows_from_what_there_is_to_say():
    def prepare(count):
        inventory = Inventory().cluster(tenants=[{"name": f"t{number}", "trust": "high"} for number in range(count)])
        for number in range(count):
            inventory.worked(f"t{number}", parts={"KAI Scheduler": UPGRADE})
        return inventory

    assert growth(prepare, found, 200) < MOST
    assert growth(lambda count: found(prepare(count)), lines, 200) < MOST


def test_what_others_wrote_is_one_printable_line():
    diff = {
        "before": {"a\x1b[2Jb": "x\ny 😀"},
        "after": {"a\x1b[2Jb": "z"},
        "written": {"a\x1b[2Jb": {"since": "T", "by": "m\x1b[0m"}},
    }
    result = found(Inventory().cluster(_nvkind_cluster={"changed": True, "diff": diff, "steps": []}))
    assert lines(result)[0] == "gpu1: cluster, a b: x y, wanted z (since T, by m)"
