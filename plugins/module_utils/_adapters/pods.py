# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What goes on in pods: logs, metrics, files."""

from __future__ import annotations

import functools
import re
import typing as t

from .._common.documents import parse_json
from .._common.errors import ApiError
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
        lines: int = 20,
        previous: bool = False,
        seconds: int | None = None,
    ) -> str:
        """Return the last lines of a container's log, as far as LARGEST_LOG reaches; empty when it has written nothing yet.

        :arg container: may be left out where the pod has one container only.
        :arg previous: those of the container's run before its last restart.
        :arg seconds: only lines that are not older.
        :raises TenancyError: where the log cannot be read, with ``status`` 404 where the pod does not exist.
        """
        query: JsonObject = {"tailLines": lines, "limitBytes": LARGEST_LOG, "previous": str(previous).lower()}
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
        what = f"Reading {path} in Pod {pod}"
        given = self._client.api.client
        # The library redirects a client's requests while it opens a stream, so that this one is not shared with other threads.
        client = ApiClient(given.configuration)
        client.default_headers = dict(given.default_headers)
        execute = functools.partial(stream, CoreV1Api(client).connect_get_namespaced_pod_exec, pod, namespace)
        seconds = self._client.seconds(REQUEST_TIMEOUT[1])

        def read() -> tuple[str, t.Any]:
            session = execute(container=container, command=["cat", path], stdout=True, stderr=False, _preload_content=False)
            try:
                return _printed(session, seconds), parse_json(session.read_channel(ERROR_CHANNEL) or "{}")
            finally:
                session.close()

        try:
            # The library connects without a timeout.
            text, status = within(seconds + REQUEST_TIMEOUT[0], read)
        except (ApiException, WebSocketException, OSError, ValueError) as exc:
            raise classify(exc).error(what) from exc
        ended = status if isinstance(status, dict) else {}
        if ended.get("status") != "Success":
            raise Failure(str(ended.get("message") or "it did not end in time")).error(what)
        return text


def _printed(session: t.Any, seconds: float) -> str:
    """Return what a command prints to its standard output until it ends, or the time is up.

    :arg session: a WSClient of the client's, which by itself keeps everything that arrives.
    :raises Oversized: where it prints more than LARGEST_FILE.
    """
    deadline, pieces, size = Deadline(seconds), [], 0
    while session.is_open() and deadline.left(0):
        piece = session.read_stdout(timeout=deadline.left(0))
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_FILE:
            raise Oversized(f"it has more than {LARGEST_FILE} characters, which are read at most")
    return "".join(pieces)
