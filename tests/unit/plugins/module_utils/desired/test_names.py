# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.tests.unit.desired import ML, WEB, plan, problems
from ansible_collections.kubegpu.tenancy.tests.unit.growth import MOST, growth
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, refuses, sentences

ROLE = "ClusterRole vc-abcde-v-tenant-abcde-v-te-v-tenant-abcde-v-tenant-abcde-v-te"


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (WEB, WEB, "[1].name: same-name"),
        (
            ML | {"gpu_nodes": {"names": ["x", "y"]}},
            WEB | {"gpu_nodes": {"names": ["y"]}},
            "[1].gpu_nodes.names: nodes-claimed-twice",
        ),
        (
            ML | {"gpu_nodes": {"labels": {"pool": "a"}}},
            WEB | {"gpu_nodes": {"labels": {"pool": "a"}}},
            "[1].gpu_nodes.labels: nodes-claimed-twice",
        ),
    ],
)
def test_rivals(mine, theirs, expected):
    assert placed(problems([mine, theirs])) == [f"{TENANTS}{expected}"]


def test_a_tenant_is_not_called_as_the_administrators_kubeconfig():
    assert placed(problems([{"name": "cluster", "trust": "high"}])) == [f"{TENANTS}[0].name: reserved-name"]


def test_names_of_which_the_same_is_built_are_refused():
    names = ["abcde-v-tenant-abcde-v-te", "web", "abcde-v-tenant-abcde-v-te-v-tenant-abcde"]
    tenants = [{"name": name, "trust": "high"} for name in names]
    (problem,) = sentences(problems(tenants))
    assert problem == (f"{TENANTS}[2].name: {names[2]} and {TENANTS}[0] would have the same {ROLE}. Choose another name.")
    with refuses("same-name"):
        tenants_from(tenants)
    # What is to go has its objects still.
    assert placed(problems([tenants[0], tenants[2] | {"state": "absent"}])) == [f"{TENANTS}[1].name: same-name"]
    assert plan(tenants[:2])


def test_a_name_that_stands_twice_is_refused_once_for_each():
    assert sentences(problems([WEB, WEB, WEB])) == [
        f"{TENANTS}[{index}].name: web is the name of {TENANTS}[0] already." for index in (1, 2)
    ]


def many(count, gpu_nodes):
    return [{"name": f"t{number}", "trust": "high", "gpu_nodes": gpu_nodes(number)} for number in range(count)]


@pytest.mark.parametrize(
    "gpu_nodes",
    [
        lambda number: {"names": [f"n{2 * number}", f"n{2 * number + 1}"]},
        lambda number: {"labels": {"pool": f"p{number}"}},
        lambda _number: {"names": ["n1"], "shared_gpus": 1},
        # Each claims what is another's.
        lambda _number: {"names": ["n1", "n2"]},
    ],
    ids=["names", "labels", "shared", "rivals"],
)
def test_tenants_are_not_compared_with_each_other(gpu_nodes):
    def work(tenants):
        with contextlib.suppress(TenancyError):
            tenants_from(tenants)

    assert growth(lambda count: many(count, gpu_nodes), work, 500) < MOST
