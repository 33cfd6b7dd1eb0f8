# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to the Kubernetes API. Objects go in and come out as plain dicts."""

from __future__ import annotations

import base64
import contextlib
import copy
import functools
import math
import os
import re
import ssl
import tempfile
import threading
import typing as t
import urllib.parse

from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client as core
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule

from .._common.documents import LARGEST, parse_json
from .._common.errors import ApiError, TenancyError
from .._common.kubeconfig import chosen, program_of
from .._common.secrets import without_password
from .._common.text import shown
from .._common.values import JsonObject
from .._common.wait import Deadline
from .answers import Answer, Oversized, Pool, within
from .kubeconfig import kubeconfig_exists, read_kubeconfig
from .kubeconfig_program import SECONDS, complaint, overdue
from .objects import Most, Pages, checked, parsed
from .retry import Failure, classify, message_of, repeat

try:
    import urllib3
    import yaml
    from kubernetes.client import ApiClient, CoreV1Api
    from kubernetes.client.exceptions import ApiException
    from kubernetes.config import ConfigException
    from kubernetes.dynamic import DynamicClient
    from kubernetes.dynamic.exceptions import ResourceNotFoundError
    from kubernetes.stream import stream
    from kubernetes.stream.ws_client import ERROR_CHANNEL
    from websocket import WebSocketException
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass

FIELD_MANAGER = "kubegpu.tenancy"

# What answers whether somebody may do something; it keeps nothing.
REVIEWS = "authorization.k8s.io/v1"

# Objects of one page of a list, as many as kubectl asks for.
PAGE = 500

# Seconds to connect, and for the whole answer after that: a little more than kube-apiserver gives a request (--request-timeout, 60 s).
REQUEST_TIMEOUT = (10, 65)
# Seconds for a request that is due when the change's time is up, such as those of a clean-up.
LEAST_REQUEST = 10.0

# Bytes of one answer. 500 pods with their managedFields come to 10 to 20 MiB; a page that is larger is asked for in parts. The
# largest object that Kubernetes keeps is 3 MiB.
LARGEST_ANSWER = 32 * 2**20
# A list in all its pages. Kubernetes is made for 150,000 pods in a cluster, and a gigabyte holds 100,000 of 10 kB.
LIST = Most(pages=2_000, objects=200_000, size=2**30, page=LARGEST_ANSWER)
# Seconds for it: less than the five minutes for which an API server keeps the state of the first page.
LIST_SECONDS = 240.0
# The same for one kind in one virtual cluster, whose tenant decides on it, when many of them are read.
ASKED_LIST = Most(pages=200, objects=50_000, size=32 * 2**20, page=LARGEST)

# Bytes of a log: 10,000 lines of KAI Scheduler come to 3 MiB. The server ends the log there, in the middle of a line.
LARGEST_LOG = 8 * 2**20
# Characters of a file in a container.
LARGEST_FILE = 8 * 2**20

# Proxies that urllib3 speaks; kubectl knows socks5 as well, for which Python needs a library of its own.
PROXY_SCHEMES = ("http", "https")

# With status 400, a container has written nothing yet (validateContainerLogStatus in k8s.io/kubernetes, pkg/kubelet/kubelet_pods.go).
_NO_LOG_YET = re.compile(r"is waiting to start|is not available|is terminated|previous terminated container .* not found")

# From the first brace to the last.
_CONTENT = re.compile(r"\{.*\}", re.DOTALL)

# What reading raises: a kubeconfig that lacks something, or holds what is no certificate or key; kinds of another form.
_MALFORMED = (KeyError, IndexError, TypeError, AttributeError, ValueError, ssl.SSLError, RecursionError)

Result = t.TypeVar("Result")


def ask(kubeconfig: JsonObject, path: str, timeout: float = 5) -> JsonObject:
    """Make one authenticated GET, without the discovery of kinds that a client begins with.

    For waits for an API server that may not answer yet. The server's certificate is verified.

    :arg kubeconfig: with its credentials inside; those of its current context are taken.
    :arg timeout: seconds, in all, however slowly the server answers.
    :raises TenancyError: with ``status`` (HTTP status, or None without an answer), and with ``permanent`` where waiting does
        not help: a certificate that does not verify, a refused credential, a malformed kubeconfig, a proxy of an unsupported
        kind. Only a credential made a moment ago may be refused until the server's caches hold it.
    """
    with _asking(kubeconfig, path, Deadline(timeout)) as get:
        return parsed(f"GET {path}", get(path))


def ask_list(kubeconfig: JsonObject, path: str, timeout: float = 30) -> list[JsonObject]:
    """Return all objects of a list, read page by page as ``ask`` reads; each has metadata of the form of the API.

    :arg path: of the list, such as ``/apis/scheduling.run.ai/v2/queues``.
    :arg timeout: seconds, in all, for all pages.
    :raises TenancyError: as ``ask`` does; also where the list is of another form, or does not end.
    """
    what, deadline = f"GET {path}", Deadline(timeout)
    with _asking(kubeconfig, path, deadline) as get:

        def fetch(limit: int, more: str) -> bytes:
            query = {"limit": limit} | ({"continue": more} if more else {})
            return get(f"{path}{'&' if '?' in path else '?'}{urllib.parse.urlencode(query)}")

        items = Pages(what, fetch, lambda: deadline.left(0), PAGE, ASKED_LIST).read()
    return [checked(what, item) for item in items]


@contextlib.contextmanager
def _asking(kubeconfig: JsonObject, path: str, deadline: Deadline) -> t.Iterator[t.Callable[[str], bytes]]:
    """Provide the call that makes one GET and returns the body; all of its calls together end by the deadline.

    :arg path: the first one, for the error of a malformed kubeconfig.
    """
    what = f"GET {path}"
    try:
        cluster, user = chosen(kubeconfig)
        server, proxy, token = (str(text or "") for text in (cluster["server"], cluster.get("proxy-url"), user.get("token")))
        what = f"GET {server}{path}"
        context = _tls(cluster, user)
    except _MALFORMED as exc:
        raise _malformed(what, exc) from exc
    check_proxy(proxy)
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    with _manager(proxy, context) as manager:
        pool = Pool(manager, lambda: urllib3.Timeout(total=deadline.left(0.001)), LARGEST)
        yield lambda path: _got(pool, server + path, headers)


def _got(pool: Pool, url: str, headers: dict[str, str]) -> bytes:
    what = f"GET {url}"
    try:
        answer: Answer = pool.request("GET", url, headers=headers)
    except (urllib3.exceptions.HTTPError, OSError) as exc:
        raise classify(exc).error(what) from exc
    except ValueError as exc:
        # Such as a line break in a token.
        raise _malformed(what, exc) from exc
    if answer.status != 200:
        message = message_of(answer.status, answer.reason, answer.data)
        raise Failure(message, answer.status, permanent=answer.status in (401, 403)).error(what)
    return answer.data


def _malformed(what: str, exc: BaseException) -> TenancyError:
    return Failure(f"the kubeconfig is malformed: {type(exc).__name__} {exc}", permanent=True).error(what)


def _tls(cluster: JsonObject, user: JsonObject) -> ssl.SSLContext:
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


def _manager(proxy_url: str, context: ssl.SSLContext) -> urllib3.PoolManager:
    if proxy_url:
        return urllib3.ProxyManager(proxy_url, ssl_context=context, proxy_ssl_context=context)
    return urllib3.PoolManager(ssl_context=context)


def check_proxy(url: str | None) -> None:
    """Refuse a proxy that the Python client cannot speak to; None stands for no proxy.

    :raises TenancyError: with ``permanent``.
    """
    scheme = (url or "http://").partition("://")[0].lower()
    if scheme not in PROXY_SCHEMES:
        raise ApiError(
            f"The proxy {without_password(str(url))} is of kind {scheme}, which is not supported. Name one that begins with http:// or https://.",
            permanent=True,
        )


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode()


def _entries(kubeconfig: t.Any, context: str | None) -> tuple[JsonObject, JsonObject]:
    """Return the cluster and the user by which a kubeconfig leads to a server; empty where it is none.

    :arg kubeconfig: path, content, or None.
    """
    # What is wrong with a file, the client says better.
    config = read_kubeconfig(kubeconfig) if isinstance(kubeconfig, str) else kubeconfig
    return chosen(config, context) if isinstance(config, dict) else ({}, {})


class Kube:
    """Verbs over one API server.

    Every method raises ApiError when the server cannot be reached or refuses. Calls that may be made twice are repeated for a few
    seconds, see ``retry``. What could not be read is an error, never "nothing there".

    In check mode nothing may call the writing verbs: modules decide that, so that what they predict follows the same path.
    Threads may share it.

    :arg deadline: of the whole change; calls are not repeated beyond it, and none takes longer than LEAST_REQUEST after it.
    :ivar proxy_url: address of the proxy on the way to the server, as its options or its kubeconfig name it; None without one.
    """

    def __init__(self, client: DynamicClient, deadline: Deadline | None = None, proxy_url: str | None = None) -> None:
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
        what = "Connecting to the Kubernetes API"
        bound = deadline or Deadline(math.inf)
        # With what the environment says (K8S_AUTH_KUBECONFIG and others).
        given = core._create_auth_spec(module, **auth)
        path = given.get("kubeconfig")
        if isinstance(path, str) and not kubeconfig_exists(path):
            raise Failure(f"kubeconfig: the file {path} does not exist on this host", permanent=True).error(what)
        try:
            cluster, user = _entries(path, given.get("context"))
            # kubectl and helm take the proxy from there; the Python client ignores it.
            proxy = given.get("proxy") or cluster.get("proxy-url")
            check_proxy(proxy)
            auth |= {"proxy": proxy} if proxy else {}
            program, folder = program_of(user), os.path.dirname(os.path.expanduser(path)) if isinstance(path, str) else None
            client = repeat(what, lambda: _connected(module, bound, auth, program, folder or None), bound)
        except (*_MALFORMED, yaml.YAMLError) as exc:
            # What YAML's own text quotes may be a key.
            mark = getattr(exc, "problem_mark", None)
            text = f"no YAML{f' from line {mark.line + 1} on' if mark else ''}" if isinstance(exc, yaml.YAMLError) else shown(exc)
            reason = f"the kubeconfig is malformed, or its server is no API server: {type(exc).__name__} {text}"
            raise Failure(reason, permanent=True).error(what) from exc
        return cls(client, deadline, proxy)

    def within(self, deadline: Deadline) -> Kube:
        """Return an adapter to the same server for a change with another deadline."""
        other = copy.copy(self)
        other._deadline = deadline
        return other

    def _call(self, what: str, call: t.Callable[[], Result], repeatable: bool = True) -> Result:
        return repeat(what, call, self._deadline, repeatable)

    def _text(self, what: str, verb: t.Callable[..., t.Any], *args: t.Any, repeatable: bool = True, **kwargs: t.Any) -> bytes:
        """Return what the server answers to a verb of the dynamic client, as it came."""
        return self._call(what, lambda: t.cast("bytes", verb(*args, serialize=False, **kwargs).data), repeatable)

    def _object(
        self, what: str, api_version: str, kind: str, verb: t.Callable[..., t.Any], *args: t.Any, **kwargs: t.Any
    ) -> JsonObject:
        """Return the object that the server answers to a verb; the client's own objects cost more than the call."""
        return checked(what, parsed(what, self._text(what, verb, *args, **kwargs), LARGEST_ANSWER), api_version, kind)

    def _resource(self, api_version: str, kind: str) -> t.Any:
        """Return the client's resource of a kind, or None where the server says that it has no such kind."""
        what = f"Looking up {kind} ({api_version})"
        wanted = {"api_version": api_version, "kind": kind, "prefix": "apis" if "/" in api_version else "api"}
        with self._discovery:
            try:
                return self._discovered(what, wanted)
            except ResourceNotFoundError:
                pass
            # The client takes a group that does not answer for one without kinds.
            if kind not in self._kinds(what, f"/{wanted['prefix']}/{api_version}"):
                return None
            self._client.resources.invalidate_cache()
            try:
                return self._discovered(what, wanted)
            except ResourceNotFoundError as exc:
                raise ApiError(f"{what} failed: the API group answers at times only.") from exc

    def _discovered(self, what: str, wanted: JsonObject) -> t.Any:
        try:
            return self._call(what, lambda: self._client.resources.get(**wanted))
        except _MALFORMED as exc:
            # The client takes it as it comes, and an API group may be served by a tenant.
            raise Failure(f"the list of its kinds is not of the form of the API: {type(exc).__name__} {exc}").error(what) from exc

    def _kinds(self, what: str, path: str) -> set[str]:
        try:
            answer = parsed(what, self._get(what, path))
        except ApiError as exc:
            if exc.status == 404:
                return set()
            raise
        try:
            return {resource["kind"] for resource in answer["resources"] if "/" not in resource["name"]}
        except _MALFORMED as exc:
            raise Failure(f"the list of its kinds is not of the form of the API: {type(exc).__name__} {exc}").error(what) from exc

    def served(self, api_version: str, kind: str) -> bool:
        """Tell whether the server knows this kind."""
        return self._resource(api_version, kind) is not None

    def _require(self, api_version: str, kind: str) -> t.Any:
        resource = self._resource(api_version, kind)
        if resource is None:
            raise ApiError(f"The API server has no {kind} in {api_version}: is its CRD installed?", status=404)
        return resource

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> JsonObject | None:
        """Return one object, or None when it or its kind does not exist."""
        resource = self._resource(api_version, kind)
        if resource is None:
            return None
        try:
            return self._object(f"Reading {kind} {name}", api_version, kind, resource.get, name=name, namespace=namespace)
        except ApiError as exc:
            if exc.status == 404:
                return None
            raise

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[JsonObject]:
        """Return all objects that match, read page by page; an empty list when the kind does not exist."""
        resource = self._resource(api_version, kind)
        if resource is None:
            return []
        what, clock = f"Listing {kind}", self._deadline.clock
        end = clock() + min(LIST_SECONDS, self._deadline.left(LEAST_REQUEST))
        read = functools.partial(
            self._text, what, resource.get, namespace=namespace, label_selector=label_selector, field_selector=field_selector
        )
        pages = Pages(what, lambda limit, more: read(limit=limit, _continue=more or None), lambda: end - clock(), PAGE, LIST)
        try:
            items = pages.read()
        except ApiError as exc:
            # What the client discovered may be older than the removal of a CRD.
            if exc.status == 404:
                return []
            raise
        return [checked(what, item, api_version, kind) for item in items]

    def create(self, definition: JsonObject) -> JsonObject:
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
                api_version,
                kind,
                resource.create,
                definition,
                repeatable=False,
                namespace=metadata.get("namespace"),
                field_manager=FIELD_MANAGER,
            )
        except ApiError as exc:
            if name and exc.status == 409 and exc.attempts > 1:
                existing = self.get(api_version, kind, name, metadata.get("namespace"))
                managers = (entry.get("manager") for entry in (existing or {"metadata": {}})["metadata"].get("managedFields", []))
                if existing and FIELD_MANAGER in managers:
                    return existing
            raise

    def apply(self, definition: JsonObject) -> JsonObject:
        """Apply on the server's side as field manager ``kubegpu.tenancy``, and return the object.

        Fields of the definition are taken over from other managers; theirs that it does not name stay. A field that an
        earlier definition had and this one has not is removed, unless another manager has it, too.
        """
        resource = self._require(definition["apiVersion"], definition["kind"])
        metadata = definition["metadata"]
        return self._object(
            f"Applying {definition['kind']} {metadata['name']}",
            definition["apiVersion"],
            definition["kind"],
            resource.server_side_apply,
            definition,
            repeatable="resourceVersion" not in metadata,
            name=metadata["name"],
            namespace=metadata.get("namespace"),
            field_manager=FIELD_MANAGER,
            force_conflicts=True,
        )

    def patch(self, api_version: str, kind: str, name: str, body: JsonObject, namespace: str | None = None) -> JsonObject:
        """Merge a patch into an object, and return it; None as a value removes its key, and a list replaces a list.

        :arg body: with ``metadata.resourceVersion``, the object is changed only if it still is of that version. Whoever
            replaces a list that others write to as well (a node's taints) reads the object, patches it so, and begins anew
            on a conflict.
        :raises TenancyError: with ``status`` 409 where the object was changed since it was of that version.
        """
        resource = self._require(api_version, kind)
        return self._object(
            f"Changing {kind} {name}",
            api_version,
            kind,
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
        body: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            self._text(f"Deleting {kind} {name}", resource.delete, name=name, namespace=namespace, body=body)
        except ApiError as exc:
            if exc.status == 404:
                # An attempt before this one may have deleted it.
                return exc.attempts > 1
            raise
        return True

    def create_token(self, name: str, namespace: str, seconds: int) -> str:
        """Return a token of a service account that ends after ``seconds``."""
        resource = self._require("v1", "ServiceAccount").subresources["token"]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
        what = f"Asking for a token of ServiceAccount {name}"
        answer = parsed(what, self._text(what, resource.create, body, name=name, namespace=namespace))
        status = answer.get("status")
        token = status.get("token") if isinstance(status, dict) else None
        if not isinstance(token, str):
            raise Failure("the answer holds no token").error(what)
        return token

    def logs(
        self,
        name: str,
        namespace: str,
        container: str | None = None,
        lines: int = 20,
        previous: bool = False,
        seconds: int | None = None,
    ) -> str:
        """Return the last lines of a container's log, as far as LARGEST_LOG reaches; empty when it has written nothing yet.

        :arg container: may be left out where the pod has one container only.
        :arg previous: those of the container's run before its last restart.
        :arg seconds: only lines that are not older.
        :raises TenancyError: where the log cannot be read, with ``status`` 404 where the pod does not exist.
        """
        query: JsonObject = {"tailLines": lines, "limitBytes": LARGEST_LOG, "previous": str(previous).lower()}
        query |= ({"container": container} if container else {}) | (
            {"sinceSeconds": max(1, seconds)} if seconds is not None else {}
        )
        try:
            return self._get(f"Reading the log of Pod {name}", f"/api/v1/namespaces/{namespace}/pods/{name}/log", query)
        except ApiError as exc:
            if exc.status == 400 and _NO_LOG_YET.search(exc.message):
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

        :raises TenancyError: also where the container has no such file, or no ``cat``, or prints without end. It is not repeated.
        """
        what = f"Reading {path} in Pod {pod}"
        given = self._client.client
        # The library redirects a client's requests while it opens a stream, so that this one is not shared with other threads.
        client = ApiClient(given.configuration)
        client.default_headers = dict(given.default_headers)
        execute = functools.partial(stream, CoreV1Api(client).connect_get_namespaced_pod_exec, pod, namespace)
        seconds = min(REQUEST_TIMEOUT[1], self._deadline.left(LEAST_REQUEST))

        def read() -> tuple[str, t.Any]:
            session = execute(container=container, command=["cat", path], stdout=True, stderr=False, _preload_content=False)
            try:
                return _printed(session, seconds), parse_json(session.read_channel(ERROR_CHANNEL) or "{}")
            finally:
                session.close()

        try:
            # The library connects without a timeout.
            text, status = within(seconds + REQUEST_TIMEOUT[0], read)
        except (ApiException, WebSocketException, OSError, ValueError) as exc:
            raise classify(exc).error(what) from exc
        ended = status if isinstance(status, dict) else {}
        if ended.get("status") != "Success":
            raise Failure(str(ended.get("message") or "it did not end in time")).error(what)
        return text

    def version(self) -> str:
        """Return the API server's version, such as v1.35.4; on hardened servers only authenticated callers get it."""
        what = "Reading the API server's version"
        return shown(parsed(what, self._get(what, "/version")).get("gitVersion"))

    def may(self, verb: str, group: str, resource: str, namespace: str = "") -> bool:
        """Tell whether the server allows a verb to whom the kubeconfig stands for. Each of the three may be ``*``, for all of them.

        :arg resource: may name a subresource, as in ``pods/log``.
        :arg namespace: empty for the whole cluster.
        """
        name, _slash, part = resource.partition("/")
        asked = {"verb": verb, "group": group, "resource": name, "subresource": part, "namespace": namespace}
        body = {"apiVersion": REVIEWS, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
        what = f"Asking for the right to {verb} {resource}"
        answer = parsed(what, self._request(what, "POST", f"/apis/{REVIEWS}/selfsubjectaccessreviews", body=body))
        status = answer.get("status")
        return isinstance(status, dict) and status.get("allowed") is True

    def _get(self, what: str, path: str, query: dict[str, t.Any] | None = None) -> str:
        """Return the text at a path that is no object's."""
        return self._request(what, "GET", path, query)

    def _request(
        self, what: str, method: str, path: str, query: dict[str, t.Any] | None = None, body: JsonObject | None = None
    ) -> str:
        def call() -> str:
            answer = self._client.client.call_api(
                path,
                method,
                query_params=list((query or {}).items()),
                body=body,
                auth_settings=["BearerToken"],
                response_type="str",
                _return_http_data_only=True,
                _preload_content=False,
            )
            return str(answer.data.decode(errors="replace"))

        return self._call(what, call)


def _connected(
    module: AnsibleK8SModule | None, deadline: Deadline, auth: dict[str, t.Any], program: JsonObject, folder: str | None
) -> DynamicClient:
    """Return the client that kubernetes.core would make, whose requests are bounded from the first one on.

    ``get_api_client`` there makes its first requests, without a timeout, before it returns.

    :arg program: the kubeconfig's ``exec``, and ``folder`` that of its file.
    """
    configuration = _configuration(module, auth, program, folder)
    client = ApiClient(configuration)
    for name, value in core._create_headers(module, **auth).items():
        core._set_header(client, name, value)
    client.rest_client.pool_manager = Pool(client.rest_client.pool_manager, lambda: _timeout(deadline), LARGEST_ANSWER)
    return core.k8sdynamicclient.K8SDynamicClient(client, discoverer=core.LazyDiscoverer)


def _configuration(module: AnsibleK8SModule | None, auth: dict[str, t.Any], program: JsonObject, folder: str | None) -> t.Any:
    """Return the client's configuration, with the credentials of the kubeconfig's program where it names one.

    :raises CoreException: where that program gives none; the client itself would go on without.
    """

    def make() -> t.Any:
        try:
            return core._create_configuration(core._create_auth_spec(module, **auth))
        except ConfigException as exc:
            # The client names a place in a kubeconfig by what stands there, keys included.
            raise core.CoreException(f"Could not create API client: {_CONTENT.sub('{…}', str(exc))}") from exc

    if not program:
        return make()
    try:
        configuration = within(SECONDS, make)
    except TimeoutError:
        raise core.CoreException(overdue(program, SECONDS)) from None
    if not configuration.api_key and not configuration.cert_file:
        raise core.CoreException(complaint(program, folder))
    return configuration


def _timeout(deadline: Deadline) -> urllib3.Timeout:
    """Return how long the next request may take."""
    left = deadline.left(LEAST_REQUEST)
    connect, read = (min(seconds, left) for seconds in REQUEST_TIMEOUT)
    return urllib3.Timeout(connect=connect, read=read, total=min(sum(REQUEST_TIMEOUT), left))


def _printed(session: t.Any, seconds: float) -> str:
    """Return what a command prints to its standard output until it ends, or the time is up.

    :arg session: a WSClient of the client's, which by itself keeps whatever arrives.
    :raises Oversized: where it prints more than LARGEST_FILE.
    """
    deadline, pieces, size = Deadline(seconds), [], 0
    while session.is_open() and deadline.left(0):
        piece = session.read_stdout(timeout=deadline.left(0))
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_FILE:
            raise Oversized(f"it has more than {LARGEST_FILE} characters, which are read at most")
    return "".join(pieces)
