# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai

OLD, NEW = "ghcr.io/nvidia/kai-scheduler", "ghcr.io/kai-scheduler/kai-scheduler"
EVERY = [
    (first[0], first[1], patch)
    for first, last in kai.LINES
    for patch in itertools.chain(range(first[2], last[2] + 1), [last[2] + 1])
]
# The keys of values that the templates of each chart read, as found in upstream's repository at these tags.
READ = json.loads((Path(__file__).parent / "kai_values_keys.json").read_text())
RECORDED = sorted({version for versions in READ.values() for version in versions}, key=kai.number)


def paths(values, prefix=""):
    for key, value in values.items():
        yield from paths(value, f"{prefix}{key}.") if isinstance(value, dict) else [f"{prefix}{key}"]


@pytest.mark.parametrize("version", RECORDED)
def test_every_chart_reads_what_we_render(version):
    release = kai.release(version)
    rendered = [
        release.values(gpu_sharing, cdi)
        for gpu_sharing in (True, False)
        for cdi in ((None, True) if release.cdi_key else (None,))
    ]
    assert [path for values in rendered for path in paths(values) if version not in READ.get(path, [])] == []


def test_renamed_values_are_not_read_any_more_and_the_new_ones_are():
    for path, gone, new in kai.RENAMED:
        readers = {version for key, versions in READ.items() if f"{key}.".startswith(f"{path}.") for version in versions}
        assert not [version for version in readers if kai.number(version) >= gone], path
        assert new is None or "v0.17.0" in READ[new.partition(",")[0]]


@pytest.mark.parametrize(
    ("values", "version", "told"),
    [
        ({"binder": {"cdi": True}}, "v0.9.20", []),
        (
            {"binder": {"cdi": False}},
            "v0.13.1",
            ["values.binder.cdi: is not read by v0.13.1. Use binder.cdiEnabled, from 0.12.11 on."],
        ),
        ({"webhookmanager": {"resources": {}}}, "v0.9.2", ["values.webhookmanager: is not read by v0.9.2. Nothing replaces it."]),
        ({"scheduler": "odd"}, "v0.13.1", []),
    ],
)
def test_renamed(values, version, told):
    assert kai.renamed(values, version) == told


@pytest.mark.parametrize(
    ("before", "after", "sources"),
    [
        ("v0.8.5", "v0.9.20", ["#549"]),
        ("v0.8.5", "v0.13.1", ["#549", "release notes"]),
        ("v0.12.0", "v0.13.1", ["release notes"]),
        ("v0.13.1", "v0.12.0", ["see queue_levels"]),
        ("v0.13.4", "v0.14.0", ["values.yaml: prometheus"]),
        ("v0.14.9", "v0.15.3", ["values.yaml"]),
        ("v0.15.3", "v0.16.9", ["values.yaml: admission"]),
        ("v0.16.0", "v0.16.9", []),
    ],
)
def test_passages(before, after, sources):
    found = kai.passages(before, after)
    assert [any(f"({source}" in passage for passage in found) for source in sources] == [True] * len(sources)
    assert bool(found) == bool(sources)


@pytest.mark.parametrize(
    ("version", "long_term", "end", "kubernetes"),
    [
        ("v0.9.20", True, "2026-09", None),
        ("v0.12.0", True, "2026-12", None),
        ("v0.13.1", False, "2026-03", None),
        ("v0.14.9", True, "2027-03", ((1, 31), (1, 35))),
        ("v0.16.8", True, "2027-06", ((1, 28), (1, 36))),
    ],
)
def test_support(version, long_term, end, kubernetes):
    release = kai.release(version)
    assert (release.long_term, release.end_of_support, release.kubernetes) == (long_term, end, kubernetes)


@pytest.mark.parametrize("facts", kai.FACTS.values(), ids=kai.FACTS)
def test_every_fact_is_known_once_for_every_version(facts):
    assert all(fact.source for fact in facts)
    assert {version: sum(fact.first <= version <= fact.last for fact in facts) for version in EVERY} == dict.fromkeys(EVERY, 1)


@pytest.mark.parametrize(
    ("version", "registry", "chart_version"),
    [
        ("v0.7.11", OLD, "v0.7.11"),
        ("v0.9.15", OLD, "v0.9.15"),
        ("v0.9.16", NEW, "v0.9.16"),
        ("v0.10.2", OLD, "v0.10.2"),
        ("v0.12.0", OLD, "v0.12.0"),
        ("0.12.18", NEW, "v0.12.18"),
        ("v0.13.0", OLD, "v0.13.0"),
        ("v0.13.1", NEW, "v0.13.1"),
        ("v0.18.6", NEW, "0.18.6"),
    ],
)
def test_where_it_comes_from(version, registry, chart_version):
    release = kai.release(version)
    assert (release.registry, release.chart_version) == (registry, chart_version)
    assert release.chart == f"oci://{registry}/kai-scheduler"
    assert release.known


@pytest.mark.parametrize(
    ("version", "shape"),
    [
        ("v0.8.5", (False, False, False, 2, "scheduler")),
        ("v0.9.2", (True, False, True, 2, "scheduler")),
        ("v0.10.2", (True, True, True, 2, "kai-scheduler-default")),
        ("v0.12.0", (True, True, False, 2, "kai-scheduler-default")),
        ("v0.13.1", (True, True, False, None, "kai-scheduler-default")),
    ],
)
def test_shape(version, shape):
    release = kai.release(version)
    assert (release.operator, release.shard, release.needs_cluster_policy, release.queue_levels, release.scheduler) == shape


@pytest.mark.parametrize(
    ("version", "extra"),
    [
        ("v0.9.6", {}),
        ("v0.9.7", {"global": {"resourceReservation": {"runtimeClassName": "nvidia"}}}),
        ("v0.13.1", {"operator": {"qps": 5}, "topologyMigration": {"enabled": False}}),
        ("v0.16.8", {"binder": {"runtimeClassName": "nvidia"}, "topologyMigration": {"enabled": False}}),
    ],
)
def test_values_for_shared_gpus(version, extra):
    release = kai.release(version)
    base = {"registry": release.registry, "gpuSharing": True}
    assert release.values(True) == extra | {"global": base | extra.get("global", {})}
    always = {key: extra[key] for key in ("operator", "topologyMigration") if key in extra}
    assert release.values(False) == always | {"global": base | {"gpuSharing": False}}


@pytest.mark.parametrize(
    ("version", "restart"),
    [("v0.9.4", False), ("v0.12.0", True), ("v0.12.22", False), ("v0.13.1", True), ("v0.14.6", False), ("v0.15.2", True)],
)
def test_restart_after_upgrade(version, restart):
    assert kai.release(version).restart_after_upgrade is restart


@pytest.mark.parametrize("version", ["v0.19.0", "v0.21.0", "v1.0.0", "v0.14.99"])
def test_newer_ones_are_taken_for_the_newest(version):
    assert not kai.release(version).known


@pytest.mark.parametrize(
    ("version", "what"),
    [
        ("latest", "not a version of KAI Scheduler"),
        ("v0.13", "not a version of KAI Scheduler"),
        ("v0.20.1", "retracted"),
        ("v0.11.0", "there is no KAI Scheduler"),
        ("v0.6.23", "there is no KAI Scheduler"),
    ],
)
def test_refused(version, what):
    with pytest.raises(TenancyError, match=f"version: .*{what}"):
        kai.release(version)


@pytest.mark.parametrize("hazard", kai.HAZARDS, ids=lambda hazard: hazard.source)
def test_every_hazard_is_told_of_its_releases_and_no_others(hazard):
    text = f"{hazard.value} ({hazard.source})"
    for version in EVERY:
        release = kai.release("v" + ".".join(map(str, version)))
        others = [row for row in kai.HAZARDS if row is not hazard and f"{row.value} ({row.source})" == text]
        if not any(row.first <= version <= row.last for row in others):
            assert (text in release.hazards) == (hazard.first <= version <= hazard.last)


def test_hazards_name_their_source():
    assert any("#104" in hazard for hazard in kai.release("v0.12.0").hazards)
    assert kai.release("v0.16.8").hazards == ()


def config(generation=2, observed=2, **conditions):
    told = [{"type": name, "status": status, "observedGeneration": observed} for name, status in conditions.items()]
    return {"kind": "Config", "metadata": {"name": "kai-config", "generation": generation}, "status": {"conditions": told}}


READY = {"Deployed": "True", "Available": "True", "DependenciesFulfilled": "True"}


def test_conditions():
    assert kai.unready([config(**READY)]) == []
    assert "is not Deployed" in kai.unready([config(observed=1, **READY)])[0]
    assert "is not Available" in kai.unready([config(**READY | {"Available": "False"})])[0]
    assert "not reported yet" in kai.unready([config()])[0]


def deployment(available=1, updated=1, replicas=1, observed=1):
    status = {
        "availableReplicas": available,
        "updatedReplicas": updated,
        "replicas": replicas,
        "observedGeneration": observed,
    }
    return {"metadata": {"name": "binder", "generation": 1}, "spec": {"replicas": 1}, "status": status}


@pytest.mark.parametrize(
    ("deployments", "lacking"),
    [
        ([deployment()], []),
        ([], ["Deployment binder does not exist"]),
        ([deployment(available=0)], ["Deployment binder has 0 of 1 pods available"]),
        ([deployment(observed=0)], ["Deployment binder has 0 of 1 pods available"]),
        ([deployment(replicas=2)], ["Deployment binder still has old pods"]),
    ],
)
def test_deployments(deployments, lacking):
    assert kai.unavailable(["binder"], deployments) == lacking


def test_webhooks_without_ca():
    webhook = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "kai-binder"}, "webhooks": [{"clientConfig": {}}]}
    assert kai.without_ca([webhook]) == ["MutatingWebhookConfiguration kai-binder has no CA yet"]
    assert kai.without_ca([webhook | {"webhooks": [{"clientConfig": {"caBundle": "x"}}]}]) == []
    assert kai.without_ca([webhook | {"metadata": {"name": "other"}}]) == []


def test_troubles():
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    pod = {"metadata": {"name": "p"}, "status": {"containerStatuses": [{"state": {"waiting": waiting}}]}}
    assert kai.troubles([pod]) == ["pod p: ImagePullBackOff no such image"]


def test_writes_are_tried_again_while_the_webhook_is_silent():
    answers = iter(["failed calling webhook x: connection refused", "ok"])

    def write():
        if (answer := next(answers)) != "ok":
            raise TenancyError(answer)
        return answer

    assert kai.when_webhook_answers("it", write, 10) == "ok"

    def refuse():
        raise TenancyError("forbidden")

    with pytest.raises(TenancyError, match="forbidden"):
        kai.when_webhook_answers("it", refuse, 10)
