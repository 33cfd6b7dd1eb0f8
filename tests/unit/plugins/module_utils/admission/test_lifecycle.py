# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the expressions of the policies say is tests/contract/test_admission.py: a real API server has to evaluate them."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.facts import API_VERSION, BINDING, POLICY
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.lifecycle import ensure_policies, remove_policies
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.plan import queue_policies
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi, written_by
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

NAME = "kubegpu-tenancy-ml"


def have(api, queues=("vision",), gpu_sharing=True, check_mode=False):
    """Have the policies of tenant ml, and return what changed."""
    run = make_run({"timeout": 30}, api, check_mode=check_mode)
    ensure_policies(run, "ml", queue_policies("ml", list(queues), gpu_sharing))
    return {what: (before, after) for what, before, after in run.changes}


def test_they_are_made_once():
    api, admits = InMemoryApi(), "shared and whole GPUs in queues: vision"
    expected = {f"{POLICY} {NAME}": (None, admits), f"{BINDING} {NAME}": (None, admits)}
    assert have(api, check_mode=True) == expected
    assert api.writes == []
    assert have(api) == expected
    assert have(api) == {}


def test_other_queues_are_other_policies():
    api = InMemoryApi()
    have(api)
    before, after = have(api, ["models", "web"], gpu_sharing=False)[f"{POLICY} {NAME}"]
    assert (before, after) == ("shared and whole GPUs in queues: vision", "whole GPUs in queues: models, web")
    assert have(api, ["models", "web"], gpu_sharing=False) == {}


def test_what_somebody_else_changed_or_added_goes():
    api = InMemoryApi()
    have(api)
    exempt = {"excludeResourceRules": [{"resources": ["pods"]}], "matchPolicy": "Exact"}
    for body in ({"spec": {"validationActions": ["Warn"]}}, {"spec": {"matchResources": exempt}}):
        api.patch(API_VERSION, BINDING, NAME, body)
        assert list(have(api)) == [f"{BINDING} {NAME}"]
        assert api.get(API_VERSION, BINDING, NAME)["spec"] == queue_policies("ml", ["vision"], True)[1]["spec"]
        assert have(api) == {}


def test_who_changed_a_policy_is_said():
    api = InMemoryApi()
    have(api)
    live = api.get(API_VERSION, BINDING, NAME) | {"spec": {"validationActions": ["Warn"]}}
    api.put(written_by(live, "kubectl-edit", "2026-11-24T10:02:00Z", ("spec", "validationActions")))
    run = make_run({"timeout": 30}, api, check_mode=True)
    ensure_policies(run, "ml", queue_policies("ml", ["vision"], True))
    assert run.result()["diff"]["written"] == {f"{BINDING} {NAME}": {"since": "2026-11-24T10:02:00Z", "by": "kubectl-edit"}}


def test_another_tenants_namespace_is_not_theirs():
    policy, binding = queue_policies("ml", ["vision"], True)
    for chosen in (policy["spec"]["matchConstraints"], binding["spec"]["matchResources"]):
        assert chosen["namespaceSelector"] == {"matchLabels": {"kubegpu.tenancy/tenant": "ml"}}
    assert (policy["spec"]["failurePolicy"], binding["spec"]["validationActions"]) == ("Fail", ["Deny"])


def test_they_go_again():
    api = InMemoryApi()
    have(api)
    run = make_run({"timeout": 30}, api)
    remove_policies(run, "ml")
    assert [what for what, _before, _after in run.changes] == [f"{BINDING} {NAME}", f"{POLICY} {NAME}"]
    again = make_run({"timeout": 30}, api)
    remove_policies(again, "ml")
    assert again.changes == []


def test_objects_of_others_stay_untouched():
    api = InMemoryApi([{"apiVersion": API_VERSION, "kind": POLICY, "metadata": {"name": NAME}, "spec": {}}])
    with pytest.raises(TenancyError, match=f"{POLICY} {NAME} exists and was not made by this collection"):
        have(api)
    with pytest.raises(TenancyError, match="stays untouched"):
        remove_policies(make_run({"timeout": 30}, api), "ml")
    assert api.writes == []


@pytest.mark.parametrize(("version", "refused"), [("v1.29.8", True), ("v1.30.0-eks-1", False), ("v1.35.4", False)])
def test_a_cluster_that_is_too_old_is_refused(version, refused):
    api = InMemoryApi(version=version)
    if refused:
        with pytest.raises(TenancyError, match=r"Kubernetes v1.29.8 cannot keep its pods .* needs 1.30 or later"):
            have(api)
        assert api.writes == []
    else:
        assert have(api)
