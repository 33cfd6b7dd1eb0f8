# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small OpenID Connect issuer on a lab's simulated host, which nodes and pods reach: a double of a team's login service."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import shlex
import time
from typing import Any, Self

from ansible_collections.kubegpu.tenancy.tests.faults.labs import CONTROL_PLANE, Lab
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

PORT = 8443
FOLDER = "/run/kubegpu-issuer"
SERVER = """
import http.server, json, ssl, sys
folder, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
pages = json.load(open(folder + "/pages.json"))

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(pages.get(self.path, {})).encode()
        self.send_response(200 if self.path in pages else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

server = http.server.ThreadingHTTPServer((address, port), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder + "/cert.pem", folder + "/key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class Issuer:
    """The issuer while it runs.

    :ivar url: its address; ``ca``, the certificate by which it is known, in PEM.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        # Where nodes and their pods reach the host.
        route = lab.run("docker", "exec", CONTROL_PLANE, "ip", "-4", "route", "show", "default")
        self._address = route.split()[2]
        self.url = f"https://{self._address}:{PORT}"
        self._key = rsa.generate_private_key(65537, 2048)
        self.ca = self._certificate()

    def _certificate(self) -> str:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
        now = datetime.datetime.now(datetime.UTC)
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(self._address))])
        builder = x509.CertificateBuilder(name, name, self._key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=1))
        builder = builder.add_extension(address, critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()

    def __enter__(self) -> Self:
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one", "n": _number(numbers.n), "e": _number(numbers.e)}
        configuration = {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/auth",
            "token_endpoint": f"{self.url}/token",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        pages = {"/.well-known/openid-configuration": configuration, "/keys": {"keys": [key]}}
        private = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        files = {"server.py": SERVER, "pages.json": json.dumps(pages), "cert.pem": self.ca, "key.pem": private}
        writes = "".join(f"printf %s {shlex.quote(text)} > {FOLDER}/{name}; " for name, text in files.items())
        self._lab.run("sh", "-c", f"umask 077; mkdir -p {FOLDER}; {writes}")
        start = f"setsid python3 {FOLDER}/server.py {FOLDER} {self._address} {PORT} >{FOLDER}/log 2>&1 & echo $! > {FOLDER}/pid"
        self._lab.run("sh", "-c", start)
        return self

    def __exit__(self, *_error: object) -> None:
        self._lab.run("sh", "-c", f"kill $(cat {FOLDER}/pid); rm -rf {FOLDER}")

    def token(self, user: str, *groups: str, client: str = "kubegpu") -> str:
        """Return a token for a user, as a login gets it."""
        claims = {"iss": self.url, "sub": user, "aud": client, "groups": list(groups), "iat": int(time.time()) - 5}
        parts = ({"alg": "RS256", "kid": "one", "typ": "JWT"}, claims | {"exp": int(time.time()) + 3600})
        head = ".".join(_text(json.dumps(part).encode()) for part in parts)
        return f"{head}.{_text(self._key.sign(head.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def entry(self, **more: Any) -> dict[str, Any]:
        """Return the tenant's entry for it."""
        return {"issuer_url": self.url, "client_id": "kubegpu", "groups_claim": "groups", "ca": self.ca} | more
