# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._blueprint.values import Blueprint, applied

GPU = Blueprint(
    name="gpu-2026-11-23",
    about="GPUs",
    variables={"device_plugin_version": "0.17.4", "kubegpu_rehearsal": "optional"},
    vcluster={"version": "0.36.1", "kubernetes_version": "v1.36.0"},
    kai={"version": "v0.16.8"},
)


def test_what_the_inventory_does_not_say_the_blueprint_does():
    tenants = [{"name": "ml", "scheduler": {"name": "kai", "gpu_sharing": True}}, {"name": "web"}]
    shared = {"kubegpu_temporary_tenant": {"name": "ci"}, "kubegpu_shared_scheduler": {"name": "kai"}}
    whole, overridden = applied(GPU, {"kubegpu_tenants": tenants} | shared)
    assert overridden == []
    assert whole["device_plugin_version"] == "0.17.4"
    assert whole["kubegpu_tenants"] == [
        {
            "name": "ml",
            "vcluster": GPU.vcluster,
            "scheduler": {"name": "kai", "version": "v0.16.8", "gpu_sharing": True},
        },
        {"name": "web", "vcluster": GPU.vcluster},
    ]
    assert whole["kubegpu_temporary_tenant"] == {"name": "ci", "vcluster": GPU.vcluster}
    assert whole["kubegpu_shared_scheduler"] == {"name": "kai", "version": "v0.16.8"}
    assert tenants[1] == {"name": "web"}


def test_the_inventory_wins_key_by_key_and_what_differs_is_named():
    tenant = {
        "name": "ml",
        "vcluster": {"version": "0.36.1", "kubernetes_version": "v1.35.4", "values": {"a": 1}},
        "scheduler": {"name": "kai", "version": "v0.16.9"},
    }
    given = {"kubegpu_tenants": [tenant], "device_plugin_version": "0.18.2", "kubegpu_rehearsal": "optional"}
    given["kubegpu_shared_scheduler"] = {"name": "kai", "version": "v0.18.6"}
    whole, overridden = applied(GPU, given)
    assert whole == given
    assert overridden == [
        "device_plugin_version",
        "ml.vcluster.kubernetes_version",
        "ml.scheduler.version",
        "kubegpu_shared_scheduler.version",
    ]


@pytest.mark.parametrize("scheduler", [{"name": "kai", "shared": True}, {"name": "other"}, "kai", {}])
def test_only_a_kai_scheduler_with_a_release_of_its_own_gets_one(scheduler):
    whole, _overridden = applied(GPU, {"kubegpu_tenants": [{"name": "ml", "scheduler": scheduler}]})
    assert whole["kubegpu_tenants"][0]["scheduler"] == scheduler


@pytest.mark.parametrize("tenants", ["ml", ["ml"], [{"name": "ml", "vcluster": "0.36.1"}]])
def test_what_has_a_wrong_type_is_left_for_the_check_of_types(tenants):
    assert applied(GPU, {"kubegpu_tenants": tenants})[0]["kubegpu_tenants"] == tenants


def test_the_digest_is_that_of_all_it_says():
    same = Blueprint(GPU.name, GPU.about, dict(reversed(GPU.variables.items())), GPU.vcluster, GPU.kai)
    assert same.digest == GPU.digest
    assert len(GPU.digest) == len("sha256:") + 64
    others = [
        dataclasses.replace(GPU, **{field.name: "other" if field.type == "str" else {"version": "9"}})
        for field in dataclasses.fields(GPU)
    ]
    assert len({GPU.digest, *(other.digest for other in others)}) == len(others) + 1
