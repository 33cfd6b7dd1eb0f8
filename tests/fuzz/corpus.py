# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inputs by which something was found, by part, as their checks take them. tests/unit/test_corpus.py tries all of them."""

from __future__ import annotations

import base64
import json
from typing import Any

import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._docker_runtime.values import Wanted
from ansible_collections.kubegpu.tenancy.tests.fuzz import desired, files, host
from ansible_collections.kubegpu.tenancy.tests.fuzz.inputs import TEXTS, in_secret, loop, nested
from ansible_collections.kubegpu.tenancy.tests.unit import pending
from ansible_collections.kubegpu.tenancy.tests.unit.synced import synced
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import item
from ansible_collections.kubegpu.tenancy.tests.unit.test_hostile import FORGED

Object = dict[str, Any]

# An image's tag, or a note, that takes a terminal over.
SCREEN = "x/y:v9\x1b[2J\n\nPLAY RECAP ***\ngpu1 : ok=99 failed=0 \U0001f600"
NAN, INFINITY = float("nan"), float("inf")


# --- shorthands --------------------------------------------------------------------------------------------------


def written(*objects: Object, profile: str = "own", namespace: str = "default") -> Object:
    """Return objects of evil as they are on the host cluster."""
    for one in objects:
        one["metadata"]["creationTimestamp"] = host.MADE
    return {"profile": profile, "objects": [synced(one, "evil", namespace) for one in objects]}


def pod(gpus: str = "0", name: str = "a", *, node: str = "gpu-evil", phase: str = "Running", **more: Any) -> Object:
    """Return a pod of evil; ``labels``, ``annotations`` and fields of its spec by name."""
    container = {"name": "main", "image": more.pop("image", "x:1"), "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    named = {key: more.pop(key, {}) for key in ("labels", "annotations")}
    spec = {"containers": [container]} | ({"nodeName": node} if node else {}) | more
    return item("v1", "Pod", name, host.HOME, uid=f"u-{name}", spec=spec, status={"phase": phase}, **named)


def secret(content: str, name: str = "vc-config-x") -> Object:
    labels, notes = {"app": "vcluster"}, {"vcluster.loft.sh/force-sync": "true"}
    return item("v1", "Secret", name, host.HOME, labels=labels, annotations=notes, data={"config.yaml": in_secret(content)})


def noted(name: str = "kubegpu-verified", **data: str) -> Object:
    labels = {"app.kubernetes.io/managed-by": "kubegpu.tenancy", "kubegpu.tenancy/record": "verified"}
    return item("v1", "ConfigMap", name, host.HOME, labels=labels, data=data)


def queue(name: str = "odd", **spec: Any) -> Object:
    labels = {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}
    return item("scheduling.run.ai/v2", "Queue", name, labels=labels, spec=spec)


def group(status: Any, **spec: Any) -> Object:
    return item("scheduling.run.ai/v2alpha2", "PodGroup", "odd", "team", spec=spec, status=status)


def uses(resource: str, amount: Any) -> Object:
    return group({"resourcesStatus": {"allocated": {resource: amount}}}, queue="q")


def served(*objects: Any, beside: bool = True) -> Object:
    """Return what the virtual cluster of evil answers, beside what it should or in its place."""
    groups = [one for one in objects if isinstance(one, dict) and one.get("kind") == "PodGroup"]
    return {"queues": [one for one in objects if one not in groups], "groups": groups, "beside": beside}


def cluster(*objects: Any) -> list[Any]:
    return [*pending.HEALTHY, *objects]


def inventory(**more: Any) -> Object:
    return {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/x"} | more


def tenant(**more: Any) -> Object:
    return {"name": "a", "trust": "high"} | more


def tenants(**more: Any) -> Object:
    return inventory(kubegpu_tenants=[tenant(**more)])


def kubeconfig(content: Any, context: str = "ml") -> Object:
    text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    return {"content": text.encode(), "context": context, "current": True}


def token(**claims: Any) -> Object:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return {"token": f"e30.{payload}.x"}


def daemon(text: str, present: str = "{}") -> Object:
    return {"content": text.encode(), "wanted": Wanted("nvidia", "n", default=True, cdi=True), "present": present.encode()}


def verdict(values: Any, queues: Any) -> Object:
    """Return a verdict of which one side has this."""
    (right,) = desired.VERDICTS
    return right | {"change": right["change"] | {"from": {"version": "v0.13.1", "values": values, "queues": queues}}}


def checkpoint(ids: Any) -> str:
    """Return kubelet's notes of a node with these devices."""
    return json.dumps({"Data": {"PodDeviceEntries": None, "RegisteredDevices": {"nvidia.com/gpu": ids}}})


def with_itself_twice() -> Object:
    """Return a dictionary that holds itself twice."""
    value: Object = {}
    value |= {"a": value, "b": value}
    return value


# --- the corpus --------------------------------------------------------------------------------------------------

OWN = {"app": "kai-resource-reservation", "runai-gpu-group": "g"}
RESERVES = OWN | {"runai-gpu-group": host.GROUP}
FORGED_TEXT = yaml.safe_dump(FORGED)
QUOTAS: list[Any] = [{"requests.nvidia.com/gpu": "lots"}, ["x"], "x"]
VOLCANO = "scheduling.volcano.sh/v1beta1"
PARTS_OF_GPUS = ("0.001", "-1", "NaN", "sNaN", "1e999999999", "Infinity", "0x1p-1", "2.5", "")

CORPUS: dict[str, list[Any]] = {
    "synced objects": [
        # It blames another tenant's pod for what it calls a reservation.
        *(
            written(pod(labels=RESERVES, phase="Pending"), profile=one, namespace="kai-resource-reservation")
            for one in host.PROFILES
        ),
        # It has the group of GPUs that another tenant shares, on another node, or on none.
        *(written(pod(labels={"runai-gpu-group": host.GROUP}, node=node), profile="shared") for node in ("gpu-evil", "")),
        *(written(pod("1k", node="", phase="Pending"), profile=profile) for profile in host.PROFILES),
        # So many GPUs leave no room in a table for others.
        *(written(pod("1E", phase=phase), profile=profile) for profile in host.PROFILES for phase in ("Pending", "Running")),
        written(pod("1k"), pod(str(2**62), "b"), pod(str(2**63 - 1), "c"), pod(str(2**63 - 1), "d")),
        *(written(secret(content)) for content in ("{", "[" * 100_000, FORGED_TEXT)),
        *(
            written(secret(yaml.safe_dump(FORGED | {"policies": {"resourceQuota": {"enabled": True, "quota": one}}})))
            for one in QUOTAS
        ),
        *(written(secret(FORGED_TEXT, name)) for name in ("vc-config-ml", "vc-config-evil", "vc-ml")),
        written(noted("a", at="2026-11-24T00:00:00Z", wanted="x", fingerprint="y", results="[]")),
        written(noted(at=host.MADE, wanted="x", fingerprint="y", results="[" * 100_000)),
        written(noted(at="0001-01-01T00:00:00Z", wanted="x", fingerprint="y", results="[]")),
        written(pod(image=SCREEN, labels={"app": "scheduler"}), namespace="kai-scheduler"),
        written(pod(image="x/y:v0.13.1", labels={"app": "kai-scheduler-default"}), namespace="kai-scheduler", profile="none"),
        written(pod("8", labels={"app": "kai-resource-reservation"})),
        written(pod("8", labels={"app": "kai-resource-reservation"}), namespace="kai-resource-reservation"),
        *(
            written(
                pod("1", labels=OWN),
                pod(name="b", labels=OWN | {"app": "x"}, annotations={"gpu-fraction": part}),
                namespace=place,
            )
            for part in PARTS_OF_GPUS
            for place in ("default", "kai-resource-reservation")
        ),
        written(pod(labels={"runai-gpu-group": "g"}, annotations={"gpu-memory": "x"})),
        written(pod(annotations={"run.ai/reserve_for_gpu_index": "GPU-9f3e4c1a-0000-4000-8000-000000000003"})),
        written(pod(annotations={"vcluster.loft.sh/name": "train-2", "vcluster.loft.sh/namespace": "ml"})),
        written(pod("4", initContainers=[pod("4")["spec"]["containers"][0] | {"restartPolicy": "Always"}])),
    ],
    "configurations": [
        {"name": name, "content": content}
        for name in ("evil", "x")
        for content in (b"{", b"[" * 100_000, b"\xff", FORGED_TEXT.encode(), b"a: &a {b: *a}", b"- 1", b"", "no base64")
    ],
    "records": [
        {"at": host.MADE, "wanted": "x", "fingerprint": "y", "results": "[" * 100_000},
        {"at": host.MADE, "wanted": "x", "fingerprint": "y", "results": '[{"name": "gpu"}, 1, "x"]'},
        {"at": host.MADE, "wanted": "x", "fingerprint": "y", "results": '[{"name": "gpu", "verdict": "passed", "seconds": NaN}]'},
        {"at": "0001-01-01T00:00:00Z", "wanted": "x", "fingerprint": "y", "results": "[]"},
        {},
    ],
    "answers": [
        b"{}",
        b'{"items": null}',
        b"[" * 100_000,
        b'{"metadata": {"name": ' * 50_000,
        b'{"items": [{"metadata": {"name": "a", "generation": 1e999999}}]}',
        b'{"message": "' + SCREEN.encode() + b'"}',
        b'{"message": "' + b"x" * 2_000_000 + b'"}',
        json.dumps({"message": SCREEN * 1000}).encode(),
        b"<html>Sign in</html>",
    ],
    "served queues of Volcano": [
        *(
            {"queues": [item(VOLCANO, "Queue", "a", spec=spec)], "groups": []}
            for spec in ({"deserved": 5}, {"capability": "x"}, ["x"], "x", {"weight": 1.5}, {"deserved": {"cpu": "9" * 5000}})
        ),
        *(
            {"queues": [item(VOLCANO, "Queue", "a", labels=queue()["metadata"]["labels"], spec=spec)], "groups": []}
            for spec in ({"weight": "a\nb"}, {"weight": SCREEN}, {"deserved": {"cpu": "a\nb", "c\nd": [SCREEN]}})
        ),
        *(
            {"queues": [], "groups": [item(VOLCANO, "PodGroup", "g", "ml", spec=spec)]}
            for spec in (5, {"queue": ["old"]}, {"queue": "old"})
        ),
    ],
    "logs of NCCL": [
        "NCCL INFO via NET/AWS Libfabric/0/GDRDMA",
        "NCCL INFO " * 20_000,
        "NCCL INFO " + "GPU Direct RDMA Disabled for GPU " * 5_000,
        "\x1b[2JNCCL INFO Using network \x1b[31mX",
    ],
    "served queues": [
        *(served(uses("cpu", amount)) for amount in ("abc", "-1", "1e999990", "")),
        *(served(uses("nvidia.com/gpu", amount)) for amount in ("Infinity", "sNaN", "1e999999999", 10**30, None, 1e308)),
        *(served(queue(resources=resources)) for resources in ("x", {"gpu": []}, {"gpu": [1]}, {"gpu": {"quota": "1"}})),
        *(served(queue(resources={"gpu": {"quota": quota}})) for quota in (NAN, INFINITY, 10**30, -5, True)),
        *(served(queue(**spec)) for spec in ({"parentQueue": []}, {"priority": "high"}, {"displayName": SCREEN})),
        *(served(queue() | {"spec": spec}) for spec in (0, "x", [1], nested(150))),
        *(served(group(status)) for status in ("a", [1], {"resourcesStatus": "x"}, {"resourcesStatus": {"allocated": [1]}})),
        *(served(one, beside=False) for one in (None, 1, [], {}, {"metadata": None}, {"metadata": {"name": 5}})),
        served(*(queue(f"c{number}", parentQueue=f"c{number - 1}") for number in range(1200))),
        served(
            queue("a", parentQueue="b"),
            queue("b", parentQueue="a"),
            queue("c", parentQueue="c"),
            queue("d", parentQueue="nowhere"),
        ),
        served(queue(SCREEN)),
    ],
    "virtual clusters": [
        cluster(pending.pod("a", gpus=1000)),
        cluster(
            pending.pod("a", annotations={"gpu-fraction": "0.5"}),
            pending.node("n2") | {"status": {"allocatable": {"nvidia.com/gpu": "1k"}}},
        ),
        *(
            cluster(pending.pod("a", annotations={note: text}))
            for note in ("gpu-fraction", "gpu-memory")
            for text in ("inf", "nan", "2.5", "-5")
        ),
        cluster(
            pending.pod(
                "a",
                status={"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"terminated": {"finishedAt": None}}}]},
            )
        ),
        cluster(queue("lost", parentQueue="nowhere"), pending.pod("a", queue="lost")),
        cluster(queue("default-queue"), queue("below", parentQueue="default-queue"), pending.pod("a", queue="")),
        cluster(
            queue("a", parentQueue="b"), queue("b", parentQueue="a"), queue("c", parentQueue="c"), pending.pod("p", queue="a")
        ),
        cluster(pending.pod("a"), item("v1", "Event", "e", "team", involvedObject={"uid": "uid-a", "name": "a"}, message="x")),
        *(
            cluster(
                pending.pod("a"),
                pending.shard() | {"spec": odd},
                pending.workload("Job", "j", {"parallelism": 1}, {"conditions": odd}),
                pending.workload(
                    "ReplicaSet", "r", {"replicas": odd, "template": odd}, {}, ownerReferences=[{"controller": True}]
                ),
                *(pending.event("FailedCreate", SCREEN, name, kind=kind) for name, kind in (("j", "Job"), ("r", "ReplicaSet"))),
                pending.event("FailedCreate", SCREEN, "x") | {"involvedObject": odd},
                pending.pod(
                    "b",
                    status={"phase": "Failed", "reason": odd, "message": odd},
                    metadata={"ownerReferences": [{"controller": 1}]},
                ),
                pending.node("n3") | {"status": {"allocatable": odd}},
            )
            for odd in ("x", ["x"], 7, {"kind": ["Job"]}, None)
        ),
        cluster(item("scheduling.run.ai/v1alpha2", "BindRequest", "b", "team"), item("kai.scheduler/v1alpha1", "Topology", "t")),
        cluster(
            pending.pod("a"), pending.group("a", pending.told("OverLimit", SCREEN, podGroupRequestedResources={"cpu": "1k"}))
        ),
        cluster(
            *(queue(f"c{number}", parentQueue=f"c{number - 1}") for number in range(800)),
            *(pending.pod(f"p{n}", queue="c799") for n in range(20)),
        ),
        # Each is an amount of Kubernetes, and their sum is none.
        *(
            cluster(
                pending.pod(
                    "a", queue="ml", containers=[{"name": "a", "image": "x", "resources": {"requests": {resource: "7Ei"}}}] * 2
                )
            )
            for resource in ("cpu", "memory")
        ),
    ],
    "charts": [
        # The same object twice, the second time in another form.
        {
            "chart": [
                item("v1", "ConfigMap", "web", "apps", data={"a": "b"}),
                item("v1", "ConfigMap", "web", "apps", data=[{"a": "b"}]),
            ],
            "live": [item("v1", "ConfigMap", "web", "apps", data={"a": "b"})],
        },
        {"chart": [item("v1", "ConfigMap", SCREEN, "apps", data={SCREEN: SCREEN})], "live": []},
        # Nothing but a name, and the same object with and without its namespace.
        {"chart": [item("v1", "Service", "web", "apps")], "live": []},
        {"chart": [item("v1", "Service", "web", "apps"), item("v1", "Service", "web", spec={"type": "x"})], "live": []},
        {"chart": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": False}}], "live": []},
    ],
    "schedulers": [
        {"kube-system": "kube-system", "default": "default", "kai-scheduler": "kai-scheduler", "x": "volcano"},
        {f"n{number}": f"n{number}" for number in range(1000)},
    ],
    "inventories": [
        *(tenants(quota={key: amount}) for key, amount in (("count/pods", "NaN"), ("count/pods", "sNaN"), (None, 1), (1, 1))),
        {1: "x"},
        loop(),
        tenants(vcluster={"values": nested(300, "dict")}),
        tenants(vcluster={"values": loop()}),
        tenants(scheduler={"name": "kai", "version": "v0.16.8"}, queues=[{"name": "q", "cpu": {"limit": 10**30}}]),
        tenants(scheduler={"name": "kai", "version": "v0.16.8"}, queues=[{"name": "q", "cpu": {"limit": 10**5000}}]),
        inventory(kubegpu_tenants=[tenant(name=f"abcde-v-tenant-abcde-v-te{more}") for more in ("", "-v-tenant-abcde")]),
        *(
            tenants(scheduler={"name": name, "version": "1", "chart": "c"})
            for name in ("kai-scheduler", "kube-system", "default")
        ),
        *(
            {"nvkind_workers": workers, "lab_gpus": 8}
            for workers in ([{"count": -4}, {"count": 12}], [{"gpu": [0, 1]}], [{"gpus": [0, 0]}])
        ),
        *(tenants(gpu_nodes={"labels": {key: value}}) for key, value in (("*", "x"), ("a b", "x"), ("a", "x\ny"), ("a", 1))),
        *(inventory(kubegpu_tolerations=[{"key": key, "operator": "Exists"}]) for key in ("*", "a b", "a\nb", "")),
        *({f"kubegpu_{text}": 1} for text in TEXTS[:20]),
    ],
    "tenants": [
        loop(),
        [loop()],
        [tenant(name=None)],
        [{1: 2}],
        [tenant(vcluster={"values": with_itself_twice()})],
        nested(150),
        None,
    ],
    "blueprints": [
        {"about": "x", "variables": loop()},
        {"about": "x", "variables": {"nvkind_image": nested(150)}},
        {"about": "x", "variables": {"nvkind_image": loop()}},
        {"about": "x", "variables": {None: 1}},
    ],
    "queues of Volcano": [
        # Its webhook takes no quota above a limit, and reads a limit of 0 as none.
        [{"name": "q", "gpu": {"quota": 4, "limit": 8}, "cpu": {"limit": 64}}],
        [{"name": "q", "cpu": {"limit": "0.4m"}, "memory": {"limit": "0.0001k"}}],
        [{"name": "q", "gpu": {"limit": 2**62}}],
    ],
    "queues": [
        [{"name": "q", "cpu": {"limit": "0.0001m"}}],
        [{"name": "q", "memory": {"limit": "0.3k"}}],
        # A number of JSON as small as this is written with a power of ten.
        [{"name": "q", "gpu": {"quota": "0.00001"}}],
    ],
    "odd queues": [
        [{"name": "q", "gpu": {"limit": limit}} for limit in (10**30, NAN, INFINITY, -1)],
        [{"name": "\x1f"}, {"name": "\x1f"}],
        with_itself_twice(),
        [with_itself_twice()],
        nested(300),
    ],
    "traces": [loop(), nested(150, "dict"), desired.TRACES[0] | {"span": NAN}, desired.TRACES[0] | {"topologies": {"a": [1]}}],
    "verdicts": [
        *(verdict(values, {}) for values in ({"global": "5E"}, "x", {SCREEN: 1})),
        *(verdict({}, queues) for queues in (False, "x", {"q": "x"}, {"x" * 9000: 1})),
    ],
    "kubeconfigs": [
        kubeconfig("a: " + "[" * 2000),
        kubeconfig("a: &a {b: *a}"),
        kubeconfig("apiVersion: v1\nkind: Config\nusers:\n- name: x\n  user: {password: 12:34:56, on: off}\n"),
        kubeconfig(files.KUBECONFIG | {"contexts": [{"name": "ml", "context": {"cluster": ["x"], "user": "ml"}}]}),
        kubeconfig(files.KUBECONFIG | {"users": [{"name": "ml", "user": {"token": 5}}]}),
        kubeconfig(files.KUBECONFIG | {"users": files.KUBECONFIG["users"] * 2}, "other"),
        kubeconfig(files.KUBECONFIG | {"current-context": files.KUBECONFIG["clusters"][0]}),
        kubeconfig(yaml.safe_dump(files.KUBECONFIG).replace("https://10", "https://u:word@10")),
    ],
    "tokens": [
        *(token(exp=claim) for claim in (1e308, NAN, "x", [1], 10**30, -1, None, True)),
        {"token": 5},
        {"token": "a.b"},
        {"token": "\udcff.\udcff"},
        {"token": base64.b64encode(b"\xff\xfe").decode()},
        {"client-certificate-data": 5},
    ],
    "daemon.json": [
        daemon(text)
        for text in ('{"runtimes": []}', '{"a": ' * 3000, '{"a": NaN}', '{"a": 1, "a": 2}', '{"x": ' + "9" * 5000 + "}")
    ],
    "documents": [
        b"[" * 100_000,
        b"a: &a [x]\n" + b"".join(f"b{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}]\n".encode() for n in range(120)),
        b"a: &a [x, x]\n"
        + b"".join(f"b{n}: &b{n} [*{x}, *{x}]\n".encode() for n, x in enumerate(["a", *(f"b{n}" for n in range(40))])),
        b"2026-99-99",
        b"? {a: b}\n: c",
        b"? [a]\n: c",
        b"NaN",
        b"1e999999",
        b"a: &a {b: *a}",
        b"&a [*a, *a]",
    ],
    "logs": ["a" * 100_000, "a1" * 50_000, '"' * 50_001, " " * 100_000, "error " * 50_000, "\x1b[" * 50_000, "- at '" * 20_000],
    "checkpoints": [checkpoint(ids) for ids in ([["a"]], {"a": 1}, "ab", None, [None, "GPU-2"])],
    "former evidence": [
        "[" * 5000,
        "{}",
        "null",
        '{"format": 2}',
        '{"format": 2, "clusters": 5}',
        json.dumps({"format": SCREEN}),
        files.former_with_verdict(10**400),
    ],
    "texts": [
        {"value": one, "most": most}
        for one in (SCREEN, "\x1b", "\x1b]" + "x" * 10_000, None, NAN, "\ud800", "a" * 2_000_000)
        for most in (1, 10, 400)
    ],
    "tables": [[{"a": SCREEN, "b": [SCREEN], "c": 1}], [{"a": "", "b": None, "c": True}] * 2, []],
    "plain data": [SCREEN, {SCREEN: [SCREEN]}, nested(150), {"a\x00": 1, "a ": 2}],
    "amounts": [
        *(
            "1k",
            "0.00001",
            f"0.{'0' * 23}3366123456789123",
            "NaN",
            "sNaN",
            "Infinity",
            "1e999990",
            "0x1p-1",
            "\u0661",
            "1" * 5000,
            SCREEN,
        ),
        3.36612345678912e-34,
        10**30,
        10**5000,
        NAN,
        True,
        None,
        [],
    ],
    "reports": [
        ["{{ lookup('pipe', 'id') }}", "' onload='x"],
        ["<script>alert(1)</script>"],
        [SCREEN],
        ["\ud800"],
        ["x" * 100_000],
    ],
    "JUnit": [[SCREEN], ["\ud800\uffff\x00"], ["]]><!--"]],
}

# Alike, but of findings that are not mended yet. One that is goes up to CORPUS, by hand.
OPEN: dict[str, list[Any]] = {}
