# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Tell failures of calls to an API server apart, and repeat the calls that may be repeated.

A call is repeated after a failure that may soon be over: HTTP status 429, 500, 502, 503 or 504, and connections that are
refused, broken or silent. There are few attempts with growing pauses; where the server asks for a longer pause (Retry-After),
it gets that. A webhook that does not answer is not such a failure: the caller that writes knows how long it may take to come up.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException

from .._common.documents import Unreadable, parse_json
from .._common.errors import ApiError
from .._common.quantity import whole
from .._common.text import shown
from .._common.wait import Deadline
from .answers import Oversized

try:
    from kubernetes.client.exceptions import ApiException
    from kubernetes.dynamic.exceptions import ResourceNotUniqueError
    from urllib3 import exceptions as urllib3
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass

T = t.TypeVar("T")

# Seconds before the second attempt and those after it.
PAUSES = (0.5, 1.0, 2.0, 4.0)

# No attempt starts later than this many seconds after the first one, ...
RETRY_SECONDS = 15.0
# ... and, unless these have passed, not after the change's deadline: clean-up happens when time is up.
LEAST_SECONDS = 2.0

# Characters of what a server says of a failure: a webhook may list many reasons.
LONGEST_MESSAGE = 1000

PASSING_STATUS = (429, 500, 502, 503, 504)

# How kube-apiserver begins its message about a webhook that it cannot reach (k8s.io/apiserver, admission/plugin/webhook/errors).
WEBHOOK_SILENT = "failed calling webhook"

# How OpenSSL and urllib3 name a certificate of another authority, of another host, or one that has expired.
CERTIFICATE_REFUSED = ("CERTIFICATE_VERIFY_FAILED", "CertificateError")


@dataclasses.dataclass(frozen=True)
class Failure:
    """One attempt that failed.

    :ivar status: HTTP status; None where there was no answer.
    :ivar passing: whether it may soon be over.
    :ivar untouched: whether the server surely did nothing of what it was asked to do.
    :ivar permanent: whether it stays so until an operator mends it, such as a certificate that does not verify.
    :ivar oversized: whether the answer was larger than what is read; asked for less, the server may give it.
    :ivar retry_after: seconds that the server asks to wait before the next attempt.
    """

    message: str
    status: int | None = None
    passing: bool = False
    untouched: bool = False
    permanent: bool = False
    oversized: bool = False
    retry_after: float = 0.0

    def error(self, what: str, attempts: int = 1) -> ApiError:
        """Return the error that ends a call."""
        tried = f" in {attempts} attempts" if attempts > 1 else ""
        message = f"{shown(what)} failed{tried}: {shown(self.message, LONGEST_MESSAGE)}"
        return ApiError(message, self.status, attempts, self.permanent, self.oversized)


def repeat(what: str, call: t.Callable[[], T], deadline: Deadline, repeatable: bool = True) -> T:
    """Make a call, and again after failures that may soon be over.

    :arg what: names the call in the error, as in "Reading Pod web".
    :arg deadline: of the whole change. Its end, too, ends the attempts.
    :arg repeatable: whether doing it twice is as good as once; otherwise it is repeated only where the server surely did nothing.
    :raises ApiError: for the last failure.
    """
    start, bound = deadline.clock(), min(RETRY_SECONDS, deadline.left(LEAST_SECONDS))
    attempts = 0
    while True:
        attempts += 1
        try:
            return call()
        except (ApiException, CoreException, ResourceNotUniqueError, urllib3.HTTPError, OSError) as exc:
            failure = classify(exc)
            pause = _pause(failure, attempts, repeatable)
            if pause is None or deadline.clock() - start + pause > bound:
                raise failure.error(what, attempts) from exc
        deadline.sleep(pause)


def _pause(failure: Failure, attempts: int, repeatable: bool) -> float | None:
    """Return the seconds before the next attempt; None where there is to be none."""
    if not failure.passing or not (repeatable or failure.untouched) or attempts > len(PAUSES):
        return None
    return max(PAUSES[attempts - 1], failure.retry_after)


def classify(exc: Exception) -> Failure:
    """Return what an exception of the kubernetes client, of urllib3 or of the system means for a call."""
    # The client turns TLS errors into exceptions with status 0.
    if isinstance(exc, ApiException) and exc.status:
        return _answered(exc)
    message = str(exc.reason if isinstance(exc, ApiException) else exc)
    # CoreException: what kubernetes.core says of a kubeconfig that it cannot use.
    given = isinstance(exc, (CoreException, ResourceNotUniqueError, urllib3.LocationValueError))
    if given or any(mark in message for mark in CERTIFICATE_REFUSED):
        return Failure(message, permanent=True)
    if isinstance(exc, OSError) and not isinstance(exc, (ConnectionError, TimeoutError)):
        # Not the network but a file that a kubeconfig names, or an answer without a bound.
        return Failure(message, oversized=isinstance(exc, Oversized))
    return Failure(message, passing=True, untouched=_never_connected(exc))


def _answered(exc: ApiException) -> Failure:
    status: int = exc.status
    message = message_of(status, exc.reason, exc.body)
    asked = (exc.headers or {}).get("Retry-After")
    return Failure(
        message,
        status,
        passing=status in PASSING_STATUS and WEBHOOK_SILENT not in message,
        untouched=status == 429 or (status == 503 and bool(asked)),
        permanent=status == 401,
        retry_after=_seconds(asked),
    )


def _seconds(asked: str | None) -> float:
    """Return the seconds in a header Retry-After; 0 without one, and for a date."""
    try:
        return whole(asked)
    except ValueError:
        return 0


def _never_connected(exc: BaseException) -> bool:
    if isinstance(exc, urllib3.ProxyError):
        exc = exc.original_error
    return isinstance(exc, (urllib3.ConnectTimeoutError, ConnectionRefusedError))


def message_of(status: int, reason: str | None, body: bytes | str | None) -> str:
    """Return what an API server answered as one line: the message of its Status object, or the text it sent."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    try:
        answer = parse_json(text)
    except Unreadable:
        answer = None
    message = answer.get("message") if isinstance(answer, dict) else None
    return shown(message or "", LONGEST_MESSAGE) or " ".join(filter(None, (str(status), shown(reason), shown(text, 300))))
