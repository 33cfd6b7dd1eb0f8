# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be told of the policies without an API server; tests/contract/test_admission.py has one evaluate them."""

from __future__ import annotations

import re

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.facts import SHARING_FORMS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.plan import policies, queue_policies


@pytest.mark.parametrize(
    ("note", "admitted", "refused"),
    [
        (
            "gpu-fraction",
            ("0.5", ".5", "0.50", "0.001", "0.999999"),
            (
                "",
                "0",
                "0.0",
                ".",
                "1",
                "1.0",
                "NaN",
                "0x1p-1",
                "5e-1",
                "+0.5",
                "-0.5",
                "0_0.5",
                " 0.5",
                "0.5 ",
                "0.5m",
                "00.5",
                "0,5",
            ),
        ),
        ("gpu-memory", ("1", "2000", "999999999"), ("", "0", "007", "2Gi", "0.5", "1e3", "-1", "+1", "1_000", "9" * 10)),
        ("gpu-fraction-num-devices", ("1", "16"), ("", "0", "1.5", "2.0", "-1", "all", "99999")),
    ],
)
def test_forms_that_every_release_reads_alike(note, admitted, refused):
    form = SHARING_FORMS[note]
    assert [text for text in (*admitted, *refused) if re.search(form, text)] == list(admitted)


def rules_of(policy):
    return [rule["expression"] for rule in policy["spec"]["validations"]]


def test_a_sandbox_is_asked_of_each_pod_that_the_tenants_accounts_make_whoever_schedules_it():
    alone, _binding, workloads, _other = policies("ml", "zero", None, False, False, "kata")
    (rule,) = rules_of(alone)
    assert rules_of(queue_policies("ml", ["a"], False, "kata")[0])[-1] == rule
    # Also for who sees only the GPUs that it asked for.
    assert rules_of(policies("ml", "partial", None, True, False, "kata")[0])[-1] == rule
    (of_workloads,) = rules_of(workloads)
    assert of_workloads.endswith("(request.operation == 'UPDATE' && object.spec.template.spec == oldObject.spec.template.spec)")
    assert workloads["metadata"]["name"] == "kubegpu-tenancy-ml.workloads"
    assert rule.endswith('(has(object.spec.runtimeClassName) && object.spec.runtimeClassName == "kata")')
    assert "'system:serviceaccount:' + request.namespace + ':'" in rule
    # A class that passes no GPUs on shows no devices, so that what an image says of them does not matter.
    assert not any('runtimeClassName == "kata")' in found for found in rules_of(queue_policies("ml", ["a"], False)[0]))
    assert policies("ml", "zero", None, False, False) == []


def test_a_form_is_asked_for_where_parts_are_admitted():
    for gpu_sharing in (True, False):
        policy, _binding = queue_policies("ml", ["vision"], gpu_sharing)
        messages = [rule["messageExpression"] for rule in policy["spec"]["validations"]]
        assert any(message.startswith('"gpu-fraction is a decimal') for message in messages) is gpu_sharing
        assert any("shares no GPUs" in message for message in messages) is not gpu_sharing
