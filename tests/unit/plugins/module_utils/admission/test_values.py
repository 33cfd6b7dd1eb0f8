# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What constraints of Gatekeeper are made of; tests/contract/test_gatekeeper.py has Gatekeeper's own program evaluate them."""

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.plan import policies, queue_policies, record_policies
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.values import constraints
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.names import NAME

SELECTOR = {"matchLabels": {"kubegpu.tenancy/tenant": "ml"}}
AUDIT = "request.operation == '' || "


def source(one):
    return one.template["spec"]["targets"][0]["code"][0]["source"]


def test_a_policy_becomes_a_template_and_its_constraint():
    objects = record_policies("ml")
    (found,) = constraints(objects)
    (rule,) = objects[0]["spec"]["validations"]
    metadata = objects[0]["metadata"] | {"name": "kubegpu-records-ml"}
    assert found.template == {
        "apiVersion": "templates.gatekeeper.sh/v1",
        "kind": "ConstraintTemplate",
        "metadata": metadata,
        "spec": {
            "crd": {"spec": {"names": {"kind": "kubegpu-records-ml"}}},
            "targets": [
                {
                    "target": "admission.k8s.gatekeeper.sh",
                    "code": [
                        {
                            "engine": "K8sNativeValidation",
                            "source": {
                                "failurePolicy": "Fail",
                                "generateVAP": False,
                                "matchCondition": [
                                    {
                                        "name": "requests",
                                        "expression": AUDIT
                                        + '(request.operation in ["CREATE", "UPDATE"] && (!has(request.subResource) || request.subResource in []))',
                                    }
                                ],
                                "variables": [],
                                "validations": [
                                    {"expression": rule["expression"], "messageExpression": rule["messageExpression"]}
                                ],
                            },
                        }
                    ],
                }
            ],
        },
    }
    assert found.constraint == {
        "apiVersion": "constraints.gatekeeper.sh/v1beta1",
        "kind": "kubegpu-records-ml",
        "metadata": metadata,
        "spec": {
            "enforcementAction": "scoped",
            "scopedEnforcementActions": [
                {
                    "action": "dryrun",
                    "enforcementPoints": [
                        {"name": "audit.gatekeeper.sh"},
                        {"name": "gator.gatekeeper.sh"},
                        {"name": "validation.gatekeeper.sh"},
                    ],
                }
            ],
            "match": {
                "kinds": [{"apiGroups": [""], "kinds": ["ConfigMap", "Secret"]}],
                "namespaceSelector": SELECTOR,
                "scope": "Namespaced",
                "source": "Original",
            },
        },
    }
    assert found.unknown == []


def test_each_rule_of_a_policy_is_there_once_and_alike():
    objects = queue_policies("ml", ["vision"], True, "kata")
    found = constraints(objects)
    assert [one.constraint["kind"] for one in found] == ["kubegpu-pods-ml", "kubegpu-workloads-ml"]
    for policy, one in zip(objects[::2], found):
        rules, made = policy["spec"]["validations"], source(one)["validations"]
        assert [rule["messageExpression"] for rule in made] == [rule["messageExpression"] for rule in rules]
        assert all(new["expression"] in (old["expression"], f"{AUDIT}({old['expression']})") for new, old in zip(made, rules))
    kinds = found[1].constraint["spec"]["match"]["kinds"]
    assert kinds == [{"apiGroups": ["apps"], "kinds": ["Deployment", "ReplicaSet", "StatefulSet"]}]


def test_the_audit_takes_an_object_for_a_new_one_and_leaves_out_what_it_does_not_know():
    objects = queue_policies("ml", ["vision"], False, "kata")
    pods, workloads = constraints(objects)
    created, *variables = source(pods)["variables"]
    assert created == {"name": "created", "expression": f"{AUDIT}(request.operation == 'CREATE')"}
    assert variables == objects[0]["spec"]["variables"][1:]
    left_out = [one["messageExpression"] for one in source(pods)["validations"] if one["expression"].startswith(AUDIT)]
    assert left_out == [
        '"A pod of tenant ml with GPUs names no node itself: kai-scheduler chooses one within its queue."',
        '"The labels runai-gpu-group, kai.scheduler/node-pool are KAI Scheduler\'s own."',
        '"GPUs of others are on the same node. Set NVIDIA_VISIBLE_DEVICES to void in ephemeral containers."',
        '"All pods of this tenant run in RuntimeClass kata: leave runtimeClassName out, or name that one."',
    ]
    account = "which account made or changed an object"
    assert pods.unknown == [
        account,
        "an ephemeral container, which is judged when it is added",
        "who chose the node of a pod",
        "who set the labels of KAI Scheduler",
    ]
    assert workloads.unknown == [account]
    conditions = {one["name"]: one["expression"] for one in source(pods)["matchCondition"]}
    assert conditions["not-by-kai-scheduler"].startswith(f"{AUDIT}(!request.userInfo.username")
    assert "request.subResource in ['ephemeralcontainers']" in conditions["requests"]


def test_where_nothing_is_kept_from_a_tenant_there_is_no_constraint():
    assert constraints(policies("ml", "high", None, False, True)) == []


def test_no_two_tenants_have_a_kind_in_common():
    kinds = [
        one.constraint["kind"]
        for tenant in ("a", "a-records", "records-a")
        for one in constraints([*record_policies(tenant), *queue_policies(tenant, [], False, "kata")])
    ]
    assert len(set(kinds)) == len(kinds) == 9


def test_names_are_as_long_as_gatekeeper_lets_them_be_also_those_of_the_longest_tenant():
    tenant = "a" * 40
    assert (bool(NAME.fullmatch(tenant)), NAME.fullmatch(tenant + "a")) == (True, None)
    found = constraints([*record_policies(tenant), *queue_policies(tenant, [], False, "kata")])
    names = [one["metadata"]["name"] for pair in found for one in (pair.template, pair.constraint)]
    assert (len(names), max(map(len, names)) <= 63) == (6, True)


def test_rules_use_nothing_that_gatekeeper_does_not_hand_to_them():
    objects = [*record_policies("ml"), *queue_policies("ml", ["a"], True, "kata"), *policies("ml", "partial", None, True, False)]
    for spec in (item["spec"] for item in objects):
        assert not {"paramKind", "paramRef", "auditAnnotations"} & spec.keys()
    for one in constraints(objects):
        for given in ("authorizer", "namespaceObject", "params"):
            assert given not in str(source(one))
