# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The one way by which answers of HTTP servers are read: within a time and a size, even if the server misbehaves.

A socket's timeout begins anew with each piece that arrives. A server that sends one byte a second, or headers without end, is
never late by it. So the pieces of one answer share one end, and so do the steps of one connection: TCP, the proxy's tunnel and TLS.
"""

from __future__ import annotations

import functools
import http.client
import io
import queue
import threading
import time
import typing as t

from .._common.text import bracketed

try:
    import urllib3
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass

T = t.TypeVar("T")

# Bytes that are read at once. What is thrown away beyond a bound is less than this.
_PIECE = 2**16
# The shortest timeout of a socket, in seconds: 0 would mean not to wait at all.
_SHORTEST = 0.001


class Unbounded(OSError):
    """An answer that goes beyond a bound. It would again, so that no call is repeated after it."""


class Oversized(Unbounded):
    """An answer of more bytes than are read."""


class Answer(t.NamedTuple):
    """An answer that was read as a whole, in the form in which the client for Kubernetes takes one."""

    status: int
    reason: str | None
    data: bytes
    headers: t.Mapping[str, str]

    def getheaders(self) -> t.Mapping[str, str]:
        """Return the headers; the client asks for them by this name."""
        return self.headers


class _Pieces(io.RawIOBase):
    """What arrives at a socket until a time, in seconds of the monotonic clock."""

    def __init__(self, sock: t.Any, end: float) -> None:
        self._sock = sock
        self._end = end
        # Keeps the socket open after its connection has let it go.
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: t.Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(max(left, _SHORTEST))
        return t.cast("int | None", self._raw.readinto(buffer))

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Source:
    """Stands in for the socket from which an answer is read, headers and body. The socket's timeout is that of all of it."""

    def __init__(self, sock: t.Any) -> None:
        self._sock = sock
        seconds = sock.gettimeout()
        self._end = float("inf") if seconds is None else time.monotonic() + seconds

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Pieces(self._sock, self._end))


def _response(sock: t.Any, *args: t.Any, **kwargs: t.Any) -> http.client.HTTPResponse:
    return http.client.HTTPResponse(t.cast("t.Any", _Source(sock)), *args, **kwargs)


class _OneEnd:
    """Of a connection of urllib3, what makes its timeout that of all its steps together."""

    timeout: float | None
    sock: t.Any
    response_class = staticmethod(_response)
    host: str
    port: int

    def __str__(self) -> str:
        # Messages begin with it. Debian 13's urllib3, 2.3, has an address in memory there.
        return f"{bracketed(self.host)}:{self.port}"

    def _new_conn(self) -> t.Any:
        self._connected_by = float("inf") if self.timeout is None else time.monotonic() + self.timeout
        return self._hurried(super()._new_conn())  # type: ignore[misc]

    def _tunnel(self) -> None:
        super()._tunnel()  # type: ignore[misc]
        self._hurried(self.sock)

    def _hurried(self, sock: t.Any) -> t.Any:
        """Give the next step with a socket the time that is left."""
        if self._connected_by != float("inf"):
            sock.settimeout(max(self._connected_by - time.monotonic(), _SHORTEST))
        return sock


def bounded(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """Make the connections of a pool of urllib3 bounded ones, before its first request, and return it."""
    manager.pool_classes_by_scheme = {scheme: _bounded(pool) for scheme, pool in manager.pool_classes_by_scheme.items()}
    return manager


def _bounded(pool: t.Any) -> t.Any:
    """Return a class of pools, of http or https, with bounded connections. It keeps its name, which is in messages."""
    connection = type(pool.ConnectionCls.__name__, (_OneEnd, pool.ConnectionCls), {})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})


class Pool:
    """A pool of urllib3 that returns answers as a whole. It stands in for the pool of a client.

    :arg manager: of urllib3; its connections become bounded ones.
    :arg timeout: returns the timeout of the next request. What a caller asks for is not regarded.
    :arg largest: bytes of a body at most.
    """

    def __init__(self, manager: urllib3.PoolManager, timeout: t.Callable[[], urllib3.Timeout], largest: int) -> None:
        self._manager = bounded(manager)
        self._timeout = timeout
        self._largest = largest

    def request(self, method: str, url: str, **kwargs: t.Any) -> Answer:
        """Make one request, without repetitions and redirects, and return the answer.

        :raises urllib3.exceptions.HTTPError: where there is none in time.
        :raises Unbounded: where it is larger than allowed, or compressed.
        """
        # A redirect's body would be read without a bound, and a repetition would wait as long as the server asks for.
        own = {"preload_content": False, "decode_content": False, "retries": False, "redirect": False}
        answer = self._manager.request(method, url, **(kwargs | own | {"timeout": self._timeout()}))
        return read(answer, self._largest)


def read(answer: t.Any, largest: int) -> Answer:
    """Read the body of an answer of urllib3 that came without it (``preload_content=False``).

    :arg largest: bytes at most.
    :raises Unbounded: where it is larger, or compressed. No request of ours asks for that, and 1 kB may unpack to 1 MB.
    """
    encoding = (answer.headers.get("Content-Encoding") or "identity").lower()
    pieces, size = [], 0
    try:
        for piece in iter(functools.partial(answer.read, _PIECE, decode_content=False), b""):
            if encoding != "identity":
                raise Unbounded(f"the answer is compressed ({encoding}), which was not asked for")
            pieces.append(piece)
            size += len(piece)
            if size > largest:
                raise Oversized(f"the answer has more than {largest} bytes, which are read at most")
        return Answer(answer.status, answer.reason, b"".join(pieces), answer.headers)
    except Unbounded:
        # What is left of it would be taken for the next answer.
        answer.close()
        raise


def within(seconds: float, call: t.Callable[[], T]) -> T:
    """Return what a call returns that has no timeout of its own.

    :raises TimeoutError: where it takes longer. It then goes on beside, at most until this program ends.
    """
    ended: queue.SimpleQueue[tuple[t.Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            ended.put((call(), None))
        except BaseException as exc:
            ended.put((None, exc))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, failure = ended.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"it did not end within {seconds:.1f} s") from None
    if failure is not None:
        raise failure
    return t.cast("T", result)
