# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the adapter to registries, against a web server that answers as they do."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.registry import digest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

DIGEST = "sha256:" + "ab" * 32


class Registry(http.server.BaseHTTPRequestHandler):
    """An image ``open`` for everybody, ``tokens`` for everybody with a token, ``closed`` for nobody, and ``odd`` without a digest."""

    def do_HEAD(self):
        image = self.path.split("/")[2]
        self.server.asked.append(self.headers["Accept"])
        allowed = image in ("open", "odd") or (image == "tokens" and self.headers["Authorization"] == "Bearer anybody")
        if self.path == "/v2/gone/manifests/1":
            self.answer(404)
        elif allowed:
            self.answer(200, {} if image == "odd" else {"Docker-Content-Digest": DIGEST})
        else:
            realm = f"http://127.0.0.1:{self.server.server_port}/token"
            scheme = "Bearer" if image == "tokens" else "Basic"
            self.answer(401, {"WWW-Authenticate": f'{scheme} realm="{realm}",service="it",scope="repository:{image}:pull"'})

    def do_GET(self):
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
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


@pytest.mark.parametrize(("image", "told"), [("gone", "not there: 404"), ("closed", "not there: 401"), ("odd", "no digest")])
def test_what_is_not_there_for_everybody_is_told_with_its_address(registry, image, told):
    with pytest.raises(TenancyError, match=told) as caught:
        digest(url(registry, image))
    assert url(registry, image) in caught.value.message


def test_a_registry_that_does_not_answer(registry):
    registry.shutdown()
    registry.server_close()
    with pytest.raises(TenancyError, match="cannot be read"):
        digest(url(registry, "open"))
