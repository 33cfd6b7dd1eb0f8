# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Schedulers that go, in virtual clusters whose administrators mean well or not."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release
from ansible_collections.kubegpu.tenancy.plugins.modules.former_schedulers import reconcile
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.helm import InMemoryHelm
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run, untimed

LABEL = "kubegpu.tenancy/scheduler"
WHY = "its virtual cluster is to have another scheduler, or none"


def namespace(name, value=None, **metadata):
    labels = {LABEL: name if value is None else value}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels} | metadata}


class Cluster:
    """A virtual cluster with these namespaces, and a Helm release in the named ones."""

    def __init__(self, *namespaces, released=()):
        self.kube = InMemoryApi(namespaces)
        self.helm = InMemoryHelm(self.kube)
        for name in released:
            self.helm.record(Release(name, name, "deployed", 1, name, "1.12.0", {}))

    def call(self, keep=(), check_mode=False, timeout=60):
        self.kube.writes.clear()
        self.helm.calls.clear()
        self.run = make_run({"keep": list(keep), "timeout": timeout}, self.kube, self.helm, check_mode)
        return untimed(reconcile(self.run))

    @property
    def left(self):
        return [item["metadata"]["name"] for item in self.kube.list("v1", "Namespace")]


def test_what_is_not_wanted_goes_as_it_was_predicted():
    cluster = Cluster(namespace("volcano"), namespace("yunikorn"), namespace("web", ""), released=["volcano", "yunikorn"])
    predicted = cluster.call(["volcano"], check_mode=True)
    assert (cluster.kube.writes, cluster.helm.calls) == ([], [])
    assert cluster.call(["volcano"]) == predicted
    assert predicted["schedulers"] == ["yunikorn"]
    assert predicted["diff"]["before"] == {"Namespace yunikorn": "present", "release yunikorn": "1.12.0"}
    assert predicted["steps"] == [{"step": step, "why": WHY} for step in ("uninstall yunikorn", "remove namespace yunikorn")]
    # Hooks are what the record says, which its tenant can write.
    assert cluster.helm.calls == [("uninstall", "yunikorn", "--no-hooks")]
    assert cluster.left == ["volcano", "web"]

    again = cluster.call(["volcano"])
    assert (again["changed"], again["schedulers"], again["steps"], cluster.kube.writes) == (False, [], [], [])


def test_a_namespace_without_a_release_goes_too():
    cluster = Cluster(namespace("volcano"))
    assert cluster.call()["schedulers"] == ["volcano"]
    assert (cluster.helm.calls, cluster.left) == ([], [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, None) for name in ("kube-system", "kube-public", "kube-own", "default", "kai-scheduler")),
        *((name, None) for name in ("kai-resource-reservation", "kai-scale-adjust", "1st", "a" * 41)),
        ("web", "volcano"),
        ("web", ""),
    ],
)
def test_namespaces_that_cannot_be_this_collections_are_left_alone_and_named(name, value):
    cluster = Cluster(namespace(name, value), namespace("volcano"))
    assert cluster.call()["schedulers"] == ["volcano"]
    assert cluster.left == [name]
    (warning,) = cluster.run.warnings
    assert name in warning


def test_a_thousand_of_them_are_refused_before_anything_goes():
    cluster = Cluster(*(namespace(f"n{number}") for number in range(1000)), released=["n1"])
    with pytest.raises(TenancyError, match="1000 namespaces of the virtual cluster have the label") as caught:
        cluster.call()
    assert "and 990 more" in caught.value.message
    assert f"kubectl label namespace NAME {LABEL}-" in caught.value.message
    assert len(caught.value.message) < 1000
    assert (cluster.kube.writes, cluster.helm.calls, len(cluster.left)) == ([], [], 1000)


def test_ten_with_finalizers_take_one_timeout_and_the_next_run_waits_for_none():
    cluster = Cluster(*(namespace(f"n{number}", finalizers=["never.example/ends"]) for number in range(10)))
    with pytest.raises(TenancyError, match="end of the namespaces of former schedulers") as caught:
        cluster.call(timeout=60)
    assert "finalizers" in caught.value.message
    assert cluster.run.deadline.elapsed() <= 60
    # The removal of all of them was asked for.
    assert [name for _verb, _kind, name in cluster.kube.writes] == [f"n{number}" for number in range(10)]

    again = cluster.call()
    assert (again["changed"], again["schedulers"], cluster.kube.writes) == (False, [], [])
    assert cluster.run.deadline.elapsed() == 0
    assert "began before, and has not ended: n0, n1" in cluster.run.warnings[0]


def test_one_that_is_made_anew_is_another_one():
    cluster = Cluster(namespace("volcano"))
    cluster.kube.react("delete", "Namespace", lambda _item: cluster.kube.put(namespace("volcano")))
    assert cluster.call()["schedulers"] == ["volcano"]
    assert cluster.left == ["volcano"]


def test_no_scheduler_is_begun_with_when_time_is_up():
    cluster = Cluster(*(namespace(f"n{number}") for number in range(3)), released=["n0", "n1", "n2"])
    fast = cluster.helm.uninstall

    def uninstall(*args, **options):
        cluster.run.deadline.sleep(25)
        return fast(*args, **options)

    cluster.helm.uninstall = uninstall
    with pytest.raises(TenancyError, match="Time was up after 40 s, before scheduler n2 was looked at"):
        cluster.call(timeout=40)


def test_a_record_that_helm_cannot_read_is_an_error():
    cluster = Cluster(namespace("volcano"), released=["volcano"])

    record = cluster.kube.get("v1", "Secret", "sh.helm.release.v1.volcano.v1", "volcano")
    cluster.kube.put(record | {"data": {"release": "no base64"}})
    with pytest.raises(
        TenancyError, match=r"Secret sh\.helm\.release\.v1\.volcano\.v1, in which helm keeps a release, cannot be read"
    ):
        cluster.call()
    assert cluster.left == ["volcano"]
