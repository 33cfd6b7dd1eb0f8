# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import RENAMED
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.validation import parse_version, release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.values import (
    chart_values,
    config_in,
    config_spec,
    ignored_values,
    images_in,
    limits_memory,
    memory_limit_values,
    migrates_topologies,
    parse_manifests,
    pulling_pod,
    runtime_class_values,
    shares_gpus,
)
from ansible_collections.kubegpu.tenancy.tests.unit.charts import kai_scheduler

# The keys of values that the templates of each chart read, as found in upstream's repository at these tags.
READ = json.loads((Path(__file__).parent / "values_keys.json").read_text())
# It has no limit, and would take every pod that names no queue.
NO_DEFAULT_QUEUE = {"defaultQueue": {"createDefaultQueue": False}}
RECORDED = sorted({version for versions in READ.values() for version in versions}, key=parse_version)


def paths(values, prefix=""):
    for key, value in values.items():
        yield from paths(value, f"{prefix}{key}.") if isinstance(value, dict) else [f"{prefix}{key}"]


@pytest.mark.parametrize("version", RECORDED)
def test_every_chart_reads_what_is_rendered(version):
    of = release(version)
    rendered = [
        chart_values(of, gpu_sharing, cdi) for gpu_sharing in (True, False) for cdi in ((None, True) if of.cdi_key else (None,))
    ]
    rendered += [runtime_class_values(of, "nvidia-cdi"), {"global": {"tolerations": []}}]
    assert [path for values in rendered for path in paths(values) if version not in READ.get(path, [])] == []


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("v0.8.5", {}),
        ("v0.13.1", {"admission": {"gpuPodRuntimeClassName": ""}, "binder": {"runtimeClassName": ""}}),
        ("v0.16.8", {"admission": {"gpuFractionRuntimeClassName": ""}, "binder": {"runtimeClassName": ""}}),
    ],
)
def test_no_runtime_class_is_said_where_a_release_reads_it(version, expected):
    assert runtime_class_values(release(version), "") == expected
    assert runtime_class_values(release(version), "nvidia") == {}


def test_memory_is_limited_by_values_that_a_chart_reads():
    assert memory_limit_values(release("v0.16.9")) == {}
    # The chart hands all plugins to the Config, whose spec has the same keys.
    hami = {"binder": {"plugins": {"hamicore": {"enabled": True}}}}
    assert memory_limit_values(release("v0.17.0")) == hami
    assert "v0.17.0" in READ["binder.plugins"]
    assert memory_limit_values(release("v0.18.6")) == {"global": {"gpuSharingMode": "HamiCore"}}
    assert [limits_memory(spec) for spec in (hami, {"global": {"gpuSharingMode": "HamiCore"}})] == [True, True]
    odd = (
        {},
        {"binder": "odd"},
        {"binder": {"plugins": {"hamicore": {"enabled": False}}}},
        {"global": {"gpuSharingMode": "Disabled"}},
    )
    assert not any(map(limits_memory, odd))


def test_images_are_pulled_to_nodes_that_the_schedulers_own_pods_tolerate():
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert pulling_pod(["image:1"], {"global": {"tolerations": tolerations}})["spec"]["tolerations"] == tolerations
    assert pulling_pod(["image:1"], {})["spec"]["tolerations"] == []


@pytest.mark.parametrize(
    ("version", "extra"),
    [
        ("v0.9.5", {}),
        ("v0.9.6", {"global": {"resourceReservation": {"runtimeClassName": "nvidia"}}}),
        ("v0.10.0", NO_DEFAULT_QUEUE),
        ("v0.13.1", NO_DEFAULT_QUEUE | {"operator": {"qps": 5}, "topologyMigration": {"enabled": False}}),
        ("v0.16.8", NO_DEFAULT_QUEUE | {"binder": {"runtimeClassName": "nvidia"}, "topologyMigration": {"enabled": False}}),
    ],
)
def test_values_for_shared_gpus(version, extra):
    of = release(version)
    base = {"registry": of.registry, "gpuSharing": True}
    assert chart_values(of, True) == extra | {"global": base | extra.get("global", {})}
    always = {key: extra[key] for key in ("defaultQueue", "operator", "topologyMigration") if key in extra}
    assert chart_values(of, False) == always | {"global": base | {"gpuSharing": False}}


def test_renamed_values_are_not_read_any_more_and_the_new_ones_are():
    for path, gone, new in RENAMED:
        readers = {version for key, versions in READ.items() if f"{key}.".startswith(f"{path}.") for version in versions}
        assert not [version for version in readers if parse_version(version) >= gone], path
        assert new is None or "v0.17.0" in READ[new.partition(",")[0]]


@pytest.mark.parametrize(
    ("values", "version", "ignored"),
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
def test_values_that_are_ignored(values, version, ignored):
    assert ignored_values(values, release(version)) == ignored


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, False),
        ({"global": "odd"}, False),
        ({"global": {"gpuSharing": False}}, False),
        ({"global": {"gpuSharing": True}}, True),
    ],
)
def test_who_shares_gpus_by_the_values(values, expected):
    assert shares_gpus(values, release("v0.12.0")) is expected
    assert shares_gpus(chart_values(release("v0.12.0"), expected), release("v0.12.0")) is expected


def test_topologies_are_migrated_only_by_charts_with_such_a_hook():
    new, old = release("v0.13.1"), release("v0.10.5")
    assert migrates_topologies(chart_values(new, False, kueue=True), new)
    assert not migrates_topologies(chart_values(new, False), new)
    assert not migrates_topologies({}, old)


def image(name, repository="registry.example", tag="v1"):
    return {"name": name, "repository": repository, "tag": tag, "pullPolicy": "Always"}


SPEC = {
    "namespace": "kai-scheduler",
    "binder": {"service": {"enabled": True, "image": image("binder")}, "resourceReservation": {"image": image("reservation")}},
    "nodeScaleAdjuster": {"service": {"enabled": False, "image": image("off")}, "args": {"scalingPodImage": image("off")}},
    "numaPlacementExporter": {"service": {"image": image("off")}},
    "scheduler": {"service": {"image": image("scheduler")}},
    "podGrouper": {"service": {"enabled": False, "image": image("off")}},
    "admission": {"service": {"image": image("admission", tag="")}},
}
CONFIG = {"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config", "namespace": "x"}, "spec": SPEC}


def chart(config_hooked=True, by_job=False):
    """What a chart makes: an operator, a hook's job, one that runs when it is removed, and the Config in one of three ways."""
    hook = {"annotations": {"helm.sh/hook": "pre-install,pre-upgrade"}}
    notes = hook if config_hooked and not by_job else {}
    items = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": pods("operator")},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": hook, "spec": pods("crd-upgrader")},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"annotations": {"helm.sh/hook": "post-delete"}},
            "spec": pods("never"),
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": hook, "data": {"migrate.sh": "set -e\n: not yaml: ["}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {}},
    ]
    if by_job:
        data = {"kai-config.yaml": json.dumps(CONFIG)}
        items.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": hook, "data": data})
    else:
        items.append(CONFIG | {"metadata": CONFIG["metadata"] | notes})
    return "\n---\n".join(map(json.dumps, items))


def pods(name):
    return {"template": {"spec": {"containers": [{"name": "x", "image": f"registry.example/{name}:v1"}]}}}


@pytest.mark.parametrize("by_job", [False, True])
def test_the_config_that_a_hook_makes(by_job):
    assert config_in(parse_manifests(chart(by_job=by_job))) == CONFIG | {"metadata": {"name": "kai-config"}}


def test_a_config_that_helm_itself_makes_is_no_hooks():
    assert config_in(parse_manifests(chart(config_hooked=False))) is None
    assert config_in(parse_manifests("")) is None


@pytest.mark.parametrize(("hooks", "more"), [(False, []), (True, ["crd-upgrader"])])
def test_the_images_that_an_installation_needs(hooks, more):
    names = ["operator", *more, "binder", "reservation", "scheduler"]
    assert images_in(parse_manifests(chart()), hooks) == [f"registry.example/{name}:v1" for name in names]


def test_images_that_a_config_leaves_open_are_those_that_its_operator_takes():
    values = {"global": {"registry": "registry.example"}}
    spec = config_spec(kai_scheduler("v0.12.0", values, config={"binder": {"cdiEnabled": True}}))
    whole = {"repository": "registry.example", "tag": "v0.12.0"}
    assert spec["podGrouper"] == {"service": {"image": whole | {"name": "podgrouper"}}}
    assert spec["binder"]["resourceReservation"] == {"image": whole | {"name": "resourcereservation"}}
    assert spec["binder"]["cdiEnabled"] is True
    assert config_spec([]) == {}
