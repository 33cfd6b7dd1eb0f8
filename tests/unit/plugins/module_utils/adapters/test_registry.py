# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the adapter to registries, against a web server that answers as they do."""

from __future__ import annotations

import http.server
import json
import threading
import time
import urllib.parse

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters import registry as adapter
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.registry import LARGEST, digest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

from .conftest import drip, soon

DIGEST = "sha256:" + "ab" * 32


class Registry(http.server.BaseHTTPRequestHandler):
    """A registry with images of which each has a name that says what it is.

    ``open`` is for every client, ``tokens`` for every client with a token, ``closed`` for none, ``odd`` has no digest. The token of ``odd_tokens``
    is none, ``later`` asks to come again in a day, and ``forged`` has a digest that is none.
    """

    def do_HEAD(self):
        image = self.path.split("/")[2]
        self.server.asked.append(self.headers["Accept"])
        if image == "later":
            self.answer(429, {"Retry-After": "86400"})
            return
        allowed = image in ("open", "odd", "forged") or (image == "tokens" and self.headers["Authorization"] == "Bearer anybody")
        if self.path == "/v2/gone/manifests/1":
            self.answer(404)
        elif allowed:
            found = {"odd": {}, "forged": {"Docker-Content-Digest": "\x1b[2J" + "a" * 1000}}
            self.answer(200, found.get(image, {"Docker-Content-Digest": DIGEST}))
        else:
            realm = f"http://127.0.0.1:{self.server.server_port}/token"
            scheme = "Basic" if image == "closed" else "Bearer"
            self.answer(401, {"WWW-Authenticate": f'{scheme} realm="{realm}",service="it",scope="repository:{image}:pull"'})

    def do_GET(self):
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        if asked["scope"] == ["repository:odd_tokens:pull"]:
            self.answer(200, {}, self.server.token)
            return
        assert asked == {"service": ["it"], "scope": ["repository:tokens:pull"]}
        self.answer(200, {}, json.dumps({"token": "anybody"}).encode())

    def answer(self, status, headers=None, body=b""):
        self.send_response(status)
        for name, value in ((headers or {}) | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args):
        pass


@pytest.fixture
def registry():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def url(registry, image):
    return f"http://127.0.0.1:{registry.server_port}/v2/{image}/manifests/1"


@pytest.mark.parametrize("image", ["open", "tokens"])
def test_everybody_gets_digests_by_a_token_if_need_be(registry, image):
    assert digest(url(registry, image)) == DIGEST
    assert all("image.index" in accepted and "manifest.list" in accepted for accepted in registry.asked)


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ("gone", "not there: 404"),
        ("closed", "not there: 401"),
        ("odd", "no digest"),
        ("forged", "no digest"),
        ("later", "not there: 429"),
    ],
)
def test_what_is_not_there_for_everybody_is_told_with_its_address(registry, image, told):
    with pytest.raises(TenancyError, match=told) as caught:
        digest(url(registry, image))
    assert url(registry, image) in caught.value.message


def test_a_registry_that_does_not_answer(registry):
    registry.shutdown()
    registry.server_close()
    with pytest.raises(TenancyError, match="cannot be read"):
        digest(url(registry, "open"))


@pytest.mark.parametrize(
    "token", [b"[" * 100_000, b"[]", b'{"token": {"a": 1}}', b"{}", b"a" * (LARGEST + 1)], ids=lambda text: text[:9]
)
def test_a_token_that_is_none(registry, token):
    registry.token = token
    with pytest.raises(TenancyError, match=r"cannot be read|not there: 401"):
        digest(url(registry, "odd_tokens"))


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_that_comes_slowly(hostile, head, monkeypatch):
    monkeypatch.setattr(adapter, "TIMEOUT", 0.5)

    def act(connection):
        connection.sendall(head)
        drip(connection, b"a" * 10_000)

    with soon(), pytest.raises(TenancyError, match=r"cannot be read|has no digest"):
        digest(f"{hostile(act).address}/v2/x/manifests/1")


def test_what_a_registry_asks_for_is_read_once():
    start = time.process_time()
    assert adapter._token("Bearer " + "a" * 100_000) == ""
    assert time.process_time() - start < 2
