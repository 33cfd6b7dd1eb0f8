# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts and amounts of others, and every report into which they get: summary, info, drift, evidence, page and JUnit."""

from __future__ import annotations

import copy
import decimal
import functools
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.filter.info import info
from ansible_collections.kubegpu.tenancy.plugins.filter.summary import summary
from ansible_collections.kubegpu.tenancy.plugins.filter.text_table import text_table
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common import quantity, text
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.facts import RESOURCES
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import to_api, to_users, used_to_users
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils import _drift, _info, _junit
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence import evidence
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence_junit import junit
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence_page import page
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._reports import reports
from ansible_collections.kubegpu.tenancy.tests.fuzz.cases import Part, check_line, finite, frozen, outcome
from ansible_collections.kubegpu.tenancy.tests.fuzz.host import check_page
from ansible_collections.kubegpu.tenancy.tests.fuzz.inputs import AMOUNTS, ANY_TEXT, ANYTHING, JSON, LEAVES
from ansible_collections.kubegpu.tenancy.tests.unit.hostvars import AT, drifted
from hypothesis import strategies as st

Object = dict[str, Any]

# --- one text ----------------------------------------------------------------------------------------------------


def check_text(given: Object) -> None:
    """Show any value as one line that is printed as it is, and no longer than asked for; showing it again changes nothing."""
    value, most = given["value"], given["most"]
    line = text.shown(value, most)
    check_line(line, most)
    assert text.shown(line, most) == line
    lines = text.shown_lines(value, most, 5)
    assert text.shown_lines(lines, most, 6) == lines
    for one in lines.split("\n"):
        check_line(one, max(most, 40))
    assert len(lines.split("\n")) <= 6
    check_line(text.printable(str(value)[:10_000]), 10_000)


def check_table(rows: list[Object]) -> None:
    """Show any rows as lines, of which each is as wide as its columns."""
    before = frozen(rows)
    lines = text_table(rows)
    assert frozen(rows) == before
    assert len(lines) == (len(rows) + 2 if rows else 0)
    for line in lines[2:]:
        check_line(line)


def check_data(value: Any) -> None:
    """Make any plain data legible, and leave it as it is."""
    before = frozen(value)
    found = text.legible(value)
    assert frozen(value) == before
    assert text.legible(found) == found
    finite(found)


# --- amounts -----------------------------------------------------------------------------------------------------

_READERS = {"quantity": quantity.quantity, "devices": quantity.devices, "whole": quantity.whole, "number": quantity.number}


def check_amount(value: Any) -> None:
    """Read an amount, from 0 to 2^63, or refuse it; show it as users write it, which is read as the same."""
    for reader in _READERS.values():
        found = outcome(lambda reader=reader: reader(value), ValueError)
        if found is not None:
            assert 0 <= found <= quantity.MOST
            finite(quantity.plain(decimal.Decimal(found)))
    for resource in ("", *RESOURCES):
        amount = outcome(lambda resource=resource: to_api(resource, value), ValueError)
        if amount is not None and amount <= quantity.MOST:
            finite(amount)
            # A byte is the least of memory.
            assert to_api(resource, to_users(resource, amount)) == pytest.approx(
                amount, rel=1e-9, abs=1e-6 if resource == "memory" else 0
            )
        finite(outcome(lambda resource=resource: used_to_users(resource, value), ValueError))


# --- reports -----------------------------------------------------------------------------------------------------

# Where texts of others stand in what modules return.
_OF_OTHERS = (
    "reason",
    "reasons",
    "msg",
    "message",
    "advice",
    "overlaps",
    "upgrade_notes",
    "hazards",
    "step",
    "why",
    "unread",
    "images",
    "pod",
)


@functools.cache
def _whole() -> tuple[Object, list[str]]:
    inventory = drifted()
    for variables in inventory.hostvars.values():
        if "_kubegpu_ledger" in variables:
            variables["_kubegpu_ledger"]["unread"] = ["pod x: 1"]
            variables["_kubegpu_devices"] = variables["_kubegpu_ledger"] | {
                "devices": [{"node": "gpu1-worker", "device": None, "tenant": "ml", "pod": "default/train", "part": 0.5}],
                "products": [{"product": "NVIDIA H200", "pool": "", "nodes": 2, "allocatable": 8, "in_use": 5}],
            }
            variables["_kubegpu_vclusters"] = {"vclusters": [], "unread": ["Secret x: no YAML"]}
    return inventory.hostvars, inventory.clusters


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return the places of texts of others in Ansible's variables."""
    here = [(value, "")]
    while here:
        one, name = here.pop()
        if isinstance(one, dict):
            here += [(below, key) for key, below in one.items()]
            of_others = [key for key, below in one.items() if isinstance(below, str) and (key in _OF_OTHERS or name == "images")]
            yield from ((one, key) for key in of_others)
        elif isinstance(one, list):
            here += [(below, name) for below in one]
            yield from ((one, number) for number, below in enumerate(one) if isinstance(below, str) and name in _OF_OTHERS)


def check_reports(texts: list[str]) -> None:
    """Show a run in which texts of others stand wherever some may: each line is one, and no page has an element more."""
    hostvars, clusters = copy.deepcopy(_whole())
    places = sorted(_places(hostvars), key=lambda place: repr(place[1]))
    for number, (holder, key) in enumerate(places):
        holder[key] = texts[number % len(texts)]
    before = frozen(hostvars)
    run = reports(hostvars, clusters)
    found = _drift.drift(hostvars, clusters)
    lines = [*summary(run), *_drift.lines(found)]
    seen = _info.reports(hostvars, clusters)
    for part in _info.PARTS:
        lines += info(seen, part)
    for line in lines:
        for one in line.split("\n"):
            check_line(one)
    for whole in (evidence(run, AT), evidence(run, AT, "", "drift", found)):
        finite(whole)
        check_page(page(whole))
        ET.fromstring(junit(whole))  # noqa: S314 - made here
        assert evidence(run, AT, finite(whole))["since"]["at"] == AT
    assert frozen(hostvars) == before


def check_junit(given: list[str]) -> None:
    """Write any texts into JUnit's XML, which is read again."""
    cases = [_junit.Case(one, one, one, kind, one) for one in given for kind in _junit.KINDS]
    ET.fromstring(_junit.document([_junit.suite(one, cases, [("accepted hazard", one)]) for one in given]))  # noqa: S314 - made here


_CELLS = st.one_of(
    ANY_TEXT, st.integers(-10, 10**9), st.booleans(), st.none(), st.lists(ANY_TEXT, max_size=2), st.floats(allow_nan=False)
)
_ROWS = st.lists(st.tuples(_CELLS, _CELLS, _CELLS).map(lambda cells: dict(zip("abc", cells, strict=True))), max_size=4)
_VALUES = st.one_of(ANY_TEXT, ANY_TEXT, LEAVES, JSON)

PARTS = {
    "texts": Part(
        check_text, st.fixed_dictionaries({"value": _VALUES, "most": st.sampled_from([1, 2, 10, 63, 400, 4000])}), 15_000
    ),
    "tables": Part(check_table, _ROWS, 6_000),
    "plain data": Part(check_data, JSON, 8_000),
    "amounts": Part(
        check_amount, AMOUNTS | ANYTHING | st.floats() | st.integers() | st.decimals(allow_nan=True).map(str), 15_000
    ),
    "reports": Part(check_reports, st.lists(ANY_TEXT, min_size=1, max_size=8), 1_500),
    "JUnit": Part(check_junit, st.lists(ANY_TEXT, min_size=1, max_size=3), 4_000),
}
