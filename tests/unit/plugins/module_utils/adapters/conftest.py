# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An HTTP server that answers as a test tells it to."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import http.server
import ipaddress
import json
import socket
import ssl
import threading
import time

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kubernetes.client import Configuration

# The end of a connection in place of an answer.
BROKEN = object()

KINDS = {"Pod": "pods", "ConfigMap": "configmaps", "ServiceAccount": "serviceaccounts"}
TOKENS = {"kind": "TokenRequest", "name": "serviceaccounts/token", "namespaced": True, "verbs": []}


def status(code, message="no", reason="", **headers):
    """An answer that is a Status object of Kubernetes."""
    return code, {"kind": "Status", "message": message, "reason": reason}, headers


class Script:
    """What a server answers, by method and path: one answer after the other, the last one again and again.

    :ivar calls: method and path with its query of every request beyond discovery, in order.
    """

    def __init__(self):
        kinds = [{"kind": kind, "name": name, "namespaced": True, "verbs": []} for kind, name in KINDS.items()]
        self.answers = {
            "GET /version": [(200, {"gitVersion": "v1.35.4"}, {})],
            "GET /api/v1": [(200, {"kind": "APIResourceList", "resources": [*kinds, TOKENS]}, {})],
        }
        self.discovery = set(self.answers)
        self.calls = []
        self.bodies = []
        self.headers = []

    def on(self, request, *answers):
        self.answers[request] = list(answers)

    def next(self, method, path, body, headers):
        request = f"{method} {path.partition('?')[0]}"
        if request not in self.discovery:
            self.calls.append(f"{method} {path}")
            self.bodies.append(body)
        self.headers.append(dict(headers))
        answers = self.answers.get(request) or [status(404, "not scripted")]
        return answers.pop(0) if len(answers) > 1 else answers[0]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.server.script.next(self.command, self.path, json.loads(text) if text else None, self.headers)
        if answer is BROKEN:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        code, body, headers = answer
        if isinstance(body, list):
            self.stream(body)
            return
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def stream(self, frames):
        """Send what a command prints by a WebSocket, each frame with its channel, and close it (RFC 6455; v4.channel.k8s.io)."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header(
            "Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode(), usedforsecurity=False).digest()).decode()
        )
        self.end_headers()
        for channel, text in frames:
            data = bytes([channel]) + text.encode()
            self.wfile.write(b"\x82\x7e" + len(data).to_bytes(2, "big") + data)
        self.wfile.write(b"\x88\x00")
        # What the client sent is read, as an API server reads it; closing before would reset the connection.
        self.connection.settimeout(2)
        with contextlib.suppress(OSError):
            while self.connection.recv(65_536):
                pass
        self.close_connection = True

    do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815

    def log_message(self, *_args):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_args):
        """Clients that refuse a certificate or go away are no errors of a test."""


def serve(handler, script, context=None):
    """Start a server of ``script`` on a free port; returns it, to be shut down."""
    server = Server(("127.0.0.1", 0), handler)
    server.script = script
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    return server


class Hostile:
    """A server that does as a test tells it to with every connection, without regard for HTTP.

    :arg act: is called with the connection, when a request came; it ends when the client is gone, at the latest.
    :arg awaits_request: whether there is a request to wait for, as there is before a handshake not.
    """

    def __init__(self, act, awaits_request=True):
        self._act = act
        self._awaits_request = awaits_request
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=self._listening.accept()[:1], daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError), connection:
            if self._awaits_request:
                connection.recv(65536)
            self._act(connection)

    def close(self):
        self._listening.close()


@pytest.fixture(name="hostile")
def _hostile():
    """Starts servers, each from what it does with a connection."""
    servers = []

    def start(act, **options):
        servers.append(Hostile(act, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def drip(connection, data, pause=0.05):
    """Send a byte at a time, for minutes if need be."""
    for byte in data:
        connection.sendall(bytes([byte]))
        time.sleep(pause)


def flood(connection, data):
    """Send the same again and again, without end."""
    while True:
        connection.sendall(data)


@contextlib.contextmanager
def soon():
    """Hold that something ends long before the minutes for which a server would go on."""
    start = time.monotonic()
    yield
    assert time.monotonic() - start < 20


class Clock:
    """Time that passes only where the code sleeps."""

    def __init__(self):
        self.now = 0.0
        self.pauses = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture(name="clock")
def _clock():
    return Clock()


@pytest.fixture(name="script")
def _script():
    return Script()


@pytest.fixture(name="kube")
def _kube(script, clock, tmp_path, monkeypatch):
    """The adapter, with 100 seconds of the clock, over a server that follows the script."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    # What the client keeps of the kubeconfig before, its server included.
    monkeypatch.setattr(Configuration, "_default", None)
    server = serve(Handler, script)
    deadline = Deadline(100, clock, clock.sleep)
    yield Kube.connect(host=f"http://127.0.0.1:{server.server_port}", api_key="x", deadline=deadline)
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session", name="pair")
def _pair(tmp_path_factory):
    """A certificate for 127.0.0.1 that is its own authority, and the file with it and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - datetime.timedelta(1), now + datetime.timedelta(1))
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = builder.add_extension(names, False).add_extension(x509.BasicConstraints(True, None), True)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path_factory.mktemp("pair") / "pair.pem"
    path.write_bytes(certificate + private)
    return certificate, private, path


@pytest.fixture(name="tls")
def _tls(script, pair):
    """A server of the script that speaks TLS, and the kubeconfig that leads to it."""
    certificate, private, path = pair
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    server = serve(Handler, script, context)
    cluster = {
        "server": f"https://127.0.0.1:{server.server_port}",
        "certificate-authority-data": base64.b64encode(certificate).decode(),
    }
    user = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(private).decode(),
    }
    yield {
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "now", "context": {"cluster": "here", "user": "admin"}}],
        "current-context": "now",
    }
    server.shutdown()
    server.server_close()
