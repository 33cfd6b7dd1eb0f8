# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases: what a part of the code is given, and what none of them may do."""

from __future__ import annotations

import collections
import contextlib
import faulthandler
import gc
import json
import signal
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.text import LONGEST_LINE
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

# Seconds of the process's own time that a case may take, what it is compared with included.
LONGEST = 1.0
# Seconds after which a case is ended: some would never end.
_ENDED = 10.0
# Seconds of the clock after which the whole run is ended, and says where it was: in a regular expression no signal is heard.
_STUCK = 300.0
# Categories of characters that are not printed, end a line, or turn the direction of writing.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
# Cases of each part that were tried, and the slowest of them, in seconds.
COUNTED: collections.Counter[str] = collections.Counter()
SLOWEST: dict[str, float] = collections.defaultdict(float)


class Part(NamedTuple):
    """A part of the code with everything that it is given.

    :ivar check: gets one case, plain data, and fails where the code does what it may not do.
    :ivar inputs: all cases; ``examples``, how many of them are tried.
    """

    check: Callable[[Any], None]
    inputs: SearchStrategy[Any]
    examples: int


class _Endless(BaseException):
    """A case that was ended. It is none of the exceptions that the code under test catches."""


def tried(name: str, check: Callable[[Any], None], given: Any) -> None:
    """Try one case of a part."""
    COUNTED[name] += 1
    took = _seconds(check, given)
    if took > LONGEST:
        # What else runs on the machine makes a case slower by chance, and the second time is another one.
        took = min(took, _seconds(check, given))
    SLOWEST[name] = max(SLOWEST[name], took)
    assert took <= LONGEST, f"it took {took:.1f} s"


def _seconds(check: Callable[[Any], None], given: Any) -> float:
    """Return how long a case takes."""
    # What thousands of cases before it have left is not cleared away in its time.
    gc.disable()
    began = time.process_time()
    try:
        with _ended():
            check(given)
    except _Endless:
        raise AssertionError(f"it was not over after {_ENDED} s") from None
    finally:
        gc.enable()
    return time.process_time() - began


@contextlib.contextmanager
def _ended() -> Iterator[None]:
    """End what takes too long of the process's own time."""

    def end(_signal: int, _frame: object) -> None:
        raise _Endless

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, _ENDED)
    faulthandler.dump_traceback_later(_STUCK, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcome(call: Callable[[], T], *more: type[Exception]) -> T | None:
    """Return what a call returns; None where it refuses, in words that people can read.

    :arg more: what it may raise as well, by its docstring, for a caller who says it in other words.
    """
    try:
        return call()
    except TenancyError as exc:
        finite(exc.details)
        for line in exc.message.split("\n"):
            check_line(line)
    except more:
        pass
    return None


def finite(value: Any) -> str:
    """Return a result as JSON; fail where there is no such: for NaN and infinite numbers, and for what is no plain data."""
    return json.dumps(value, allow_nan=False)


def check_line(text: str, most: int = LONGEST_LINE) -> None:
    """Fail where a text is not one line that every terminal prints as it is."""
    if not (text.isascii() and text.isprintable()):
        hidden = [char for char in text if char > "\uffff" or unicodedata.category(char) in _HIDDEN]
        assert not hidden, f"{hidden[0]!r} in {text[:200]!r}"
    assert len(text) <= most, f"{len(text)} characters: {text[:200]!r}"


def check_lines(value: Any) -> None:
    """Fail where a text in plain data, or a key, is not one such line."""
    for text in texts_in(value):
        check_line(text)


def texts_in(value: Any) -> Iterator[str]:
    """Return all texts in plain data, keys included."""
    here = [value]
    while here:
        one = here.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            here += [*one, *one.values()]
        elif isinstance(one, (list, tuple)):
            here += one


def frozen(value: Any) -> list[Any]:
    """Return what tells whether a value was changed since, also of one that holds itself, or is nested thousands deep."""
    found: list[Any] = []
    known: dict[int, int] = {}
    here = [value]
    while here:
        one = here.pop()
        if isinstance(one, (dict, list, tuple)):
            found.append((type(one), len(one), known.get(id(one))))
            if id(one) not in known:
                known[id(one)] = len(known)
                here += [*one, *one.values()] if isinstance(one, dict) else one
        else:
            # NaN is not equal to itself.
            found.append((type(one), repr(one) if isinstance(one, float) else one))
    return found
