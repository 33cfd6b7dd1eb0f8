# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what Docker runs with."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._docker_runtime.status import Running

ENTRY = {"args": [], "path": "nvidia-container-runtime"}
WITH = {"default-runtime": "nvidia", "features": {"cdi": True}, "runtimes": {"nvidia": ENTRY}}


@pytest.mark.parametrize(("more", "cdi"), [({}, None), ({"CDISpecDirs": None}, False), ({"CDISpecDirs": ["/etc/cdi"]}, True)])
def test_what_docker_info_shows(more: dict[str, t.Any], cdi: bool | None) -> None:
    info = {"Runtimes": {"runc": {"path": "runc"}, "shim": {"type": "io.x.v1"}}, "DefaultRuntime": "runc"} | more
    assert Running.of_info(info) == Running({"runc": "runc", "shim": ""}, "runc", cdi)


def test_what_a_file_makes_docker_run_with() -> None:
    assert Running.of_file(WITH) == Running({"nvidia": "nvidia-container-runtime"}, "nvidia", True)
    assert Running.of_file({}) == Running({}, "runc", False)
