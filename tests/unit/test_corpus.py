# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inputs that something was found by, which tests/fuzz searches for more of."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.tests.fuzz.cases import tried
from ansible_collections.kubegpu.tenancy.tests.fuzz.corpus import CORPUS, OPEN
from ansible_collections.kubegpu.tenancy.tests.fuzz.parts import PARTS


def test_each_part_has_inputs():
    assert CORPUS.keys() == PARTS.keys()


def cases(corpus):
    return [(part, number) for part, inputs in corpus.items() for number in range(len(inputs))]


@pytest.mark.parametrize(("part", "number"), cases(CORPUS))
def test_what_was_found_once(part, number):
    tried(part, PARTS[part].check, CORPUS[part][number])


def fails(part, given):
    try:
        tried(part, PARTS[part].check, given)
    except Exception:
        return True
    return False


def test_what_is_not_mended_yet_still_fails():
    assert all(fails(part, OPEN[part][number]) for part, number in cases(OPEN))
