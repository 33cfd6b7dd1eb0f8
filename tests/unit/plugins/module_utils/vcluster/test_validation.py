# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts, validation
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.values import tenant_values
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, refuses


def values(own_scheduler=False, values=None):
    validation.check_values(tenant_values(own_scheduler, {}, "high", None, values or {}))


@pytest.mark.parametrize("name", ["web", "team-ml", "a", "a" * 52])
def test_good_names(name):
    validation.check_name(name)


@pytest.mark.parametrize("name", ["", "Team", "1st", "team_ml", "-a", "a-", "a.b", "a" * 53])
def test_bad_names(name):
    with refuses("not-a-name"):
        validation.check_name(name)


@pytest.mark.parametrize("version", ["0.26.0", "0.34.0", "0.36.1", "0.37.0-rc.1"])
def test_good_versions(version):
    validation.check_version(version, "v1.35.4")


@pytest.mark.parametrize(
    ("version", "kubernetes_version", "expected"),
    [
        ("0.25.2", None, "version: version-too-old"),
        ("0.36.0", None, "version: version-refused"),
        ("0.36.0-rc.1", None, "version: version-refused"),
        ("v0.36.1", None, "version: not-a-version"),
        ("0.036.0", None, "version: not-a-version"),
        ("0.36.00", None, "version: not-a-version"),
        ("0.36.1", "v1.٣6.0", "kubernetes_version: not-a-version"),
        ("0.36.1", "v1.036.0", "kubernetes_version: not-a-version"),
        ("latest", None, "version: not-a-version"),
        ("0.36.1", "1.35.4", "kubernetes_version: not-a-version"),
        ("0.36.1", "v1.35", "kubernetes_version: not-a-version"),
    ],
)
def test_bad_versions(version, kubernetes_version, expected):
    with pytest.raises(TenancyError) as caught:
        validation.check_version(version, kubernetes_version)
    assert placed(caught.value.problems) == [expected]


@pytest.mark.parametrize(
    ("current", "wanted", "available", "path"),
    [
        ("0.36.1", "0.36.1", None, ["0.36.1"]),
        ("0.35.3", "0.36.1", None, ["0.36.1"]),
        ("0.36.1", "0.36.2", None, ["0.36.2"]),
        ("0.33.4", "0.36.1", None, ["0.34.7", "0.35.3", "0.36.1"]),
        ("0.34.0", "0.36.1", ["0.34.0", "0.35.10", "0.35.2", "0.35.11-rc.1", "0.36.1", "x"], ["0.35.10", "0.36.1"]),
    ],
)
def test_an_upgrade_goes_over_each_minor_version(current, wanted, available, path):
    assert validation.upgrade_path(current, wanted, available) == path


@pytest.mark.parametrize(
    ("current", "wanted", "available", "code"),
    [
        ("0.34.0", "0.36.1", ["0.34.0", "0.36.1"], "minor-version-skipped"),
        ("0.36.1", "0.40.0", None, "minor-version-skipped"),
        ("0.36.1", "0.35.3", None, "downgrade"),
        ("0.36.1", "1.0.0", None, "minor-version-skipped"),
        ("0.36.1", "0.36.1-rc.1", None, "downgrade"),
        ("0.34.0", "0.36.1", ["0.035.1", "0.36.1"], "minor-version-skipped"),
    ],
)
def test_refused_upgrades(current, wanted, available, code):
    with refuses(code):
        validation.upgrade_path(current, wanted, available)


@pytest.mark.parametrize(
    ("current", "wanted", "codes"),
    [
        ("v1.34.2", "v1.35.0", []),
        ("v1.35.0", "v1.35.4", []),
        (None, "v1.36.0", []),
        ("v1.33.1", "a-tag", []),
        ("v1.33.1", "v1.35.0", ["minor-version-skipped"]),
        ("v1.35.0", "v1.34.2", ["downgrade"]),
    ],
)
def test_a_tenants_kubernetes_goes_up_by_one_minor_version(current, wanted, codes):
    with refuses(*codes) if codes else contextlib.nullcontext():
        validation.check_kubernetes_upgrade(current, wanted)


def test_each_minor_version_has_a_newest_patch():
    assert list(facts.NEWEST_PATCH) == list(range(facts.OLDEST_VERSION[1], facts.parse_version(facts.DEFAULT_VERSION)[1] + 1))


def test_profiles_need_a_version_that_has_their_keys():
    validation.check_trust("high", "0.26.0")
    validation.check_trust("zero", "0.31.3")
    with refuses("version-too-old"):
        validation.check_trust("partial", "0.30.4")


@pytest.mark.parametrize(("version", "needed"), [("0.31.2", "0.31.3"), ("0.32.0", "0.32.2"), ("0.33.1", "0.33.2")])
def test_who_is_not_trusted_gets_no_version_that_hands_out_other_tenants_pods(version, needed):
    for trust in ("partial", "zero"):
        with pytest.raises(TenancyError, match=rf"^trust: {trust} needs vCluster {needed} or later; .*#3723"):
            validation.check_trust(trust, version)
        validation.check_trust(trust, needed)
        validation.check_trust(trust, "0.34.0")
        validation.check_trust(trust, "1.31.0")
    validation.check_trust("high", version)


@pytest.mark.parametrize(
    "name",
    [
        *facts.QUOTA,
        "pods",
        "cpu",
        "requests.example.com/fpga",
        "limits.hugepages-2Mi",
        "count/jobs.batch",
        "fast.storageclass.storage.k8s.io/requests.storage",
    ],
)
def test_bounds_of_a_quota(name):
    validation.check_quota({name: "64"})
    with refuses("not-an-amount"):
        validation.check_quota({name: "-1"})


@pytest.mark.parametrize("name", ["count/pod", "request.cpu", "gpu", "count/", "requests.nvidia.com/"])
def test_what_bounds_nothing(name):
    with refuses("unknown-bound"):
        validation.check_quota({name: 1})


def test_the_defaults_have_room_and_a_quota_that_is_off_bounds_nothing():
    needs = [("the control plane", facts.LEAST_QUOTA), ("KAI Scheduler", kai.LEAST_QUOTA)]
    validation.check_room(facts.BOUNDED, *needs)
    validation.check_room({"policies": {"resourceQuota": {"enabled": False, "quota": {"count/pods": 0}}}}, *needs)
    assert facts.LEAST_QUOTA.keys() <= facts.QUOTA.keys()


@pytest.mark.parametrize(
    ("name", "amount"), [("pods", 1), ("cpu", "0"), ("memory", "1Mi"), ("services", 1), ("secrets", 0), ("count/pods", 1)]
)
def test_a_bound_leaves_room_by_each_of_its_names(name, amount):
    bounded = {"policies": {"resourceQuota": {"enabled": True, "quota": {name: amount}}}}
    with refuses("no-room-in-quota"):
        validation.check_room(bounded, ("the control plane", facts.LEAST_QUOTA))


def test_a_pre_release_may_lack_what_its_release_mends():
    with refuses("version-too-old"):
        validation.check_trust("partial", "0.33.2-beta.0")
    validation.check_trust("partial", "0.34.0-rc.1")
    # Another check refuses what is no version, once.
    validation.check_trust("partial", "v0.36.1")


@pytest.mark.parametrize("path", sorted(facts.LICENSED))
def test_licensed_features_are_named(path):
    tree: object = True
    for key in reversed(path.split(".")):
        tree = {key: tree}
    with refuses("needs-licence"):
        values(values=tree)


@pytest.mark.parametrize(
    ("own_scheduler", "mine", "code"),
    [
        (True, {"sync": {"fromHost": {"nodes": {"enabled": False}}}}, "own-scheduler-without-nodes"),
        (False, {"controlPlane": {"advanced": {"virtualScheduler": {"enabled": True}}}}, "own-scheduler-without-nodes"),
        (False, {"policies": {"podSecurityStandard": "strict"}}, "not-a-choice"),
        (False, {"sync": {"toHost": {"pods": {"patches": [{"path": "x"}]}}}}, "needs-licence"),
        (
            False,
            {"sync": {"fromHost": {"storageClasses": {"enabled": "true"}}, "toHost": {"storageClasses": {"enabled": True}}}},
            "not-exactly-one",
        ),
    ],
)
def test_values_the_pod_refuses(own_scheduler, mine, code):
    with refuses(code):
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
        with refuses("store-cannot-change"):
            validation.check_store(store(have), store(want))
    else:
        validation.check_store(store(have), store(want))


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
        ("0.26.0", None, "v1.34.0", True),
        ("0.28.1", None, "v1.35.0", True),
        ("0.29.0", None, "v1.35.4", True),
        ("0.31.0", None, "v1.35.4", False),
        ("0.37.0", None, "v1.36.0", False),
    ],
)
def test_skew(version, tenant, host, refused):
    if refused:
        with refuses("versions-too-far-apart"):
            validation.check_skew(version, tenant, host)
    else:
        validation.check_skew(version, tenant, host)


@pytest.mark.parametrize(("path", "gone", "_now"), facts.MOVED)
def test_moved_values_are_refused_with_the_new_name_from_that_version_on(path, gone, _now):
    values = True
    for key in reversed(path.split(".")):
        values = {key: values}
    validation.check_moved(values, f"{gone[0]}.{gone[1] - 1}.0")
    validation.check_moved({}, f"{gone[0]}.{gone[1]}.0")
    with refuses("moved-value"):
        validation.check_moved(values, f"{gone[0]}.{gone[1]}.0")


@pytest.mark.parametrize("url", [None, "", "http://proxy:3128", "https://user:secret@proxy.example"])
def test_good_proxies(url):
    validation.check_proxy("proxy_url", url)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("socks5://proxy:1080", "socks-proxy"),
        ("socks5h://proxy:1080", "socks-proxy"),
        ("proxy:3128", "not-an-address"),
        ("ftp://user:secret@proxy", "not-an-address"),
    ],
)
def test_bad_proxies(url, code):
    with refuses(code) as failure:
        validation.check_proxy("proxy_url", url)
    assert "secret" not in failure.value.message
