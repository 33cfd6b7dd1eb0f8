# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inputs that any part may get: texts, amounts, values of any type, and what is right but for a few changes."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

# --- texts -------------------------------------------------------------------------------------------------------

TEXTS = [
    "",
    " ",
    "x",
    "ml",
    "web",
    "Team",
    "a-" * 40,
    "a" * 300,
    "x" * 100_000,
    "x y\tz",
    "a\nb",
    "web\x1b[2J\n\nPLAY RECAP ***\ngpu1 : ok=99 failed=0 \U0001f600",
    "\x1b]0;title\x07",
    "\x85\u2028\u2029",
    "\u202egnp.exe",
    "\ufeff\u200b",
    "\ud800",
    "gr\u00fcn",
    "\u0661\uff12",
    "\x00",
    "{{ lookup('pipe', 'id') }}",
    "{% for x in y %}",
    "<script>alert(1)</script>",
    "' onload='x",
    "]]><!--",
    "=cmd|' /C calc'!A0",
    "%s %(x)s {0} {x}",
    "..",
    "../../etc/passwd",
    "a/b",
    "-x",
    "--flag",
    "*",
    "~",
    "~(",
    "&a",
    "!x",
    "a,b",
    "a:b",
    "null",
    "true",
    "12:34:56",
    "0001-01-01T00:00:00Z",
    "2026-11-24T10:00:00Z",
    "9999-12-31T23:59:59Z",
    "2026-13-45T99:00:00Z",
    "0x1p-1",
    "FAILED gpu1: all is lost",
    "nvidia.com/gpu",
    "sha256:" + "4c" * 32,
    "a@sha256:zz",
    "[" * 2000,
    '{"a":' * 2000,
    "Infinity",
]
ANY_TEXT = st.sampled_from(TEXTS) | st.text(max_size=12)
# Names that the API server lets through, for most kinds of object.
NAMES = st.sampled_from(["a", "ml", "web", "evil", "x-1", "kube-system", "kai-scheduler", "default", "a" * 52, "b.c", "0"])


def nested(levels: int, kind: str = "list") -> Any:
    """Return lists, or dictionaries, in each other."""
    value: Any = "deep"
    for _level in range(levels):
        value = [value] if kind == "list" else {"a": value}
    return value


def loop() -> dict[str, Any]:
    """Return a dictionary that holds itself."""
    value: dict[str, Any] = {}
    value["a"] = value
    return value


# --- amounts -----------------------------------------------------------------------------------------------------

# As Kubernetes takes and returns them.
QUANTITIES = [
    "0",
    "1",
    "2",
    "8",
    "1k",
    "1e3",
    "1E3",
    "5E",
    "500m",
    "1500m",
    "0.5",
    ".5",
    "5.",
    "64Gi",
    "1Ti",
    "7Ei",
    "1n",
    "1u",
    str(2**63 - 1),
]
NO_QUANTITIES = [
    "-1",
    "+1",
    "",
    " 1 ",
    "abc",
    "lots",
    "NaN",
    "sNaN",
    "nan",
    "Infinity",
    "-Infinity",
    "inf",
    "1e999999999",
    "1e999990",
    "1e-999999999",
    "1_000",
    "0x10",
    "1,5",
    "\u0661",
    "1" * 5000,
    "9" * 40 + "Ei",
    str(2**63 + 1),
    "1.5.2",
    "1kk",
    "1e3k",
    "--1",
]
NUMBERS = [0, 1, 2, 8, -1, 300, 2**31, 2**63, 2**63 + 1, -(2**63) - 1, 10**30, 10**400, 0.5, 1.5, -0.0, 1e308, 1e-308, 1e19]
NO_NUMBERS = [float("nan"), float("inf"), float("-inf")]
AMOUNTS = st.sampled_from([*QUANTITIES, *NO_QUANTITIES, *NUMBERS, *NO_NUMBERS, True, None])

# --- values of any type ------------------------------------------------------------------------------------------

LEAVES = st.one_of(st.none(), st.booleans(), AMOUNTS, ANY_TEXT)
_DEEP = st.builds(nested, st.sampled_from([5, 60, 99, 100, 101, 150]), st.sampled_from(["list", "dict"]))
ANYTHING = st.one_of(
    LEAVES,
    st.lists(LEAVES, max_size=3),
    st.dictionaries(ANY_TEXT, LEAVES, max_size=3),
    st.dictionaries(ANY_TEXT, st.lists(LEAVES, max_size=2), max_size=2),
    _DEEP,
)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


# Alike, but only what JSON can say.
JSON = ANYTHING.filter(_is_json)


# --- what is right but for a few changes -------------------------------------------------------------------------


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return all places in plain data: what holds something, and the key or number of it there."""
    found, here, known = [], [value], set()
    while here:
        one = here.pop()
        if isinstance(one, (dict, list)) and id(one) not in known:
            known.add(id(one))
            keys = list(one) if isinstance(one, dict) else range(len(one))
            found += [(one, key) for key in keys]
            here += [one[key] for key in keys]
    return found


def change(value: Any, number: int, how: str, given: Any) -> None:
    """Change plain data at one place.

    :arg number: of the place, for any number of places.
    """
    if not (there := places(value)):
        return
    holder, key = there[number % len(there)]
    if how == "replace":
        holder[key] = given
    elif how == "remove":
        del holder[key]
    elif how == "wrap":
        holder[key] = [holder[key]] if number % 2 else {"a": holder[key]}
    elif how == "copy":
        other, place = there[(number * 7 + 3) % len(there)]
        holder[key] = copy.deepcopy(other[place])
    elif how == "hold":
        holder[key] = holder
    elif isinstance(holder, dict):
        holder[given if isinstance(given, (str, int, float, bool, type(None))) else "more"] = holder[key]
    else:
        holder.append(copy.deepcopy(holder[key]))


CHANGES = ("replace", "replace", "replace", "remove", "wrap", "copy", "add")


@st.composite
def changed(
    draw: st.DrawFn, right: Sequence[Any], given: st.SearchStrategy[Any] = ANYTHING, how: Sequence[str] = CHANGES, most: int = 3
) -> Any:
    """Return one of some values with a few changes.

    :arg given: what is put in.
    """
    value = copy.deepcopy(draw(st.sampled_from(right)))
    for _change in range(draw(st.integers(1, most))):
        change(value, draw(st.integers(0, 9999)), draw(st.sampled_from(how)), draw(given))
    return value


# Fields of Kubernetes' own kinds that its API server keeps in their form: identities, and times.
_IDENTITIES = (
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "containers",
    "spec",
    "status",
    "phase",
    "type",
)
_TIMES = ("startTime", "finishedAt", "lastTransitionTime", "lastTimestamp", "eventTime", "deletionTimestamp")
_RESOURCES = ("nvidia.com/gpu", "cpu", "memory")


@st.composite
def rewritten(draw: st.DrawFn, right: Sequence[Any], most: int = 3) -> Any:
    """Return one of some objects of Kubernetes' own kinds with a few fields in other words, or left out: its types stay."""
    value = copy.deepcopy(draw(st.sampled_from(right)))
    for _change in range(draw(st.integers(0, most))):
        if not (there := [(holder, key) for holder, key in places(value) if key not in _IDENTITIES]):
            break
        holder, key = there[draw(st.integers(0, 9999)) % len(there)]
        if isinstance(holder, dict) and draw(st.integers(0, 3)) == 0:
            del holder[key]
        elif key in _TIMES:
            holder[key] = draw(st.sampled_from([None, "2026-11-22T12:00:00Z", "2026-11-22T12:00:00.123456Z"]))
        elif key in _RESOURCES:
            holder[key] = draw(st.sampled_from(QUANTITIES))
        elif isinstance(holder[key], str):
            # Half a character is none of its texts.
            holder[key] = draw(ANY_TEXT).encode(errors="replace").decode()
        elif isinstance(holder[key], bool):
            holder[key] = not holder[key]
        elif isinstance(holder[key], int):
            holder[key] = draw(st.sampled_from([0, 1, 127, 2**31 - 1]))
        elif isinstance(holder[key], (list, dict)):
            holder[key] = type(holder[key])()
    return value


@st.composite
def cut(draw: st.DrawFn, right: Sequence[str], more: Sequence[str] = (), most: int = 3) -> str:
    """Return one of some texts with a few pieces of it left out, doubled, or replaced.

    :arg more: pieces that have a meaning in texts of this kind.
    """
    text = draw(st.sampled_from(right))
    for _change in range(draw(st.integers(0, most))):
        begin = draw(st.integers(0, max(0, len(text) - 1)))
        end = begin + draw(st.integers(0, 30))
        piece = draw(st.one_of(ANY_TEXT, st.sampled_from([*more, text[begin:end] * 2, ""])))
        text = text[:begin] + piece + text[end:]
    return text


def encoded(text: str) -> bytes:
    """Return a text as bytes; of half a character, which UTF-8 has no way to write, what is no UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def in_secret(text: str | bytes) -> str:
    """Return what a Secret holds for a text."""
    return base64.b64encode(encoded(text) if isinstance(text, str) else text).decode()
