# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to the Kubernetes API. Objects go in and come out as plain dicts."""

from __future__ import annotations

import base64
import functools
import json
import math
import re
import ssl
import tempfile
import threading
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubeconfig import read_kubeconfig
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.retry import Failure, classify, message_of, repeat
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import K8SClient, get_api_client
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule

try:
    import urllib3
    import yaml
    from kubernetes.client import ApiClient, CoreV1Api
    from kubernetes.client.exceptions import ApiException
    from kubernetes.dynamic.exceptions import ResourceNotFoundError
    from kubernetes.stream import stream
    from kubernetes.stream.ws_client import ERROR_CHANNEL
    from websocket import WebSocketException
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass

Object = dict[str, t.Any]

FIELD_MANAGER = "kubegpu.tenancy"

# Objects of one page of a list, as many as kubectl asks for.
PAGE = 500

# Seconds to connect, and to answer: a little more than kube-apiserver gives a request (--request-timeout, 60 s).
REQUEST_TIMEOUT = (10, 65)

# Proxies that urllib3 speaks; kubectl knows socks5 as well, for which Python needs a library of its own.
PROXY_SCHEMES = ("http", "https")

# With status 400, a container has written nothing yet (validateContainerLogStatus in k8s.io/kubernetes, pkg/kubelet/kubelet_pods.go).
_NO_LOG_YET = re.compile(r"is waiting to start|is not available|is terminated|previous terminated container .* not found")

# What reading a kubeconfig raises that lacks something, or holds what is no certificate or key.
_MALFORMED = (KeyError, IndexError, TypeError, AttributeError, ValueError, ssl.SSLError)

Result = t.TypeVar("Result")


def ask(kubeconfig: Object, path: str, timeout: float = 5) -> Object:
    """Make one authenticated GET, without the discovery of kinds that a client begins with.

    For waits for an API server that may not answer yet. The server's certificate is verified.

    :arg kubeconfig: with its credentials inside; its first cluster and user are taken.
    :arg timeout: seconds, in all.
    :raises TenancyError: with ``status`` (HTTP status, or None without an answer), and with ``permanent`` where waiting does
        not help: a certificate that does not verify, a refused credential, a malformed kubeconfig, a proxy of an unsupported
        kind. Only a credential made a moment ago may be refused until the server's caches hold it.
    """
    what = f"GET {path}"
    try:
        cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
        what = f"GET {cluster['server']}{path}"
        context = _tls(cluster, user)
    except _MALFORMED as exc:
        raise Failure(f"the kubeconfig is malformed: {type(exc).__name__} {exc}", permanent=True).error(what) from exc
    check_proxy(cluster.get("proxy-url"))
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {user['token']}"} if "token" in user else {})
    try:
        with _pool(cluster.get("proxy-url"), context) as pool:
            answer = pool.request(
                "GET",
                cluster["server"] + path,
                headers=headers,
                timeout=urllib3.Timeout(total=timeout),
                retries=False,
            )
            status, body = int(answer.status), answer.data
    except (urllib3.exceptions.HTTPError, OSError) as exc:
        raise classify(exc).error(what) from exc
    if status != 200:
        raise Failure(message_of(status, answer.reason, body), status, permanent=status in (401, 403)).error(what)
    return _parsed(what, body)


def _parsed(what: str, text: str | bytes) -> Object:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise TenancyError(f"{what} failed: the answer is no JSON object. Is this the address of an API server?", status=None)
    return answer


def _tls(cluster: Object, user: Object) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
    # As kubectl does: Python 3.13 would also refuse certificates that lack extensions nobody needs here.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if "token" not in user:
        # Python takes a client's key from files only; this one is 0600 and gone right after.
        with tempfile.NamedTemporaryFile("w", prefix="kubegpu-") as pair:
            pair.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _pool(proxy_url: str | None, context: ssl.SSLContext) -> urllib3.PoolManager:
    if proxy_url:
        return urllib3.ProxyManager(proxy_url, ssl_context=context, proxy_ssl_context=context)
    return urllib3.PoolManager(ssl_context=context)


def check_proxy(url: str | None) -> None:
    """Refuse a proxy that the Python client cannot speak to; None stands for no proxy.

    :raises TenancyError: with ``permanent``.
    """
    scheme = (url or "http://").partition("://")[0].lower()
    if scheme not in PROXY_SCHEMES:
        raise TenancyError(
            f"The proxy {url} is of kind {scheme}, which is not supported. Name one that begins with http:// or https://.",
            status=None,
            permanent=True,
        )


def _plain(_client: t.Any, answer: Object) -> Object:
    return answer


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode()


def _proxy_url(kubeconfig: str | Object, context: str | None) -> str | None:
    """Return the proxy a kubeconfig names for its cluster, as kubectl and helm take it; the Python client ignores it."""
    # What is wrong with a file, the client says better.
    config = read_kubeconfig(kubeconfig) if isinstance(kubeconfig, str) else kubeconfig
    if not isinstance(config, dict):
        return None
    wanted = context or config.get("current-context")
    clusters = {item["context"]["cluster"] for item in config.get("contexts") or [] if item["name"] == wanted}
    proxies = (item["cluster"].get("proxy-url") for item in config.get("clusters") or [] if item["name"] in clusters)
    return next(proxies, None)


class Kube:
    """Verbs over one API server.

    Every method raises TenancyError when the server cannot be reached or refuses; ``status`` in its details is the HTTP
    status (None when there was no answer), ``permanent`` marks what no waiting mends. Calls that may be made twice are
    repeated for a few seconds, see ``retry``. What could not be read is an error, never "nothing there".

    In check mode nothing may call the writing verbs: modules decide that, so that what they predict follows the same path.
    Threads may share it.

    :arg deadline: of the whole change; calls are not repeated beyond it.
    :ivar proxy_url: address of the proxy on the way to the server, as its options or its kubeconfig name it; None without one.
    """

    def __init__(self, client: K8SClient, deadline: Deadline | None = None, proxy_url: str | None = None) -> None:
        self._client = client
        self.proxy_url = proxy_url
        self._deadline = deadline or Deadline(math.inf)
        # The client's own cache of the kinds a server has is made for one thread.
        self._discovery = threading.Lock()

    @classmethod
    def connect(cls, module: AnsibleK8SModule | None = None, deadline: Deadline | None = None, **auth: t.Any) -> Kube:
        """Connect with a module's authentication options, or with keywords (``kubeconfig=`` path or dict, ``context=``).

        :raises TenancyError: where the server does not answer, or the kubeconfig is malformed or names an unsupported proxy.
        """
        given = {key: auth.get(key) or (module and module.params[key]) for key in ("kubeconfig", "context", "proxy")}
        what = "Connecting to the Kubernetes API"
        try:
            if given["kubeconfig"] and not given["proxy"]:
                auth["proxy"] = given["proxy"] = _proxy_url(given["kubeconfig"], given["context"])
            check_proxy(given["proxy"])
            client = repeat(what, lambda: get_api_client(module, **auth), deadline or Deadline(math.inf))
        except (*_MALFORMED, yaml.YAMLError) as exc:
            reason = f"the kubeconfig is malformed, or its server is no API server: {type(exc).__name__} {exc}"
            raise Failure(reason, permanent=True).error(what) from exc
        # Repeating is decided here alone; by itself, urllib3 would wait as long as any server asks it to.
        client.client.client.rest_client.pool_manager.connection_pool_kw["retries"] = False
        return cls(client, deadline, given["proxy"])

    def _call(self, what: str, call: t.Callable[[], Result], repeatable: bool = True) -> Result:
        return repeat(what, call, self._deadline, repeatable)

    def _object(self, what: str, verb: t.Callable[..., t.Any], *args: t.Any, repeatable: bool = True, **kwargs: t.Any) -> Object:
        """Return what a verb of the dynamic client answers, as it came: its own objects cost more than the call."""
        call = functools.partial(verb, *args, serializer=_plain, _request_timeout=REQUEST_TIMEOUT, **kwargs)
        answer = self._call(what, call, repeatable)
        # The client hands on text that it cannot parse.
        return answer if isinstance(answer, dict) else _parsed(what, answer)

    def _resource(self, api_version: str, kind: str) -> t.Any:
        """Return the client's resource of a kind, or None where the server says that it has no such kind."""
        what = f"Looking up {kind} ({api_version})"
        wanted = {"api_version": api_version, "kind": kind, "prefix": "apis" if "/" in api_version else "api"}
        with self._discovery:
            try:
                return self._call(what, lambda: self._client.resources.get(**wanted))
            except ResourceNotFoundError:
                pass
            # The client takes a group that does not answer for one without kinds.
            if kind not in self._kinds(what, f"/{wanted['prefix']}/{api_version}"):
                return None
            self._client.resources.invalidate_cache()
            try:
                return self._call(what, lambda: self._client.resources.get(**wanted))
            except ResourceNotFoundError as exc:
                raise TenancyError(f"{what} failed: the API group answers at times only.", status=None) from exc

    def _kinds(self, what: str, path: str) -> set[str]:
        try:
            answer = _parsed(what, self._get(what, path))
        except TenancyError as exc:
            if exc.details.get("status") == 404:
                return set()
            raise
        return {resource["kind"] for resource in answer.get("resources") or [] if "/" not in resource["name"]}

    def served(self, api_version: str, kind: str) -> bool:
        """Tell whether the server knows this kind."""
        return self._resource(api_version, kind) is not None

    def _require(self, api_version: str, kind: str) -> t.Any:
        resource = self._resource(api_version, kind)
        if resource is None:
            raise TenancyError(f"The API server has no {kind} in {api_version}: is its CRD installed?", status=404)
        return resource

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return one object, or None when it or its kind does not exist."""
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
        """Return all objects that match, read page by page; an empty list when the kind does not exist."""
        resource = self._resource(api_version, kind)
        if resource is None:
            return []
        read = functools.partial(
            self._object,
            f"Listing {kind}",
            resource.get,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        try:
            items = _pages(read)
        except TenancyError as exc:
            # What the client discovered may be older than the removal of a CRD.
            if exc.details.get("status") == 404:
                return []
            raise
        # List items carry neither of these; everyone who passes objects on wants them.
        return [{"apiVersion": api_version, "kind": kind} | item for item in items]

    def create(self, definition: Object) -> Object:
        """Create an object, and return it as the server has it.

        It is repeated only where the server surely did nothing. Where one of our own attempts did create it after all, which
        a proxy in between may hide, that counts.

        :raises TenancyError: with ``status`` 409 where another object of this name exists.
        """
        metadata = definition["metadata"]
        api_version, kind, name = definition["apiVersion"], definition["kind"], metadata.get("name")
        resource = self._require(api_version, kind)
        try:
            return self._object(
                f"Creating {kind} {name or metadata.get('generateName')}",
                resource.create,
                definition,
                repeatable=False,
                namespace=metadata.get("namespace"),
                field_manager=FIELD_MANAGER,
            )
        except TenancyError as exc:
            if name and exc.details.get("status") == 409 and exc.details.get("attempts"):
                existing = self.get(api_version, kind, name, metadata.get("namespace"))
                if existing and any(entry["manager"] == FIELD_MANAGER for entry in existing["metadata"].get("managedFields", [])):
                    return existing
            raise

    def apply(self, definition: Object) -> Object:
        """Apply on the server's side as field manager ``kubegpu.tenancy``, and return the object.

        Fields of the definition are taken over from other managers; theirs that it does not name stay. A field that an
        earlier definition had and this one has not is removed, unless another manager has it, too.
        """
        resource = self._require(definition["apiVersion"], definition["kind"])
        metadata = definition["metadata"]
        return self._object(
            f"Applying {definition['kind']} {metadata['name']}",
            resource.server_side_apply,
            definition,
            repeatable="resourceVersion" not in metadata,
            name=metadata["name"],
            namespace=metadata.get("namespace"),
            field_manager=FIELD_MANAGER,
            force_conflicts=True,
        )

    def patch(self, api_version: str, kind: str, name: str, body: Object, namespace: str | None = None) -> Object:
        """Merge a patch into an object, and return it; None as a value removes its key, and a list replaces a list.

        :arg body: with ``metadata.resourceVersion``, the object is changed only if it still is of that version. Whoever
            replaces a list that others write to as well (a node's taints) reads the object, patches it so, and begins anew
            on a conflict.
        :raises TenancyError: with ``status`` 409 where the object was changed since it was of that version.
        """
        resource = self._require(api_version, kind)
        return self._object(
            f"Changing {kind} {name}",
            resource.patch,
            body,
            # Done twice, it would meet the version that it made itself.
            repeatable="resourceVersion" not in (body.get("metadata") or {}),
            name=name,
            namespace=namespace,
            content_type="application/merge-patch+json",
            field_manager=FIELD_MANAGER,
        )

    def delete(
        self, api_version: str, kind: str, name: str, namespace: str | None = None, grace_seconds: int | None = None
    ) -> bool:
        """Delete an object, and in the background what belongs to it; return whether there was something to delete."""
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
                # An attempt before this one may have deleted it.
                return "attempts" in exc.details
            raise
        return True

    def create_token(self, name: str, namespace: str, seconds: int) -> str:
        """Return a token of a service account that ends after ``seconds``."""
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
        """Return the last lines of a container's log; empty when it has written nothing yet.

        :arg container: may be left out where the pod has one container only.
        :arg previous: those of the container's run before its last restart.
        :arg seconds: only lines that are not older.
        :raises TenancyError: where the log cannot be read, with ``status`` 404 where the pod does not exist.
        """
        query: Object = {"tailLines": lines, "previous": str(previous).lower()}
        query |= ({"container": container} if container else {}) | (
            {"sinceSeconds": max(1, seconds)} if seconds is not None else {}
        )
        try:
            return self._get(f"Reading the log of Pod {name}", f"/api/v1/namespaces/{namespace}/pods/{name}/log", query)
        except TenancyError as exc:
            if exc.details.get("status") == 400 and _NO_LOG_YET.search(exc.message):
                return ""
            raise

    def metrics(self, pod: str, namespace: str, port: int) -> str:
        """Return what a pod serves at /metrics, by way of the API server.

        :raises TenancyError: where it does not answer, too.
        """
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy/metrics"
        return self._get(f"Reading the metrics of Pod {pod}", path)

    def read_file(self, pod: str, namespace: str, container: str, path: str) -> str:
        """Return the text of a file in a container, as ``cat`` prints it there.

        :raises TenancyError: also where the container has no such file, or no ``cat``. It is not repeated.
        """
        what = f"Reading {path} in Pod {pod}"
        given = self._client.client.client
        # The library redirects a client's requests while it opens a stream, so that this one is not shared with other threads.
        client = ApiClient(given.configuration)
        client.default_headers = dict(given.default_headers)
        execute = functools.partial(stream, CoreV1Api(client).connect_get_namespaced_pod_exec, pod, namespace)
        try:
            session = execute(container=container, command=["cat", path], stdout=True, stderr=True, _preload_content=False)
            session.run_forever(timeout=REQUEST_TIMEOUT[1])
            session.close()
            text, status = session.read_stdout(), json.loads(session.read_channel(ERROR_CHANNEL) or "{}")
        except (ApiException, WebSocketException, OSError, ValueError) as exc:
            raise classify(exc).error(what) from exc
        if status.get("status") != "Success":
            raise Failure(status.get("message") or "it did not end in time").error(what)
        return str(text)

    def version(self) -> str:
        """Return the API server's version, such as v1.35.4; on hardened servers only authenticated callers get it."""
        what = "Reading the API server's version"
        return str(_parsed(what, self._get(what, "/version")).get("gitVersion"))

    def _get(self, what: str, path: str, query: dict[str, t.Any] | None = None) -> str:
        """Return the text at a path that is no object's."""

        def call() -> str:
            answer = self._client.client.client.call_api(
                path,
                "GET",
                query_params=list((query or {}).items()),
                auth_settings=["BearerToken"],
                response_type="str",
                _return_http_data_only=True,
                _preload_content=False,
                _request_timeout=REQUEST_TIMEOUT,
            )
            return str(answer.data.decode(errors="replace"))

        return self._call(what, call)


def _pages(read: t.Callable[..., Object]) -> list[Object]:
    """Read a list page by page; once more as a whole where the server has forgotten the first page's state (410) meanwhile."""
    items: list[Object] = []
    more: str | None = None
    try:
        while more != "":
            answer = read(limit=PAGE, _continue=more)
            items += answer.get("items") or []
            more = (answer.get("metadata") or {}).get("continue") or ""
    except TenancyError as exc:
        if exc.details.get("status") != 410:
            raise
        return list(read().get("items") or [])
    return items
