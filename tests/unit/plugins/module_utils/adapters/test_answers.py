# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of servers that do not want to be read, over real sockets."""

from __future__ import annotations

import gzip
import re
import threading

import pytest
import urllib3
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.answers import Oversized, Pool, Unbounded, within

from .conftest import drip, flood, soon

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
MINUTES = b"a" * 10_000
MEBIBYTE = 2**20
# 70 MB, in 70 kB.
BOMB = gzip.compress(b"[" * 70_000_000)
# The beginning of a TLS record with a ServerHello, which never comes.
HANDSHAKE = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xf0" + b"\0" * 10_000
TUNNEL = b"HTTP/1.1 200 OK\r\n"


def request(url, seconds=0.5, manager=None, largest=MEBIBYTE, method="GET"):
    pool = Pool(manager or urllib3.PoolManager(), lambda: urllib3.Timeout(total=seconds), largest)
    with soon():
        return pool.request(method, url)


def sent(*parts):
    """Return what sends bytes as they are and does the rest with the connection."""

    def act(connection):
        for part in parts:
            connection.sendall(part) if isinstance(part, bytes) else part(connection)

    return act


def dripping(data):
    return lambda connection: drip(connection, data)


def flooding(data):
    return lambda connection: flood(connection, data)


@pytest.mark.parametrize(
    "act",
    [
        sent(lambda connection: connection.recv(1)),
        sent(dripping(OK + b"X: " + MINUTES)),
        sent(OK + b"Content-Length: 10000\r\n\r\n", dripping(MINUTES)),
        sent(OK + CHUNKED, dripping(b"1\r\na\r\n" * 10_000)),
        sent(OK + CHUNKED, dripping(b"0" * 10_000)),
        sent(OK + CHUNKED + b"1\r\na\r\n0\r\n", flooding(b"A: b\r\n" * 1000)),
        sent(flooding(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)),
    ],
    ids=["silent", "headers", "body", "chunks", "size of a chunk", "trailer", "100"],
)
def test_the_time_is_that_of_the_whole_answer(hostile, act):
    with pytest.raises(urllib3.exceptions.HTTPError, match="timed out"):
        request(f"{hostile(act).address}/api")


@pytest.mark.parametrize(("head", "more"), [(OK + b"A: ", MINUTES), (OK, b"A: b\r\n")], ids=["long", "many"])
def test_headers_have_an_end(hostile, head, more):
    with pytest.raises(urllib3.exceptions.ProtocolError, match="got more than"):
        request(f"{hostile(sent(head, flooding(more))).address}/api", seconds=10)


@pytest.mark.parametrize(
    "head",
    [OK + b"\r\n", OK + CHUNKED + b"fffffffff\r\n", b"HTTP/1.1 500 No\r\n\r\n", b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n"],
    ids=["plain", "one chunk", "of an error", "of a redirect"],
)
def test_bodies_have_an_end(hostile, head):
    with pytest.raises(Oversized, match=f"more than {MEBIBYTE} bytes"):
        request(f"{hostile(sent(head, flooding(b'a' * 65536))).address}/api", seconds=10)


def test_nothing_is_unpacked(hostile):
    head = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB)
    with pytest.raises(Unbounded, match="compressed"):
        request(f"{hostile(sent(head, BOMB)).address}/api", seconds=10)


@pytest.mark.parametrize(
    ("act", "proxied", "awaits_request"),
    [
        (sent(dripping(HANDSHAKE)), False, False),
        (sent(dripping(TUNNEL + b"X: " + MINUTES)), True, True),
        (sent(TUNNEL, flooding(b"A: b\r\n" * 100)), True, True),
        (sent(TUNNEL + b"\r\n", lambda connection: connection.recv(65536), dripping(HANDSHAKE)), True, True),
    ],
    ids=["TLS", "a proxy's headers", "a proxy's many headers", "TLS through a proxy"],
)
def test_the_time_is_that_of_connecting_too(hostile, act, proxied, awaits_request):
    server = hostile(act, awaits_request=awaits_request)
    manager = urllib3.ProxyManager(server.address) if proxied else urllib3.PoolManager()
    with pytest.raises((urllib3.exceptions.HTTPError, OSError), match=r"timed out|got more than"):
        request(f"https://127.0.0.1:{server.port}/api", manager=manager)


def test_an_answer_is_read_as_a_whole_and_its_connection_used_again(hostile):
    served = []

    def act(connection):
        served.append(connection)
        for _request in range(2):
            connection.sendall(OK + CHUNKED + b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n")
            connection.recv(65536)

    address = hostile(act).address
    pool = Pool(urllib3.PoolManager(), lambda: urllib3.Timeout(total=10), 10)
    for _request in range(2):
        answer = pool.request("GET", address)
        assert (answer.status, answer.reason, answer.data) == (200, "OK", b"{}")
        assert answer.getheaders()["transfer-encoding"] == "chunked"
    assert len(served) == 1


def test_an_answer_without_a_body_may_name_its_encoding(hostile):
    address = hostile(sent(OK + b"Content-Encoding: gzip\r\n\r\n")).address
    assert request(address, seconds=10, method="HEAD").data == b""


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1"])
def test_an_error_names_the_server_that_refuses(address):
    with pytest.raises(urllib3.exceptions.NewConnectionError, match=rf"^{re.escape(address)}: "):
        request(f"https://{address}/api")


def test_what_has_no_timeout_is_left_behind():
    assert within(10, lambda: "done") == "done"
    with pytest.raises(ZeroDivisionError):
        within(10, lambda: 1 / 0)
    never = threading.Event()
    with soon(), pytest.raises(TimeoutError, match="did not end within"):
        within(0.1, lambda: never.wait(60))
    never.set()
