# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.forms import (
    is_key,
    is_label_value,
    is_namespace,
    is_object,
    label_problems,
)
from ansible_collections.kubegpu.tenancy.tests.unit.problems import sentences

NO_TEXTS = [None, 1, True, ["a"], {}, b"a"]


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        (
            is_key,
            ["a", "A_b.c-D", "nvidia.com/gpu", f"{'a' * 253}/{'b' * 63}"],
            ["", "*", "a b", "a\n", "-a", "a/", "/a", "A.b/c", "a/b/c", "a" * 64, f"{'a' * 254}/b", "é", "²"],
        ),
        (is_label_value, ["", "a", "A_b.c-D", "a" * 63], [" ", "a b", "a\n", "-a", "a.", "a" * 64, "a/b", "٣"]),
        (is_namespace, ["a", "1", "kube-system", "a" * 63], ["", "A", "a.b", "-a", "a-", "a\n", "a" * 64, "٣"]),
        (
            is_object,
            ["a", "1", "gpu-1.rack-2.example", "a" * 253],
            ["", "A", "a_b", ".a", "a.", "a..b", "a\n", "a" * 254, "a/b"],
        ),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_forms_are_those_of_kubernetes(form, right, wrong):
    assert [text for text in right if not form(text)] == []
    assert [text for text in [*wrong, *NO_TEXTS] if form(text)] == []


def test_each_problem_of_labels_has_its_path():
    labels = {"a": "b", "a b": "c", "d": 1, "e": "f g", "h": ["i"], "\x1b[2J": "x"}
    assert sentences(list(label_problems(labels, "labels"))) == [
        "labels.a b: is not the name of a label.",
        "labels.d: must be a string, not 1; quote it.",
        "labels.e: 'f g' is not the value of a label.",
        "labels.h: must be a string, not a list.",
        "labels.: is not the name of a label.",
    ]
