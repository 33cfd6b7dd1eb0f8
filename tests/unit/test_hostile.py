# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one tenant brings to the host cluster by its syncer changes no report about anybody else, and no refusal."""

from __future__ import annotations

import base64
import copy
import itertools
from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import HELM_ARG_SPEC
from ansible_collections.kubegpu.tenancy.plugins.module_utils._assignment.lifecycle import nodes_to_give
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import (
    FRACTION_NOTE,
    GPU_GROUP_LABEL,
    HOST_SCHEDULER_LABEL,
    MEMORY_NOTE,
    NODE_LABEL,
    RESERVED_GPU_NOTE,
    TENANT_LABEL,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import MARKER_LABEL, OWNED_LABELS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.synced import SYNCED_FROM_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import cluster_info, tenancy_info
from ansible_collections.kubegpu.tenancy.plugins.module_utils._metrics import facts as metrics
from ansible_collections.kubegpu.tenancy.plugins.module_utils._metrics.lifecycle import find_all
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant import facts as tenant
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.lifecycle import read_all
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.status import fingerprint
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts as vc
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.inventory import configs, find
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.overlaps import collisions
from ansible_collections.kubegpu.tenancy.plugins.modules import gpu_ledger_info, kai_pending_info
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.synced import synced
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import desired, host_kai, item, node, on_host

HOME = "tenant-evil"
ALL = {"sync": {"fromHost": {"nodes": {"enabled": True, "selector": {"all": True}}}}}
FORGED = ALL | {"controlPlane": {"distro": {"k8s": {"scheduler": {"enabled": True}}}}}


def config_of(name, own_scheduler=True):
    """Return the Secret with the configuration of a virtual cluster, as its chart makes it."""
    values = {
        "sync": {"fromHost": {"nodes": {"enabled": True, "selector": {"labels": {f"tenant.kubegpu.tenancy/{name}": "true"}}}}},
        "controlPlane": {"distro": {"k8s": {"scheduler": {"enabled": own_scheduler}}}},
    }
    data = {"config.yaml": base64.b64encode(yaml.safe_dump(values).encode()).decode()}
    labels = {"app": "vcluster", "release": name}
    return item("v1", "Secret", f"vc-config-{name}", f"tenant-{name}", labels=labels, data=data)


def host():
    """Return a host cluster with three tenants: evil, and two that are to be told as they are."""
    objects = [
        one for name in ("evil", "ml", "web") for one in [*on_host(name, shared=name == "web"), config_of(name, name != "web")]
    ]
    for one in objects:
        if one["kind"] == "StatefulSet":
            one["spec"] |= {
                "template": {"spec": {"containers": [{"name": "syncer", "image": "ghcr.io/loft-sh/vcluster-oss:0.36.1"}]}}
            }
    gpus = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    for name in ("ml", "web"):
        one = item("v1", "Pod", "train-2", f"tenant-{name}", uid=f"u-{name}", status={"phase": "Running"})
        one["metadata"]["creationTimestamp"] = "2026-11-20T12:00:00Z"
        objects.append(
            synced(one | {"spec": {"nodeName": f"gpu-{name}", "containers": [{"name": "main", "image": "x:1"} | gpus]}}, name)
        )
    return [*objects, *host_kai(), node("free", gpus=8)]


TENANTS = [
    desired(name, **({"scheduler": {"name": "kai", "shared": True}} if name == "web" else {})) for name in ("evil", "ml", "web")
]


@pytest.fixture(name="told")
def _told(tmp_path: Path, monkeypatch):
    """Return what every report and refusal says with some objects more on the host cluster, without what is about evil itself."""
    monkeypatch.setattr(tenancy_info, "ask_list", lambda _config, _path, timeout: [])

    def about_others(rows, key):
        return [timeless(row) for row in rows if row[key] != "evil"]

    def timeless(row):
        return {key: value for key, value in row.items() if key not in ("created", "seconds", "since")}

    def tell(*more):
        kube = InMemoryApi([*host(), *more])
        params = {"tenants": TENANTS, "only": [], "kubeconfigs": str(tmp_path), "settings": {}, "max_age": 3600, "also": []}
        live = tenancy_info.reconcile(Run(params, kube=kube))
        ledger = gpu_ledger_info.reconcile(Run({"devices": True}, kube=kube))
        found, known = find(kube), configs(kube)
        pending = kai_pending_info.reconcile(
            Run({"scheduler_name": "kai-scheduler", "label_selector": "", "namespaces": ["tenant-web"]}, kube=kube)
        )
        new = {
            "tenant-new/new": FORGED | {"sync": {"fromHost": {"nodes": {"enabled": True, "selector": {"labels": {"new": "x"}}}}}}
        }
        assert kube.writes == []
        return {
            "tenants": about_others(live["tenants"], "name"),
            **{key: live[key] for key in ("unlisted", "temporary", "shared_scheduler", "sharing", "node_problems", "unread")},
            "ledger": about_others(ledger["tenants"], "tenant"),
            "nodes": [row for row in ledger["nodes"] if row["node"] != "gpu-evil"],
            "devices": [row for row in ledger["devices"] if row["node"] != "gpu-evil"],
            "overlaps": [line for line in ledger["overlaps"] if "evil" not in line],
            "others": [line for line in ledger["unread"] if "evil" not in line],
            "vclusters": about_others(found.records, "name"),
            "unread": found.unread,
            "configs": known,
            "pods": [timeless(row) for row in pending["pods"]],
            "collisions": collisions(kube.list("v1", "Node"), known.read | new),
            "guard": nodes_to_give(kube, tenants_from(TENANTS), []),
            "live": {name: one.verified for name, one in read_all(kube).items() if name != "evil"},
            "metrics": find_all(kube),
        }

    return tell


# Every label and annotation by which the collection, vCluster or KAI Scheduler recognises something on the host cluster.
LABELS = {
    **OWNED_LABELS,
    "app": "vcluster",
    "release": "ml",
    "chart": "vcluster-0.1.0",
    "vcluster-name": "ml",
    TENANT_LABEL: "ml",
    HOST_SCHEDULER_LABEL: "kai",
    tenant.RECORD_LABEL: "verified",
    metrics.LABEL: metrics.KAI,
    GPU_GROUP_LABEL: "g",
    NODE_LABEL + "ml": "true",
    vc.LISTED_CLASS: "basic",
    "kai.scheduler/queue": "q",
    MARKER_LABEL: "ml",
    SYNCED_FROM_LABEL: "kai-scheduler",
}
NOTES = {
    vc.TRUST_ANNOTATION: "zero",
    vc.NETWORK_ANNOTATION: "unenforced",
    vc.EXPIRES_ANNOTATION: "1m",
    vc.SCHEDULER_ANNOTATION: "v9.9.9",
    vc.PAUSED: "true",
    vc.PAUSED_REPLICAS: "lots",
    vc.SYNCED_OWNERS: "[" * 100_000,
    "vcluster.loft.sh/name": "other",
    "vcluster.loft.sh/namespace": "other",
    "vcluster.loft.sh/force-sync": "true",
    FRACTION_NOTE: "sNaN",
    MEMORY_NOTE: "1e999999999",
    RESERVED_GPU_NOTE: "GPU-9f3e4c1a-0000-4000-8000-000000000003",
    "pod-group-name": "x",
    "scheduling.k8s.io/group-name": "x",
}
KINDS = {
    "Secret": ("v1", {"data": {"config.yaml": base64.b64encode(b"{").decode(), "certificate-authority": "x"}}),
    "ConfigMap": ("v1", {"data": {"at": "0001-01-01T00:00:00Z", "wanted": "x", "fingerprint": "y", "results": "[" * 100_000}}),
    "Service": ("v1", {"spec": {"ports": [{"port": 443, "nodePort": 30000}]}}),
    "PersistentVolumeClaim": ("v1", {"status": {"capacity": {"storage": "1k"}}}),
    "Pod": (
        "v1",
        {
            "spec": {
                "nodeName": "gpu-evil",
                "containers": [{"name": "main", "image": "x/y:v9.9.9\x1b[2J", "resources": {"limits": {"nvidia.com/gpu": "1k"}}}],
            },
            "status": {"phase": "Running"},
        },
    ),
    "NetworkPolicy": ("networking.k8s.io/v1", {"spec": {}}),
    "Ingress": ("networking.k8s.io/v1", {"spec": {}}),
}
NAMES = ("vc-config-x", "vc-config-ml", "vc-ml", "kubegpu-verified", "ml", "ml-0", "data-ml-0", "kai-scheduler-default")


def forged(kind, name, namespace, labels, notes):
    api_version, rest = KINDS[kind]
    made = item(
        api_version, kind, name, HOME, labels=dict(labels), annotations=dict(notes), uid=f"u-{name}", **copy.deepcopy(rest)
    )
    made["metadata"]["creationTimestamp"] = "2026-11-20T12:00:00Z"
    return synced(made, "evil", namespace)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("namespace", ["default", "kai-scheduler", "kai-resource-reservation"])
def test_whatever_a_tenant_writes_on_its_own_objects(told, kind, namespace):
    before = told()
    objects = [forged(kind, name, namespace, LABELS, NOTES) for name in NAMES]
    for app in ("kai-resource-reservation", "kai-scheduler-default", "scheduler"):
        objects.append(forged(kind, f"as-{app}", namespace, LABELS | {"app": app}, NOTES))
    assert told(*objects) == before
    # Each label and annotation by itself as well: several may cancel each other.
    singles = [{key: value} for key, value in LABELS.items()]
    objects = [forged(kind, f"label-{number}", namespace, label, {}) for number, label in enumerate(singles)]
    objects += [forged(kind, f"note-{number}", namespace, {}, {key: NOTES[key]}) for number, key in enumerate(NOTES)]
    assert told(*objects) == before


CONTENTS = {
    "no YAML": "{",
    "deep": "[" * 100_000,
    "all nodes": yaml.safe_dump(FORGED),
    "amounts": yaml.safe_dump(
        FORGED | {"policies": {"resourceQuota": {"enabled": True, "quota": {"requests.nvidia.com/gpu": "lots"}}}}
    ),
    "a list": yaml.safe_dump(FORGED | {"policies": {"resourceQuota": {"enabled": True, "quota": ["x"]}}}),
    "no text": b"\xff",
}


@pytest.mark.parametrize("content", CONTENTS)
def test_a_secret_that_passes_for_a_configuration_is_none(told, content):
    text = CONTENTS[content]
    data = {"config.yaml": base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()}
    secret = item("v1", "Secret", "vc-config-x", HOME, labels={"app": "vcluster"}, data=data)
    assert told(synced(secret, "evil")) == told()


@pytest.mark.parametrize("content", [one for one in CONTENTS if one not in ("all nodes",)])
def test_of_a_configuration_that_others_broke_only_its_own_virtual_cluster_is_not_read(told, content):
    """A Secret that no syncer brought, such as one that an administrator of the host cluster wrote."""
    text = CONTENTS[content]
    data = {"config.yaml": base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()}
    broken = item("v1", "Secret", "vc-config-x", "x", labels={"app": "vcluster"}, data=data)
    before, after = told(), told(broken)
    for part in ("tenants", "ledger", "nodes", "vclusters", "guard"):
        assert after[part] == before[part], part
    if content in ("no YAML", "deep", "no text"):
        assert [one.what for one in after["unread"]] == ["Secret x/vc-config-x"]
        assert any("Secret x/vc-config-x cannot be read" in line for line in after["others"])


@pytest.mark.parametrize("namespace", ["kai-scheduler", "default"])
def test_a_pod_that_passes_for_kai_scheduler_changes_nothing_about_a_tenant_without_one(namespace):
    """Neither what it is said to have, nor what its verification rests on."""
    spec = {"containers": [{"name": "main", "image": "x/scheduler:v9.9.9"}]}
    pod = item("v1", "Pod", "kai", "tenant-web", labels={"app": "scheduler"}, uid="u", spec=spec, status={"phase": "Running"})
    before, after = InMemoryApi(host()), InMemoryApi([*host(), synced(pod, "web", namespace)])
    assert fingerprint(read_all(before)["web"]) == fingerprint(read_all(after)["web"])
    assert find(before) == find(after)


def container(amount, **more):
    return {"name": "main", "image": "x:1", "resources": {"limits": {"nvidia.com/gpu": amount}}} | more


@pytest.mark.parametrize(
    ("spec", "held"),
    [
        ({"containers": [container("1k")]}, 1000),
        ({"containers": [container("1k")], "nodeName": "gpu-evil"}, 1000),
        ({"containers": [container("1e3")]}, 1000),
        ({"containers": [container(str(2**62))], "nodeName": "gpu-evil"}, 2**62),
        # A native sidecar beside a container: Kubernetes books both.
        ({"containers": [container("4")], "initContainers": [container("4", restartPolicy="Always")]}, 8),
        ({"containers": [container("2")], "initContainers": [container("4", restartPolicy="Always"), container("3")]}, 7),
    ],
)
def test_a_pod_holds_what_kubernetes_books_whatever_it_asks_for(told, spec, held):
    pod = synced(item("v1", "Pod", "big", HOME, spec=spec, status={"phase": "Pending"}, uid="u"), "evil")
    pod["metadata"]["creationTimestamp"] = "2026-11-20T12:00:00Z"
    assert told(pod) == told()
    rows = gpu_ledger_info.reconcile(Run({"devices": False}, kube=InMemoryApi([*host(), pod])))["tenants"]
    assert next(row for row in rows if row["tenant"] == "evil")["requested"] == held


@pytest.mark.parametrize("namespace", ["default", "kai-resource-reservation"])
@pytest.mark.parametrize("part", ["0.001", "-1", "NaN", "sNaN", "1e999999999", "Infinity", "0x1p-1", ""])
def test_no_label_makes_a_tenant_hold_less_than_its_pods_do(namespace, part):
    """A pod with eight GPUs that passes for a reservation, with a pod in its group that has next to nothing of it."""
    spec = {"containers": [container("8")], "nodeName": "gpu-evil"}
    labels = {"app": "kai-resource-reservation", "runai-gpu-group": "g"}
    reserves = synced(item("v1", "Pod", "r", HOME, labels=labels, spec=spec, status={"phase": "Running"}), "evil", namespace)
    spec = {"containers": [{"name": "main", "image": "x"}], "nodeName": "gpu-evil"}
    shares = item("v1", "Pod", "s", HOME, labels={"runai-gpu-group": "g"}, annotations={"gpu-fraction": part}, spec=spec)
    objects = [*host(), reserves, synced(shares | {"status": {"phase": "Running"}}, "evil")]
    ledger = gpu_ledger_info.reconcile(Run({"devices": True}, kube=InMemoryApi(objects)))
    row = next(row for row in ledger["tenants"] if row["tenant"] == "evil")
    assert (row["in_use"], row["shares"], row["reserved"]) == (8, 8.0, 0)
    assert all(
        device["tenant"] == "evil" and device["part"] == 1.0 for device in ledger["devices"] if device["node"] == "gpu-evil"
    )


def test_a_group_of_ones_own_reaches_no_reservation_of_the_host_clusters_scheduler():
    group = {"runai-gpu-group": "known"}
    spec = {"containers": [container("1")], "nodeName": "gpu-web"}
    reserves = item("v1", "Pod", "r", "kai-resource-reservation", labels=group | {"app": "kai-resource-reservation"}, spec=spec)
    bare = {"containers": [{"name": "main", "image": "x"}], "nodeName": "gpu-web"}
    pods = [
        synced(
            item(
                "v1",
                "Pod",
                "s",
                f"tenant-{name}",
                labels=group,
                annotations={"gpu-fraction": "0.5"},
                spec=bare,
                status={"phase": "Running"},
            ),
            name,
        )
        for name in ("web", "evil")
    ]
    objects = [*host(), reserves | {"status": {"phase": "Running"}}, *pods]
    found = gpu_ledger_info.reconcile(Run({"devices": False}, kube=InMemoryApi(objects)))
    rows = {row["tenant"]: row for row in found["tenants"]}
    assert (rows["evil"]["in_use"], rows["web"]["in_use"], rows["web"]["shared_with"]) == (0, 3, [])
    assert not any("evil" in line for line in found["overlaps"])


def test_the_options_of_the_reports_are_all_given():
    """What this file gives the modules are their options, so that a new one is thought of here."""
    assert HELM_ARG_SPEC
    assert {
        "tenants",
        "only",
        "kubeconfigs",
        "settings",
        "max_age",
        "also",
    } | cluster_info.ARGUMENT_SPEC.keys() == tenancy_info.ARGUMENT_SPEC.keys()
    assert list(itertools.chain(gpu_ledger_info.ARGUMENT_SPEC)) == ["devices"]
