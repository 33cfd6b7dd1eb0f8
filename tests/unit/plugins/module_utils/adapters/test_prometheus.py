# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the adapter to servers that answer PromQL, against a web server that answers as they do, and as they should not."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters import prometheus as adapter
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.prometheus import Prometheus
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.tests.unit.clock import Clock

ANSWER = {"status": "success", "data": {"resultType": "matrix", "result": []}}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what the test put into ``server.answers``, a status and a body each, the last one again and again."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.path, dict(urllib.parse.parse_qsl(body)), self.headers["Authorization"]))
        self.server.org_ids.append(self.headers["X-Scope-OrgID"])
        status, answer = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_args):
        pass


@pytest.fixture(name="server")
def _server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked, server.org_ids, server.answers = [], [], [(200, json.dumps(ANSWER).encode())]
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def ask(server, **given):
    return Prometheus(f"{server.url}/prefix/", Clock().deadline(60), **given).range("Reading it", "up", 3600, 7200, 3600)


def test_a_range_is_asked_for_with_the_token(server):
    assert ask(server, token="secret") == ANSWER
    assert ask(server) == ANSWER
    asked = {"query": "up", "start": "3600", "end": "7200", "step": "3600"}
    assert server.asked == [
        ("/prefix/api/v1/query_range", asked, "Bearer secret"),
        ("/prefix/api/v1/query_range", asked, None),
    ]


def test_what_passes_is_asked_again(server):
    server.answers = [(503, b"busy"), (429, b""), *server.answers]
    assert ask(server) == ANSWER
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, b"no", "answered 401: Unauthorized."),
        (422, b'{"status": "error", "error": "too many\\u001b[2J samples"}', "answered 422: too many samples."),
        (200, b'{"status": "error", "error": "odd"}', "answered 200: odd."),
        (200, b"<html>", "gave no answer of PromQL: it is no JSON"),
        (200, b"[1]", "answered 200: OK."),
        (302, b"", "answered 302: Found."),
        (503, b"", "answered 503: Service Unavailable."),
    ],
)
def test_another_answer_is_an_error_without_the_token(server, status, body, said):
    server.answers = [(status, body)]
    with pytest.raises(TenancyError) as caught:
        ask(server, token="very-secret")
    assert caught.value.message.startswith("Reading it: http://127.0.0.1:")
    assert said in caught.value.message
    assert "very-secret" not in caught.value.message


def test_an_answer_has_a_size(server, monkeypatch):
    monkeypatch.setattr(adapter, "LARGEST", 1000)
    server.answers = [(200, b" " * 2000)]
    with pytest.raises(TenancyError, match="more than 1000 bytes"):
        ask(server)


def test_a_server_is_asked_for_one_of_its_tenants(server):
    assert ask(server, org_id="gpu|batch") == ANSWER
    assert ask(server) == ANSWER
    assert server.org_ids == ["gpu|batch", None]


def test_a_proxy_is_asked_with_its_user(server):
    """The proxy answers itself here."""
    proxy = server.url.replace("//", "//user:word@")
    found = Prometheus("http://prometheus.example", Clock().deadline(60), proxy=proxy).range("Reading it", "up", 0, 0, 1)
    assert found == ANSWER
    assert server.asked[0][0] == "http://prometheus.example/api/v1/query_range"


def test_certificates_that_are_none_are_refused():
    with pytest.raises(TenancyError, match="ca: its certificates cannot be used"):
        Prometheus(
            "https://prometheus.example", Clock().deadline(60), ca="-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
        )
