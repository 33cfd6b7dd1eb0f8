# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The one reader of amounts that an API or a person wrote: finite, not negative, and at most 2^63.

Nothing else in the collection calls ``int``, ``float`` or ``Decimal`` on such data (tests/unit/test_house.py). The API server writes
amounts in its own form: what was created as ``1000`` comes back as ``1k``.
"""

from __future__ import annotations

import decimal
import math
import re
import typing as t

# The largest amount that Kubernetes counts (resource.Quantity holds an int64).
MOST = 2**63

# A quantity as resource.Quantity reads it (k8s.io/apimachinery, pkg/api/resource): digits, then a unit or a power of ten. The lengths bound
# what a text costs to read.
_QUANTITY = re.compile(
    r"\+?(\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d{1,2})?", re.ASCII
)
_DECIMAL_UNITS = {unit: decimal.Decimal(1).scaleb(power) for unit, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18))}
_UNITS = _DECIMAL_UNITS | {f"{letter}i": decimal.Decimal(1024**power) for power, letter in enumerate("KMGTPE", start=1)}
_WHOLE = re.compile(r"\d{1,19}", re.ASCII)
_DECIMAL = re.compile(r"\+?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,2})?", re.ASCII)
# A number as Go's strconv.ParseFloat reads it, from 0 on: decimal or hexadecimal, with underscores between digits, without blanks.
# As many digits as an annotation holds: what Go reads is counted, however long.
_D, _H = r"\d(?:_?\d){0,262143}", r"[\da-fA-F](?:_?[\da-fA-F]){0,262143}"
_E = r"[+-]?(?:0_?){0,262143}\d(?:_?\d){0,3}"
_GO_DECIMAL = re.compile(rf"\+?({_D}(\.({_D})?)?|\.{_D})([eE]{_E})?", re.ASCII)
_GO_HEXADECIMAL = re.compile(rf"\+?0[xX](_?{_H}(\.({_H})?)?|\.{_H})[pP]{_E}", re.ASCII)

Amount = t.Union[str, int, float]


def quantity(value: t.Any) -> decimal.Decimal:
    """Return a quantity such as ``250m``, ``1k`` or ``64Gi`` in whole units: devices, cores or bytes; from 0 to 2^63.

    :raises ValueError: on what is no quantity, not finite, negative or larger.
    """
    found = _QUANTITY.fullmatch(_text(value))
    if not found:
        raise ValueError(f"{_shown(value)} is no quantity of Kubernetes such as 2, 250m or 64Gi.")
    number, unit = found.groups(default="")
    # By itself: the Kubernetes client has such a function, and takes half a second to import.
    amount = decimal.Decimal(number) * _UNITS[unit] if unit in _UNITS else decimal.Decimal(f"{number}{unit}")
    return bounded(amount, value)


def devices(value: t.Any) -> int:
    """Return an amount of devices; a part of one counts as a whole, as Kubernetes rounds it (``Quantity.Value``).

    :raises ValueError: as ``quantity`` does.
    """
    return math.ceil(quantity(value))


def devices_or_none(value: t.Any) -> int | None:
    """Return an amount of devices; None for what is no such amount, for a place that names the reader's failure itself."""
    try:
        return devices(value)
    except ValueError:
        return None


def whole(value: t.Any) -> int:
    """Return a whole number that was written without a unit, such as ``3``; from 0 to 2^63.

    :raises ValueError: on anything else.
    """
    text = _text(value)
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{_shown(value)} is no whole number.")
    return int(bounded(decimal.Decimal(text), value))


def number(value: t.Any) -> decimal.Decimal:
    """Return a decimal number without a unit, such as ``0.5``; from 0 to 2^63.

    :raises ValueError: on anything else, ``NaN`` and ``Infinity`` included.
    """
    text = _text(value)
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{_shown(value)} is no number.")
    return bounded(decimal.Decimal(text), value)


def go_number(text: str) -> decimal.Decimal:
    """Return a number that a program in Go reads from a text, such as ``0.5`` or ``0x1p-1``; from 0 to 2^63.

    :raises ValueError: on anything else, and on ``NaN`` and ``Inf``, which Go reads, too.
    """
    digits = text.replace("_", "")
    if _GO_HEXADECIMAL.fullmatch(text):
        try:
            return bounded(decimal.Decimal(float.fromhex(digits)), text)
        except OverflowError:
            pass
    elif _GO_DECIMAL.fullmatch(text):
        return bounded(decimal.Decimal(digits), text)
    raise ValueError(f"{_shown(text)} is no number.")


def bounded(amount: decimal.Decimal, value: t.Any) -> decimal.Decimal:
    """Return an amount, also a sum of some, that is from 0 to 2^63.

    :arg value: what it was read from, for the message.
    :raises ValueError: on any other.
    """
    if not 0 <= amount <= MOST:
        raise ValueError(f"{_shown(value)} is not between 0 and 2^63.")
    return amount


def plain(amount: decimal.Decimal) -> int | float:
    """Return an amount that was read as a number of JSON: whole where it is."""
    return int(amount) if amount == amount.to_integral_value() else float(amount)


def _text(value: t.Any) -> str:
    """Return a value as it stands in JSON; empty for what is no amount at all."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float, decimal.Decimal)):
        return ""
    # Python takes minutes for the digits of a number of a million digits.
    if isinstance(value, int) and not -MOST <= value <= MOST:
        return "-"
    return str(value).strip()


def _shown(value: t.Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and not -MOST <= value <= MOST:
        return "a number beyond 2^63"
    return repr(value if isinstance(value, (bool, int, float)) else str(value)[:40])
