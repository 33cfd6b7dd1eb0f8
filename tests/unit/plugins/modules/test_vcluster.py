# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import dataclasses
import datetime

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts as vc
from ansible_collections.kubegpu.tenancy.plugins.modules import vcluster

VALUES = vc.tenant_values(False, {}, "high", None, {})
RELEASE = Release("web", "tenant-web", "deployed", 3, "vcluster", "0.36.1", VALUES)
RBAC = "rbac.authorization.k8s.io/v1"


def item(api_version, kind, name, namespace="tenant-web", labels=None, **more):
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}} | more.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata} | more


def own_namespace(**labels):
    labels = vc.OWNED_LABELS | {vc.TENANT_LABEL: "web"} | labels
    return item("v1", "Namespace", "tenant-web", None, labels, metadata={"annotations": {vc.TRUST_NOTE: "high"}})


def running(state=None, restarts=3):
    status = {"observedGeneration": 1, "readyReplicas": 1, "updatedReplicas": 1}
    pod = {
        "phase": "Running",
        "hostIP": "10.0.0.3",
        "containerStatuses": [{"name": "syncer", "state": state or {"running": {}}, "restartCount": restarts}],
    }
    data = {"certificate-authority": "Q0E=", "client-certificate": "Q0VSVA==", "client-key": "S0VZ"}
    return [
        item("apps/v1", "StatefulSet", "web", metadata={"generation": 1}, spec={"replicas": 1}, status=status),
        item("v1", "Pod", "web-0", labels={"app": "vcluster", "release": "web"}, status=pod),
        item("v1", "Secret", "vc-web", data=data),
        item("v1", "Service", "web", spec={"type": "NodePort", "ports": [{"port": 443, "nodePort": 30002}]}),
    ]


class FakeKube:
    """Objects in a list; deletions are complete at once."""

    def __init__(self, objects):
        self.objects = list(objects)
        self.writes = []

    def get(self, api_version, kind, name, namespace=None):
        found = (o for o in self.objects if (o["apiVersion"], o["kind"], o["metadata"]["name"]) == (api_version, kind, name))
        return next((o for o in found if namespace in (None, o["metadata"]["namespace"])), None)

    def list(self, api_version, kind, namespace=None, label_selector=None):
        wanted = dict(pair.split("=") for pair in label_selector.split(",")) if label_selector else {}
        return [
            o
            for o in self.objects
            if (o["apiVersion"], o["kind"]) == (api_version, kind)
            and namespace in (None, o["metadata"]["namespace"])
            and wanted.items() <= o["metadata"]["labels"].items()
        ]

    def create(self, definition):
        self.writes.append(("create", definition["kind"], definition["metadata"]["name"]))
        self.objects.append(definition)
        return definition

    def delete(self, api_version, kind, name, namespace=None):
        self.writes.append(("delete", kind, name))
        self.objects = [
            o
            for o in self.objects
            if not (o["kind"] == kind and o["metadata"]["name"] == name)
            and not (kind == "Namespace" and o["metadata"]["namespace"] == name)
        ]
        return True

    def patch(self, api_version, kind, name, body, namespace=None):
        self.writes.append(("patch", kind, name))
        found = self.get(api_version, kind, name, namespace)
        for notes, change in body["metadata"].items():
            found["metadata"][notes] = (found["metadata"].get(notes) or {}) | change
        if "spec" not in body:
            return
        found["spec"]["replicas"] = body["spec"]["replicas"]
        if found["spec"]["replicas"] == 0:
            self.delete("v1", "Pod", "web-0")

    def version(self):
        return "v1.35.4"

    def logs(self, name, namespace, container, lines, previous):
        return "starting\nFATAL out of luck\n" if previous else ""


class FakeHelm:
    def __init__(self, release, kube, made):
        self.found = release
        self.made = made
        self.kube = kube
        self.writes = []

    def release(self, name, namespace):
        return self.found

    def template(self, name, namespace, chart, values):
        if "unknown" in values:
            raise TenancyError("helm template failed: additional properties 'unknown' not allowed")

    def upgrade(self, name, namespace, chart, values, timeout):
        self.writes.append("upgrade")
        self.kube.objects += [
            new for new in self.made if not self.kube.get(new["apiVersion"], new["kind"], new["metadata"]["name"])
        ]

    def uninstall(self, name, namespace, timeout):
        self.writes.append("uninstall")


def run(objects, release=None, check_mode=False, made=None, **params):
    defaults = {key: option.get("default") for key, option in vcluster.ARGUMENT_SPEC.items()} | {"name": "web", "timeout": 3}
    kube = FakeKube(objects)
    helm = FakeHelm(release, kube, made or running())
    asked = []

    def ask(config, path):
        asked.append(path)
        return {"gitVersion": "v1.36.0", "status": {"availableReplicas": 1}}

    try:
        result = vcluster.run(defaults | params, kube, helm, check_mode, ask)
    finally:
        run.writes = kube.writes + helm.writes
        run.asked = asked
    return result


def test_fresh():
    result = run([])
    assert result["changed"]
    assert result["diff"]["before"] == {}
    assert result["diff"]["after"] == {"namespace": "tenant-web", "version": "0.36.1", "values": VALUES}
    assert (result["server"], result["kubernetes_version"]) == ("https://10.0.0.3:30002", "v1.36.0")
    assert run.writes == [("create", "Namespace", "tenant-web"), "upgrade"]
    assert run.asked == ["/version", vc.READY_PATH, vc.DNS_PATH]


def test_second_run_changes_nothing():
    result = run([own_namespace(), *running()], RELEASE)
    assert not result["changed"]
    assert result["diff"] == {"before": {}, "after": {}}
    assert run.writes == []


def with_certificate(objects, data):
    secret = next(o for o in objects if o["kind"] == "Secret")
    secret["data"] = secret["data"] | {"client-certificate": data}
    return [own_namespace(), *objects]


EXPIRED = {"before": {"certificate": "expired 2025-11-21T12:00:00Z"}, "after": {"certificate": "renewed"}}


@pytest.mark.parametrize("renews", [True, False])
def test_an_expired_certificate_is_renewed_by_a_restart(renews, certificate, monkeypatch):
    ended, ends = (certificate(datetime.datetime(year, 11, 21, 12)) for year in (2025, 2060))
    objects = with_certificate(running(), ended)
    assert run(objects, RELEASE, check_mode=True)["diff"] == EXPIRED
    assert run.writes == run.asked == []

    delete = FakeKube.delete

    def restart(self, api_version, kind, name, namespace=None):
        if renews:
            with_certificate(objects[1:], ends)
        return delete(self, api_version, kind, name, namespace) and self.objects.append(running()[1])

    monkeypatch.setattr(FakeKube, "delete", restart)
    if renews:
        assert run(objects, RELEASE)["diff"] == EXPIRED
        assert not run(objects, RELEASE)["changed"]
        assert run.writes == []
    else:
        with pytest.raises(TenancyError, match=r"expired 2025-11-21T12:00:00Z; vCluster before 0\.34 may not renew it"):
            run(objects, RELEASE, timeout=0)
        assert run.writes == [("delete", "Pod", "web-0")]


def test_check_mode_predicts_and_writes_nothing():
    result = run([own_namespace(), *running()], RELEASE, check_mode=True, kubernetes_version="v1.35.4")
    assert result["changed"]
    assert result["diff"] == {"before": {}, "after": {"values.controlPlane.distro.k8s.version": "v1.35.4"}}
    assert run.writes == run.asked == []


@pytest.mark.parametrize(
    ("status", "writes"),
    [
        ("failed", ["upgrade"]),
        ("pending-install", ["uninstall", "upgrade"]),
        ("uninstalling", ["uninstall", "upgrade"]),
        ("pending-upgrade", [("delete", "Secret", "sh.helm.release.v1.web.v3"), "upgrade"]),
        ("pending-rollback", [("delete", "Secret", "sh.helm.release.v1.web.v3"), "upgrade"]),
    ],
)
def test_unfinished_releases_are_repaired(status, writes):
    result = run([own_namespace(), *running()], dataclasses.replace(RELEASE, status=status))
    assert result["diff"] == {"before": {"release": status}, "after": {"release": "deployed"}}
    assert run.writes == writes


@pytest.mark.parametrize(
    ("objects", "release", "params", "match"),
    [
        ([item("v1", "Namespace", "tenant-web", None)], None, {}, "not made by this collection"),
        ([own_namespace(**{vc.TENANT_LABEL: "ml"})], None, {}, "belongs to tenant ml"),
        (
            [own_namespace(), item("apps/v1", "StatefulSet", "other", labels={"app": "vcluster"})],
            None,
            {},
            "already holds the virtual cluster other",
        ),
        ([own_namespace()], dataclasses.replace(RELEASE, chart_version="0.34.0"), {}, "skips a minor"),
        ([], None, {"values": {"unknown": 1}}, "'unknown' not allowed"),
        ([], None, {"values": {"privateNodes": {"enabled": True}}}, "licence"),
        (
            [own_namespace(), *running()],
            RELEASE,
            {"values": {"controlPlane": {"backingStore": {"etcd": {"external": {"enabled": True}}}}}},
            "^values.controlPlane.backingStore: the store is database embedded; .* etcd external",
        ),
        ([own_namespace(), *running()], RELEASE, {"trust": "partial", "values": {"unknown": 1}}, "'unknown' not allowed"),
        ([], None, {"chart_source": "/nowhere"}, "/nowhere/vcluster-0.36.1.tgz"),
        ([], None, {"name": "No"}, "^name: "),
        ([item("v1", "Namespace", "tenant-web", None)], None, {"state": "absent"}, "not made by this collection"),
    ],
)
def test_refused_before_anything_is_written(objects, release, params, match):
    with pytest.raises(TenancyError, match=match):
        run(objects, release, **params)
    assert run.writes == []


def test_crash_ends_the_wait_with_the_last_words():
    crashing = running({"waiting": {"reason": "CrashLoopBackOff"}})
    with pytest.raises(TenancyError, match="FATAL out of luck"):
        run([own_namespace(), *[o for o in crashing if o["kind"] != "StatefulSet"]], None, made=crashing, timeout=5)


def test_what_crashed_before_gets_another_chance(monkeypatch):
    crashing = running({"waiting": {"reason": "CrashLoopBackOff"}})
    delete = FakeKube.delete

    def recreate(self, api_version, kind, name, namespace=None):
        delete(self, api_version, kind, name, namespace)
        self.objects += [o for o in running() if o["kind"] == kind]

    monkeypatch.setattr(FakeKube, "delete", recreate)
    assert run([own_namespace(), *crashing], RELEASE)["changed"] is False
    assert run.writes == [("delete", "Pod", "web-0")]


def test_wait_is_bounded_and_says_what_is_missing():
    objects = [o for o in running() if o["kind"] != "Secret"]
    with pytest.raises(TenancyError, match="kubeconfig Secret vc-web does not exist yet"):
        run([own_namespace(), *objects], RELEASE, timeout=0)


def test_service_nobody_outside_reaches():
    objects = running()
    objects[-1]["spec"]["type"] = "ClusterIP"
    made = vc.tenant_values(False, {}, "high", None, {"controlPlane": {"service": {"spec": {"type": "ClusterIP"}}}})
    release = dataclasses.replace(RELEASE, values=made)
    result = run([own_namespace(), *objects], release, values={"controlPlane": {"service": {"spec": {"type": "ClusterIP"}}}})
    assert "server" not in result


def leftovers():
    ours = {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "tenant-web"}
    theirs = ours | {"meta.helm.sh/release-namespace": "tenant-web-2"}
    marked = {vc.MARKER_LABEL: "tenant-web-x-web"}
    return [
        item(RBAC, "ClusterRole", "vc-web-v-tenant-web", None, metadata={"annotations": ours}),
        item(RBAC, "ClusterRoleBinding", "vc-web-v-tenant-web", None, metadata={"annotations": theirs}),
        item("scheduling.k8s.io/v1", "PriorityClass", "high-x-web", None, marked),
        item("scheduling.k8s.io/v1", "PriorityClass", "system", None),
    ]


def test_absent_removes_all_that_is_ours():
    result = run([own_namespace(), *running(), *leftovers()], RELEASE, state="absent")
    assert result["diff"]["before"] == {
        "release": "vcluster-0.36.1",
        "namespace": "tenant-web",
        "ClusterRole vc-web-v-tenant-web": "present",
        "PriorityClass high-x-web": "present",
    }
    assert run.writes == [
        ("delete", "Namespace", "tenant-web"),
        ("delete", "ClusterRole", "vc-web-v-tenant-web"),
        ("delete", "PriorityClass", "high-x-web"),
        "uninstall",
    ]


def test_absent_again_changes_nothing():
    assert not run([], state="absent")["changed"]
    assert run.writes == []


def test_absent_in_check_mode():
    assert run([own_namespace(), *running()], RELEASE, check_mode=True, state="absent")["changed"]
    assert run.writes == []


def test_absent_waits_for_volumes():
    volume = item(
        "v1",
        "PersistentVolume",
        "pv",
        None,
        spec={"claimRef": {"namespace": "tenant-web"}, "persistentVolumeReclaimPolicy": "Delete"},
    )
    with pytest.raises(TenancyError, match="volumes pv"):
        run([own_namespace(), volume], state="absent", timeout=0)


SYNCED = item("v1", "Pod", "job-x-default-x-web", labels={vc.MARKER_LABEL: "web"})


def test_pause_ends_everything_and_keeps_the_data():
    objects = [own_namespace(), *running(), SYNCED, item("v1", "PersistentVolumeClaim", "data-web-0")]
    assert run(objects, RELEASE, check_mode=True, state="paused")["changed"]
    assert run.writes == []
    result = run(objects, RELEASE, state="paused")
    assert result["diff"] == {"before": {"state": "running"}, "after": {"state": "paused"}}
    assert run.writes == [("patch", "StatefulSet", "web"), ("delete", "Pod", "web-0"), ("delete", "Pod", "job-x-default-x-web")]
    workload = objects[1]
    assert workload["metadata"]["annotations"] | {vc.PAUSED_DATE: ""} == {
        vc.PAUSED: "true",
        vc.PAUSED_REPLICAS: "1",
        vc.PAUSED_DATE: "",
    }

    left = [each for each in objects if each["kind"] != "Pod"]
    assert run(left, RELEASE, state="paused")["changed"] is False

    resumed = run([*left, running()[1]], RELEASE)
    assert resumed["diff"] == {"before": {"state": "paused"}, "after": {"state": "running"}}
    assert run.writes == [("patch", "StatefulSet", "web")]
    assert (workload["spec"]["replicas"], workload["metadata"]["annotations"][vc.PAUSED]) == (1, None)


def test_what_is_not_there_cannot_be_paused():
    with pytest.raises(TenancyError, match="there is no virtual cluster web in namespace tenant-web"):
        run([], state="paused")


def test_removed_with_its_volumes_kept():
    claim = item("v1", "PersistentVolumeClaim", "data-web-0")
    orphan = item("v1", "Service", "page-x-default-x-web", labels={vc.MARKER_LABEL: "web"})
    result = run([own_namespace(), SYNCED, claim, orphan], RELEASE, state="absent", keep_volumes=True)
    assert result["diff"]["before"] == {"release": "vcluster-0.36.1"}
    deletions = [("delete", "Service", "page-x-default-x-web"), ("delete", "Pod", "job-x-default-x-web")]
    assert run.writes == [*deletions, "uninstall"]


def test_a_skipped_minor_goes_when_told():
    old = dataclasses.replace(RELEASE, chart_version="0.34.0")
    with pytest.raises(TenancyError, match=r"skips a minor version.*force_version"):
        run([own_namespace(), *running()], old)
    assert run([own_namespace(), *running()], old, force_version=True)["diff"]["before"] == {"version": "0.34.0"}


def network(monkeypatch, enforced):
    """Have the probe of network policies end like this; the namespaces it was given."""
    asked = []
    records = [
        {"name": "same_node", "verdict": "enforced" if enforced else "unenforced", "reason": "the server was still reached"}
    ]
    monkeypatch.setattr(vcluster.network_probe, "look", lambda kube, namespace: (asked.append(namespace), (enforced, records))[1])
    return asked


def test_a_changed_trust_is_noted_on_the_namespace(monkeypatch):
    asked = network(monkeypatch, True)
    namespace = own_namespace()
    result = run([namespace, *running()], RELEASE, trust="partial")
    assert result["diff"]["before"]["trust"] == "high"
    assert result["network_policies"] == "enforced"
    assert namespace["metadata"]["annotations"] == {vc.TRUST_NOTE: "partial", vc.NETWORK_NOTE: "enforced"}
    assert run.writes == [("patch", "Namespace", "tenant-web"), "upgrade"]
    assert asked == ["kubegpu-network-probe-web"]

    values = vc.tenant_values(False, {}, "partial", None, {})
    again = run([namespace, *running()], dataclasses.replace(RELEASE, values=values), trust="partial")
    assert (again["changed"], again["network_policies"], len(asked)) == (False, "enforced", 1)


def test_policies_that_nobody_enforces_are_refused_or_accepted_never_taken_for_protection(monkeypatch):
    asked = network(monkeypatch, False)
    with pytest.raises(TenancyError, match=r"trust: partial rests on network policies, and .* still reached"):
        run([], trust="partial")
    assert run.writes == []
    kube = [own_namespace(), *running()]
    result = run(kube, RELEASE, trust="partial", accept_unenforced=True)
    assert result["network_policies"] == "unenforced"
    assert "does not enforce network policies" in result["warnings"][0]
    assert kube[0]["metadata"]["annotations"][vc.NETWORK_NOTE] == "unenforced"
    before = len(asked)
    values = vc.tenant_values(False, {}, "partial", None, {})
    deployed = dataclasses.replace(RELEASE, values=values)
    assert run(kube, deployed, trust="partial", accept_unenforced=True)["changed"] is False
    assert len(asked) == before
    with pytest.raises(TenancyError, match="trust: partial rests on network policies"):
        run(kube, deployed, trust="partial")


def test_classes_are_listed_for_tenants_of_trust_zero_and_unlisted_with_the_last(monkeypatch):
    network(monkeypatch, True)
    nvidia = item("node.k8s.io/v1", "RuntimeClass", "nvidia", None)
    kube = [nvidia, item("node.k8s.io/v1", "RuntimeClass", "kata", None)]
    assert run(kube, trust="zero")["diff"]["after"]["RuntimeClass nvidia"] == "basic"
    assert nvidia["metadata"]["labels"] == {vc.LISTED_CLASS: "basic"}

    mine = own_namespace()
    mine["metadata"]["annotations"] = {vc.TRUST_NOTE: "zero"}
    other = item("v1", "Namespace", "tenant-ml", None, vc.OWNED_LABELS, metadata={"annotations": {vc.TRUST_NOTE: "zero"}})
    run([nvidia, mine, other], state="absent")
    assert nvidia["metadata"]["labels"][vc.LISTED_CLASS] == "basic"
    run([nvidia, mine], state="absent")
    assert nvidia["metadata"]["labels"][vc.LISTED_CLASS] is None


def test_the_host_schedulers_name_is_noted_on_the_namespace():
    namespace = own_namespace()
    changed = run([namespace, *running()], RELEASE, host_scheduler="kai")
    assert changed["diff"]["after"] == {"scheduler": "kai", "values.experimental": {"syncSettings": {"setOwner": False}}}
    assert namespace["metadata"]["labels"][vc.HOST_SCHEDULER_LABEL] == "kai"
    assert run([namespace, *running()], RELEASE)["diff"]["before"] == {"scheduler": "kai"}
    assert namespace["metadata"]["labels"][vc.HOST_SCHEDULER_LABEL] is None


def test_gpus_that_another_virtual_cluster_books_are_refused_before_anything_is_written():
    selector = {"pool": "a"}
    config = yaml.safe_dump(vc.tenant_values(True, selector, "high", None, {}))
    rival = [
        item("apps/v1", "StatefulSet", "ml", "vcluster-ml", {"app": "vcluster"}),
        item("v1", "Secret", "vc-config-ml", "vcluster-ml", data={"config.yaml": base64.b64encode(config.encode()).decode()}),
        item("v1", "Node", "n1", None, selector, status={"allocatable": {"nvidia.com/gpu": "4"}}),
    ]
    with pytest.raises(TenancyError, match="node_selector: node n1 with 4 GPUs: tenant-web/web and vcluster-ml/ml do not see"):
        run(rival, own_scheduler=True, node_selector=selector)
    assert run.writes == []
    assert run(rival, own_scheduler=True, node_selector={"pool": "b"})["changed"]
