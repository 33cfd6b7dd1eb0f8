# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import time

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import (
    ACCEPTED_ANNOTATION,
    FOREIGN_KINDS,
    WEBHOOKS,
    foreign_crd,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.status import (
    Parts,
    accepted_hazards,
    conditions,
    established,
    is_error,
    is_kai_crd,
    is_kubernetes_tested,
    is_of_chart,
    is_supported,
    is_unauthorised,
    log_cause,
    missing,
    plain_lines,
    unavailable,
    unready,
    without_ca,
    without_names,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.validation import release


def config(generation=2, observed=2, **conditions):
    reported = [{"type": name, "status": status, "observedGeneration": observed} for name, status in conditions.items()]
    return {"kind": "Config", "metadata": {"name": "kai-config", "generation": generation}, "status": {"conditions": reported}}


READY = {"Deployed": "True", "Available": "True", "DependenciesFulfilled": "True"}


def test_conditions():
    assert unready([config(**READY)]) == []
    assert "is not Deployed" in unready([config(observed=1, **READY)])[0]
    assert "is not Available" in unready([config(**READY | {"Available": "False"})])[0]
    assert "not reported yet" in unready([config()])[0]


def deployment(available=1, updated=1, replicas=1, observed=1, wanted=1):
    status = {
        "availableReplicas": available,
        "updatedReplicas": updated,
        "replicas": replicas,
        "observedGeneration": observed,
    }
    return {"metadata": {"name": "binder", "generation": 1}, "spec": {"replicas": wanted}, "status": status}


@pytest.mark.parametrize(
    ("deployments", "phrases"),
    [
        ([deployment()], []),
        ([], ["Deployment binder does not exist"]),
        ([deployment(available=0)], ["Deployment binder has 0 of 1 pods available"]),
        ([deployment(observed=0)], ["Deployment binder has 0 of 1 pods available"]),
        ([deployment(replicas=2)], ["Deployment binder still has old pods"]),
        ([deployment(available=0, updated=0, replicas=0, wanted=0)], ["Deployment binder has 0 of 1 pods available"]),
    ],
)
def test_deployments(deployments, phrases):
    assert unavailable(["binder"], deployments) == phrases


def test_webhooks_without_ca():
    webhook = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "kai-binder"}, "webhooks": [{"clientConfig": {}}]}
    assert without_ca([webhook]) == ["MutatingWebhookConfiguration kai-binder has no CA yet"]
    # Another name from v0.7.13 to v0.8.5.
    assert without_ca([webhook | {"metadata": {"name": "kai-admission"}}]) != []
    assert without_ca([webhook | {"webhooks": [{"clientConfig": {"caBundle": "x"}}]}]) == []
    assert without_ca([webhook | {"metadata": {"name": "other"}}]) == []


def rolled_out(version):
    return [deployment() | {"metadata": {"name": name, "generation": 1}} for name in release(version).deployments]


def test_what_a_release_with_an_operator_needs():
    of, shard = release("v0.13.1"), config(**READY) | {"kind": "SchedulingShard"}
    complete = Parts(config(**READY), [shard], [], rolled_out("v0.13.1"))
    assert missing(of, complete) == []
    assert [row["object"] for row in conditions(complete)] == ["Config kai-config"] * 3 + ["SchedulingShard kai-config"] * 3
    phrases = missing(of, Parts(None, [config(observed=1, **READY)], [], rolled_out("v0.13.1")[1:]))
    assert [phrase.partition(" ")[0] for phrase in phrases] == ["Config", "Config", "Deployment"]
    assert phrases[0] == "Config kai-config does not exist"


def test_a_scheduler_that_the_operator_has_not_changed_yet_is_missing():
    image = {"repository": "registry.example", "name": "scheduler", "tag": "v2"}
    asked = config(**READY) | {"spec": {"scheduler": {"service": {"image": image}}}}
    deployments = rolled_out("v0.13.1")
    scheduler = next(item for item in deployments if item["metadata"]["name"] == "kai-scheduler-default")
    containers = [{"image": "registry.example/scheduler:v1"}]
    scheduler["spec"] = scheduler["spec"] | {"template": {"spec": {"containers": containers}}}
    phrase = "Deployment kai-scheduler-default has still the image registry.example/scheduler:v1"
    assert missing(release("v0.13.1"), Parts(asked, [], [], deployments)) == [phrase]
    containers[0]["image"] = "registry.example/scheduler:v2"
    assert missing(release("v0.13.1"), Parts(asked, [], [], deployments)) == []


def test_what_a_release_without_an_operator_needs():
    kind, name = WEBHOOKS[-1]
    webhook = {"kind": kind, "metadata": {"name": name}, "webhooks": [{"clientConfig": {}}]}
    assert missing(release("v0.8.5"), Parts(None, [], [], rolled_out("v0.8.5"))) == []
    assert missing(release("v0.8.5"), Parts(None, [], [webhook], rolled_out("v0.8.5"))) == [f"{kind} {name} has no CA yet"]


def test_crds_are_established_by_their_condition():
    def crd(name, status):
        return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Established", "status": status}]}}

    assert established({"a", "b"}, [crd("a", "True"), crd("b", "True"), crd("c", "False")]) == (True, "")
    assert established({"a", "b", "c"}, [crd("a", "True"), crd("b", "False")]) == (None, "b, c not established")


def test_a_pod_is_unauthorised_once_its_account_was_made_anew():
    def made(minute):
        return {"metadata": {"creationTimestamp": f"2026-11-22T12:{minute:02}:00Z"}}

    assert is_unauthorised(made(1), made(2))
    assert not is_unauthorised(made(2), made(2))
    assert not is_unauthorised(made(2), None)


def test_what_came_with_the_chart():
    def item(name, release="kai-scheduler", namespace="kai-scheduler"):
        notes = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
        return {"metadata": {"name": name, "annotations": notes}}

    assert is_of_chart(item("kai-binder"))
    for hook in ("kai-webhookmanager", "kai-topology-migration", "kai-scheduler-config-deployer"):
        assert is_of_chart({"metadata": {"name": hook}})
    assert not is_of_chart(item("kai-binder", namespace="other"))
    assert not is_of_chart({"metadata": {"name": "cluster-admin"}})


def test_crds_of_others_are_kais_only_where_they_were_brought_for_it():
    for name in FOREIGN_KINDS:
        assert is_kai_crd(foreign_crd(name))
        assert not is_kai_crd({"metadata": {"name": name}})
    assert is_kai_crd({"metadata": {"name": "queues.scheduling.run.ai"}})


@pytest.mark.parametrize(
    ("version", "today", "supported"),
    [
        ("v0.13.1", "2026-11-21", False),
        ("v0.12.0", "2026-12-31", True),
        ("v0.12.0", "2027-01-01", False),
        ("v0.19.0", "2030-01-01", True),
    ],
)
def test_support_ends_with_its_month(version, today, supported):
    assert is_supported(release(version), datetime.date.fromisoformat(today)) is supported


@pytest.mark.parametrize(("kubernetes", "tested"), [("v1.35.4", True), ("v1.36.1+k3s1", True), ("v1.37.0", False), ("odd", None)])
def test_versions_of_kubernetes_that_upstream_tests(kubernetes, tested):
    assert is_kubernetes_tested(release("v0.16.8"), kubernetes) is tested
    assert is_kubernetes_tested(release("v0.12.0"), kubernetes) is None


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [(None, []), ({ACCEPTED_ANNOTATION: ""}, []), ({ACCEPTED_ANNOTATION: "#1103,end-of-support"}, ["#1103", "end-of-support"])],
)
def test_what_was_accepted_stands_on_the_namespace(annotations, expected):
    assert accepted_hazards(None) == []
    assert accepted_hazards({"metadata": {"annotations": annotations}}) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("2026-11-26T12:00:00Z ERROR it failed", "… ERROR it failed"),
        ('E1126 12:00:00.1 1 a.go:5] "Failed to bind" pod="ns/web-0" err="gone"', "… … … … … pod=… err=…"),
        ('pod="ns/web" of ns/web-0', "pod=… of …"),
        ('an "open quote', 'an "open quote'),
        ("", ""),
    ],
)
def test_a_line_without_what_differs_each_time(line, expected):
    assert without_names(line) == expected


@pytest.mark.parametrize("text", ["a", '"', '"a', 'a="', "1", "\x1b[", "failed to list ", "\tERROR", '"level":"', "E1234", " "])
def test_a_log_is_read_in_time_that_grows_with_its_length_alone(text):
    log = text * (2**20 // len(text))
    start = time.process_time()
    for line in plain_lines(log):
        without_names(line), is_error(line), log_cause(line)
    assert time.process_time() - start < 10
