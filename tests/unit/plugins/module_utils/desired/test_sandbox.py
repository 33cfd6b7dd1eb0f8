# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import value_at
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.values import vcluster_values
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import SYNCED_RUNTIME_CLASS
from ansible_collections.kubegpu.tenancy.tests.unit.desired import KAI, OLD, SHARED, WEB, problems, read, refused
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed

KATA = {"runtime_class": "kata"}
WITH_GPUS = KATA | {"gpus": True}
OWN_NODES = {"names": ["n1"]}
ZERO = {"name": "zero", "trust": "zero", "gpu_nodes": OWN_NODES}


def sandbox_of(tenant, **variables):
    (found,) = read([tenant], **variables).tenants
    assert tenants_from([found.data()]) == [found]
    return found.sandbox


def test_all_pods_of_a_tenant_run_in_its_class():
    (tenant,) = read(
        [WEB | {"sandbox": KATA, "vcluster": {"values": {"sync": {"toHost": {"pods": {"hybridScheduling": {}}}}}}}]
    ).tenants
    assert value_at(vcluster_values(tenant), SYNCED_RUNTIME_CLASS) == "kata"
    assert tenant.sandbox == {"runtime_class": "kata", "gpus": False}


@pytest.mark.parametrize("none", [{}, {"runtime_class": ""}, {"gpus": False}])
def test_a_tenant_without_a_class_has_no_sandbox(none):
    assert sandbox_of(WEB | {"sandbox": none}) == {}
    (tenant,) = read([WEB]).tenants
    assert value_at(vcluster_values(tenant), SYNCED_RUNTIME_CLASS) is None


def test_that_of_the_cluster_is_for_zero_trust_alone():
    assert sandbox_of(ZERO, kubegpu_sandbox=WITH_GPUS) == WITH_GPUS
    assert sandbox_of(ZERO | {"sandbox": {}}, kubegpu_sandbox=WITH_GPUS) == {}
    assert (
        sandbox_of(ZERO | {"sandbox": WITH_GPUS | {"runtime_class": "other"}}, kubegpu_sandbox=WITH_GPUS)["runtime_class"]
        == "other"
    )
    assert sandbox_of(WEB, kubegpu_sandbox=WITH_GPUS) == {}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"sandbox": {"runtime_class": "Kata"}}, ".sandbox.runtime_class: not-a-name"),
        ({"sandbox": {"class": "kata"}}, ".sandbox.class: unknown-key"),
        ({"sandbox": {"gpus": True}}, ".sandbox.runtime_class: missing"),
        ({"sandbox": KATA, "gpu_nodes": OWN_NODES}, ".sandbox: sandbox-without-gpus"),
        ({"sandbox": WITH_GPUS, "gpu_nodes": OWN_NODES | {"shared_gpus": 1}}, ".sandbox: sandbox-shares-gpus"),
        (
            {"sandbox": WITH_GPUS, "gpu_nodes": OWN_NODES, "scheduler": OLD | {"accept_hazards": ["#1103"]}},
            ".sandbox: sandbox-shares-gpus",
        ),
        (
            {"sandbox": KATA, "vcluster": {"values": {"sync": {"toHost": {"pods": {"runtimeClassName": "runc"}}}}}},
            ".sandbox: contradicts",
        ),
    ],
)
def test_what_a_sandbox_cannot_have_is_refused(change, found):
    first, *_more = placed(problems([WEB | change]))
    assert first.rpartition("[0]")[2] == found


def test_parts_of_gpus_by_the_shared_scheduler_are_refused_too():
    release = {"name": "kai", "version": "v0.16.8", "gpu_sharing": True}
    tenant = WEB | {
        "sandbox": WITH_GPUS,
        "gpu_nodes": OWN_NODES,
        "scheduler": SHARED,
        "queues": [{"name": "q", "gpu": {"limit": 1}}],
    }
    assert f"{TENANTS}[0].sandbox: sandbox-shares-gpus" in placed(problems([tenant], shared_scheduler=release))


def test_the_cluster_s_sandbox_is_checked_as_a_tenant_s():
    assert placed(refused(kubegpu_sandbox={"runtime_class": "a b"}))[0] == "kubegpu_sandbox.runtime_class: not-a-name"


def test_with_gpus_a_tenant_with_nodes_of_its_own_is_accepted():
    assert sandbox_of(WEB | {"sandbox": WITH_GPUS, "gpu_nodes": OWN_NODES, "scheduler": KAI}) == WITH_GPUS
