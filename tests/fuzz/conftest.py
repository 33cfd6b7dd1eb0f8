# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import resource

import pytest
from ansible_collections.kubegpu.tenancy.tests.fuzz.cases import COUNTED, SLOWEST

# Bytes that the process gets: a case that wants more fails, and leaves the machine alone.
_MEMORY = 4 * 2**30


def pytest_configure() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many cases of each part were tried."""
    for name, count in COUNTED.items():
        terminalreporter.write_line(f"fuzz: {name} {count} cases, the slowest {SLOWEST[name]:.2f} s")
