# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Kubeconfigs of virtual clusters: the address in them, whom they let in and until when, and the service accounts they are for. Pure."""

from __future__ import annotations

import base64
import datetime
import math
import typing as t

from .._common.documents import parse_json
from .._common.errors import TenancyError
from .._common.ownership import MANAGER, OWNED_LABELS
from .._common.quantity import number
from .._common.text import bracketed
from .._common.values import JsonObject, stamp

try:
    from cryptography import x509
except ImportError:
    # Then it is not known when certificates expire.
    x509 = None  # type: ignore[assignment]


RBAC = "rbac.authorization.k8s.io/v1"
LOGIN_HINT = "The login needs kubectl's plugin oidc-login: kubectl krew install oidc-login, or github.com/int128/kubelogin."


# --- the address -------------------------------------------------------------------------------------------------


def server_address(
    service: JsonObject | None, pods: list[JsonObject], ingress: JsonObject | None = None
) -> tuple[str | None, str]:
    """Return the address that clients outside the cluster use, or None and why there is none.

    A NodePort is answered on every node, but the serving certificate names only the node that the control plane runs on.

    :arg pods: of the control plane.
    :arg ingress: counts where the Service itself cannot be reached from outside.
    """
    if service is None:
        return None, "it has no Service"
    kind = service["spec"].get("type", "ClusterIP")
    if kind == "LoadBalancer":
        for entry in service.get("status", {}).get("loadBalancer", {}).get("ingress") or []:
            if address := entry.get("ip") or entry.get("hostname"):
                return _https(address, 443), ""
        return None, "its LoadBalancer has no address yet"
    if kind == "NodePort":
        return _node_address(service, pods)
    for rule in (ingress or {}).get("spec", {}).get("rules") or []:
        if rule.get("host"):
            return _https(rule["host"], 443), ""
    return None, f"its Service is of type {kind}, which nothing outside the cluster reaches, and it has no Ingress with a host"


def _node_address(service: JsonObject, pods: list[JsonObject]) -> tuple[str | None, str]:
    port = next((port.get("nodePort") for port in service["spec"].get("ports") or [] if port.get("port") == 443), None)
    if port is None:
        return None, "its Service has no port 443"
    for pod in pods:
        host = pod.get("status", {}).get("hostIP")
        if host and pod["status"].get("phase") == "Running":
            return _https(host, port), ""
    return None, "its control plane runs on no node"


def _https(host: str, port: int) -> str:
    return f"https://{bracketed(host)}" + ("" if port == 443 else f":{port}")


# --- the kubeconfig ----------------------------------------------------------------------------------------------


def kubeconfig(secret: JsonObject, context: str, server: str, proxy_url: str | None = None) -> JsonObject:
    """Return a kubeconfig with one cluster, user and context, all named ``context``.

    :arg secret: ``vc-<name>`` of the virtual cluster.
    :raises TenancyError: when the Secret is incomplete.
    """
    cluster = {"server": server, "certificate-authority-data": (secret.get("data") or {}).get("certificate-authority")}
    if proxy_url:
        cluster["proxy-url"] = proxy_url
    user = secret_user(secret)
    if not all([*cluster.values(), *user.values()]):
        raise TenancyError(f"Secret {secret['metadata']['name']} holds no complete kubeconfig.")
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": cluster}],
        "users": [{"name": context, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }


def secret_user(secret: JsonObject) -> JsonObject:
    """Return the user of the Secret ``vc-<name>`` as a kubeconfig holds it, as far as the Secret has one that can be read."""
    data = secret.get("data") or {}
    if data.get("client-certificate"):
        return {"client-certificate-data": data["client-certificate"], "client-key-data": data.get("client-key")}
    try:
        return {"token": base64.b64decode(data.get("token") or "").decode()}
    except (ValueError, TypeError):
        return {"token": ""}


def with_token(config: JsonObject, token: str) -> JsonObject:
    """Return the same kubeconfig for the user of a token."""
    return config | {"users": [{"name": config["current-context"], "user": {"token": token}}]}


def with_login(config: JsonObject, oidc: JsonObject) -> JsonObject:
    """Return the same kubeconfig for users of an issuer: without a secret, by kubectl's plugin oidc-login, which asks for a login.

    :arg oidc: of the tenant, every key filled in.
    """
    options = {"oidc-issuer-url": oidc["issuer_url"], "oidc-client-id": oidc["client_id"]}
    args = [f"--{key}={value}" for key, value in options.items()]
    args += [f"--oidc-extra-scope={scope}" for scope in oidc["scopes"]]
    if oidc["ca"]:
        args.append(f"--certificate-authority-data={base64.b64encode(oidc['ca'].encode()).decode()}")
    program: JsonObject = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "kubectl",
        "args": ["oidc-login", "get-token", *args],
        "interactiveMode": "IfAvailable",
        "installHint": LOGIN_HINT,
    }
    return config | {"users": [{"name": config["current-context"], "user": {"exec": program}}]}


# --- until when --------------------------------------------------------------------------------------------------


def expiry(user: JsonObject) -> datetime.datetime | None:
    """Return when a user's token or client certificate ends; None where that is not known."""
    if user.get("token"):
        return _moment(_claims(user["token"]).get("exp"))
    if x509 is None or not user.get("client-certificate-data"):
        return None
    try:
        certificate = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
        # The first is new in cryptography 42, the second is deprecated there.
        ends_at = getattr(certificate, "not_valid_after_utc", None)
        return ends_at or certificate.not_valid_after.replace(tzinfo=datetime.timezone.utc)
    except (ValueError, TypeError, x509.InvalidVersion):
        return None


def iso(moment: datetime.datetime | None) -> str | None:
    """Return a moment in UTC as Kubernetes writes it."""
    return stamp(moment) if moment else None


def expired(secret: JsonObject, now: datetime.datetime) -> str | None:
    """Return when the user of the Secret ``vc-<name>`` ended, or None while it has not."""
    ends = expiry(secret_user(secret))
    return iso(ends) if ends and ends <= now else None


def _claims(token: t.Any) -> JsonObject:
    """Return the claims of a token; none where it is no JSON Web Token."""
    try:
        payload = (token if isinstance(token, str) else "").split(".")[1]
        claims = parse_json(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _moment(claim: t.Any) -> datetime.datetime | None:
    """Return the moment that a token states in seconds since 1970; None where no calendar has it."""
    try:
        return datetime.datetime.fromtimestamp(math.floor(number(claim)), datetime.timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None


# --- service accounts --------------------------------------------------------------------------------------------


def account_objects(name: str, namespace: str, cluster_role: str | None) -> dict[str, JsonObject]:
    """Return a service account owned by this collection, and the binding that gives it its role."""
    return {
        "service_account": {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace, "labels": OWNED_LABELS},
        },
        "cluster_role": {
            "apiVersion": RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{MANAGER}:{namespace}:{name}", "labels": OWNED_LABELS},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cluster_role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    }


def shown(item: JsonObject | None) -> str | None:
    """Return what a diff shows of one of these objects: the role of a binding, the name of a service account."""
    if item is None:
        return None
    role = item.get("roleRef")
    return t.cast("str | None", role["name"]) if role else f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def serves(token: str, name: str, namespace: str, seconds: int, now: datetime.datetime) -> bool:
    """Tell whether a token is the service account's, was asked for as long as ``seconds``, and has a third of that left."""
    claims = _claims(token)
    issued, ends = _moment(claims.get("iat", 0)), _moment(claims.get("exp"))
    if issued is None or ends is None or claims.get("sub") != f"system:serviceaccount:{namespace}:{name}":
        return False
    wanted = datetime.timedelta(seconds=seconds)
    return ends - issued <= wanted and ends - now > wanted / 3
