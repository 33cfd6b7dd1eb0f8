# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what Docker needs to run with its file."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._docker_runtime.plan import need, pending
from ansible_collections.kubegpu.tenancy.plugins.module_utils._docker_runtime.status import Running

ENTRY = {"args": [], "path": "nvidia-container-runtime"}
OWNED: dict[tuple[str, ...], t.Any] = {("default-runtime",): "nvidia", ("features", "cdi"): True, ("runtimes", "nvidia"): ENTRY}
WITH = {"default-runtime": "nvidia", "features": {"cdi": True}, "runtimes": {"nvidia": ENTRY}}
RUNS_WITH = Running({"runc": "runc", "nvidia": "nvidia-container-runtime"}, "nvidia", True)
RUNS_WITHOUT = Running({"runc": "runc"}, "runc", False)
RELOADED = {"default-runtime": "reload", "runtimes.nvidia": "reload"}


@pytest.mark.parametrize(
    ("document", "running", "needs"),
    [
        (WITH, RUNS_WITH, {}),
        (WITH, RUNS_WITHOUT, RELOADED | {"features.cdi": "restart"}),
        # Docker before 25.0 does not report CDI, and has none.
        (WITH, Running({}, "runc", None), RELOADED),
        (WITH, Running({"nvidia": "/old"}, "nvidia", True), {"runtimes.nvidia": "reload"}),
        ({}, RUNS_WITHOUT, {}),
        ({}, RUNS_WITH, {"default-runtime": "restart", "features.cdi": "restart", "runtimes.nvidia": "restart"}),
        # What the file still has is taken over by a reload.
        ({"default-runtime": "runc", "features": {"cdi": True}, "runtimes": {}}, RUNS_WITH, RELOADED),
        ({"features": {"cdi": False}}, RUNS_WITHOUT, {}),
        # Another user's default needs nothing, and neither does Docker's own default for CDI.
        ({}, Running({}, "kata", False), {}),
    ],
)
def test_each_setting_needs_no_more_than_it_must(document: dict[str, t.Any], running: Running, needs: dict[str, str]) -> None:
    assert {".".join(path): how for path, how in pending(document, OWNED, running).items()} == needs


@pytest.mark.parametrize(
    ("needs", "together"), [([], "nothing"), (["reload"], "reload"), (["reload", "restart", "reload"], "restart")]
)
def test_the_strongest_need_wins(needs: list[t.Any], together: str) -> None:
    assert need(needs) == together
