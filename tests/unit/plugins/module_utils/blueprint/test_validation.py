# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._blueprint.validation import check_name, parse, unknown
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import Problem, TenancyError
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, refuses

KNOWN = ["gpu-host-2026-11-23", "lab-2026-11-23"]


@pytest.mark.parametrize(
    "name", ["latest", "gpu-host-latest", "gpu-host", "gpu-host-2026-13-01", "2026-11-23", "gpu-host-2026-11-23.old"]
)
def test_a_name_without_a_date_is_refused_with_those_that_there_are(name):
    with refuses("not-a-blueprint") as refused:
        check_name(name, KNOWN)
    assert refused.value.message.startswith(f"kubegpu_blueprint: '{name}'")
    assert "There are gpu-host-2026-11-23, lab-2026-11-23." in refused.value.message


def test_a_name_with_a_date_is_fine_whoever_wrote_it():
    check_name("our-h200-2027-02-28", KNOWN)


def test_a_name_of_none_that_there_is_comes_with_a_guess():
    text = "kubegpu_blueprint: there is no lab-2026-11-22. Did you mean lab-2026-11-23? There are gpu-host-2026-11-23, lab-2026-11-23."
    assert unknown("lab-2026-11-22", KNOWN).problems == [Problem("unknown-blueprint", text)]


def test_a_blueprint():
    found = parse(
        "a-2026-11-23",
        {
            "about": "A",
            "variables": {"nvkind_image": "kindest/node:v1.36.1", "kubegpu_runtime_class": ""},
            "vcluster": {"version": "0.36.1"},
        },
    )
    assert (found.name, found.vcluster, found.kai) == ("a-2026-11-23", {"version": "0.36.1"}, {})
    assert found.variables["kubegpu_runtime_class"] == ""


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([], "blueprint a: wrong-type"),
        ({}, "blueprint a.about: missing"),
        ({"kay": {}}, "blueprint a.kay: unknown-key"),
        ({"kai": {"versoin": "v0.16.8"}}, "blueprint a.kai.versoin: unknown-key"),
        ({"vcluster": {"version": 0.36}}, "blueprint a.vcluster.version: wrong-type"),
        ({"variables": {"kubegpu_tenants": []}}, "blueprint a.variables.kubegpu_tenants: not-a-blueprint-variable"),
        ({"variables": {"kubegpu_blueprint": "b"}}, "blueprint a.variables.kubegpu_blueprint: not-a-blueprint-variable"),
        (
            {"variables": {"device_plugin_verion": "0.17.4"}},
            "blueprint a.variables.device_plugin_verion: not-a-blueprint-variable",
        ),
        ({"variables": {"ansible_host": "x"}}, "blueprint a.variables.ansible_host: not-a-blueprint-variable"),
    ],
)
def test_what_is_none_is_refused(content, problem):
    if isinstance(content, dict) and content:
        content = {"about": "A"} | content
    with pytest.raises(TenancyError) as refused:
        parse("a", content)
    assert problem in placed(refused.value.problems)
