# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of artifacts_info; for the lab's own inventory, against what the lab is made of."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import REWRITE_HOSTS, recipe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.facts import CLUSTER
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.plugins.modules.artifacts_info import reconcile
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._blueprints import load
from ansible_collections.kubegpu.tenancy.tests.unit.charts import Charts
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.recipes import LAB, VERSIONS
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

INVENTORIES = Path(__file__).parents[4] / "inventories"
# Names its registry on the host, by which Docker pulls the node image.
NODE = "127.0.0.1:5000/docker.io/kindest/node:v1.35.4"


def variables(path):
    """Of an inventory's group, without templates, which are about where things are."""
    given = yaml.safe_load((INVENTORIES / path).read_text())
    return {name: value for name, value in given.items() if "{{" not in str(value)}


def listed(given, charts=None, **params):
    known = {name: value for name, value in given.items() if name in CLUSTER or name in ("nvkind_workers", "lab_gpus")}
    # Where charts are is not what they say.
    cluster = desired_state(known | {"kubegpu_charts": ""}, "lab", TODAY, blueprint=load(given["kubegpu_blueprint"])).data()
    settings = {name: value for name, value in given.items() if name.startswith(("nvkind", "rehearsal"))} | {
        "nvkind_image": NODE,
        "rehearsal_chart_source": "",
    }
    run = make_run({"cluster": cluster, "settings": settings, "digests": False, "mirrors": {}} | params)
    return run, charts or Charts()


LAB_GROUP = variables("lab/group_vars/kubegpu_labs.yml")
REHEARSALS = LAB_GROUP | variables("rehearsal/group_vars/kubegpu_rehearsals.yml")


@pytest.mark.parametrize(("given", "kwok"), [(LAB_GROUP, ""), (REHEARSALS, "v0.8.0")], ids=["lab", "rehearsal"])
def test_the_list_for_the_lab_is_what_the_lab_is_made_of(given, kwok):
    found = reconcile(*listed(given))
    parts = recipe(VERSIONS | {"kwok": kwok, "vcluster": VERSIONS["vcluster"] if given["kubegpu_tenants"] else []}, LAB)
    made = {image.ref for image in parts.images}
    wanted = {item["image"].removeprefix("127.0.0.1:5000/") for item in found["images"]}
    if not given["kubegpu_tenants"]:
        # It has no virtual clusters, and a lab has what they need anyway. Its cluster's storage takes busybox, too.
        made -= {"docker.io/coredns/coredns:1.14.1", "ghcr.io/loft-sh/kubernetes:v1.35.4", "docker.io/library/busybox:1.37.0"}
        made -= {REWRITE_HOSTS}
    assert wanted == made
    assert {(item["name"], item["version"]) for item in found["charts"]} == {
        (chart.name, chart.version) for chart in parts.charts
    }


def test_what_site_does_not_start_itself_is_optional():
    found = reconcile(*listed(LAB_GROUP))
    optional = {item["image"] for item in found["images"] if item["optional"]}
    assert {name.rpartition("/")[2] for name in optional} == {"crd-upgrader:v0.12.0", "crd-upgrader:v0.13.1"}


def test_each_is_listed_once_with_everyone_who_needs_it():
    found = reconcile(*listed(LAB_GROUP))
    names = [item["image"] for item in found["images"]]
    assert names == sorted(set(names))
    by_name = {item["name"]: item for item in found["charts"] if item["name"] == "vcluster"}
    assert by_name["vcluster"]["for"] == ["team-ml", "team-research", "web"]
    assert by_name["vcluster"]["pull"] == "vcluster --version 0.36.1 --repo https://charts.loft.sh"
    assert found["unknown"] == found["missing"] == []


def test_without_digests_no_registry_is_asked():
    found = reconcile(*listed(LAB_GROUP), digest=pytest.fail)
    assert {item["digest"] for item in found["images"] + found["charts"]} == {None}


def test_digests_come_from_the_mirrors_and_what_is_needed_and_missing_is_named():
    asked = []

    def digest(url):
        asked.append(url)
        if "busybox" in url:
            raise TenancyError(f"{url} is not there: 404 Not Found.")
        return "sha256:ab"

    mirrors = {"docker.io": "http://10.0.0.1:5000/v2/docker.io"}
    found = reconcile(*listed(LAB_GROUP, digests=True, mirrors=mirrors), digest=digest)
    url = "http://10.0.0.1:5000/v2/docker.io/library/busybox/manifests/1.37.0"
    assert found["missing"] == [f"docker.io/library/busybox:1.37.0: {url} is not there: 404 Not Found."]
    assert "http://10.0.0.1:5000/v2/docker.io/coredns/coredns/manifests/1.14.1" in asked
    # A chart in a registry is an image, too; one in a chart repository is none.
    assert "https://ghcr.io/v2/kai-scheduler/kai-scheduler/kai-scheduler/manifests/v0.13.1" in asked
    assert {item["name"]: item["digest"] for item in found["charts"]} == {
        "kai-scheduler": "sha256:ab",
        "nvidia-device-plugin": None,
        "vcluster": None,
    }
    assert {item["image"] for item in found["images"] if item["digest"] is None} == {"docker.io/library/busybox:1.37.0"}


def test_charts_are_rendered_as_the_releases_that_they_become():
    run, charts = listed(LAB_GROUP)
    reconcile(run, charts)
    assert ("vcluster", "web", "tenant-web", ()) in charts.rendered
    assert ("nvidia-device-plugin", "nvidia-device-plugin", "nvidia-device-plugin", ()) in charts.rendered


def test_a_chart_that_is_refused_is_named_with_who_needs_it():
    tenants = [{"name": "a", "trust": "high", "scheduler": {"name": "gone", "chart": "gone", "version": "1.0.0"}}]
    with pytest.raises(TenancyError, match=r"^a: gone 1\.0\.0: there is no such chart"):
        reconcile(*listed(LAB_GROUP | {"kubegpu_tenants": tenants}))


def test_what_cannot_be_listed_is_a_warning_too():
    run, charts = listed(LAB_GROUP)
    del run.params["settings"]["nvkind_image"]
    found = reconcile(run, charts)
    assert found["unknown"] == run.warnings != []
