# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a refusal names, for tests of what is refused: kinds of problems by their codes, with their places."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import Problem, TenancyError
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import by_index


@contextlib.contextmanager
def refuses(*codes: str) -> Iterator[Any]:
    """Expect a refusal for problems of these kinds, in this order."""
    with pytest.raises(TenancyError) as caught:
        yield caught
    assert [problem.code for problem in caught.value.problems] == list(codes), caught.value.problems


def sentences(problems: list[Problem]) -> list[str]:
    """Return problems as people read them, without the tenants' names beside their indices."""
    return by_index([problem.text for problem in problems])


def placed(problems: list[Problem]) -> list[str]:
    """Return the place and the code of each problem, such as ``kubegpu_tenants[0].name: not-a-name``."""
    return [f"{text.partition(': ')[0]}: {problem.code}" for text, problem in zip(sentences(problems), problems)]
