# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the one life of a Helm release: every state in which it can be, on the way to the desired state and to its removal."""

from __future__ import annotations

import base64
import copy
import gzip

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Chart
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.facts import INCOMPLETE, UNFINISHED
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.lifecycle import Edits, HelmRelease
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.helm import InMemoryHelm

CHART = Chart("oci://registry.example/charts/web", "2.0.0")
VALUES = {"replicas": 2}
STATES = ["deployed", "failed", "superseded", "uninstalled", *sorted(UNFINISHED)]


class Setting:
    """A release that has two revisions, the last of them in a given state; None for no release."""

    def __init__(self, status: str | None) -> None:
        self.kube = InMemoryApi()
        self.helm = InMemoryHelm(self.kube)
        if status:
            self.helm.record(Release("web", "apps", "superseded", 1, "web", "1.0.0", {}))
            self.helm.record(Release("web", "apps", status, 2, "web", "2.0.0", VALUES))
        self.release = HelmRelease(self.kube, self.helm, "web", "apps")  # type: ignore[arg-type]
        self.release.inspect()


def statuses(setting: Setting) -> list[str]:
    return [release.status for release in setting.helm._history("web", "apps")]


@pytest.mark.parametrize(
    ("status", "calls"),
    [
        (None, [("upgrade", "web")]),
        *[(status, [("upgrade", "web")]) for status in STATES if status not in UNFINISHED],
        ("pending-upgrade", [("upgrade", "web")]),
        ("pending-rollback", [("upgrade", "web")]),
        ("pending-install", [("uninstall", "web", "--no-hooks"), ("upgrade", "web")]),
        ("uninstalling", [("uninstall", "web", "--no-hooks"), ("upgrade", "web")]),
    ],
)
def test_every_state_ends_deployed(status, calls):
    setting = Setting(status)
    assert (setting.release.found is None) == (status is None)
    setting.release.apply(CHART, VALUES, Deadline(10))
    assert setting.helm.calls == calls
    found = setting.release.inspect()
    assert (found.status, found.chart_version, found.values) == ("deployed", "2.0.0", VALUES)
    assert setting.release.changes("2.0.0", VALUES) == []
    # A revision that was never finished is forgotten; helm keeps the others.
    assert not set(statuses(setting)) & UNFINISHED


@pytest.mark.parametrize("status", ["pending-upgrade", "pending-rollback"])
def test_only_the_record_of_an_unfinished_revision_is_deleted(status):
    setting = Setting(status)
    setting.release.repair(Deadline(10))
    assert setting.kube.writes == [("delete", "Secret", "sh.helm.release.v1.web.v2")]
    assert (setting.helm.calls, statuses(setting)) == ([], ["superseded"])


@pytest.mark.parametrize("status", [None, *STATES])
def test_only_unfinished_states_are_repaired(status):
    setting = Setting(status)
    assert setting.release.unfinished == (status in UNFINISHED)
    before = statuses(setting)
    setting.release.repair(Deadline(10))
    assert (statuses(setting) == before) == (status not in UNFINISHED)
    assert bool(setting.helm.calls) == (status in INCOMPLETE)


@pytest.mark.parametrize("status", sorted(UNFINISHED))
def test_what_was_ended_once_is_not_repaired_again(status):
    for end in ("repair", "remove"):
        setting = Setting(status)
        getattr(setting.release, end)(Deadline(10))
        setting.helm.calls.clear()
        setting.kube.writes.clear()
        setting.release.apply(CHART, VALUES, Deadline(10))
        assert setting.helm.calls == [("upgrade", "web")]
        assert not [write for write in setting.kube.writes if write[0] == "delete"]


@pytest.mark.parametrize("status", [None, *STATES])
def test_every_state_but_deployed_is_a_change(status):
    setting = Setting(status)
    if status is None:
        assert setting.release.changes("2.0.0", VALUES) == [("version", None, "2.0.0"), ("values", None, VALUES)]
    else:
        expected = [] if status == "deployed" else [("release", status, "deployed")]
        assert setting.release.changes("2.0.0", VALUES) == expected


@pytest.mark.parametrize(
    ("deployed_at", "expected"), [("2026-11-24T10:02:00Z", ("2026-11-24T10:02:00Z", "Helm, revision 3")), ("", None)]
)
def test_a_revision_is_the_write_of_what_there_is(deployed_at, expected):
    setting = Setting(None)
    assert setting.release.write is None
    setting.helm.record(Release("web", "apps", "deployed", 3, "web", "2.0.0", VALUES, deployed_at))
    setting.release.inspect()
    assert setting.release.write == expected


def test_changes_name_version_and_each_value():
    setting = Setting("failed")
    assert setting.release.changes("2.1.0", {"replicas": 3, "image": "x"}) == [
        ("release", "failed", "deployed"),
        ("version", "2.0.0", "2.1.0"),
        ("values.replicas", 2, 3),
        ("values.image", None, "x"),
    ]


@pytest.mark.parametrize("status", STATES)
@pytest.mark.parametrize("hooks", [True, False])
def test_every_state_can_be_removed(status, hooks):
    setting = Setting(status)
    setting.release.remove(Deadline(10), hooks)
    assert setting.helm.calls == [("uninstall", "web", *([] if hooks else ["--no-hooks"]))]
    # What was found stays what a run decides by, as in check mode; what is there is read anew.
    assert setting.release.found is not None
    assert setting.release.inspect() is None


def test_without_a_release_nothing_is_removed():
    setting = Setting(None)
    setting.release.remove(Deadline(10))
    assert setting.helm.calls == []


@pytest.mark.parametrize("status", [None, *STATES])
def test_a_chart_that_refuses_its_values_is_refused_before_the_first_write(status):
    setting = Setting(status)
    setting.helm.refusal = "values.replicas: no"
    for attempt in (
        lambda: setting.release.preview(CHART, VALUES),
        lambda: setting.release.apply(CHART, VALUES, Deadline(10)),
    ):
        with pytest.raises(TenancyError, match=r"values\.replicas: no"):
            attempt()
    assert (setting.helm.calls, setting.kube.writes) == ([], [])


def test_a_chart_is_rendered_once_with_the_kinds_it_asks_for():
    setting = Setting(None)
    setting.release.preview(CHART, VALUES, ["resource.k8s.io/v1/DeviceClass"])
    setting.release.apply(CHART, VALUES, Deadline(10))
    assert setting.helm.rendered == [(VALUES, ("resource.k8s.io/v1/DeviceClass",))]


def test_values_other_than_those_previewed_are_rendered_too():
    setting = Setting(None)
    setting.release.preview(CHART, VALUES)
    setting.release.apply(CHART, {"replicas": 3}, Deadline(10))
    assert [values for values, _kinds in setting.helm.rendered] == [VALUES, {"replicas": 3}]


def test_helm_gets_the_time_that_is_left_of_the_deadline():
    setting = Setting("uninstalling")
    given = []
    setting.helm.upgrade = lambda *args, **_kwargs: given.append(args[-1])
    setting.helm.uninstall = lambda *args, **_kwargs: given.append(args[-1])
    now = [0.0]
    deadline = Deadline(100, clock=lambda: now[0])
    now[0] = 40.7
    setting.release.apply(CHART, VALUES, deadline)
    assert given == [59, 59]
    now[0] = 200.0
    setting.release.inspect()
    setting.release.remove(deadline)
    assert given[2:] == [1]


# --- what others changed of its objects ---

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: apps, labels: {app: web}}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - {name: main, image: "web:2", args: [--fast], resources: {}, env: [{name: A, value: "1"}], ports: [{containerPort: 80}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: web}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [get, list]}
---
apiVersion: v1
kind: Secret
metadata: {name: web, namespace: apps}
data: {password: c2VjcmV0}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crd}
"""


class Edited(Setting):
    """A release whose objects are there, with what an API server and controllers add."""

    def __init__(self):
        super().__init__(None)
        self.helm.manifests["web"] = MANIFEST
        self.helm.record(Release("web", "apps", "deployed", 1, "web", "2.0.0", VALUES))
        for item in yaml.safe_load_all(MANIFEST):
            if item["kind"] != "CustomResourceDefinition":
                self.kube.put(item)
        deployment = self.live("Deployment")
        deployment["spec"] |= {"revisionHistoryLimit": 10}
        deployment["spec"]["template"]["spec"]["containers"][0] |= {"imagePullPolicy": "IfNotPresent"}
        deployment["spec"]["template"]["spec"]["containers"][0]["ports"][0] |= {"protocol": "TCP"}
        deployment["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "3"}
        self.kube.put(deployment)
        self.kube.writes.clear()

    def live(self, kind):
        return next(item for item in self.kube.objects.values() if item["kind"] == kind and item["metadata"]["name"] == "web")

    def edit(self, kind, change):
        item = copy.deepcopy(self.live(kind))
        change(item)
        self.kube.put(item)

    def run(self, check_mode=False):
        self.kube.writes.clear()
        run = Run({}, check_mode, self.kube, self.helm, Deadline(10))
        self.release.inspect()
        Edits(run, self.release).take_back()
        return run


def container(item):
    return item["spec"]["template"]["spec"]["containers"][0]


def test_defaults_and_what_a_chart_leaves_open_are_no_edits():
    run = Edited().run()
    assert (run.changes, run.kube.writes) == ([], [])


@pytest.mark.parametrize(
    ("kind", "change", "path", "before", "after"),
    [
        ("Deployment", lambda item: item["spec"].update(replicas=0), "spec.replicas", 0, 2),
        ("Deployment", lambda item: container(item).update(image="web:3"), "image", "web:3", "web:2"),
        ("Deployment", lambda item: container(item).update(args=["--slow"]), "args", ["--slow"], ["--fast"]),
        ("Deployment", lambda item: container(item).pop("args"), "args", None, ["--fast"]),
        ("Deployment", lambda item: container(item)["env"].append({"name": "B"}), "env[B]", {"name": "B"}, None),
        ("Deployment", lambda item: container(item)["env"][0].update(value="2"), "env[A].value", "2", "1"),
        ("Deployment", lambda item: item["metadata"].update(labels={}), "metadata.labels", None, {"app": "web"}),
        ("ClusterRole", lambda item: item["rules"][0].update(verbs=["get"]), "rules", ["get"], ["get", "list"]),
    ],
)
def test_an_edit_is_named_and_taken_back(kind, change, path, before, after):
    setting = Edited()
    setting.edit(kind, change)
    predicted = setting.run(check_mode=True)
    assert setting.kube.writes == []
    run = setting.run()
    assert run.changes == predicted.changes
    ((what, was, becomes),) = run.changes
    assert what == f"{kind} web"
    ((where, old), (_where, new)) = (*was.items(), *becomes.items())
    assert where.endswith(path)
    if path != "rules":
        assert (old, new) == (before, after)
    assert setting.kube.writes == [("patch", kind, "web")]
    assert setting.run().changes == []
    # What others wrote beside it stays.
    assert setting.live("Deployment")["spec"]["revisionHistoryLimit"] == 10


def test_of_a_secret_no_value_is_shown():
    setting = Edited()
    setting.edit("Secret", lambda item: item["data"].update(password="b3RoZXI="))
    ((_what, before, after),) = setting.run().changes
    assert before.keys() == after.keys() == {"data.password"}
    assert all(value.startswith("digest ") for value in (*before.values(), *after.values()))
    assert setting.live("Secret")["data"]["password"] == "c2VjcmV0"


def test_an_object_that_is_gone_is_made_again_as_helms():
    setting = Edited()
    setting.kube.drop("apps/v1", "Deployment", "web", "apps")
    run = setting.run()
    assert run.changes == [("Deployment web", None, {"state": "present"})]
    notes = setting.live("Deployment")["metadata"]["annotations"]
    assert notes == {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "apps"}
    assert setting.run().changes == []


# Objects as a tenant may write them into a record of its own cluster.
ODD = ["x", "{}", "{kind: A}", "{apiVersion: v1, kind: A, metadata: x}", "{apiVersion: v1, kind: A, metadata: {name: 1}}"]
ODD += [
    "{apiVersion: v1, kind: A, metadata: {name: a}, spec: x}",
    "{apiVersion: v1, kind: A, metadata: {name: a, namespace: false}}",
    "\n---\n".join(f"{{apiVersion: v1, kind: A, metadata: {{name: a{number}}}}}" for number in range(501)),
]


@pytest.mark.parametrize("manifest", ["a: [" * 100, *ODD])
def test_a_record_that_cannot_be_read_is_named(manifest):
    setting = Edited()
    release = setting.release.inspect()
    setting.helm.manifests["web"] = manifest
    setting.helm.record(release)
    with pytest.raises(
        TenancyError, match=r"Secret sh\.helm\.release\.v1\.web\.v1, in which helm keeps a release, cannot be read"
    ):
        setting.run()


def test_a_record_that_unpacks_to_gigabytes_is_not_unpacked():
    setting = Edited()
    record = setting.kube.get("v1", "Secret", "sh.helm.release.v1.web.v1", "apps")
    bomb = base64.b64encode(gzip.compress(b"0" * 50_000_000)).decode()
    record["data"] = {"release": base64.b64encode(bomb.encode()).decode()}
    setting.kube.put(record)
    with pytest.raises(TenancyError, match="it has more than"):
        setting.run()
