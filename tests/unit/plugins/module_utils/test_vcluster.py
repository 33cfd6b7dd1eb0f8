# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts as vc


def values(own_scheduler=False, node_selector=None, trust="high", kubernetes_version=None, values=None):
    return vc.tenant_values(own_scheduler, node_selector or {}, trust, kubernetes_version, values or {})


@pytest.mark.parametrize("name", ["web", "team-ml", "a", "a" * 52])
def test_good_names(name):
    vc.check_name(name)


@pytest.mark.parametrize("name", ["", "Team", "1st", "team_ml", "-a", "a-", "a.b", "a" * 53])
def test_bad_names(name):
    with pytest.raises(TenancyError, match=r"^name: "):
        vc.check_name(name)


@pytest.mark.parametrize("version", ["0.26.0", "0.34.0", "0.36.1", "0.37.0-rc.1"])
def test_good_versions(version):
    vc.check_version(version, "v1.35.4")


@pytest.mark.parametrize(
    ("version", "kubernetes_version", "match"),
    [
        ("0.25.2", None, "older than 0.26"),
        ("0.36.0", None, "3578"),
        ("v0.36.1", None, "no leading v"),
        ("latest", None, "such as 0.36.1"),
        ("0.36.1", "1.35.4", "^kubernetes_version: "),
        ("0.36.1", "v1.35", "^kubernetes_version: "),
    ],
)
def test_bad_versions(version, kubernetes_version, match):
    with pytest.raises(TenancyError, match=match):
        vc.check_version(version, kubernetes_version)


@pytest.mark.parametrize(("current", "wanted"), [("0.36.1", "0.36.1"), ("0.35.3", "0.36.1"), ("0.36.1", "0.36.2")])
def test_upgrades(current, wanted):
    vc.check_upgrade(current, wanted)


@pytest.mark.parametrize(
    ("current", "wanted", "match"),
    [
        ("0.34.0", "0.36.1", "skips a minor version. Go to 0.35 first"),
        ("0.36.1", "0.35.3", "going back"),
        ("0.36.1", "1.0.0", "skips"),
    ],
)
def test_refused_upgrades(current, wanted, match):
    with pytest.raises(TenancyError, match=match):
        vc.check_upgrade(current, wanted)


def test_upstream_names():
    assert vc.cluster_role_name("web", "tenant-web") == "vc-web-v-tenant-web"
    assert len(vc.cluster_role_name("a" * 40, "tenant-" + "a" * 40)) == 63
    assert vc.marker("web", "tenant-web") == "tenant-web-x-web"
    assert len(vc.marker("a" * 40, "tenant-" + "a" * 40)) == 63


def test_values_with_own_scheduler_and_nodes():
    made = values(own_scheduler=True, node_selector={"tenant.kubegpu.tenancy/a": "true"}, kubernetes_version="v1.35.4")
    assert made["controlPlane"]["distro"]["k8s"] == {"scheduler": {"enabled": True}, "version": "v1.35.4"}
    assert made["sync"]["fromHost"]["nodes"] == {"enabled": True, "selector": {"labels": {"tenant.kubegpu.tenancy/a": "true"}}}
    assert made["controlPlane"]["statefulSet"]["image"]["repository"] == "loft-sh/vcluster-oss"


@pytest.mark.parametrize(
    ("own_scheduler", "nodes"), [(True, {"enabled": True, "selector": {"all": True}}), (False, {"enabled": False})]
)
def test_values_without_node_selector(own_scheduler, nodes):
    assert values(own_scheduler=own_scheduler)["sync"]["fromHost"]["nodes"] == nodes


@pytest.mark.parametrize(("trust", "level"), [("partial", "baseline"), ("zero", "restricted")])
def test_profiles(trust, level):
    made = values(trust=trust)
    policies = made["policies"]
    assert policies["podSecurityStandard"] == level
    # The control plane's own Service takes two node ports.
    assert policies["resourceQuota"]["quota"]["services.nodeports"] == 2
    assert policies["networkPolicy"]["enabled"] is True
    assert "169.254.169.254/32" in policies["networkPolicy"]["workload"]["publicEgress"]["except"]
    assert made["sync"]["toHost"]["pods"]["useSecretsForSATokens"] is True


@pytest.mark.parametrize(
    ("trust", "runtime_classes"),
    [
        ("high", {"enabled": True}),
        ("partial", {"enabled": True}),
        ("zero", {"enabled": True, "selector": {"matchExpressions": [{"key": vc.LISTED_CLASS, "operator": "Exists"}]}}),
    ],
)
def test_only_trust_zero_lists_its_classes(trust, runtime_classes):
    from_host = values(own_scheduler=True, trust=trust)["sync"]["fromHost"]
    assert from_host["runtimeClasses"] == runtime_classes
    assert from_host.get("storageClasses") == (runtime_classes if trust == "zero" else None)
    assert "priorityClasses" not in from_host
    assert from_host["nodes"]["enabled"] is True


@pytest.mark.parametrize(("trust", "needed"), [("high", False), ("partial", True), ("zero", True)])
def test_who_needs_network_policies(trust, needed):
    assert vc.makes_network_policies(values(trust=trust)) is needed


def test_kai_is_not_refused_by_the_profile():
    assert vc.trust_values("zero", kai=False) == vc.TRUST_PROFILES["zero"]
    eased = vc.trust_values("zero", kai=True)
    assert eased["policies"]["podSecurityStandard"] == "baseline"
    assert eased["policies"]["networkPolicy"] == vc.TRUST_PROFILES["zero"]["policies"]["networkPolicy"]
    assert vc.TRUST_PROFILES["zero"]["policies"]["podSecurityStandard"] == "restricted"
    assert vc.trust_values("partial", kai=True) == vc.TRUST_PROFILES["partial"]
    assert vc.trust_values("high", kai=True) == {}


def test_profiles_need_a_version_that_has_their_keys():
    vc.check_trust("high", "0.26.0")
    vc.check_trust("zero", "0.31.0")
    with pytest.raises(TenancyError, match=r"^trust: partial needs vCluster 0\.31 or later"):
        vc.check_trust("partial", "0.30.4")


def test_classes_to_list():
    def found(kind, name, labels=None, default=None):
        annotations = {"storageclass.kubernetes.io/is-default-class": default} if default else None
        return {"kind": kind, "metadata": {"name": name, "labels": labels, "annotations": annotations}}

    nvidia, standard = found("RuntimeClass", "nvidia", {"a": "b"}), found("StorageClass", "standard", default="true")
    others = [found("RuntimeClass", "kata"), found("StorageClass", "fast"), found("StorageClass", "slow", default="false")]
    assert vc.classes_to_list([nvidia, standard, *others]) == [nvidia, standard]
    assert vc.classes_to_list([found("RuntimeClass", "nvidia", {vc.LISTED_CLASS: "yes"})]) == []


def test_user_values_win_and_tables_stay_untouched():
    mine = {
        "controlPlane": {"service": {"spec": {"type": "ClusterIP"}}},
        "policies": {"resourceQuota": {"quota": {"count/pods": 5}}},
    }
    made = values(trust="partial", values=mine)
    assert made["controlPlane"]["service"]["spec"]["type"] == "ClusterIP"
    assert made["policies"]["resourceQuota"]["quota"]["count/pods"] == 5
    assert vc.TRUST_PROFILES["partial"]["policies"]["resourceQuota"]["quota"]["count/pods"] == 150


@pytest.mark.parametrize("path", sorted(vc.LICENSED))
def test_licensed_features_are_named(path):
    tree: object = True
    for key in reversed(path.split(".")):
        tree = {key: tree}
    with pytest.raises(TenancyError, match=f"values.{path}: .*licence"):
        values(values=tree)


@pytest.mark.parametrize(
    ("own_scheduler", "mine", "match"),
    [
        (True, {"sync": {"fromHost": {"nodes": {"enabled": False}}}}, "values.sync.fromHost.nodes.enabled"),
        (False, {"controlPlane": {"advanced": {"virtualScheduler": {"enabled": True}}}}, "values.sync.fromHost.nodes.enabled"),
        (False, {"policies": {"podSecurityStandard": "strict"}}, "values.policies.podSecurityStandard: 'strict'"),
        (False, {"sync": {"toHost": {"pods": {"patches": [{"path": "x"}]}}}}, "values.sync.toHost.pods.patches"),
        (
            False,
            {"sync": {"fromHost": {"storageClasses": {"enabled": "true"}}, "toHost": {"storageClasses": {"enabled": True}}}},
            "values.sync.toHost.storageClasses.enabled",
        ),
    ],
)
def test_values_the_pod_refuses(own_scheduler, mine, match):
    with pytest.raises(TenancyError, match=match):
        values(own_scheduler=own_scheduler, values=mine)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (
            "sync.toHost.pods.enforceTolerations",
            ["*", "a", "a=b", "a:NoSchedule", "b.example/a=b:NoExecute", ":NoSchedule", "a="],
        ),
        ("sync.fromHost.storageClasses.enabled", "true"),
        ("sync.fromHost.configMaps", {"enabled": False}),
        (
            "sync.fromHost.secrets",
            {"enabled": True, "mappings": {"byName": {"": "here", "/a": "b/c", "/*": "b/*", "a/*": "b/*", "a/b.c": "d/e"}}},
        ),
        ("sync.fromHost.gateways", {"enabled": True, "mappings": {"byName": {"a/*": "b/*", "c/d": "e/f"}}}),
        ("sync.toHost.gatewayApi.referenceGrants.enabled", True),
        ("networking.replicateServices.fromHost", [{"from": "a/b", "to": "c/d"}, {"from": "b", "to": "c/d"}]),
        ("networking.replicateServices.toHost", [{"from": "a/b", "to": "c"}]),
        (
            "sync.fromHost.runtimeClasses.selector",
            {
                "matchLabels": {"a": "b", "c": ""},
                "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "Exists"}],
            },
        ),
        (
            "controlPlane",
            {"statefulSet": {"highAvailability": {"replicas": 3}}, "backingStore": {"etcd": {"deploy": {"enabled": True}}}},
        ),
        ("controlPlane.advanced.podDisruptionBudget", {"enabled": True, "minAvailable": 1}),
        ("exportKubeConfig.server", "https://web.example"),
        # Of wrong types the chart's schema tells.
        ("sync", 1),
        ("sync.toHost.pods.enforceTolerations", [1]),
        ("networking.replicateServices.toHost", {"a/b": "c"}),
        ("sync.fromHost.secrets", {"enabled": True, "mappings": {"byName": [1]}}),
        ("sync.fromHost.runtimeClasses.selector", {"matchExpressions": 1, "matchLabels": {"a": 1}}),
        ("controlPlane.statefulSet.highAvailability.replicas", "3"),
        ("controlPlane.advanced.podDisruptionBudget", 1),
        ("policies", []),
    ],
)
def test_values_that_are_not_ours_to_refuse(path, value):
    for key in reversed(path.split(".")):
        value = {key: value}
    values(values=value)


@pytest.mark.parametrize(
    ("have", "want", "refused"),
    [
        (None, None, False),
        (None, "etcd.deploy", False),
        ("etcd.external", "etcd.deploy", False),
        ("etcd.deploy", None, True),
        (None, "etcd.external", True),
    ],
)
def test_changes_of_the_store(have, want, refused):
    def store(path):
        kind, way = path.split(".") if path else ("database", "embedded")
        return {"controlPlane": {"backingStore": {kind: {way: {"enabled": True}}}}}

    if refused:
        with pytest.raises(TenancyError, match=r"^values\.controlPlane\.backingStore: "):
            vc.check_store(store(have), store(want))
    else:
        vc.check_store(store(have), store(want))


def workload(ready=1, generation=1, seen=1, revision="r1"):
    return {
        "metadata": {"generation": generation},
        "spec": {"replicas": 1},
        "status": {"observedGeneration": seen, "readyReplicas": ready, "updatedReplicas": ready, "updateRevision": revision},
    }


def pod(revision="r1", waiting=None, phase="Running", host="10.0.0.3", conditions=(), restarts=0):
    state = {"waiting": waiting} if waiting else {"running": {}}
    return {
        "metadata": {"name": "web-0", "labels": {"controller-revision-hash": revision}},
        "status": {
            "phase": phase,
            "hostIP": host,
            "conditions": list(conditions),
            "containerStatuses": [{"name": "syncer", "state": state, "restartCount": restarts}],
        },
    }


CRASH = {"reason": "CrashLoopBackOff", "message": "back-off 10s"}


@pytest.mark.parametrize(
    ("item", "pods", "ready", "seen", "crashed"),
    [
        (None, [], False, "does not exist yet", None),
        (workload(), [pod()], True, "", None),
        (workload(generation=2), [pod()], False, "latest change", None),
        (workload(ready=0), [], False, "no pod yet", None),
        (workload(ready=0), [pod(waiting=CRASH, restarts=3)], False, "CrashLoopBackOff (back-off 10s)", ("web-0", "syncer")),
        (workload(ready=0), [pod(waiting=CRASH, restarts=1)], False, "CrashLoopBackOff (back-off 10s)", None),
        (workload(ready=0, revision="r2"), [pod(waiting=CRASH)], False, "no pod yet", None),
        (
            workload(ready=0),
            [pod(waiting={"reason": "ImagePullBackOff", "message": "no such image"})],
            False,
            "pod web-0: syncer: ImagePullBackOff (no such image)",
            None,
        ),
        (
            workload(ready=0),
            [
                pod(
                    phase="Pending",
                    conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}],
                )
            ],
            False,
            "pod web-0: Unschedulable (0/3)",
            None,
        ),
    ],
)
def test_judge(item, pods, ready, seen, crashed):
    verdict = vc.judge(item, pods)
    assert (verdict.ready, verdict.crashed) == (ready, crashed)
    assert seen in verdict.seen


@pytest.mark.parametrize(
    ("version", "tenant", "host", "refused"),
    [
        ("0.36.0", "v1.33.1", "v1.34.0", True),
        ("0.34.7", "v1.33.9", "v1.35.4", True),
        ("0.35.2", "v1.33.1", "v1.34.0", True),
        ("0.35.3", "v1.33.1", "v1.34.0", False),
        ("0.36.1", "v1.32.0", "v1.36.0", False),
        ("0.37.0", "v1.33.1", "v1.36.0", False),
        ("0.34.7", "v1.34.0", "v1.35.4", False),
        ("0.34.7", "v1.33.9", "v1.33.9", False),
        ("0.27.0", None, "v1.34.0", True),
        ("0.34.7", None, "v1.35.4", False),
        ("0.29.0", None, "v1.35.4", False),
    ],
)
def test_skew(version, tenant, host, refused):
    if refused:
        with pytest.raises(TenancyError, match="never become ready on a host"):
            vc.check_skew(version, tenant, host)
    else:
        vc.check_skew(version, tenant, host)


@pytest.mark.parametrize(("path", "gone", "_now"), vc.MOVED)
def test_moved_values_are_refused_with_the_new_name_from_that_version_on(path, gone, _now):
    values = True
    for key in reversed(path.split(".")):
        values = {key: values}
    vc.check_moved(values, f"{gone[0]}.{gone[1] - 1}.0")
    vc.check_moved({}, f"{gone[0]}.{gone[1]}.0")
    with pytest.raises(TenancyError, match=f"values.{path}: vCluster .* Write "):
        vc.check_moved(values, f"{gone[0]}.{gone[1]}.0")


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", ""),
        ("one\ntwo\n\n", "two"),
        (
            "an old error\nthe disk is full\n\x1b[34mINFO\x1b[0m so\n\x1b[31mERROR\x1b[0m kine failed\nFATAL no store\nINFO bye\n",
            "the disk is full | ERROR kine failed | FATAL no store",
        ),
    ],
)
def test_last_words_are_about_what_went_wrong(log, words):
    assert vc.last_words(log) == words
