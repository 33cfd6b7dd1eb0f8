# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What we know about kubeconfigs of virtual clusters: where they lead, who they let in and how long, files they share.

Plain data in, plain data out.
"""

from __future__ import annotations

import base64
import datetime
import json
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import MANAGER, OWNED_LABELS

try:
    import yaml
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass

try:
    from cryptography import x509
except ImportError:
    # Then it is not known when certificates expire.
    x509 = None  # type: ignore[assignment]

Object = dict[str, t.Any]

# Lists of named entries, and the key below which each holds what it names.
ENTRIES = {"clusters": "cluster", "users": "user", "contexts": "context"}

RBAC = "rbac.authorization.k8s.io/v1"


# --- where it leads ----------------------------------------------------------------------------------------------


def server_address(service: Object | None, pods: list[Object], ingress: Object | None = None) -> tuple[str | None, str]:
    """The address clients outside the cluster have, or None and why there is none.

    A NodePort is answered on every node, but the serving certificate names only the node the control plane runs on.

    :arg ingress: counts where the Service itself cannot be reached from outside.
    """
    if service is None:
        return None, "it has no Service"
    kind = service["spec"].get("type", "ClusterIP")
    if kind == "LoadBalancer":
        for entry in service.get("status", {}).get("loadBalancer", {}).get("ingress") or []:
            return _https(entry.get("ip") or entry["hostname"], 443), ""
        return None, "its LoadBalancer has no address yet"
    if kind != "NodePort":
        for rule in (ingress or {}).get("spec", {}).get("rules") or []:
            if rule.get("host"):
                return _https(rule["host"], 443), ""
        return (
            None,
            f"its Service is of type {kind}, which nothing outside the cluster reaches, and it has no Ingress with a host",
        )
    port = next((port["nodePort"] for port in service["spec"]["ports"] if port.get("port") == 443), None)
    if port is None:
        return None, "its Service has no port 443"
    for pod in pods:
        host = pod.get("status", {}).get("hostIP")
        if host and pod["status"].get("phase") == "Running":
            return _https(host, port), ""
    return None, "its control plane runs on no node"


def _https(host: str, port: int) -> str:
    bracketed = f"[{host}]" if ":" in host else host
    return f"https://{bracketed}" + ("" if port == 443 else f":{port}")


# --- one of our own ----------------------------------------------------------------------------------------------


def kubeconfig(secret: Object, context: str, server: str, proxy_url: str | None = None) -> Object:
    """A kubeconfig with one cluster, user and context, all named ``context``, from the Secret ``vc-<name>``."""
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


def secret_user(secret: Object) -> Object:
    """Whom the Secret ``vc-<name>`` lets in, as far as it holds that."""
    data = secret.get("data") or {}
    if data.get("client-certificate"):
        return {"client-certificate-data": data["client-certificate"], "client-key-data": data.get("client-key")}
    return {"token": base64.b64decode(data.get("token") or "").decode()}


def with_token(config: Object, token: str) -> Object:
    """The same way in for somebody else."""
    return config | {"users": [{"name": config["current-context"], "user": {"token": token}}]}


# --- how long ----------------------------------------------------------------------------------------------------


def expiry(user: Object) -> datetime.datetime | None:
    """When a user's token or client certificate ends; None where that is not known."""
    if user.get("token"):
        ends = _claims(user["token"]).get("exp")
        return datetime.datetime.fromtimestamp(ends, datetime.UTC) if ends else None
    if x509 is None or not user.get("client-certificate-data"):
        return None
    try:
        certificate = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
    except ValueError:
        return None
    # The first is new in cryptography 42, the second is on its way out.
    return getattr(certificate, "not_valid_after_utc", None) or certificate.not_valid_after.replace(tzinfo=datetime.UTC)


def iso(moment: datetime.datetime | None) -> str | None:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def expired(secret: Object, now: datetime.datetime) -> str | None:
    """When what the Secret ``vc-<name>`` holds ended, or None while it has not."""
    ends = expiry(secret_user(secret))
    return iso(ends) if ends and ends <= now else None


def _claims(token: str) -> Object:
    """What a token says of itself; nothing where it is none of Kubernetes' own."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


# --- service accounts --------------------------------------------------------------------------------------------


def account_objects(name: str, namespace: str, cluster_role: str | None) -> dict[str, Object]:
    """A service account of ours, and the binding that gives it its role."""
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


def told(item: Object | None) -> str | None:
    """One of these objects in a word."""
    if item is None:
        return None
    role = item.get("roleRef")
    return t.cast("str | None", role["name"]) if role else f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def serves(token: str, name: str, namespace: str, seconds: int, now: datetime.datetime) -> bool:
    """Whether a token is the service account's, was asked for as long as ``seconds``, and has a third of that left."""
    claims = _claims(token)
    ends = claims.get("exp", 0)
    return bool(
        claims.get("sub") == f"system:serviceaccount:{namespace}:{name}"
        and ends - claims.get("iat", 0) <= seconds
        and ends - now.timestamp() > seconds / 3
    )


# --- files that others share -------------------------------------------------------------------------------------


def parse(content: bytes, path: str, context: str) -> Object | None:
    """The kubeconfig in a file, or None when it is empty.

    :raises TenancyError: for anything else than a kubeconfig, and for a context of our name that somebody else made.
    """
    try:
        config = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError) as exc:
        # The error's own text quotes the line, which may be a key.
        raise TenancyError(f"{path} is no kubeconfig, because it is not YAML, and stays as it is.") from exc
    if config is None:
        return None
    if not isinstance(config, dict) or config.get("kind") != "Config" or not all(_well_formed(config, kind) for kind in ENTRIES):
        raise TenancyError(f"{path} is no kubeconfig, and stays as it is.")
    # Ours lead to a cluster and a user of the same name.
    found = entry(config, "contexts", context)
    if found and {found.get("cluster"), found.get("user")} != {context}:
        raise TenancyError(
            f"{path} has a context {context} already, which leads to the cluster {found.get('cluster')}, and stays as it is. "
            "Give another context_name."
        )
    return config


def _well_formed(config: Object, kind: str) -> bool:
    entries = config.get(kind) or []
    return isinstance(entries, list) and all(
        isinstance(item, dict) and "name" in item and isinstance(item.get(ENTRIES[kind]) or {}, dict) for item in entries
    )


def entry(config: Object | None, kind: str, name: str) -> Object:
    """What a named entry holds; nothing where there is none."""
    found = (item.get(ENTRIES[kind]) for item in (config or {}).get(kind) or [] if item["name"] == name)
    return next(found, None) or {}


def merge(existing: Object | None, ours: Object, make_current: bool) -> Object:
    """``ours`` in the place of what had its name; everything else stays, what the context holds besides as well."""
    if existing is None:
        return ours
    context = ours["current-context"]
    merged = dict(existing)
    for kind, key in ENTRIES.items():
        (mine,) = ours[kind]
        if kind == "contexts":
            # Where kubectl keeps a namespace.
            mine = mine | {key: entry(existing, kind, context) | mine[key]}
        entries = existing.get(kind) or []
        merged[kind] = [mine if item["name"] == context else item for item in entries]
        if mine not in merged[kind]:
            merged[kind].append(mine)
    return merged | ({"current-context": context} if make_current else {})


def without(existing: Object, context: str) -> Object | None:
    """What is left without our entries; None when that is nothing."""
    left = existing | {kind: [item for item in existing.get(kind) or [] if item["name"] != context] for kind in ENTRIES}
    if existing.get("current-context") == context:
        left["current-context"] = ""
    return left if any(value for key, value in left.items() if key not in ("apiVersion", "kind", "current-context")) else None


def holds(config: Object | None, context: str) -> bool:
    """Whether any entry has our name."""
    return any(item["name"] == context for kind in ENTRIES for item in (config or {}).get(kind) or [])


def summary(config: Object | None, context: str) -> Object:
    """What a diff may show of a kubeconfig: no credentials."""
    cluster = entry(config, "clusters", context)
    shown = {
        "context": context if holds(config, context) else None,
        "server": cluster.get("server"),
        "proxy_url": cluster.get("proxy-url"),
        "current_context": (config or {}).get("current-context"),
    }
    return {key: value for key, value in shown.items() if value}


def same_credentials(one: Object | None, other: Object | None, context: str) -> bool:
    """Whether two kubeconfigs trust and present the same keys under a name."""

    def keys(config: Object | None) -> t.Any:
        return entry(config, "clusters", context).get("certificate-authority-data"), entry(config, "users", context)

    return bool(keys(one) == keys(other))
