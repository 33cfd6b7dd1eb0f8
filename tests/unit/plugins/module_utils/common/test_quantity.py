# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import decimal
from decimal import Decimal

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.quantity import (
    MOST,
    devices,
    devices_or_none,
    go_number,
    number,
    quantity,
    whole,
)
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

HOSTILE = [
    *("NaN", "sNaN", "-NaN", "Infinity", "-Infinity", "1e999999999", "1e999990", "-1", "abc", "", " ", "1 000", "0x10", "1_000"),
    *("9" * 1_000_000, "1e-999999999", "٣", "1kk", "k", "1e", "--1", "+-1", "1.2.3", "Inf", "true"),
    *(
        None,
        True,
        False,
        [],
        {},
        b"1",
        float("nan"),
        float("inf"),
        -1,
        -0.5,
        10**30,
        10**100_000,
        Decimal("NaN"),
        Decimal(10) ** 40,
    ),
]


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("1500m", "1.5"),
        ("2", "2"),
        (0, "0"),
        ("2Ki", "2048"),
        ("1k", "1000"),
        ("1e3", "1000"),
        ("+1", "1"),
        (0.5, "0.5"),
        ("5.", "5"),
    ],
)
def test_quantities_are_in_whole_units(text, units):
    assert quantity(text) == Decimal(units)


@pytest.mark.parametrize("unit", ["", *"numkMGTPE", *(f"{letter}i" for letter in "KMGTPE"), "e2", "E2", "e-3", "E+1"])
@pytest.mark.parametrize("number", ["0", "1", "7.25", ".5", "3."])
def test_quantities_are_those_of_the_kubernetes_client(number, unit):
    assert quantity(f"{number}{unit}") == parse_quantity(f"{number}{unit}")


@pytest.mark.parametrize("read", [quantity, devices, whole, number])
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:30] if not isinstance(value, int) else "an int")
def test_what_is_no_amount_is_refused_at_once_and_by_a_short_message(read, value):
    with pytest.raises(ValueError, match=r".") as caught:
        read(value)
    assert len(str(caught.value)) < 200


def test_devices_count_as_kubernetes_rounds_them():
    assert [devices(one) for one in ("1k", 8, "1500m", "0", "2.0")] == [1000, 8, 2, 0, 2]
    assert (devices_or_none("4"), devices_or_none("lots"), devices_or_none(None)) == (4, None, None)


def test_plain_numbers_have_no_unit():
    assert (whole("3"), whole(3), number("0.25"), number(1e-5)) == (3, 3, Decimal("0.25"), Decimal("1e-05"))
    for text in ("1k", "1.5"):
        with pytest.raises(ValueError, match="whole number"):
            whole(text)
    with pytest.raises(ValueError, match="number"):
        number("1k")


# What strconv.ParseFloat of Go 1.26 makes of it.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("0.5", "0.5"), ("+0.5", "0.5"), (".5", "0.5"), ("5.", "5"), ("5e-1", "0.5"), ("1e-9", "1e-9"), ("0_0.5", "0.5")),
        *(("1_0.5_0e-2", "0.105"), ("0x1p-1", "0.5"), ("0X1P-1", "0.5"), ("0x_1p-1", "0.5"), ("0x1.8p-1", "0.75")),
        *(("0x.8p0", "0.5"), ("0x1p-1_0", "0.0009765625"), ("0x1p-9999", "0")),
    ],
)
def test_a_number_as_go_reads_it(text, expected):
    assert go_number(text) == Decimal(expected)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "NaN",
            "nan",
            "inf",
            "Infinity",
            "-0.5",
            " 0.5",
            "0.5 ",
            "0.5f",
            "0x1",
            "1_",
            "_0.5",
            "0._5",
            "1__0",
            "٣",
            "0x",
            ".",
        ),
        *("0x1p", "0x1p9999", "1e9999", "9" * 1_000_000, "0x" + "f" * 1_000_000 + "p0", "half"),
    ],
    ids=lambda text: text[:20],
)
def test_what_go_reads_as_no_finite_number_is_none(text):
    with pytest.raises(ValueError, match=r".") as caught:
        go_number(text)
    assert len(str(caught.value)) < 200


@given(st.one_of(st.text(max_size=30), st.integers(), st.floats(), st.text(alphabet="0123456789.eEkMGTPimun+-", max_size=12)))
def test_whatever_is_written_is_an_amount_within_bounds_or_refused(value):
    for read in (quantity, devices, whole, number):
        try:
            found = read(value)
        except ValueError:
            continue
        assert decimal.Decimal(found).is_finite()
        assert 0 <= found <= MOST
