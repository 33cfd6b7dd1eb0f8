# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import datetime
import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.kubeconfig import ENTRIES
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kubeconfig import values as kc

NOW = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.timezone.utc)

SECRET = {
    "metadata": {"name": "vc-web"},
    "data": {"certificate-authority": "Q0E=", "client-certificate": "Q0VSVA==", "client-key": "S0VZ", "token": ""},
}


def pod(host="10.0.0.3", phase="Running"):
    return {"status": {"phase": phase, "hostIP": host}}


def service(kind, **spec):
    return {"spec": {"type": kind, "ports": [{"port": 10250, "nodePort": 30001}, {"port": 443, "nodePort": 30002}]} | spec}


def ingress(*hosts):
    return {"spec": {"rules": [{"host": host, "http": {}} for host in hosts]}}


@pytest.mark.parametrize(
    ("item", "pods", "found", "server", "why"),
    [
        (service("NodePort"), [pod()], None, "https://10.0.0.3:30002", ""),
        (service("NodePort"), [pod(host="fd00::3")], None, "https://[fd00::3]:30002", ""),
        (service("NodePort"), [pod(phase="Pending")], None, None, "runs on no node"),
        (service("NodePort", ports=[{"port": 80}]), [pod()], None, None, "no port 443"),
        (service("LoadBalancer"), [pod()], None, None, "no address yet"),
        (service("LoadBalancer") | {"status": {"loadBalancer": {"ingress": [{"hostname": "lb"}]}}}, [], None, "https://lb", ""),
        (service("ClusterIP"), [pod()], None, None, "type ClusterIP"),
        (service("ClusterIP"), [pod()], ingress("web.example", "other.example"), "https://web.example", ""),
        (service("ClusterIP"), [pod()], ingress(None), None, "no Ingress with a host"),
        (service("NodePort"), [pod()], ingress("web.example"), "https://10.0.0.3:30002", ""),
        (None, [], None, None, "no Service"),
        (service("LoadBalancer") | {"status": {"loadBalancer": {"ingress": [{"ports": []}]}}}, [], None, None, "no address yet"),
        (service("NodePort", ports=None), [pod()], None, None, "no port 443"),
        (service("NodePort", ports=[{"port": 443}]), [pod()], None, None, "no port 443"),
    ],
)
def test_server_address(item, pods, found, server, why):
    address, reason = kc.server_address(item, pods, found)
    assert address == server
    assert why in reason


def test_kubeconfig_has_one_of_everything():
    config = kc.kubeconfig(SECRET, "web", "https://10.0.0.3:30002", "http://proxy:3128")
    assert config["current-context"] == "web"
    assert [item["name"] for kind in ENTRIES for item in config[kind]] == ["web"] * 3
    assert config["clusters"][0]["cluster"]["proxy-url"] == "http://proxy:3128"
    assert config["users"][0]["user"] == {"client-certificate-data": "Q0VSVA==", "client-key-data": "S0VZ"}


def test_kubeconfig_by_token():
    data = {"certificate-authority": "Q0E=", "token": base64.b64encode(b"secret").decode()}
    config = kc.kubeconfig(SECRET | {"data": data}, "web", "https://a")
    assert config["users"][0]["user"] == {"token": "secret"}
    assert kc.with_token(config, "other")["users"] == [{"name": "web", "user": {"token": "other"}}]


@pytest.mark.parametrize("data", [None, {}, {"certificate-authority": "Q0E="}, {"client-certificate": "Q0VSVA=="}])
def test_incomplete_secret(data):
    with pytest.raises(TenancyError, match="vc-web"):
        kc.kubeconfig(SECRET | {"data": data}, "web", "https://a")


# --- how long ---


def token(**claims):
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.signature"


@pytest.mark.parametrize("data", ["/w==", "!", "a", ["x"], 5])
def test_a_token_that_is_no_text_is_none(data):
    secret = SECRET | {"data": {"certificate-authority": "Q0E=", "token": data}}
    with pytest.raises(TenancyError, match="Secret vc-web holds no complete kubeconfig"):
        kc.kubeconfig(secret, "web", "https://a")
    assert kc.expired(secret, NOW) is None


ODD_CLAIMS = ["1e308", "-1", "NaN", "Infinity", "1e99", "9" * 400, '"soon"', "[]", "{}", "null", "true", "1e17", str(2**63)]


@pytest.mark.parametrize("exp", ODD_CLAIMS, ids=lambda exp: exp[:10])
def test_an_odd_end_is_unknown(exp):
    for claims in (f'{{"exp": {exp}}}', f'{{"sub": "system:serviceaccount:kube-system:deployer", "iat": {exp}, "exp": {exp}}}'):
        odd = f"e30.{base64.urlsafe_b64encode(claims.encode()).decode().rstrip('=')}.signature"
        assert kc.expiry({"token": odd}) is None
        assert not kc.serves(odd, "deployer", "kube-system", 86400, NOW)


@pytest.mark.parametrize("odd", [5, 12.5, ["e30.e30.x"], {"a": "b"}, True, "e30.é.x", f"e30.{'W' * 4000}.x"])
def test_an_odd_token_tells_nothing(odd):
    assert kc.expiry({"token": odd}) is None
    assert not kc.serves(odd, "deployer", "kube-system", 86400, NOW)


def test_claims_that_are_nested_deep_tell_nothing():
    deep = base64.urlsafe_b64encode(b"[" * 100_000).decode()
    assert kc.expiry({"token": f"e30.{deep}.x"}) is None


@pytest.mark.parametrize("data", [["x"], 5, "é", "Q0VSVA"])
def test_an_odd_certificate_ends_at_a_time_that_is_not_known(data):
    assert kc.expiry({"client-certificate-data": data}) is None


@pytest.mark.parametrize("ends", [NOW, datetime.datetime(2060, 1, 1, tzinfo=datetime.timezone.utc)])
def test_expiry_of_a_certificate(ends, certificate):
    assert kc.expiry({"client-certificate-data": certificate(ends)}) == ends
    secret = {"data": {"client-certificate": certificate(ends)}}
    assert kc.expired(secret, ends) == kc.iso(ends)
    assert kc.expired(secret, ends - datetime.timedelta(seconds=1)) is None


@pytest.mark.parametrize(
    ("user", "ends"),
    [
        ({"token": token(exp=NOW.timestamp())}, "2026-11-21T12:00:00Z"),
        ({"token": token()}, None),
        ({"token": "no.token"}, None),
        ({"token": "plain"}, None),
        ({"token": token().replace("e30.", "e30.bnVsbA.")}, None),
        ({"client-certificate-data": "Q0VSVA=="}, None),
        ({}, None),
    ],
)
def test_expiry(user, ends):
    assert kc.iso(kc.expiry(user)) == ends


def test_expiry_of_a_certificate_is_unknown_without_the_library(monkeypatch, certificate):
    monkeypatch.setattr(kc, "x509", None)
    assert kc.expiry({"client-certificate-data": certificate(NOW)}) is None


def test_expiry_by_an_older_library(monkeypatch):
    class Old:
        not_valid_after = NOW.replace(tzinfo=None)

    monkeypatch.setattr(kc.x509, "load_pem_x509_certificate", lambda _pem: Old())
    assert kc.expiry({"client-certificate-data": "Q0VSVA=="}) == NOW


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({}, True),
        ({"sub": "system:serviceaccount:kube-system:other"}, False),
        ({"sub": None}, False),
        # Issued for a day; two thirds have passed, or almost.
        ({"iat": -57601, "exp": 28799}, False),
        ({"iat": -57599, "exp": 28801}, True),
        # Issued for longer than is wanted now.
        ({"exp": 86401}, False),
    ],
)
def test_a_token_serves(claims, expected):
    stated = {"sub": "system:serviceaccount:kube-system:deployer", "iat": 0, "exp": 86400} | claims
    stated |= {key: stated[key] + NOW.timestamp() for key in ("iat", "exp")}
    assert kc.serves(token(**stated), "deployer", "kube-system", 86400, NOW) is expected


def test_nothing_is_no_token():
    assert not kc.serves("", "deployer", "kube-system", 86400, NOW)
