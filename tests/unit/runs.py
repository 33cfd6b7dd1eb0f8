# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a module whose waits take no time."""

from __future__ import annotations

from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.tests.unit.clock import Clock


def untimed(result: dict[str, Any]) -> dict[str, Any]:
    """A module's result without how long it and its steps took, which check mode does not know."""
    bare = {key: value for key, value in result.items() if key != "seconds"}
    return bare | {"steps": [{key: step[key] for key in ("step", "why")} for step in result.get("steps", ())]}


def make_run(params: dict[str, Any], kube: Any = None, helm: Any = None, check_mode: bool = False) -> Run:
    """A run with these options and adapters, and a clock of its own."""
    return Run(params, check_mode, kube, helm, Clock().deadline(params.get("timeout", 60)))
