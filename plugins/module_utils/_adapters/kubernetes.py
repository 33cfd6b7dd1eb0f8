# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to the Kubernetes API: the only file that imports kubernetes.core and the kubernetes client.

Objects go in and come out as plain dicts.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import tempfile
import threading
import typing as t
import urllib.error
import urllib.request

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import K8SClient, get_api_client
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException

try:
    import yaml
    from kubernetes.client.exceptions import ApiException
    from kubernetes.dynamic.exceptions import DynamicApiError, ResourceNotFoundError
    from urllib3.exceptions import HTTPError
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass

Object = dict[str, t.Any]

FIELD_MANAGER = "kubegpu.tenancy"


def kube_module(argument_spec: dict[str, t.Any], **kwargs: t.Any) -> AnsibleK8SModule:
    """An AnsibleK8SModule with kubernetes.core's authentication options and check mode."""
    return AnsibleK8SModule(
        module_class=AnsibleModule, argument_spec=AUTH_ARG_SPEC | argument_spec, supports_check_mode=True, **kwargs
    )


def finish(module: AnsibleK8SModule, result: Object) -> None:
    """End a module with its result, whose ``warnings`` are told as ansible-core wants them."""
    for warning in result.pop("warnings", []):
        module.warn(warning)
    module.exit_json(**result)


def ask(kubeconfig: Object, path: str, timeout: float = 5) -> Object:
    """One authenticated GET within ``timeout`` seconds, without the discovery a client begins with.

    What a wait for an API server needs that may not be there yet. The server's certificate is verified.

    :arg kubeconfig: with its credentials inside; its first cluster and user are taken.
    """
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    try:
        context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
        # As kubectl does: Python 3.13 would also refuse certificates that lack extensions nobody needs here.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        headers = {"Accept": "application/json"}
        if "token" in user:
            headers["Authorization"] = f"Bearer {user['token']}"
        else:
            # Python takes a client's key from files only; this one is 0600 and gone right after.
            with tempfile.NamedTemporaryFile("w", prefix="kubegpu-") as pair:
                pair.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
                pair.flush()
                context.load_cert_chain(pair.name)
        proxy = {"https": cluster["proxy-url"]} if "proxy-url" in cluster else {}
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler(proxy))
        request = urllib.request.Request(cluster["server"] + path, headers=headers)
        with opener.open(request, timeout=timeout) as answer:
            return t.cast(Object, json.load(answer))
    except urllib.error.HTTPError as exc:
        raise TenancyError(f"GET {cluster['server']}{path} was refused: {exc}", status=exc.code) from exc
    except (OSError, http.client.HTTPException, ValueError) as exc:
        reason = getattr(exc, "reason", exc)
        raise TenancyError(f"GET {cluster['server']}{path} failed: {reason}", status=None) from exc


def _plain(_client: t.Any, answer: Object) -> Object:
    return answer


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode()


def _proxy_url(kubeconfig: str | Object, context: str | None) -> str | None:
    """The proxy a kubeconfig names for its cluster, as kubectl and helm take it; the Python client does not look for it."""
    config = kubeconfig
    if isinstance(kubeconfig, str):
        try:
            with open(os.path.expanduser(kubeconfig), encoding="utf-8") as file:
                config = yaml.safe_load(file)
        except (OSError, yaml.YAMLError):
            # The client says better what is wrong with it.
            return None
    if not isinstance(config, dict):
        return None
    wanted = context or config.get("current-context")
    clusters = {item["context"]["cluster"] for item in config.get("contexts") or [] if item["name"] == wanted}
    found = (item["cluster"].get("proxy-url") for item in config.get("clusters") or [] if item["name"] in clusters)
    return next(found, None)


class Kube:
    """Verbs over one API server.

    Every method raises TenancyError when the server cannot be reached or refuses; ``status`` in its details is
    the HTTP status (None when there was no answer). In check mode nothing may call the writing verbs: modules
    decide that, so that what they predict follows the same path. Threads may share it.
    """

    def __init__(self, client: K8SClient) -> None:
        self._client = client
        # The client's own cache of what the server knows is made for one thread.
        self._discovery = threading.Lock()

    @classmethod
    def connect(cls, module: AnsibleK8SModule | None = None, **auth: t.Any) -> Kube:
        """From a module's authentication options, or from keywords (``kubeconfig=`` path or dict, ``context=``)."""
        given = {key: auth.get(key) or (module and module.params[key]) for key in ("kubeconfig", "context", "proxy")}
        if given["kubeconfig"] and not given["proxy"]:
            auth["proxy"] = _proxy_url(given["kubeconfig"], given["context"])
        try:
            return cls(get_api_client(module, **auth))
        except (CoreException, ApiException, HTTPError, OSError) as exc:
            raise TenancyError(f"The Kubernetes API cannot be reached: {exc}", status=None) from exc

    def _call(self, what: str, function: t.Callable[[], t.Any]) -> t.Any:
        try:
            return function()
        except (DynamicApiError, ApiException) as exc:
            summary = exc.summary() if isinstance(exc, DynamicApiError) else str(exc)
            raise TenancyError(f"{what} failed: {summary}", status=exc.status) from exc
        except (CoreException, HTTPError, OSError) as exc:
            raise TenancyError(f"{what} failed: {exc}", status=None) from exc

    def _object(self, what: str, verb: t.Callable[..., t.Any], *args: t.Any, **kwargs: t.Any) -> Object:
        """What a verb of the dynamic client answers, as it came: its own objects cost more than the call."""
        return t.cast(Object, self._call(what, lambda: verb(*args, serializer=_plain, **kwargs)))

    def _resource(self, api_version: str, kind: str) -> t.Any:
        try:
            with self._discovery:
                return self._call(f"Looking up {kind} ({api_version})", lambda: self._client.resource(kind, api_version))
        except ResourceNotFoundError:
            return None

    def served(self, api_version: str, kind: str) -> bool:
        """Whether the server knows this kind."""
        return self._resource(api_version, kind) is not None

    def _require(self, api_version: str, kind: str) -> t.Any:
        resource = self._resource(api_version, kind)
        if resource is None:
            raise TenancyError(f"The API server has no {kind} in {api_version}: is its CRD installed?", status=404)
        return resource

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None when it or its kind does not exist."""
        resource = self._resource(api_version, kind)
        if resource is None:
            return None
        try:
            return self._object(f"Reading {kind} {name}", resource.get, name=name, namespace=namespace)
        except TenancyError as exc:
            if exc.details.get("status") == 404:
                return None
            raise

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[Object]:
        """All objects that match; an empty list when the kind does not exist."""
        resource = self._resource(api_version, kind)
        if resource is None:
            return []
        try:
            answer = self._object(
                f"Listing {kind}", resource.get, namespace=namespace, label_selector=label_selector, field_selector=field_selector
            )
        except TenancyError as exc:
            # What the client discovered may be older than the removal of a CRD.
            if exc.details.get("status") == 404:
                return []
            raise
        # List items carry neither of these; everyone who passes objects on wants them.
        return [{"apiVersion": api_version, "kind": kind} | item for item in answer.get("items", [])]

    def create(self, definition: Object) -> Object:
        resource = self._require(definition["apiVersion"], definition["kind"])
        metadata = definition["metadata"]
        return self._object(
            f"Creating {definition['kind']} {metadata.get('name') or metadata.get('generateName')}",
            resource.create,
            definition,
            namespace=metadata.get("namespace"),
            field_manager=FIELD_MANAGER,
        )

    def apply(self, definition: Object) -> Object:
        """Server-side apply as field manager ``kubegpu.tenancy``, taking fields over from others."""
        resource = self._require(definition["apiVersion"], definition["kind"])
        metadata = definition["metadata"]
        return self._object(
            f"Applying {definition['kind']} {metadata['name']}",
            resource.server_side_apply,
            definition,
            name=metadata["name"],
            namespace=metadata.get("namespace"),
            field_manager=FIELD_MANAGER,
            force_conflicts=True,
        )

    def patch(self, api_version: str, kind: str, name: str, body: Object, namespace: str | None = None) -> Object:
        """Merge patch; None as a value removes its key."""
        resource = self._require(api_version, kind)
        return self._object(
            f"Changing {kind} {name}",
            resource.patch,
            body,
            name=name,
            namespace=namespace,
            content_type="application/merge-patch+json",
            field_manager=FIELD_MANAGER,
        )

    def delete(
        self, api_version: str, kind: str, name: str, namespace: str | None = None, grace_seconds: int | None = None
    ) -> bool:
        """Delete in the background; whether there was something to delete."""
        resource = self._resource(api_version, kind)
        if resource is None:
            return False
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            self._object(f"Deleting {kind} {name}", resource.delete, name=name, namespace=namespace, body=body)
        except TenancyError as exc:
            if exc.details.get("status") == 404:
                return False
            raise
        return True

    def create_token(self, name: str, namespace: str, seconds: int) -> str:
        """A token of a service account that ends after ``seconds``."""
        resource = self._require("v1", "ServiceAccount").subresources["token"]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
        what = f"Asking for a token of ServiceAccount {name}"
        return str(self._object(what, resource.create, body, name=name, namespace=namespace)["status"]["token"])

    def logs(
        self,
        name: str,
        namespace: str,
        container: str | None = None,
        lines: int = 20,
        previous: bool = False,
        seconds: int | None = None,
    ) -> str:
        """The last lines of a pod's log, or those of the last ``seconds`` only; empty when there is none yet."""
        query: Object = {"tailLines": lines, "previous": str(previous).lower()}
        query |= ({"container": container} if container else {}) | (
            {"sinceSeconds": max(1, seconds)} if seconds is not None else {}
        )
        try:
            return str(self._raw("GET", f"/api/v1/namespaces/{namespace}/pods/{name}/log", query))
        except TenancyError:
            return ""

    def version(self) -> str:
        """The API server's version, such as v1.35.4; it answers only authenticated callers on hardened servers."""
        return str(self._client.client.version["kubernetes"]["gitVersion"])

    def _raw(self, method: str, path: str, query: dict[str, t.Any] | None = None) -> t.Any:
        def call() -> t.Any:
            answer = self._client.client.client.call_api(
                path,
                method,
                query_params=list((query or {}).items()),
                auth_settings=["BearerToken"],
                response_type="str",
                _return_http_data_only=True,
                _preload_content=False,
            )
            return answer.data.decode(errors="replace")

        return self._call(f"{method} {path}", call)
