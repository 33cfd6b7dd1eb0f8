# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import dataclasses
import datetime
import json

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import HELM_ARG_SPEC, Chart, find_chart
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.plan import queue_policies, record_policies
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, Refused, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import HOST_SCHEDULER_LABEL, TENANT_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import MARKER_LABEL, OWNED_LABELS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.synced import SYNCED_FROM_LABEL, SYNCED_NAME
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.control_plane import SETTLING
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.lifecycle import VirtualCluster
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.release import Charts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.values import narrowed_egress, pod_networks, tenant_values
from ansible_collections.kubegpu.tenancy.plugins.modules import vcluster
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi, written_by
from ansible_collections.kubegpu.tenancy.tests.unit.clock import Clock
from ansible_collections.kubegpu.tenancy.tests.unit.helm import record_of
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

VALUES = tenant_values(False, {}, "high", None, {})
RELEASE = Release("web", "tenant-web", "deployed", 3, "vcluster", "0.36.1", VALUES)
RBAC = "rbac.authorization.k8s.io/v1"
NODE = "node.k8s.io/v1"


def item(api_version, kind, name, namespace="tenant-web", labels=None, **more):
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}} | more.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata} | more


def own_namespace(trust="high", **labels):
    labels = OWNED_LABELS | {TENANT_LABEL: "web"} | labels
    annotations = {facts.TRUST_ANNOTATION: trust, facts.RENDERED_ANNOTATION: "1.35"}
    return item("v1", "Namespace", "tenant-web", None, labels, metadata={"annotations": annotations})


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


def deployed(release=RELEASE):
    """A virtual cluster that runs, and its release."""
    return [own_namespace(), *running()], release


class FakeHelm:
    """Installs what it was given; what the chart then makes is there at once."""

    def __init__(self, api, made):
        self.made = made
        self.api = api
        self.installed = []

    def template(self, name, namespace, chart, values):
        if "unknown" in values:
            raise TenancyError("helm template failed: additional properties 'unknown' not allowed")
        return ""

    def upgrade(self, name, namespace, chart, values, timeout, hooks):
        assert hooks
        self.api.writes.append(("helm", "upgrade", name))
        self.installed.append((chart, values))
        for new in self.made:
            if not self.api.get(new["apiVersion"], new["kind"], new["metadata"]["name"], new["metadata"]["namespace"]):
                self.api.put(new)

    def uninstall(self, name, namespace, timeout, hooks=True):
        self.api.writes.append(("helm", "uninstall", name))


NOTE = ("patch", "Namespace", "tenant-web")
UPGRADE, UNINSTALL = ("helm", "upgrade", "web"), ("helm", "uninstall", "web")


class World:
    """A host cluster, the answers of virtual clusters on it and those of the network probe."""

    def __init__(self, objects=(), release=None, made=None, enforced=True, proxy_url=None, guarded=True):
        # As an earlier run left it: what keeps the tenant from records of Helm.
        self.api = InMemoryApi([*(record_policies("web") if guarded else ()), *objects], proxy_url=proxy_url)
        self.api.pod_logs["web-0"] = "starting\nFATAL out of luck\n"
        # As the StatefulSet's controller does it.
        self.api.react("patch", "StatefulSet", self.scaled)
        self.helm = FakeHelm(self.api, made or running())
        if release:
            self.release(release)
        self.clock = Clock()
        self.enforced = enforced
        self.charts = None
        self.asked, self.probed = [], []

    def release(self, release):
        """Have the virtual cluster's release in this state."""
        self.api.put(record_of(release))

    def scaled(self, workload):
        workload["status"]["observedGeneration"] = workload["metadata"]["generation"]
        self.api.put(workload)
        if workload["spec"]["replicas"] == 0:
            self.api.drop("v1", "Pod", "web-0", "tenant-web")
        else:
            self.api.put(running()[1])

    def ask(self, config, path):
        self.asked.append((config, path))
        return {"gitVersion": "v1.36.0", "status": {"availableReplicas": 1}}

    def probe(self, tenant):
        self.probed.append(tenant)
        verdict = "enforced" if self.enforced else "unenforced"
        return self.enforced, [{"name": "same_node", "verdict": verdict, "reason": "the server was still reached"}]

    def run(self, check_mode=False, **params):
        """Run the module; by default with a version given, so that the options describe the virtual cluster."""
        spec = HELM_ARG_SPEC | vcluster.ARGUMENT_SPEC
        options = {key: option.get("default") for key, option in spec.items()}
        options |= {"name": "web", "version": "0.36.1", "timeout": 3} | params
        self.api.writes.clear()
        self.asked.clear()
        deadline = Deadline(options["timeout"], self.clock, self.clock.sleep)
        self.last = Run(options, check_mode, self.api, self.helm, deadline)

        def chart(version):
            return find_chart(options["chart_source"], "vcluster", version, Chart("vcluster", version))

        cluster = VirtualCluster(self.last, self.ask, Charts(chart, lambda: self.charts), self.probe)
        return getattr(cluster, options["state"])()

    def live(self, api_version, kind, name, namespace="tenant-web"):
        return self.api.get(api_version, kind, name, namespace)


def run(objects=(), release=None, check_mode=False, made=None, **params):
    """Run once in a world of its own."""
    run.world = World(objects, release, made, guarded=params.get("state") != "absent")
    return run.world.run(check_mode, **params)


def writes():
    return run.world.api.writes


def paths():
    return [path for _config, path in run.world.asked]


def rendered_for(noted):
    """A virtual cluster that runs, on a host whose Kubernetes is 1.35 by now."""
    objects, release = deployed()
    objects[0]["metadata"]["annotations"] |= {facts.RENDERED_ANNOTATION: noted}
    return World(objects, release)


@pytest.mark.parametrize("noted", ["1.34", None])
def test_the_chart_is_rendered_again_for_another_kubernetes_of_the_host(noted):
    world = rendered_for(noted)
    before = world.run(check_mode=True)
    assert (before["diff"]["before"], before["diff"]["after"]) == (
        {"host_kubernetes": noted} if noted else {},
        {"host_kubernetes": "1.35"},
    )
    assert world.api.writes == []
    # Only once the chart is there, so that a run that is killed before that does it again.
    assert world.run()["changed"]
    assert world.api.writes == [UPGRADE, NOTE]
    assert not world.run()["changed"]


def test_what_is_not_described_is_not_rendered_again():
    world = rendered_for("1.34")
    assert not world.run(version=None)["changed"]


def test_fresh():
    result = run([])
    assert result["changed"]
    assert result["diff"]["before"] == {}
    assert result["diff"]["after"] == {"namespace": "tenant-web", "version": "0.36.1", "values": VALUES}
    assert (result["server"], result["kubernetes_version"]) == ("https://10.0.0.3:30002", "v1.36.0")
    assert [step["step"] for step in result["steps"]] == [
        "create namespace tenant-web",
        "install the Helm release web with vCluster 0.36.1",
    ]
    assert writes() == [("create", "Namespace", "tenant-web"), UPGRADE]
    assert paths() == ["/version", facts.READY_PATH, facts.DNS_PATH]


def test_second_run_changes_nothing():
    result = run(*deployed())
    assert not result["changed"]
    assert result["diff"] == {"before": {}, "after": {}}
    assert "steps" not in result
    assert writes() == []


EXPIRED = {"before": {"certificate": "expired 2025-11-21T12:00:00Z"}, "after": {"certificate": "renewed"}}


@pytest.mark.parametrize("renews", [True, False])
def test_an_expired_certificate_is_renewed_by_a_restart(renews, certificate):
    ended, ends = (certificate(datetime.datetime(year, 11, 21, 12)) for year in (2025, 2060))
    world = World(*deployed())

    def secret(data):
        world.api.put(world.live("v1", "Secret", "vc-web") | {"data": running()[2]["data"] | {"client-certificate": data}})

    def restart(_pod):
        if renews:
            secret(ends)
        world.api.put(running()[1])

    secret(ended)
    world.api.react("delete", "Pod", restart)
    predicted = world.run(check_mode=True)
    assert predicted["diff"] == EXPIRED
    assert predicted["steps"] == [{"step": "restart the control plane", "why": "its certificate expired 2025-11-21T12:00:00Z"}]
    assert world.api.writes == world.asked == []

    if renews:
        assert world.run()["diff"] == EXPIRED
        assert not world.run()["changed"]
        assert world.api.writes == []
    else:
        with pytest.raises(TenancyError, match=r"expired 2025-11-21T12:00:00Z; vCluster before 0\.34 may not renew it"):
            world.run(timeout=0)
        assert world.api.writes == [("delete", "Pod", "web-0")]


def test_check_mode_predicts_and_writes_nothing():
    result = run(*deployed(), check_mode=True, kubernetes_version="v1.36.2")
    assert result["changed"]
    assert result["diff"] == {"before": {}, "after": {"values.controlPlane.distro.k8s.version": "v1.36.2"}}
    assert writes() == paths() == []


@pytest.mark.parametrize(
    ("status", "repair"),
    [
        ("failed", [UPGRADE]),
        ("pending-install", [UNINSTALL, UPGRADE]),
        ("uninstalling", [UNINSTALL, UPGRADE]),
        ("pending-upgrade", [("delete", "Secret", "sh.helm.release.v1.web.v3"), UPGRADE]),
        ("pending-rollback", [("delete", "Secret", "sh.helm.release.v1.web.v3"), UPGRADE]),
    ],
)
@pytest.mark.parametrize("version", ["0.36.1", None])
def test_unfinished_releases_are_repaired(status, repair, version):
    record = item("v1", "Secret", "sh.helm.release.v1.web.v3")
    result = run([*deployed()[0], record], dataclasses.replace(RELEASE, status=status), version=version)
    assert result["diff"] == {"before": {"release": status}, "after": {"release": "deployed"}}
    assert writes() == repair


@pytest.mark.parametrize(
    ("objects", "release", "params", "match"),
    [
        ([item("v1", "Namespace", "tenant-web", None)], None, {}, "not made by this collection"),
        ([own_namespace(**{TENANT_LABEL: "ml"})], None, {}, "belongs to tenant ml"),
        (
            [own_namespace(), item("apps/v1", "StatefulSet", "other", labels={"app": "vcluster"})],
            None,
            {},
            "already holds the virtual cluster other",
        ),
        ([own_namespace()], dataclasses.replace(RELEASE, chart_version="0.37.0"), {}, "is not supported upstream"),
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
    assert writes() == []


def test_a_crash_ends_the_wait_with_the_end_of_the_log():
    crashing = running({"waiting": {"reason": "CrashLoopBackOff"}})
    with pytest.raises(TenancyError, match="FATAL out of luck"):
        run([own_namespace(), *[o for o in crashing if o["kind"] != "StatefulSet"]], None, made=crashing, timeout=5)


def test_what_crashed_before_gets_another_chance():
    world = World([own_namespace(), *running({"waiting": {"reason": "CrashLoopBackOff"}})], RELEASE)
    world.api.react("delete", "Pod", lambda _pod: world.api.put(running()[1]))
    predicted = world.run(check_mode=True)
    assert [step["step"] for step in predicted["steps"]] == ["restart pod web-0"]
    assert world.run()["changed"] is False
    assert world.api.writes == [("delete", "Pod", "web-0")]


def test_wait_is_bounded_and_says_what_is_missing():
    objects = [o for o in running() if o["kind"] != "Secret"]
    with pytest.raises(TenancyError, match="kubeconfig Secret vc-web does not exist yet"):
        run([own_namespace(), *objects], RELEASE, timeout=0)


def test_service_nobody_outside_reaches():
    objects = running()
    objects[-1]["spec"]["type"] = "ClusterIP"
    made = tenant_values(False, {}, "high", None, {"controlPlane": {"service": {"spec": {"type": "ClusterIP"}}}})
    release = dataclasses.replace(RELEASE, values=made)
    result = run([own_namespace(), *objects], release, values={"controlPlane": {"service": {"spec": {"type": "ClusterIP"}}}})
    assert "server" not in result


def leftovers():
    owned = {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "tenant-web"}
    theirs = owned | {"meta.helm.sh/release-namespace": "tenant-web-2"}
    marked = {MARKER_LABEL: "tenant-web-x-web"}
    return [
        item(RBAC, "ClusterRole", "vc-web-v-tenant-web", None, metadata={"annotations": owned}),
        item(RBAC, "ClusterRoleBinding", "vc-web-v-tenant-web", None, metadata={"annotations": theirs}),
        item("scheduling.k8s.io/v1", "PriorityClass", "high-x-web", None, marked),
        item("scheduling.k8s.io/v1", "PriorityClass", "system", None),
    ]


def test_absent_removes_all_that_is_owned():
    predicted = run([own_namespace(), *running(), *leftovers()], RELEASE, check_mode=True, state="absent")
    result = run([own_namespace(), *running(), *leftovers()], RELEASE, state="absent")
    assert predicted["diff"] == result["diff"]
    assert result["diff"]["before"] == {
        "release": "vcluster-0.36.1",
        "namespace": "tenant-web",
        "ClusterRole vc-web-v-tenant-web": "present",
        "PriorityClass high-x-web": "present",
    }
    assert writes() == [
        UNINSTALL,
        ("delete", "Namespace", "tenant-web"),
        ("delete", "ClusterRole", "vc-web-v-tenant-web"),
        ("delete", "PriorityClass", "high-x-web"),
    ]
    steps = ["uninstall the Helm release web", "remove namespace tenant-web", "remove what lies outside its namespace"]
    assert [step["step"] for step in result["steps"]] == [step["step"] for step in predicted["steps"]] == steps


def terminating(*holding):
    """A namespace that is being deleted, with what keeps it there, and the pods of a control plane and of the tenant in it."""
    labels = {"app": "vcluster", "release": "web"}
    pods = [item("v1", "Pod", "web-0", labels=labels), item("v1", "Pod", "train-x-default-x-web")]
    held = [one | {"metadata": one["metadata"] | {"finalizers": ["example.com/slow"]}} for one in holding]
    return World([own_namespace(), *pods, *held], guarded=False)


def test_a_namespace_is_looked_at_again_once_its_pods_have_ended():
    """The namespace controller would come back only after half of their grace period."""
    world = terminating(item("v1", "PersistentVolumeClaim", "data-web-0"))
    world.api.react("patch", "Namespace", lambda _namespace: world.api.drop("v1", "Namespace", "tenant-web"))
    assert world.run(state="absent")["changed"]
    assert world.api.writes == [
        ("delete", "Namespace", "tenant-web"),
        ("delete", "PersistentVolumeClaim", "data-web-0"),
        ("patch", "Namespace", "tenant-web"),
    ]


def test_pods_that_do_not_end_are_what_the_removal_of_a_namespace_names():
    world = terminating(item("v1", "Pod", "stuck-x-default-x-web"))
    with pytest.raises(TenancyError, match="the removal of namespace tenant-web"):
        world.run(state="absent")
    assert ("patch", "Namespace", "tenant-web") not in world.api.writes


def test_absent_again_changes_nothing():
    assert not run([], state="absent")["changed"]
    assert writes() == []


def test_absent_in_check_mode():
    assert run([own_namespace(), *running()], RELEASE, check_mode=True, state="absent")["changed"]
    assert writes() == []


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


def synced(name="job", **annotations):
    """A pod of the tenant on the host, by default with a controller."""
    owners = {facts.SYNCED_OWNERS: json.dumps([{"kind": "ReplicaSet", "name": "job", "controller": True}])}
    labels = {MARKER_LABEL: "web", SYNCED_FROM_LABEL: "default"}
    return item("v1", "Pod", f"{name}-x-default-x-web", labels=labels, metadata={"annotations": annotations or owners})


def bare(name):
    return synced(name, **{SYNCED_NAME: name})


PAUSE = [("patch", "StatefulSet", "web"), ("delete", "Pod", "job-x-default-x-web")]


def test_pause_ends_everything_and_keeps_the_data():
    world = World([own_namespace(), *running(), synced(), item("v1", "PersistentVolumeClaim", "data-web-0")], RELEASE)
    assert world.run(check_mode=True, state="paused")["changed"]
    assert world.api.writes == []
    result = world.run(state="paused")
    assert (result["diff"], result["lost_pods"]) == ({"before": {"state": "running"}, "after": {"state": "paused"}}, [])
    assert [step["step"] for step in result["steps"]] == ["end the control plane", "end the tenant's pods"]
    assert world.api.writes == PAUSE
    workload = world.live("apps/v1", "StatefulSet", "web")
    assert workload["metadata"]["annotations"] | {facts.PAUSED_DATE: ""} == {
        facts.PAUSED: "true",
        facts.PAUSED_REPLICAS: "1",
        facts.PAUSED_DATE: "",
    }
    assert world.run(state="paused")["changed"] is False

    resumed = world.run()
    assert resumed["diff"] == {"before": {"state": "paused"}, "after": {"state": "running"}}
    assert world.api.writes == [("patch", "StatefulSet", "web")]
    workload = world.live("apps/v1", "StatefulSet", "web")
    assert (workload["spec"]["replicas"], workload["metadata"]["annotations"]) == (1, {})


def test_pods_that_a_killed_pause_left_are_a_change():
    world = World([own_namespace(), *running()], RELEASE)
    world.run(state="paused")
    world.api.put(synced())
    result = world.run(state="paused")
    assert result["diff"] == {"before": {"Pod job-x-default-x-web": "present"}, "after": {}}
    assert world.api.writes == PAUSE[1:]


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_pause_that_loses_pods_is_refused_with_their_names_unless_that_is_accepted(check_mode):
    world = World([own_namespace(), *running(), bare("b"), bare("a"), synced()], RELEASE)
    with pytest.raises(
        TenancyError, match=r"^accept_lost_pods: 2 pods of tenant web have no controller .*: default/a, default/b\."
    ) as failure:
        world.run(check_mode, state="paused")
    assert "by kubegpu_accept_lost_pods in an inventory, by accept_lost_pods of this module" in failure.value.message
    assert failure.value.details["lost_pods"] == ["default/a", "default/b"]
    assert world.api.writes == []
    result = world.run(check_mode, state="paused", accept_lost_pods=True)
    assert (result["changed"], result["lost_pods"]) == (True, ["default/a", "default/b"])
    ends = "the tenant is to pause, default/a, default/b for good: no controller makes them anew"
    assert [step["why"] for step in result["steps"] if step["step"] == "end the tenant's pods"] == [ends]
    assert bool(world.api.writes) is not check_mode


def test_what_is_not_there_cannot_be_paused():
    with pytest.raises(TenancyError, match="there is no virtual cluster web in namespace tenant-web"):
        run([], state="paused")


def test_removed_with_its_volumes_kept():
    claim = item("v1", "PersistentVolumeClaim", "data-web-0")
    orphan = item("v1", "Service", "page-x-default-x-web", labels={MARKER_LABEL: "web"})
    result = run([own_namespace(), synced(), claim, orphan], RELEASE, state="absent", keep_volumes=True)
    assert result["diff"]["before"] == {"release": "vcluster-0.36.1"}
    deletions = [("delete", "Service", "page-x-default-x-web"), ("delete", "Pod", "job-x-default-x-web")]
    assert writes() == [UNINSTALL, *deletions]


def test_what_a_killed_removal_with_volumes_kept_left_is_a_change_and_goes():
    orphan = item("v1", "Service", "page-x-default-x-web", labels={MARKER_LABEL: "web"})
    world = World([own_namespace(), synced(), orphan, item("v1", "PersistentVolumeClaim", "data-web-0")], guarded=False)
    leftovers = {"Service page-x-default-x-web": "present", "Pod job-x-default-x-web": "present"}
    predicted = world.run(check_mode=True, state="absent", keep_volumes=True)
    assert (predicted["diff"]["before"], world.api.writes) == (leftovers, [])
    assert world.run(state="absent", keep_volumes=True)["diff"]["before"] == leftovers
    assert world.api.writes == [("delete", "Service", "page-x-default-x-web"), ("delete", "Pod", "job-x-default-x-web")]
    assert world.run(state="absent", keep_volumes=True)["changed"] is False
    assert world.live("v1", "PersistentVolumeClaim", "data-web-0")


def test_an_upgrade_over_several_minor_versions_takes_each_and_waits_for_it():
    old = dataclasses.replace(RELEASE, chart_version="0.34.0")
    world = World([own_namespace(), *running()], old)
    predicted = world.run(check_mode=True)
    assert (predicted["diff"]["before"], world.api.writes) == ({"version": "0.34.0"}, [])
    result = world.run()
    assert [chart.version for chart, _values in world.helm.installed] == ["0.35.3", "0.36.1"]
    steps = [record["step"] for record in result["steps"]]
    assert steps == [record["step"] for record in predicted["steps"]]
    assert steps[:3] == [
        "upgrade the Helm release web with vCluster 0.35.3",
        "wait for vCluster 0.35.3",
        "upgrade the Helm release web with vCluster 0.36.1",
    ]
    # It was asked whether it works after each.
    assert len(world.asked) > 2


def test_without_a_release_between_nothing_is_upgraded_unless_that_is_asked_for():
    old = dataclasses.replace(RELEASE, chart_version="0.34.0")
    world = World([own_namespace(), *running()], old)
    world.charts = ["0.34.0", "0.36.1"]
    with refuses("minor-version-skipped"):
        world.run()
    assert world.api.writes == []
    assert world.run(force_version=True)["diff"]["before"] == {"version": "0.34.0"}
    assert [chart.version for chart, _values in world.helm.installed] == ["0.36.1"]


def test_a_version_between_that_refuses_the_values_is_refused_before_the_first_write():
    old = dataclasses.replace(RELEASE, chart_version="0.34.0")
    world = World([own_namespace(), *running()], old)
    asked = world.helm.template

    def template(name, namespace, chart, values):
        if chart.version == "0.35.3":
            raise TenancyError("helm template failed: additional properties 'new' not allowed")
        return asked(name, namespace, chart, values)

    world.helm.template = template
    with pytest.raises(TenancyError, match="additional properties 'new'"):
        world.run()
    assert world.api.writes == []


# --- without options that describe it ---

OWN = tenant_values(True, {"pool": "a"}, "high", "v1.35.4", {"controlPlane": {"service": {"spec": {"type": "NodePort"}}}})


def test_a_paused_tenant_is_resumed_as_it_was_without_a_chart():
    namespace = own_namespace(**{HOST_SCHEDULER_LABEL: "kai"})
    world = World([namespace, *running()], dataclasses.replace(RELEASE, chart_version="0.34.0", values=OWN))
    world.run(state="paused", version=None)
    resumed = world.run(version=None, chart_source="/nowhere")
    assert resumed["diff"] == {"before": {"state": "paused"}, "after": {"state": "running"}}
    assert (resumed["version"], world.api.writes) == ("0.34.0", [("patch", "StatefulSet", "web")])
    assert world.run(version=None, chart_source="/nowhere")["changed"] is False
    # The given options describe it, and the rest of the description is the defaults.
    changed = world.run(version="0.35.3")["diff"]
    assert changed["before"]["version"] == "0.34.0"
    assert changed["after"]["values.sync.fromHost.nodes.enabled"] is False


def test_a_profile_stays_with_what_is_known_of_the_network():
    namespace = own_namespace("partial")
    namespace["metadata"]["annotations"][facts.NETWORK_ANNOTATION] = "unenforced"
    release = dataclasses.replace(RELEASE, values=tenant_values(False, {}, "partial", None, {}))
    world = World([namespace, *running()], release, enforced=False)
    result = world.run(version=None)
    assert (result["changed"], result["network_policies"], world.probed) == (False, "unenforced", [])
    assert "does not enforce network policies" in world.last.warnings[0]


def test_a_killed_upgrade_is_finished_as_recorded():
    release = dataclasses.replace(RELEASE, chart_version="0.34.0", values=OWN, status="pending-upgrade")
    world = World([own_namespace(), *running()], release)
    world.run(version=None)
    assert world.helm.installed == [(Chart("vcluster", "0.34.0"), OWN)]


def test_a_new_one_has_the_defaults():
    world = World()
    world.run(version=None)
    assert world.helm.installed == [(Chart("vcluster", facts.DEFAULT_VERSION), VALUES)]


# --- errors that no waiting mends ---


def refusing(world, **details):
    def ask(config, path):
        world.asked.append((config, path))
        raise ApiError("certificate verify failed", **details)

    world.ask = ask
    return world


def test_an_error_that_no_waiting_mends_ends_the_wait_at_once():
    world = refusing(World(*deployed()), permanent=True)
    with pytest.raises(TenancyError, match=r"^certificate verify failed$"):
        world.run(timeout=300)
    assert (world.clock.now, len(world.asked)) == (0, 1)


def test_a_control_plane_that_just_started_gets_time_to_renew_its_certificate():
    world = refusing(World(), permanent=True)
    with pytest.raises(TenancyError, match=r"^certificate verify failed$"):
        world.run(timeout=300)
    assert world.clock.now == SETTLING


def test_a_certificate_that_is_renewed_in_that_time_is_no_error():
    world = World()

    def ask(config, path):
        if world.clock.now < SETTLING / 2:
            raise ApiError("certificate verify failed", permanent=True)
        return {"gitVersion": "v1.36.0", "status": {"availableReplicas": 1}}

    world.ask = ask
    assert world.run(timeout=300)["server"] == "https://10.0.0.3:30002"


def test_that_time_begins_with_the_first_refusal():
    world = refusing(World(), permanent=True)
    started = running()[0]
    started["status"]["readyReplicas"] = 0
    world.helm.made = [started, *running()[1:]]
    sleep = world.clock.sleep

    def starts(seconds):
        sleep(seconds)
        if world.clock.now == 60:
            world.api.put(running()[0])

    world.clock.sleep = starts
    with pytest.raises(TenancyError, match=r"^certificate verify failed$"):
        world.run(timeout=300)
    assert world.clock.now == 60 + SETTLING


def test_other_errors_use_up_the_time():
    world = refusing(World(*deployed()))
    with pytest.raises(TenancyError, match=r"Timed out after 30 s .* certificate verify failed"):
        world.run(timeout=30)


def test_the_proxy_of_the_host_cluster_leads_to_its_tenants_too():
    world = World(*deployed(), proxy_url="http://proxy:3128")
    world.run()
    assert world.asked[0][0]["clusters"][0]["cluster"]["proxy-url"] == "http://proxy:3128"


# --- trust ---


def test_a_changed_trust_is_recorded_on_the_namespace():
    world = World(*deployed())
    result = world.run(trust="partial")
    assert result["diff"]["before"]["trust"] == "high"
    assert result["network_policies"] == "enforced"
    annotations = {facts.TRUST_ANNOTATION: "partial", facts.NETWORK_ANNOTATION: "enforced", facts.RENDERED_ANNOTATION: "1.35"}
    assert world.live("v1", "Namespace", "tenant-web", None)["metadata"]["annotations"] == annotations
    assert world.api.writes == [("patch", "Namespace", "tenant-web"), UPGRADE]
    assert world.probed == ["web"]

    world.release(dataclasses.replace(RELEASE, values=tenant_values(False, {}, "partial", None, {})))
    again = world.run(trust="partial")
    assert (again["changed"], again["network_policies"], len(world.probed)) == (False, "enforced", 1)


def test_what_differs_says_who_wrote_it():
    hand = ("kubectl-annotate", "2026-11-24T10:02:00Z")
    release = dataclasses.replace(RELEASE, values={"sync": {}}, deployed_at="2026-11-20T10:00:00Z")
    namespace = written_by(own_namespace("partial"), *hand, ("metadata", "annotations", facts.TRUST_ANNOTATION))
    written = World([namespace, *running()], release).run(check_mode=True)["diff"]["written"]
    assert written.pop("trust") == {"since": hand[1], "by": hand[0]}
    helm = {"since": "2026-11-20T10:00:00Z", "by": "Helm, revision 3"}
    assert list(written.values()) == [helm] * len(written) != []

    pause = ("kubectl-scale", "2026-11-24T10:02:00Z")
    stateful, *others = running()
    stateful["spec"]["replicas"] = 1
    world = World([own_namespace(), written_by(stateful, *pause, ("spec", "replicas")), *others], RELEASE)
    predicted = world.run(state="paused", check_mode=True)
    assert predicted["diff"]["written"] == {"state": {"since": pause[1], "by": pause[0]}}


def test_when_it_expires_is_recorded_kept_changed_and_taken_back():
    world = World(*deployed())

    def noted():
        return world.live("v1", "Namespace", "tenant-web", None)["metadata"]["annotations"].get(facts.EXPIRES_ANNOTATION)

    assert world.run(expires="2h")["diff"]["after"] == {"expires": "2h"}
    assert noted() == "2h"
    assert world.run(expires="2h")["changed"] is False
    # Where nothing describes it, it stays as it is.
    assert world.run(version=None)["changed"] is False
    assert world.run(expires="1d")["diff"]["before"] == {"expires": "2h"}
    assert world.run()["diff"]["before"] == {"expires": "1d"}
    assert noted() is None
    with refuses("not-an-age"):
        world.run(expires="soon")


def test_policies_that_nobody_enforces_are_refused_or_accepted_never_taken_for_protection():
    world = World(enforced=False)
    with pytest.raises(TenancyError, match=r"trust: partial rests on network policies, and .* still reached"):
        world.run(trust="partial")
    assert world.api.writes == []
    world = World(*deployed(), enforced=False)
    result = world.run(trust="partial", accept_unenforced=True)
    assert result["network_policies"] == "unenforced"
    (warning,) = world.last.warnings
    assert "does not enforce network policies" in warning
    annotations = world.live("v1", "Namespace", "tenant-web", None)["metadata"]["annotations"]
    assert annotations[facts.NETWORK_ANNOTATION] == "unenforced"
    before = len(world.probed)
    world.release(dataclasses.replace(RELEASE, values=tenant_values(False, {}, "partial", None, {})))
    assert world.run(trust="partial", accept_unenforced=True)["changed"] is False
    assert len(world.probed) == before
    with pytest.raises(TenancyError, match="trust: partial rests on network policies"):
        world.run(trust="partial")


NVIDIA = item(NODE, "RuntimeClass", "nvidia", None)
LISTED = item(NODE, "RuntimeClass", "nvidia", None, {facts.LISTED_CLASS: "basic"})


def other_zero(name="tenant-ml"):
    return item("v1", "Namespace", name, None, OWNED_LABELS, metadata={"annotations": {facts.TRUST_ANNOTATION: "zero"}})


def listed(world):
    return world.live(NODE, "RuntimeClass", "nvidia", None)["metadata"]["labels"].get(facts.LISTED_CLASS)


def test_classes_are_listed_once_the_namespace_says_that_they_are_needed():
    world = World([NVIDIA, item(NODE, "RuntimeClass", "kata", None)])
    assert world.run(trust="zero")["diff"]["after"]["RuntimeClass nvidia"] == "basic"
    assert listed(world) == "basic"
    assert world.api.writes == [("create", "Namespace", "tenant-web"), ("patch", "RuntimeClass", "nvidia"), UPGRADE]


def test_classes_stay_listed_while_another_tenant_needs_them_and_go_with_the_last():
    world = World([LISTED, own_namespace("zero"), other_zero()])
    world.run(state="absent")
    assert listed(world) == "basic"

    world = World([LISTED, own_namespace("zero")], guarded=False)
    predicted = world.run(check_mode=True, state="absent")
    result = world.run(state="absent")
    assert (
        predicted["diff"]
        == result["diff"]
        == {
            "before": {"namespace": "tenant-web", "RuntimeClass nvidia": "basic"},
            "after": {},
        }
    )
    assert listed(world) is None
    assert world.api.writes == [("delete", "Namespace", "tenant-web"), ("patch", "RuntimeClass", "nvidia")]


def test_classes_that_a_killed_run_left_listed_go_with_the_next_removal():
    world = World([LISTED], guarded=False)
    assert world.run(state="absent")["diff"]["before"] == {"RuntimeClass nvidia": "basic"}
    assert listed(world) is None
    assert world.run(state="absent")["changed"] is False


def test_classes_that_somebody_else_listed_stay():
    world = World([item(NODE, "RuntimeClass", "nvidia", None, {facts.LISTED_CLASS: "allowed"}), own_namespace("zero")])
    world.run(state="absent")
    assert listed(world) == "allowed"


def test_a_tenant_that_is_made_while_the_last_one_goes_keeps_its_classes():
    world = World([LISTED, own_namespace("zero")])
    # Its run read the classes before they were unlisted.
    made = []
    world.api.react("patch", "RuntimeClass", lambda _item: made or made.append(world.api.put(other_zero())))
    world.run(state="absent")
    assert listed(world) == "basic"


def test_a_tenant_that_is_no_longer_of_trust_zero_needs_none():
    zero = tenant_values(False, {}, "zero", None, {}, dedicated_to="web")
    world = World([LISTED, own_namespace("zero"), *running()], dataclasses.replace(RELEASE, values=zero))
    world.run(trust="high")
    assert listed(world) is None
    # Not before the upgrade, with which it stops to need them.
    assert world.api.writes == [("patch", "Namespace", "tenant-web"), UPGRADE, ("patch", "RuntimeClass", "nvidia")]


def test_kept_volumes_keep_the_classes():
    world = World([LISTED, own_namespace("zero")], RELEASE)
    world.run(state="absent", keep_volumes=True)
    assert listed(world) == "basic"


def test_the_host_schedulers_name_is_a_label_of_the_namespace():
    world = World(*deployed())
    changed = world.run(host_scheduler="kai")
    kept = [f"{kind} kubegpu-tenancy-web" for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")]
    expected = {"scheduler": "kai", "values.experimental": {"syncSettings": {"setOwner": False}}}
    assert changed["diff"]["after"] == expected | dict.fromkeys(kept, "whole GPUs in queues: none")
    assert world.live("v1", "Namespace", "tenant-web", None)["metadata"]["labels"][HOST_SCHEDULER_LABEL] == "kai"
    assert world.run()["diff"]["before"] == {"scheduler": "kai"} | dict.fromkeys(kept, "present")
    assert HOST_SCHEDULER_LABEL not in world.live("v1", "Namespace", "tenant-web", None)["metadata"]["labels"]


def test_pods_keep_to_their_queues_of_the_host_scheduler_before_there_are_any():
    tree = [{"name": "ml", "children": [{"name": "vision"}, {"name": "speech"}]}]
    world = World()
    changed = world.run(host_scheduler="kai", host_queues=tree)
    kinds = [kind for _verb, kind, _name in world.api.writes]
    assert kinds[:3] == ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "Namespace"]
    policy = "ValidatingAdmissionPolicy kubegpu-tenancy-web"
    assert changed["diff"]["after"][policy] == "whole GPUs in queues: vision, speech"
    world.release(RELEASE)
    shares = world.run(host_scheduler="kai", host_queues=tree, gpu_sharing=True)["diff"]
    assert shares["after"][policy] == "shared and whole GPUs in queues: vision, speech"
    # Started without any description, it stays as it is.
    assert policy not in world.run(version=None)["diff"]["before"]
    assert world.run()["diff"]["before"][policy] == "present"


def test_who_is_not_trusted_sees_no_gpus_of_others_on_nodes_that_it_shares():
    def admitted(**options):
        world = World()
        world.run(**options)
        return [note for note in (admits(world, kind) for kind in ("Policy", "PolicyBinding")) if note]

    assert admitted(trust="partial", gpu_quota=2, node_selector={"pool": "a"}) == ["GPUs that are asked for"] * 2
    for less, said in (
        ({"trust": "high"}, ["GPUs by the name nvidia.com/gpu"] * 2),
        ({"gpu_sharing": True}, ["GPUs by the name nvidia.com/gpu"] * 2),
        ({"gpu_quota": None}, []),
    ):
        assert admitted(**({"trust": "partial", "gpu_quota": 2, "node_selector": {"pool": "a"}} | less)) == said


def test_a_sandbox_without_its_class_is_refused_before_anything_is_written():
    world = World([runtime_class("gvisor")])
    with pytest.raises(Refused) as refused:
        world.run(sandbox="kata")
    assert (
        refused.value.message
        == "sandbox: there is no RuntimeClass kata, in which all pods of tenant web are to run. There are: gvisor."
    )
    assert world.api.writes == []


def runtime_class(name):
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name}


def test_pods_run_in_the_sandbox_before_there_are_any_and_go_on_where_nothing_is_described():
    world = World([runtime_class("kata")])
    after = world.run(sandbox="kata")["diff"]["after"]
    kinds = [kind for _verb, kind, _name in world.api.writes]
    assert kinds[:5] == ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"] * 2 + ["Namespace"]
    assert after["ValidatingAdmissionPolicy kubegpu-tenancy-web"] == admits(world, "PolicyBinding") == "pods in RuntimeClass kata"
    assert after["ValidatingAdmissionPolicy kubegpu-tenancy-web.workloads"] == "workloads whose pods stay as they are"
    world.release(RELEASE)
    world.run(version=None)
    assert admits(world, "Policy") == "pods in RuntimeClass kata"
    world.run(host_scheduler="kai")
    assert admits(world, "Policy") == "whole GPUs in queues: none"
    assert admits(world, "Policy", "web.workloads") is None
    world.run()
    assert admits(world, "Policy") is None


def admits(world, kind, name="web"):
    """What the policy of tenant web, or its binding, says that it admits; None without one."""
    live = world.api.get("admissionregistration.k8s.io/v1", f"ValidatingAdmission{kind}", f"kubegpu-tenancy-{name}")
    return live and live["metadata"]["annotations"]["kubegpu.tenancy/admits"]


def test_policies_go_with_the_virtual_cluster():
    world = World([*deployed()[0], *queue_policies("web", ["vision"], True)], RELEASE)
    assert world.run(state="absent", check_mode=True)["diff"] == world.run(state="absent")["diff"]
    names = ["kubegpu-tenancy-web"] * 2 + ["kubegpu-tenancy-web.records"] * 2
    assert [name for _verb, kind, name in world.api.writes if "Policy" in kind] == names
    assert world.run(state="absent")["changed"] is False


# --- records of Helm ----------------------------------------------------------------------------------------------

FORGED = item("v1", "Secret", "record-x-default-x-web", labels={"owner": "helm", "name": "web", MARKER_LABEL: "web"})
GUARD = [
    ("create", kind, "kubegpu-tenancy-web.records") for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
]


def enforcing(world):
    """Have the API server enforce the policy once it is there, as a real one does after a moment."""

    def create(definition):
        if definition["metadata"]["name"] == "kubegpu-record-probe":
            world.api.drop("v1", "ConfigMap", "kubegpu-record-probe", "tenant-web")
            world.tried = getattr(world, "tried", 0) + 1
            if world.tried > 2:
                raise ApiError("ValidatingAdmissionPolicy kubegpu-tenancy-web.records denied request", status=403)

    world.api.react("create", "ConfigMap", create)
    return world


def test_a_tenant_is_kept_from_records_of_helm_before_it_exists():
    world = World(guarded=False)
    world.run()
    assert world.api.writes == [*GUARD, ("create", "Namespace", "tenant-web"), UPGRADE]
    world.run()
    assert not [write for write in world.api.writes if "Policy" in write[1]]


def test_what_a_tenant_forged_is_gone_before_anybody_calls_helm_and_does_not_come_back():
    objects, release = deployed()
    world = enforcing(World([*objects, FORGED], release, guarded=False))
    predicted = world.run(check_mode=True)
    assert world.api.writes == []
    result = world.run()
    assert predicted["diff"] == result["diff"]
    assert result["diff"]["before"] == {"Secret record-x-default-x-web": "a forged record of Helm"}
    written = [write for write in world.api.writes if write[2] != "kubegpu-record-probe"]
    assert written == [*GUARD, ("delete", "Secret", "record-x-default-x-web")]
    assert world.tried == 3
    assert world.run()["changed"] is False


def test_a_policy_that_is_not_taken_up_ends_the_run_before_helm_is_called():
    objects, release = deployed()
    world = World([*objects, FORGED], release, guarded=False)
    with pytest.raises(TenancyError, match="take up the policy"):
        world.run()
    assert world.live("v1", "Secret", "record-x-default-x-web")


@pytest.mark.parametrize("version", ["v1.29.9", "v1.35.4"])
def test_a_tenant_that_forged_records_is_removed_all_the_same(version):
    world = World([own_namespace(), *running(), FORGED], RELEASE, guarded=False)
    world.api.version = lambda: version
    result = world.run(state="absent")
    writes_of = [(verb, kind) for verb, kind, _name in world.api.writes]
    assert writes_of[:3] == [("patch", "StatefulSet"), ("delete", "Secret"), UNINSTALL[:2]]
    assert "Secret record-x-default-x-web" in result["diff"]["before"]


def test_where_no_policy_keeps_them_away_a_tenant_with_forged_records_is_refused():
    objects, release = deployed()
    world = World([*objects, FORGED], release, guarded=False)
    world.api.version = lambda: "v1.29.9"
    with pytest.raises(TenancyError, match="passes for a record of Helm"):
        world.run()
    assert world.api.writes == []


def test_records_that_no_syncer_brought_are_helms_own():
    objects, release = deployed()
    record = item("v1", "Secret", "sh.helm.release.v1.web.v1", labels={"owner": "helm", "name": "web"})
    world = World([*objects, record], release)
    assert world.run()["changed"] is False
    assert world.live("v1", "Secret", "sh.helm.release.v1.web.v1")


def test_gpus_that_another_virtual_cluster_books_are_refused_before_anything_is_written():
    selector = {"pool": "a"}
    config = yaml.safe_dump(tenant_values(True, selector, "high", None, {}))
    rival = [
        item("apps/v1", "StatefulSet", "ml", "vcluster-ml", {"app": "vcluster"}),
        item(
            "v1",
            "Secret",
            "vc-config-ml",
            "vcluster-ml",
            {"app": "vcluster"},
            data={"config.yaml": base64.b64encode(config.encode()).decode()},
        ),
        item("v1", "Node", "n1", None, selector, status={"allocatable": {"nvidia.com/gpu": "4"}}),
    ]
    with pytest.raises(TenancyError, match="node_selector: node n1 with 4 GPUs: tenant-web/web and vcluster-ml/ml do not see"):
        run(rival, own_scheduler=True, node_selector=selector)
    assert writes() == []
    assert run(rival, own_scheduler=True, node_selector={"pool": "b"})["changed"]


# --- the control plane's network ---------------------------------------------------------------------------------

API_PORTS = {"ports": [{"port": 443, "protocol": "TCP"}]}
OWN_PODS = {"to": [{"podSelector": {"matchLabels": {MARKER_LABEL: "web"}}}]}
NARROWED = API_PORTS | {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.244.0.0/16"]}}, {"ipBlock": {"cidr": "::/0"}}]}


def policed(*extra):
    """What the chart makes for a tenant with network policies, on a cluster of two nodes."""
    nodes = [item("v1", "Node", f"n{n}", None, spec={"podCIDRs": [f"10.244.{n * 128}.0/17"]}) for n in range(2)]
    policy = item("networking.k8s.io/v1", "NetworkPolicy", "vc-cp-web", spec={"egress": [API_PORTS, OWN_PODS]})
    return [policy, *nodes, *running(), *extra]


def egress(world):
    return world.api.get("networking.k8s.io/v1", "NetworkPolicy", "vc-cp-web", "tenant-web")["spec"]["egress"]


def test_a_control_plane_reaches_no_pods_of_others():
    world = World(policed()[1:3], made=policed())
    result = world.run(trust="partial")
    assert result["steps"][-1]["step"] == "narrow NetworkPolicy vc-cp-web"
    assert egress(world) == [NARROWED, OWN_PODS]
    world.release(dataclasses.replace(RELEASE, values=tenant_values(False, {}, "partial", None, {})))
    assert world.run(trust="partial")["changed"] is False


def test_a_policy_that_somebody_widened_is_narrowed_again():
    release = dataclasses.replace(RELEASE, values=tenant_values(False, {}, "partial", None, {}))
    world = World([own_namespace("partial"), *policed()], release)
    checked = world.run(check_mode=True, trust="partial")
    assert checked["diff"]["after"]["NetworkPolicy vc-cp-web"] == "does not"
    assert egress(world) == [API_PORTS, OWN_PODS]
    assert world.run(trust="partial")["changed"]
    assert egress(world) == [NARROWED, OWN_PODS]


@pytest.mark.parametrize(
    "edited",
    [
        [NARROWED, OWN_PODS, {}],
        [NARROWED, {"to": [OWN_PODS["to"][0] | {"namespaceSelector": {}}]}],
        [NARROWED | {"ports": [{"port": 22, "protocol": "TCP"}]}, OWN_PODS],
        [],
    ],
)
def test_an_edit_of_the_control_planes_policy_is_named_and_taken_back(edited):
    policy, *others = policed()
    values, manifest = tenant_values(False, {}, "partial", None, {}), yaml.safe_dump(policy)
    world = World([own_namespace("partial"), policy, *others], dataclasses.replace(RELEASE, values=values, manifest=manifest))
    world.run(trust="partial")
    assert world.run(trust="partial")["changed"] is False
    world.api.put(policy | {"spec": {"egress": edited}})
    assert "NetworkPolicy vc-cp-web" in world.run(check_mode=True, trust="partial")["diff"]["before"]
    assert world.run(trust="partial")["changed"]
    assert egress(world) == [NARROWED, OWN_PODS]
    assert world.run(trust="partial")["changed"] is False


def test_with_cilium_the_hosts_api_server_stays_reachable():
    world = World(policed()[1:3], made=policed())
    world.api.unserved.clear()
    world.run(trust="partial")
    assert egress(world) == [API_PORTS, OWN_PODS]


def test_networks_of_pods():
    named = [{"spec": {"podCIDRs": ["10.0.0.0/25", "fd00::/64"]}}, {"spec": {"podCIDR": "10.0.0.128/25"}}, {"spec": {}}]
    assert pod_networks(named) == ["10.0.0.0/24", "fd00::/64"]
    assert narrowed_egress([API_PORTS], []) == [API_PORTS]
