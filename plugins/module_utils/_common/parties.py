# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Keep what one party wrote from everybody else: a tenant, node, pod, Secret, queue or log that cannot be read is that one's failure."""

from __future__ import annotations

import typing as t

from .errors import TenancyError
from .text import shown

T = t.TypeVar("T")
Item = t.TypeVar("Item")


class Unread(t.NamedTuple):
    """Something of one party that could not be read.

    :ivar what: names it, such as ``pod tenant-web/x``.
    :ivar why: one line.
    """

    what: str
    why: str

    @property
    def sentence(self) -> str:
        """Return it as a sentence without its end."""
        return f"{self.what} cannot be read: {self.why}"


def reason(exc: BaseException) -> str:
    """Return what an exception says as one line, with its kind in front where it was not raised to be read by people."""
    if isinstance(exc, (TenancyError, ValueError)):
        return shown(exc)
    return shown(f"{type(exc).__name__}: {exc}")


def attempt(what: str, read: t.Callable[[], T]) -> tuple[T | None, Unread | None]:
    """Return what a call reads of one party and None, or None and why it could not be read.

    Any exception counts: what another party writes can make code fail in unforeseen ways.
    """
    try:
        return read(), None
    except Exception as exc:
        return None, Unread(what, reason(exc))


def required(what: str, read: t.Callable[[], T]) -> T:
    """Return what a call reads of one party, where nothing can be done without it.

    :raises TenancyError: its own, and one that says what cannot be read, and why, for any other exception.
    """
    try:
        return read()
    except TenancyError:
        raise
    except Exception as exc:
        raise TenancyError(Unread(what, reason(exc)).sentence) from exc


def each(items: t.Iterable[Item], name: t.Callable[[Item], str], read: t.Callable[[Item], T]) -> tuple[list[T], list[Unread]]:
    """Return what a call reads of each item, and those of which it could not be read; each by itself.

    :arg name: names an item, such as ``pod tenant-web/x``; where that fails as well, it is "an object".
    """
    found: list[T] = []
    unread: list[Unread] = []
    for item in items:
        try:
            found.append(read(item))
        except Exception as exc:
            what, _failure = attempt("", lambda item=item: shown(name(item)))  # type: ignore[misc]
            unread.append(Unread(what or "an object", reason(exc)))
    return found, unread
