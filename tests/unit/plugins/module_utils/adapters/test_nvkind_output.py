# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what nvkind reports."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.nvkind_output import nvkind_error

FATAL = """Creating cluster "lab" ...
ERROR: failed to create cluster: node(s) already exist for a cluster with the name "lab"

Command Output: none
F0609 11:51:50.123456    4242 main.go:46] Error: creating cluster: executing command: exit status 1
goroutine 1 [running]:
k8s.io/klog/v2.stacks()
"""


def test_nvkinds_messages_come_without_its_stacks() -> None:
    assert nvkind_error(FATAL) == (
        'failed to create cluster: node(s) already exist for a cluster with the name "lab"; '
        "creating cluster: executing command: exit status 1"
    )
    assert nvkind_error("something else\nthe last line\n\n") == "the last line"
    assert nvkind_error("") == ""


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        ("creating cluster: adding config to cluster: writing configmap: %!w(<nil>)", "loses the cause"),
        (
            "installing container toolkit on node 'n': running script on n: executing command: exit status 100",
            "from the internet",
        ),
        ("patching /proc/driver/nvidia on node 'n': removing device nodes n: exit status 1", "hides the GPUs"),
    ],
)
def test_what_nvkind_hides_is_explained(message: str, meaning: str) -> None:
    explained = nvkind_error(f"F0609 11:51:50.123456    4242 main.go:46] Error: {message}\n")
    assert explained.startswith(message)
    assert meaning in explained
