# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ssl

import pytest
import urllib3
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.answers import Oversized, Unbounded
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.retry import (
    LEAST_SECONDS,
    PAUSES,
    RETRY_SECONDS,
    Failure,
    classify,
    message_of,
    repeat,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException
from kubernetes.client.exceptions import ApiException

REFUSED = urllib3.exceptions.NewConnectionError(None, "refused")
SILENT = 'Internal error occurred: failed calling webhook "queue-validation.kai.scheduler": connection refused'


def answered(status, message="no", **headers):
    exc = ApiException(status, "Reason")
    exc.body, exc.headers = (
        f'{{"message": "{message}"}}'.encode(),
        {key.replace("_", "-"): value for key, value in headers.items()},
    )
    return exc


def tls(reason):
    return urllib3.exceptions.SSLError(ssl.SSLCertVerificationError(1, f"[SSL: {reason}]"))


@pytest.mark.parametrize(
    ("exc", "marks"),
    [
        (answered(429), {"passing", "untouched"}),
        (answered(500), {"passing"}),
        (answered(500, SILENT.replace('"', "'")), set()),
        (answered(502), {"passing"}),
        (answered(503), {"passing"}),
        (answered(503, Retry_After="1"), {"passing", "untouched"}),
        (answered(504), {"passing"}),
        (answered(400), set()),
        (answered(401), {"permanent"}),
        (answered(403), set()),
        (answered(404), set()),
        (answered(409), set()),
        (answered(422), set()),
        (answered(501), set()),
        (REFUSED, {"passing", "untouched"}),
        (urllib3.exceptions.NameResolutionError("gone", None, OSError("unknown")), {"passing", "untouched"}),
        (urllib3.exceptions.ConnectTimeoutError(None, "late"), {"passing", "untouched"}),
        (urllib3.exceptions.ProxyError("proxy", REFUSED), {"passing", "untouched"}),
        (urllib3.exceptions.ProxyError("proxy", OSError("Tunnel connection failed: 502 Bad Gateway")), {"passing"}),
        (urllib3.exceptions.ReadTimeoutError(None, "/", "late"), {"passing"}),
        (urllib3.exceptions.ProtocolError("Connection aborted."), {"passing"}),
        (ConnectionResetError(104, "reset"), {"passing"}),
        (ConnectionRefusedError(111, "refused"), {"passing", "untouched"}),
        (TimeoutError("late"), {"passing"}),
        (urllib3.exceptions.SSLError("UNEXPECTED_EOF_WHILE_READING"), {"passing"}),
        (ApiException(0, "SSLError\nUNEXPECTED_EOF_WHILE_READING"), {"passing"}),
        (tls("CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch"), {"permanent"}),
        (ApiException(0, "SSLError\n[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate"), {"permanent"}),
        (urllib3.exceptions.LocationParseError("https://[bad"), {"permanent"}),
        (FileNotFoundError(2, "No such file", "/etc/client.key"), set()),
        (CoreException("Invalid kube-config file."), {"permanent"}),
        (Unbounded("compressed"), set()),
        (Oversized("more than is read"), {"oversized"}),
    ],
)
def test_failures_are_told_apart(exc, marks):
    failure = classify(exc)
    assert {mark for mark in ("passing", "untouched", "permanent", "oversized") if getattr(failure, mark)} == marks


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"kind": "Status", "message": "pods \\"x\\" not found"}', 'pods "x" not found'),
        (b"404 page not found\n", "404 Reason 404 page not found"),
        ("<html>\n <b>Bad", "404 Reason <html> <b>Bad"),
        (b'{"message": null}', '404 Reason {"message": null}'),
        (b"[1]", "404 Reason [1]"),
        (None, "404 Reason"),
        (b"x" * 1000, "404 Reason " + "x" * 299 + "…"),
        (b'"text"', '404 Reason "text"'),
        (b"[" * 100_000, "404 Reason " + "[" * 299 + "…"),
        (b'{"message": "' + b"x" * 2_000_000 + b'"}', "x" * 999 + "…"),
        (b'{"message": "a\\u001b[2J\\n\\nPLAY RECAP ***\\u0007 b"}', "a PLAY RECAP *** b"),
        (b'{"message": ["a", {"b": 1}]}', "['a', {'b': 1}]"),
    ],
)
def test_a_message_is_one_line(body, expected):
    assert message_of(404, "Reason", body) == expected


def test_so_is_the_error_whatever_is_in_it():
    error = Failure("a\x1b[2J\nb" + "c" * 10_000).error("Reading Queue \n" + "d" * 10_000)
    assert error.message.isprintable()
    assert len(error.message) < 1500


class Call:
    """Raises one exception after the other and returns "done" then; each attempt takes a while."""

    def __init__(self, clock, *failures, takes=0.0):
        self.clock, self.failures, self.takes, self.attempts = clock, list(failures), takes, 0

    def __call__(self):
        self.attempts += 1
        self.clock.now += self.takes
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def outcome(call, clock, seconds=1000.0, repeatable=True):
    return repeat("Reading Pod web", call, Deadline(seconds, clock, clock.sleep), repeatable)


def test_pauses_grow_and_the_server_may_ask_for_longer_ones(clock):
    call = Call(clock, answered(500), answered(429, Retry_After="3"), REFUSED, answered(503, Retry_After="1"))
    assert outcome(call, clock) == "done"
    assert clock.pauses == [0.5, 3.0, 2.0, 4.0]


def test_there_are_few_attempts(clock):
    call = Call(clock, *[answered(503, "busy")] * 9)
    with pytest.raises(TenancyError) as caught:
        outcome(call, clock)
    assert caught.value.message == "Reading Pod web failed in 5 attempts: busy"
    assert caught.value.details == {"status": 503, "attempts": 5}
    assert clock.pauses == list(PAUSES)


@pytest.mark.parametrize(
    ("asked", "attempts"),
    [("14", 2), ("16", 1), ("9" * 18, 1), ("Sun, 22 Nov 2026 12:00:00 GMT", 2), ("²", 2), ("9" * 10_000, 2), ("-1", 2)],
)
def test_no_attempt_starts_late(clock, asked, attempts):
    call = Call(clock, answered(429, Retry_After=asked), answered(404))
    with pytest.raises(TenancyError):
        outcome(call, clock)
    assert call.attempts == attempts
    assert sum(clock.pauses) <= RETRY_SECONDS


def test_slow_attempts_are_few(clock):
    call = Call(clock, *[urllib3.exceptions.ReadTimeoutError(None, "/", "late")] * 9, takes=10.0)
    with pytest.raises(TenancyError, match="in 2 attempts"):
        outcome(call, clock)


@pytest.mark.parametrize(("left", "bound"), [(1000.0, RETRY_SECONDS), (4.0, 4.0), (0.0, LEAST_SECONDS)])
def test_the_deadline_of_the_change_bounds_the_attempts(clock, left, bound):
    with pytest.raises(TenancyError):
        outcome(Call(clock, *[answered(500)] * 9), clock, left)
    assert 0 < clock.now <= bound


@pytest.mark.parametrize(
    ("failure", "attempts"),
    [(answered(500), 1), (answered(503), 1), (ConnectionResetError(104, "reset"), 1), (answered(429), 2), (REFUSED, 2)],
)
def test_what_may_not_be_done_twice_is_repeated_only_where_nothing_was_done(clock, failure, attempts):
    call = Call(clock, failure, answered(404))
    with pytest.raises(TenancyError):
        outcome(call, clock, repeatable=False)
    assert call.attempts == attempts


def test_other_exceptions_pass(clock):
    with pytest.raises(ZeroDivisionError):
        outcome(lambda: 1 / 0, clock)
