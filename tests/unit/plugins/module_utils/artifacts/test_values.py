# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the images that charts name and of what vCluster starts, and of images' names."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._artifacts.values import (
    Reference,
    images_named,
    merged,
    syncer_images,
)
from ansible_collections.kubegpu.tenancy.tests.unit.charts import HOOK, kai_scheduler, vcluster, workload

KAI = {"global": {"registry": "ghcr.io/nvidia/kai-scheduler"}}
PARTS = (
    "admission",
    "binder",
    "operator",
    "podgroupcontroller",
    "podgrouper",
    "queuecontroller",
    "resourcereservation",
    "scheduler",
)


def short(images):
    """Names without registry and version, and whether they are started."""
    return {name.rpartition("/")[2].partition(":")[0]: starts for name, starts in images.items()}


@pytest.mark.parametrize("metadata", [None, {}], ids=["the Config is a hook", "the Config is the release's"])
def test_kai_names_all_parts_and_what_its_operator_takes_where_none_is_named(metadata):
    images = images_named(kai_scheduler("v0.12.0", KAI, metadata=metadata), hooks=False)
    assert short(images) == dict.fromkeys(PARTS, True) | {"crd-upgrader": False}
    assert all(name.startswith("ghcr.io/nvidia/kai-scheduler/") and name.endswith(":v0.12.0") for name in images)


def test_hooks_of_kai_that_run_are_started_but_for_its_cleanup():
    assert short(images_named(kai_scheduler("v0.12.0", KAI), hooks=True))["crd-upgrader"]


def test_a_part_of_kai_that_is_on_in_some_clusters_is_optional_and_one_with_a_name_of_its_own_is_taken():
    own = {"numaPlacementExporter": {"service": {"image": {"name": "numa"}}}}
    own["podGrouper"] = {"service": {"image": {"name": "grouper", "repository": "registry.example"}}}
    images = images_named(kai_scheduler("v0.12.0", KAI, config=own), hooks=False)
    assert short(images)["numa"] is False
    assert images["registry.example/grouper:v0.12.0"] is True
    assert "podgrouper" not in short(images)


def test_an_image_that_a_container_is_told_by_an_argument_is_named():
    argument = "--resource-reservation-pod-image=example.com/reservation:1"
    found = images_named([workload("Deployment", "binder", "example.com/binder:1", args=["--v=1", argument, "--image"])])
    assert found == {"example.com/binder:1": True, "example.com/reservation:1": True}


def policy(**parts):
    return [{"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}, "spec": parts}]


def operator(image, version="v1", **more):
    return {"repository": "nvcr.io/nvidia", "image": image, "version": version} | more


def test_the_gpu_operators_parts_are_named_unless_they_are_off():
    parts = {
        "driver": operator("driver", enabled=False, manager=operator("manager")),
        "devicePlugin": operator("plugin", enabled=True),
        "validator": operator("validator", "sha256:ab"),
        "sandboxWorkloads": {"enabled": False},
        "vfioManager": operator("vfio", enabled=True),
    }
    assert images_named(policy(**parts)) == {"nvcr.io/nvidia/plugin:v1": True, "nvcr.io/nvidia/validator@sha256:ab": True}
    assert "nvcr.io/nvidia/vfio:v1" in images_named(policy(**parts | {"sandboxWorkloads": {"enabled": True}}))


def test_an_image_of_a_hook_and_of_a_pod_is_started():
    found = images_named(
        [workload("Job", "a", "example.com/a:1", metadata=HOOK), workload("Pod", "b", "example.com/a:1")], hooks=False
    )
    assert found == {"example.com/a:1": True}


# --- what vCluster starts -----------------------------------------------------------------------------------------

IMAGE = {"statefulSet": {"image": {"registry": "ghcr.io", "repository": "loft-sh/vcluster-oss"}}}


def started(version, **control_plane):
    return syncer_images(vcluster(version, {"controlPlane": IMAGE | control_plane}), version)


@pytest.mark.parametrize(
    ("version", "kubernetes", "coredns"),
    [
        ("0.36.1", "v1.35.4", "1.14.1"),
        ("0.36.1", "1.30.2", "1.11.3"),
        ("0.36.1", "", "1.14.2"),  # the chart's own, v1.36.0
        ("0.34.7", "v1.36.0", "1.14.1"),  # newer than the syncer knows
        ("0.26.0", "v1.33.1", "1.11.3"),
        ("0.29.3", "v1.34.0", "1.12.0"),
        ("0.36.1", "v1.29.0", "1.14.2"),  # older than it knows
        ("0.37.0", "v1.36.1", "1.14.2"),
    ],
)
def test_coredns_follows_from_kubernetes_as_far_as_the_syncer_knows_it(version, kubernetes, coredns):
    images = started(version, distro={"k8s": {"version": kubernetes}})
    assert images == {f"docker.io/coredns/coredns:{coredns}": True, "mirror.gcr.io/library/alpine:3.20": True}


@pytest.mark.parametrize(
    ("control_plane", "expected"),
    [
        ({"coredns": {"enabled": False}}, ["mirror.gcr.io/library/alpine:3.20"]),
        ({"coredns": {"embedded": True}}, ["mirror.gcr.io/library/alpine:3.20"]),
        ({"coredns": {"deployment": {"image": "mine:1"}}}, ["docker.io/library/mine:1", "mirror.gcr.io/library/alpine:3.20"]),
        (
            {"advanced": {"defaultImageRegistry": "registry.example/all/"}},
            ["registry.example/all/coredns/coredns:1.14.2", "registry.example/all/library/alpine:3.20"],
        ),
    ],
)
def test_values_decide_what_the_syncer_starts(control_plane, expected):
    assert sorted(started("0.36.1", **control_plane)) == expected


def test_the_init_container_of_stateful_sets_is_named_in_the_way_of_older_charts_and_may_be_off():
    def rewrite(**given):
        values = {"controlPlane": IMAGE, "sync": {"toHost": {"pods": {"rewriteHosts": given}}}}
        return list(syncer_images(vcluster("0.27.0", values), "0.27.0"))

    assert rewrite(initContainer={"image": "library/alpine:3.20"})[1:] == ["docker.io/library/alpine:3.20"]
    assert rewrite(enabled=False)[1:] == []


# --- names of images ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/busybox:1", "docker.io/library/busybox:1"),
        ("index.docker.io/coredns/coredns:1", "docker.io/coredns/coredns:1"),
        ("REG/a:1", "REG/a:1"),
        ("coredns/coredns:1.14.1", "docker.io/coredns/coredns:1.14.1"),
        ("localhost/a:1", "localhost/a:1"),
        ("127.0.0.1:5000/docker.io/kindest/node:v1", "127.0.0.1:5000/docker.io/kindest/node:v1"),
        ("ghcr.io/a/b:1@sha256:ab", "ghcr.io/a/b@sha256:ab"),
    ],
)
def test_names_are_whole(image, name):
    assert str(Reference.parse(image)) == name
    assert merged([(image, False), (name, True)]) == {name: True}


MIRRORS = {"docker.io": "http://10.0.0.1:5000/v2/docker.io", "ghcr.io": "https://mirror.example/"}


@pytest.mark.parametrize(
    ("image", "url"),
    [
        ("busybox:1", "http://10.0.0.1:5000/v2/docker.io/library/busybox/manifests/1"),
        ("ghcr.io/a/b:1", "https://mirror.example/v2/a/b/manifests/1"),
        ("nvcr.io/a/b@sha256:ab", "https://nvcr.io/v2/a/b/manifests/sha256:ab"),
        ("127.0.0.1:5000/a:1", "http://127.0.0.1:5000/v2/a/manifests/1"),
        ("localhost/a:1", "http://localhost/v2/a/manifests/1"),
    ],
)
def test_manifests_are_asked_for_where_nodes_pull_them(image, url):
    assert Reference.parse(image).manifest_url(MIRRORS) == url


def test_docker_hub_has_its_registry_under_another_name():
    assert Reference.parse("busybox:1").manifest_url({}) == "https://registry-1.docker.io/v2/library/busybox/manifests/1"
