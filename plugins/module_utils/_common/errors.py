# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The errors of the collection's library code: one class, and one below it for each kind that callers handle."""

from __future__ import annotations

import dataclasses
import difflib
import typing as t

from .text import shown

# HTTP status of what the caller has no right to.
FORBIDDEN = 403

_DEFECT = "This is a defect of the collection kubegpu.tenancy: report it, please, with what -vvv shows of it."


@dataclasses.dataclass(frozen=True)
class Problem:
    """What is wrong with something that was asked for.

    :ivar code: which kind of problem it is, wherever it occurs, such as ``unknown-key``; programs and tests compare it.
    :ivar text: a sentence for people, its path in front.
    """

    code: str
    text: str

    def within(self, before: str) -> Problem:
        """Return the same problem with something in front of its path, such as ``trace.``"""
        return Problem(self.code, f"{before}{self.text}")

    def data(self) -> dict[str, str]:
        """Return it as plain data, as modules return it."""
        return {"code": self.code, "text": self.text}

    @classmethod
    def of(cls, data: t.Mapping[str, str]) -> Problem:
        """Return the problem that was made plain data."""
        code, text = data["code"], data["text"]
        return cls(code, text)


class TenancyError(Exception):
    """Something the user can act on: what is wrong, where, and what to do.

    :arg message: one sentence for the user.
    :arg details: plain data that a module adds to its failure.
    :ivar code: of the problem that it is, see Problem; that of its class where it has none of its own.
    """

    code = "failed"

    def __init__(self, message: str, **details: t.Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    @property
    def problems(self) -> list[Problem]:
        """Return everything that is wrong, each with its path."""
        return [Problem(self.code, self.message)]

    def saying(self, message: str) -> TenancyError:
        """Return an error of the same kind and details with another message."""
        other = type(self).__new__(type(self), message)
        other.__dict__.update(self.__dict__)
        other.message = message
        return other


class ApiError(TenancyError):
    """A call to an API that failed.

    :ivar status: HTTP status; None where there was no answer.
    :ivar attempts: how often it was tried.
    :ivar permanent: whether it stays so until an operator mends it, such as a certificate that does not verify.
    :ivar oversized: whether the answer was larger than what is read; asked for less, the server may give it.
    """

    code = "api-error"

    def __init__(
        self, message: str, status: int | None = None, attempts: int = 1, permanent: bool = False, oversized: bool = False
    ) -> None:
        tried = {"attempts": attempts} if attempts > 1 else {}
        kinds = {name: True for name, is_so in (("permanent", permanent), ("oversized", oversized)) if is_so}
        super().__init__(message, status=status, **tried, **kinds)
        self.status = status
        self.attempts = attempts
        self.permanent = permanent
        self.oversized = oversized


class WaitTimeout(TenancyError):
    """Something did not come within its time.

    :ivar last_seen: what there was of it instead.
    :ivar waited: seconds; None where the wait ended before its time, because nothing would have come.
    """

    code = "timeout"

    def __init__(self, message: str, last_seen: str, waited: float | None = None) -> None:
        super().__init__(message, last_seen=last_seen, **({} if waited is None else {"waited": waited}))
        self.last_seen = last_seen
        self.waited = waited


class Refused(TenancyError):
    """What was asked for has problems, and nothing was done.

    :arg problems: each with its path; a module returns them as ``problems`` of its failure.
    """

    def __init__(self, message: str, problems: t.Sequence[Problem]) -> None:
        super().__init__(message, problems=[problem.data() for problem in problems])
        self._problems = tuple(problems)

    @property
    def problems(self) -> list[Problem]:
        """Return everything that is wrong, each with its path."""
        return list(self._problems)


class Superseded(TenancyError):
    """Work that goes no further: the run that it is for has ended, or another one has taken its place."""

    code = "superseded"


class CommandFailed(TenancyError):
    """A program that ended with another exit status than 0.

    :ivar rc: that status.
    :ivar stderr: what it wrote there; empty where that is not known.
    :arg output: plain data that a module adds to its failure, such as ``stdout``.
    """

    code = "command-failed"

    def __init__(self, message: str, rc: int, stderr: str | None = None, **output: t.Any) -> None:
        super().__init__(message, rc=rc, **({} if stderr is None else {"stderr": stderr}), **output)
        self.rc = rc
        self.stderr = stderr or ""


def explained(exc: BaseException) -> str:
    """Return what an exception says to users: the message of an error of this collection; of any other, that it is a defect."""
    return exc.message if isinstance(exc, TenancyError) else f"{shown(f'{type(exc).__name__}: {exc}')}\n{_DEFECT}"


def refusal(code: str, text: str) -> TenancyError:
    """Return the error for one problem, whose fields these are."""
    error = TenancyError(text)
    error.code = code
    return error


def refuse(problems: t.Iterable[Problem]) -> None:
    """Raise once for all problems, each named once; do nothing where there are none.

    :raises Refused: with a message that names one a line.
    """
    if distinct := list(dict.fromkeys(problems)):
        raise Refused("\n".join(problem.text for problem in distinct), distinct)


def did_you_mean(key: t.Any, known: t.Iterable[str]) -> str:
    """Return a question that names the closest known name, a space in front; empty where none is close."""
    close = difflib.get_close_matches(str(key), known, n=1)
    return f" Did you mean {close[0]}?" if close else ""


def check_all(*checks: t.Callable[[], object]) -> None:
    """Run every check and raise once for what all of them refuse, so that a user mends it in one go.

    :raises TenancyError: as ``refuse`` does.
    """
    problems: list[Problem] = []
    for check in checks:
        try:
            check()
        except TenancyError as exc:
            problems += exc.problems
    refuse(problems)
