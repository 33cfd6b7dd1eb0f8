# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""One API server: its requests, which are bounded and repeated where they may be, and the kinds that it has."""

from __future__ import annotations

import copy
import math
import os
import re
import threading
import typing as t

from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client as core
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule

from .._common.errors import ApiError
from .._common.kubeconfig import chosen, program_of
from .._common.text import shown
from .._common.values import JsonObject
from .._common.wait import Deadline
from .answers import Pool, within
from .kubeconfig import MALFORMED, check_proxy, kubeconfig_exists, read_kubeconfig
from .kubeconfig_program import SECONDS, complaint, overdue
from .objects import checked, parsed
from .retry import Failure, repeat

try:
    import urllib3
    import yaml
    from kubernetes.client import ApiClient
    from kubernetes.config import ConfigException
    from kubernetes.dynamic import DynamicClient, Resource
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass

# Seconds to connect, and for the whole answer after that: a little more than kube-apiserver gives a request (--request-timeout, 60 s).
REQUEST_TIMEOUT = (10, 65)
# Seconds for a request that is due when the change's time is up, such as those of a clean-up.
LEAST_REQUEST = 10.0

# Bytes of one answer. 500 pods with their managedFields come to 10 to 20 MiB; a page that is larger is asked for in parts. The
# largest object that Kubernetes keeps is 3 MiB.
LARGEST_ANSWER = 32 * 2**20
# From the first brace to the last.
_CONTENT = re.compile(r"\{.*\}", re.DOTALL)

Result = t.TypeVar("Result")


class Client:
    """The client of one API server.

    Every method raises ApiError when the server cannot be reached or refuses. Calls that may be made twice are repeated for a few
    seconds, see ``retry``. Threads may share it.

    :arg api: the library's client.
    :arg deadline: of the whole change; calls are not repeated beyond it, and none takes longer than LEAST_REQUEST after it.
    :ivar proxy_url: address of the proxy on the way to the server, as its options or its kubeconfig name it; None without one.
    """

    def __init__(self, api: DynamicClient, deadline: Deadline | None = None, proxy_url: str | None = None) -> None:
        self.api = api
        self.proxy_url = proxy_url
        self.deadline = deadline or Deadline(math.inf)
        # By API version, what the server has of it.
        self._kinds: dict[str, dict[str, Resource]] = {}
        self._discovery = threading.Lock()

    @classmethod
    def connect(cls, module: AnsibleK8SModule | None = None, deadline: Deadline | None = None, **auth: t.Any) -> Client:
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
            api = repeat(what, lambda: _connected(module, bound, auth, program, folder or None), bound)
        except (*MALFORMED, yaml.YAMLError) as exc:
            # What YAML's own text quotes may be a key.
            mark = getattr(exc, "problem_mark", None)
            text = f"no YAML{f' from line {mark.line + 1} on' if mark else ''}" if isinstance(exc, yaml.YAMLError) else shown(exc)
            reason = f"the kubeconfig is malformed, or its server is no API server: {type(exc).__name__} {text}"
            raise Failure(reason, permanent=True).error(what) from exc
        client = cls(api, deadline, proxy)
        parsed(what, client.request(what, "/version"))
        return client

    def within(self, deadline: Deadline) -> Client:
        """Return a client of the same server for a change with another deadline."""
        other = copy.copy(self)
        other.deadline = deadline
        return other

    def seconds(self, most: float) -> float:
        """Return how long a call may take: until the deadline of the change, ``most`` at most and LEAST_REQUEST at least."""
        return min(most, self.deadline.left(LEAST_REQUEST))

    # --- requests ---

    def _call(self, what: str, call: t.Callable[[], Result], repeatable: bool = True) -> Result:
        return repeat(what, call, self.deadline, repeatable)

    def text(self, what: str, verb: t.Callable[..., t.Any], *args: t.Any, repeatable: bool = True, **kwargs: t.Any) -> bytes:
        """Return what the server answers to a verb of the dynamic client, as it came."""
        return self._call(what, lambda: t.cast("bytes", verb(*args, serialize=False, **kwargs).data), repeatable)

    def answer(
        self, what: str, api_version: str, kind: str, verb: t.Callable[..., t.Any], *args: t.Any, **kwargs: t.Any
    ) -> JsonObject:
        """Return the object that the server answers to a verb; the client's own objects cost more than the call."""
        return checked(what, parsed(what, self.text(what, verb, *args, **kwargs), LARGEST_ANSWER), api_version, kind)

    def request(
        self,
        what: str,
        path: str,
        query: dict[str, t.Any] | None = None,
        method: str = "GET",
        body: JsonObject | None = None,
    ) -> str:
        """Return the text that the server answers at a path that is no object's."""

        def call() -> str:
            answer = self.api.client.call_api(
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

    # --- kinds ---

    def resource(self, api_version: str, kind: str) -> t.Any:
        """Return the library's resource of a kind, or None where the server says that it has no such kind.

        The library's own discovery takes several requests for a kind, and all of them again after each one that is not there. It also
        takes a group that does not answer for one without kinds, and keeps a file on the host.
        """
        with self._discovery:
            if kind not in self._kinds.get(api_version, {}):
                self._kinds[api_version] = self._read_kinds(f"Looking up {kind} ({api_version})", api_version)
            return self._kinds[api_version].get(kind)

    def require(self, api_version: str, kind: str) -> t.Any:
        resource = self.resource(api_version, kind)
        if resource is None:
            raise ApiError(f"The API server has no {kind} in {api_version}: is its CRD installed?", status=404)
        return resource

    def _read_kinds(self, what: str, api_version: str) -> dict[str, Resource]:
        prefix = "apis" if "/" in api_version else "api"
        try:
            answer = parsed(what, self.request(what, f"/{prefix}/{api_version}"))
        except ApiError as exc:
            if exc.status == 404:
                return {}
            raise
        try:
            return _resources(self.api, prefix, api_version, answer)
        except MALFORMED as exc:
            # An API group may be served by a tenant.
            raise Failure(f"the list of its kinds is not of the form of the API: {type(exc).__name__} {exc}").error(what) from exc


def _resources(api: DynamicClient, prefix: str, api_version: str, answer: JsonObject) -> dict[str, Resource]:
    """Return the library's resources of an API version by their kinds.

    :arg answer: the server's list of them (APIResourceList), in which ``pods/log`` is a subresource of ``pods``.
    """
    group, _slash, version = api_version.rpartition("/")
    parts: dict[str, JsonObject] = {}
    for entry in answer["resources"]:
        name, _slash, part = entry["name"].partition("/")
        parts.setdefault(name, {})[part] = entry
    found = {}
    for name, own in parts.items():
        if main := own.pop("", None):
            known = {key: main[key] for key in ("kind", "namespaced")} | {"verbs": main.get("verbs"), "name": name}
            found[known["kind"]] = Resource(prefix, group, version, client=api, subresources=own, **known)
    return found


def _entries(kubeconfig: t.Any, context: str | None) -> tuple[JsonObject, JsonObject]:
    """Return the cluster and the user by which a kubeconfig leads to a server; empty where it is none.

    :arg kubeconfig: path, content, or None.
    """
    # What is wrong with a file, the client says better.
    config = read_kubeconfig(kubeconfig) if isinstance(kubeconfig, str) else kubeconfig
    return chosen(config, context) if isinstance(config, dict) else ({}, {})


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
    return DynamicClient(client, discoverer=lambda _client, _file: None)


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
