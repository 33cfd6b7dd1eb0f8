# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What goes on in pods: logs, metrics, files."""

from __future__ import annotations

import re
import typing as t

from .._common.documents import parse_json
from .._common.errors import ApiError
from .._common.quantity import whole
from .._common.values import JsonObject
from .._common.wait import Deadline
from .answers import Oversized, within
from .client import REQUEST_TIMEOUT, Client
from .retry import Failure, classify

try:
    from kubernetes.client import ApiClient, CoreV1Api
    from kubernetes.client.exceptions import ApiException
    from kubernetes.stream import stream
    from kubernetes.stream.ws_client import ERROR_CHANNEL
    from websocket import WebSocketException
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass

# Bytes of a log: 10,000 lines of KAI Scheduler come to 3 MiB. The server ends the log there, in the middle of a line.
LARGEST_LOG = 8 * 2**20
# Characters of a file in a container.
LARGEST_FILE = 8 * 2**20
# Characters that are kept of what a command writes to its standard error: the last ones.
MOST_STDERR = 4_000

# With status 400, a container has written nothing yet (validateContainerLogStatus in k8s.io/kubernetes, pkg/kubelet/kubelet_pods.go).
_NO_LOG_YET = re.compile(r"is waiting to start|is not available|is terminated|previous terminated container .* not found")


class Pods:
    """The pods of one API server; errors as of Client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def logs(
        self,
        name: str,
        namespace: str,
        container: str | None = None,
        lines: int | None = 20,
        previous: bool = False,
        seconds: int | None = None,
    ) -> str:
        """Return the last lines of a container's log, as far as LARGEST_LOG reaches; empty when it has written nothing yet.

        :arg lines: None for all from the log's beginning.
        :arg container: may be left out where the pod has one container only.
        :arg previous: those of the container's run before its last restart.
        :arg seconds: only lines that are not older.
        :raises TenancyError: where the log cannot be read, with ``status`` 404 where the pod does not exist.
        """
        query: JsonObject = {} if lines is None else {"tailLines": lines}
        query |= {"limitBytes": LARGEST_LOG, "previous": str(previous).lower()}
        query |= ({"container": container} if container else {}) | (
            {"sinceSeconds": max(1, seconds)} if seconds is not None else {}
        )
        try:
            return self._client.request(
                f"Reading the log of Pod {name}", f"/api/v1/namespaces/{namespace}/pods/{name}/log", query
            )
        except ApiError as exc:
            if exc.status == 400 and _NO_LOG_YET.search(exc.message):
                return ""
            raise

    def metrics(self, pod: str, namespace: str, port: int) -> str:
        """Return what a pod serves at /metrics, by way of the API server.

        :raises TenancyError: where it does not answer, too.
        """
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy/metrics"
        return self._client.request(f"Reading the metrics of Pod {pod}", path)

    def read_file(self, pod: str, namespace: str, container: str, path: str) -> str:
        """Return the text of a file in a container, as ``cat`` prints it there.

        :raises TenancyError: also where the container has no such file, or no ``cat``, or prints without end. It is not repeated.
        """
        pieces: list[str] = []
        size = 0

        def collect(piece: str) -> None:
            nonlocal size
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST_FILE:
                raise Oversized(f"it has more than {LARGEST_FILE} characters, which are read at most")

        what, seconds = f"Reading {path} in Pod {pod}", self._client.seconds(REQUEST_TIMEOUT[1])
        ended = self.execute(what, pod, namespace, container, ["cat", path], seconds, collect)
        if ended.rc:
            raise Failure(ended.message).error(what)
        return "".join(pieces)

    def execute(
        self,
        what: str,
        pod: str,
        namespace: str,
        container: str,
        command: t.Sequence[str],
        seconds: float,
        write: t.Callable[[str], object] | None = None,
        stdin: t.Iterable[str] | None = None,
    ) -> Ended:
        """Run a command in a container until it ends. It is not repeated.

        :arg what: for an error, such as "Reading /etc/hosts in Pod x".
        :arg seconds: for the command.
        :arg write: takes what the command writes to its standard output, piece by piece, and may raise ValueError; None drops that.
        :arg stdin: what the command reads, in pieces; None for nothing. The protocol has no end of it: the command has to know how much to read.
        :raises ApiError: where the command cannot be run, or did not end in time.
        """

        def run() -> tuple[t.Any, str]:
            session = self._session(pod, namespace, container, command, stdin is not None)
            try:
                return _exchange(session, stdin or (), seconds, write or (lambda piece: None))
            finally:
                session.close()

        try:
            # The library connects without a timeout.
            status, stderr = within(seconds + REQUEST_TIMEOUT[0], run)
        except (ApiException, WebSocketException, OSError, ValueError) as exc:
            raise classify(exc).error(what) from exc
        ended = Ended.of(status, stderr)
        if ended is None:
            raise Failure("it did not end in time").error(what)
        return ended

    def _session(self, pod: str, namespace: str, container: str, command: t.Sequence[str], reads: bool) -> t.Any:
        """Start a command, and return the library's WSClient.

        :arg reads: whether the command is to read from its standard input.
        """
        given = self._client.api.client
        # The library redirects a client's requests while it opens a stream, so that this one is not shared with other threads.
        client = ApiClient(given.configuration)
        client.default_headers = dict(given.default_headers)
        options = {"container": container, "command": list(command), "stdout": True, "stderr": True} | (
            {"stdin": True} if reads else {}
        )
        return stream(CoreV1Api(client).connect_get_namespaced_pod_exec, pod, namespace, _preload_content=False, **options)


class Ended(t.NamedTuple):
    """How a command in a container ended.

    :ivar rc: its exit status; -1 where it did not begin.
    :ivar message: what the server says of that; ``stderr``, the end of what the command wrote there.
    """

    rc: int
    message: str
    stderr: str

    @classmethod
    def of(cls, status: t.Any, stderr: str) -> Ended | None:
        """Return how a command ended, by the Status that the server sends at its end; None where it sent none.

        The exit status is a cause of the reason ExitCode (k8s.io/apimachinery, pkg/util/remotecommand).
        """
        if not isinstance(status, dict) or status.get("status") not in ("Success", "Failure"):
            return None
        if status["status"] == "Success":
            return cls(0, "", stderr)
        details = status.get("details")
        causes = details.get("causes") if isinstance(details, dict) else None
        codes = [cause.get("message") for cause in causes or () if isinstance(cause, dict) and cause.get("reason") == "ExitCode"]
        try:
            rc = whole(codes[0]) if codes else -1
        except ValueError:
            rc = -1
        return cls(rc or -1, str(status.get("message") or "it failed"), stderr)


def _exchange(session: t.Any, stdin: t.Iterable[str], seconds: float, write: t.Callable[[str], object]) -> tuple[t.Any, str]:
    """Hand a command what it reads, and hand on what it prints to its standard output until it ends, or the time is up.

    :arg session: a WSClient of the library's, which by itself keeps everything that arrives.
    :returns: the Status that the server sends at its end, and the end of its standard error.
    """
    for piece in stdin:
        try:
            session.write_stdin(piece)
        except (WebSocketException, OSError):
            # A command that ends without reading all of it says why by its status.
            break
    deadline, stderr = Deadline(seconds), ""
    while session.is_open() and deadline.left(0):
        if piece := session.read_stdout(timeout=deadline.left(0)):
            write(piece)
        stderr = (stderr + session.read_stderr(timeout=0))[-MOST_STDERR:]
    return parse_json(session.read_channel(ERROR_CHANNEL) or "{}"), stderr
