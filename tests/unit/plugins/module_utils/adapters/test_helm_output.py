# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what is read from helm's standard error, as Helm 3.19.5 and Helm 4.3.1 printed it for the same chart and values."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm_output import error_message, violations
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import Problem

# The same in both, byte for byte.
SCHEMA = """Error: values don't meet the specifications of the schema(s) in the following chart(s):
tiny-chart:
- at '/nested': additional properties 'knwon' not allowed
- at '/text': got number, want string
- at '': additional properties 'foo' not allowed

"""
FAIL = """Error: execution error at (tiny-chart/templates/cm.yaml:1:27): replicas must be odd

Use --debug flag to render out invalid YAML
"""
DEFAULTS = {"text": "hello", "replicas": 1, "nested": {"known": 1}}


def test_what_a_schema_refuses_is_named_by_its_path():
    assert violations(SCHEMA, DEFAULTS) == [
        Problem("unknown-key", "values.nested.knwon: the chart has no such key. Did you mean known?"),
        Problem("unknown-key", "values.foo: the chart has no such key."),
        Problem("wrong-type", "values.text: must be of type string, not number."),
    ]


def test_what_a_template_refuses_is_named():
    assert violations(FAIL, DEFAULTS) == [Problem("values-refused", "values: replicas must be odd.")]


@pytest.mark.parametrize(
    "stderr",
    [
        "Error: release: not found\n",
        'Error: path "/nochart" not found\n',
        "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress\n",
    ],
)
def test_other_errors_are_no_violations(stderr):
    assert violations(stderr, DEFAULTS) == []


# Of a pre-upgrade hook that did not end within --timeout.
HOOK = {
    "3.19.5": "Error: UPGRADE FAILED: pre-upgrade hooks failed: 1 error occurred:\n\t* timed out waiting for the condition\n\n\n",
    "4.3.1": (
        'level=WARN msg="upgrade failed" name=t error="pre-upgrade hooks failed: resource Job/x/t-hook not ready. status: InProgress, '
        'message: Job in progress\\ncontext deadline exceeded"\n'
        "Error: UPGRADE FAILED: pre-upgrade hooks failed: resource Job/x/t-hook not ready. status: InProgress, message: Job in "
        "progress\ncontext deadline exceeded\n"
    ),
}


@pytest.mark.parametrize("version", HOOK)
def test_the_message_of_an_error_comes_without_what_was_printed_before(version):
    pulled = "Pulled: 127.0.0.1:5000/charts/tiny-chart:v1.0.0\nDigest: sha256:4355b8c8\n"
    for stderr in (HOOK[version], pulled + HOOK[version]):
        message = error_message(stderr)
        assert message.startswith("Error: UPGRADE FAILED: pre-upgrade hooks failed: ")
        assert message.endswith({"3.19.5": "timed out waiting for the condition", "4.3.1": "context deadline exceeded"}[version])


def test_where_there_is_no_error_all_of_the_text_is_the_message():
    assert error_message('level=ERROR msg="no"\n') == 'level=ERROR msg="no"'
