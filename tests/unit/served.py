# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server in memory, served to programs that only read: whole playbooks in check mode, for example."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi

# By API version, the kinds that it has: their names in paths, and whether they are in namespaces.
KINDS = {
    "v1": {
        "Namespace": ("namespaces", False),
        "Node": ("nodes", False),
        "ConfigMap": ("configmaps", True),
        "PersistentVolume": ("persistentvolumes", False),
        "Pod": ("pods", True),
        "Secret": ("secrets", True),
        "Service": ("services", True),
    },
    "apps/v1": {
        "DaemonSet": ("daemonsets", True),
        "Deployment": ("deployments", True),
        "StatefulSet": ("statefulsets", True),
    },
    "networking.k8s.io/v1": {"NetworkPolicy": ("networkpolicies", True)},
    "node.k8s.io/v1": {"RuntimeClass": ("runtimeclasses", False)},
    "rbac.authorization.k8s.io/v1": {
        "ClusterRole": ("clusterroles", False),
        "ClusterRoleBinding": ("clusterrolebindings", False),
    },
    "storage.k8s.io/v1": {"StorageClass": ("storageclasses", False)},
}


class Server:
    """An API server at an address of this machine.

    :ivar changed: method and path of every request that was no reading one; each was refused.
    """

    def __init__(self, api: InMemoryApi) -> None:
        self.api = api
        self.changed: list[str] = []
        self.address = ""

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        """Return status and body for a path."""
        groups = {version.partition("/")[0] for version in KINDS if "/" in version}
        if path == "/version":
            return 200, {"major": "1", "minor": "35", "gitVersion": self.api.version()}
        if path == "/api":
            return 200, {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            return 200, {"kind": "APIGroupList", "groups": [_group(name) for name in sorted(groups)]}
        parts = path.strip("/").split("/")
        version, parts = ("v1", parts[2:]) if parts[0] == "api" else ("/".join(parts[1:3]), parts[3:])
        if version not in KINDS:
            return _not_found(path)
        return self._of_version(version, parts, query) if parts else (200, _resources(version))

    def _of_version(self, version: str, parts: list[str], query: dict[str, str]) -> tuple[int, Any]:
        namespace = parts[1] if parts[0] == "namespaces" and len(parts) > 2 else None
        parts = parts[2:] if namespace else parts
        kind = next((kind for kind, (plural, _namespaced) in KINDS[version].items() if plural == parts[0]), "")
        if len(parts) > 1:
            found = self.api.get(version, kind, parts[1], namespace)
            return (200, found) if found else _not_found("/".join(parts))
        items = self.api.list(version, kind, namespace, query.get("labelSelector"), query.get("fieldSelector"))
        return 200, {"apiVersion": version, "kind": f"{kind}List", "metadata": {}, "items": items}

    def write_kubeconfig(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        contents = {
            "clusters": {"cluster": {"server": self.address}},
            "users": {"user": {"token": "any"}},
            "contexts": {"context": {"cluster": "it", "user": "it"}},
        }
        named = {kind: [{"name": "it", **content}] for kind, content in contents.items()}
        path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "it"} | named))
        path.chmod(0o600)


def _group(name: str) -> dict[str, Any]:
    found = [version for version in KINDS if version.startswith(f"{name}/")]
    versions = [{"groupVersion": version, "version": version.partition("/")[2]} for version in found]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(version: str) -> dict[str, Any]:
    verbs = ["get", "list"]
    resources = [
        {"name": plural, "singularName": kind.lower(), "kind": kind, "namespaced": namespaced, "verbs": verbs}
        for kind, (plural, namespaced) in KINDS[version].items()
    ]
    return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}


def _not_found(what: str) -> tuple[int, Any]:
    return 404, {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": f"{what} not found"}


@contextlib.contextmanager
def served(api: InMemoryApi) -> Iterator[Server]:
    """Serve it until the end of the context."""
    server = Server(api)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urllib.parse.urlsplit(self.path)
            self.reply(*server.answer(url.path, dict(urllib.parse.parse_qsl(url.query))))

        def refuse(self) -> None:
            server.changed.append(f"{self.command} {self.path}")
            self.reply(405, {"kind": "Status", "status": "Failure", "code": 405, "message": "only reading is allowed"})

        def do_POST(self) -> None:
            """Answer whether something is allowed, which changes nothing."""
            asked = self.rfile.read(int(self.headers["Content-Length"] or 0))
            if not self.path.endswith("/selfsubjectaccessreviews"):
                return self.refuse()
            wanted = json.loads(asked)["spec"]["resourceAttributes"]
            allowed = api.may(wanted["verb"], wanted["group"], wanted["resource"], wanted["namespace"])
            return self.reply(201, {"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}})

        do_DELETE = do_PATCH = do_PUT = refuse  # noqa: N815

        def reply(self, status: int, body: Any) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        server.address = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
