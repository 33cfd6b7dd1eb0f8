# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._artifacts.plan import Installation
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import load_manifests
from ansible_collections.kubegpu.tenancy.plugins.module_utils._render.values import (
    chart_of,
    chart_reference,
    flux_kustomization,
    flux_objects,
    text,
)

MARK = "# Written by kubegpu.tenancy.render, which replaces what is changed here.\n"
VCLUSTER = Installation(
    "ml", "ml", "tenant-ml", "vcluster", "0.36.1", "vcluster", "https://charts.example", {"sync": {}}, "", True, ()
)
KAI = Installation(
    "ml", "kai-scheduler", "kai-scheduler", "kai-scheduler", "v0.16.8", "oci://ghcr.io/kai/kai-scheduler", "", {}, "", False, ()
)


def test_a_file_has_the_mark_sorted_keys_and_no_alias():
    shared = ["a"]
    assert text([{"b": shared, "a": {"d": shared, "c": 1}}, {"x": None}]) == (
        f"{MARK}---\na:\n  c: 1\n  d:\n    - a\nb:\n  - a\n---\nx: null\n"
    )


def test_lines_are_long_and_texts_of_several_lines_stay_such():
    words = " ".join(["word"] * 200)
    assert text([{"a": words, "b": "1\n2\n"}]) == f"{MARK}---\na: {words}\nb: |\n  1\n  2\n"


@pytest.mark.parametrize(
    "value",
    [
        "y",
        "No",
        "off",
        "~",
        "null",
        "",
        " a",
        "a ",
        "1e3",
        "0o17",
        "1:30",
        "2026-11-25",
        "=",
        "<<",
        "a: b",
        "a #b",
        "- a",
        "'",
        '"',
    ]
    + ["*", "&a", "!x", "%", "@", "`", "[", "{", "ä", "a\n", "\ta\n b\n", "a\x07", "v0.16.8", "1.35", ".5", "+1", "0x1f", "a b"],
)
def test_every_reader_of_yaml_reads_a_text_as_it_is(value):
    document = {"value": value, value: "key"}
    written = text([document])
    assert list(yaml.safe_load_all(written)) == load_manifests(written) == [document]


@pytest.mark.parametrize(
    ("reference", "repository", "source", "found"),
    [
        ("vcluster", "https://charts.loft.sh", "", ("https://charts.loft.sh", "vcluster")),
        ("oci://ghcr.io/kai/kai-scheduler", "", "", ("oci://ghcr.io/kai", "kai-scheduler")),
        ("vcluster", "https://charts.loft.sh", "oci://mirror.example/charts/", ("oci://mirror.example/charts", "vcluster")),
        # A folder of the host is none that others reach.
        ("vcluster", "https://charts.loft.sh", "/usr/local/share/charts", ("https://charts.loft.sh", "vcluster")),
        ("/srv/second", "", "", ("", "/srv/second")),
    ],
)
def test_a_chart_is_where_others_find_it(reference, repository, source, found):
    assert chart_of(Installation("ml", "ml", "ns", "vcluster", "1.0.0", reference, repository, {}, source)) == found


def test_helm_is_told_the_release_the_chart_and_whether_its_hooks_run():
    assert chart_reference(KAI) == {
        "release": "kai-scheduler",
        "namespace": "kai-scheduler",
        "repository": "oci://ghcr.io/kai",
        "chart": "kai-scheduler",
        "version": "v0.16.8",
        "hooks": False,
    }


def test_flux_makes_the_release_as_site_does():
    repository, release = flux_objects(VCLUSTER, "ml", "tenant-ml")
    metadata = {"name": "virtual-cluster", "namespace": "tenant-ml"}
    assert repository == {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "HelmRepository",
        "metadata": metadata,
        "spec": {"interval": "1h", "url": "https://charts.example"},
    }
    applied = {"disableWait": True, "strategy": {"name": "RetryOnFailure"}}
    assert release == {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": metadata,
        "spec": {
            "interval": "10m",
            "releaseName": "ml",
            "chart": {
                "spec": {
                    "chart": "vcluster",
                    "version": "0.36.1",
                    "sourceRef": {"kind": "HelmRepository", "name": "virtual-cluster"},
                }
            },
            "install": applied,
            "upgrade": applied,
            "values": {"sync": {}},
        },
    }


def test_flux_makes_the_scheduler_inside_by_the_secret_of_vcluster_with_its_crds_and_without_hooks():
    repository, release = flux_objects(KAI, "ml", "tenant-ml")
    assert repository["spec"] == {"interval": "1h", "url": "oci://ghcr.io/kai", "type": "oci"}
    applied = {"disableWait": True, "strategy": {"name": "RetryOnFailure"}, "disableHooks": True, "crds": "CreateReplace"}
    spec = release["spec"]
    assert (spec["install"], spec["upgrade"]) == (applied | {"createNamespace": True}, applied)
    assert spec["targetNamespace"] == spec["storageNamespace"] == "kai-scheduler"
    assert spec["kubeConfig"] == {"secretRef": {"name": "vc-ml", "key": "config"}}
    assert spec["dependsOn"] == [{"name": "virtual-cluster"}]


def test_flux_applies_the_queues_inside_and_removes_none():
    found = flux_kustomization("ml", "tenant-ml", "./clusters/dc1/ml/inside", "fleet")
    assert found["spec"] == {
        "interval": "10m",
        "retryInterval": "1m",
        "path": "./clusters/dc1/ml/inside",
        "prune": False,
        "sourceRef": {"kind": "GitRepository", "name": "fleet", "namespace": "fleet"},
        "kubeConfig": {"secretRef": {"name": "vc-ml", "key": "config"}},
    }
