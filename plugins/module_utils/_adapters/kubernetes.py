# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to the Kubernetes API. Objects go in and come out as plain dicts."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule

from .._common.errors import ApiError
from .._common.text import shown
from .._common.values import JsonObject
from .._common.wait import Deadline
from .client import LARGEST_ANSWER, Client
from .objects import PAGE, Most, Pages, checked, parsed
from .pods import Pods
from .retry import Failure

FIELD_MANAGER = "kubegpu.tenancy"

# The API that answers whether a user may do something; it stores nothing.
REVIEWS = "authorization.k8s.io/v1"

# A list in all its pages. Kubernetes is made for 150,000 pods in a cluster, and a gigabyte holds 100,000 of 10 kB.
LIST = Most(pages=2_000, objects=200_000, size=2**30, page=LARGEST_ANSWER)
# Seconds for it: less than the five minutes for which an API server keeps the state of the first page.
LIST_SECONDS = 240.0


class Kube:
    """Verbs over one API server; errors, repetition and threads as of Client.

    What could not be read is an error, never "nothing there". In check mode nothing may call the writing verbs: modules decide
    that, so that what they predict follows the same path.

    :ivar client: the client of the server; ``pods``, what goes on in its pods.
    :ivar proxy_url: address of the proxy on the way to the server; None without one.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.pods = Pods(client)
        self.proxy_url = client.proxy_url

    @classmethod
    def connect(cls, module: AnsibleK8SModule | None = None, deadline: Deadline | None = None, **auth: t.Any) -> Kube:
        """Connect to a server; arguments and errors as of ``Client.connect``."""
        return cls(Client.connect(module, deadline, **auth))

    def within(self, deadline: Deadline) -> Kube:
        """Return an adapter to the same server for a change with another deadline."""
        return Kube(self.client.within(deadline))

    def served(self, api_version: str, kind: str) -> bool:
        """Tell whether the server knows this kind."""
        return self.client.resource(api_version, kind) is not None

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> JsonObject | None:
        """Return one object, or None when it or its kind does not exist."""
        resource = self.client.resource(api_version, kind)
        if resource is None:
            return None
        try:
            return self.client.answer(f"Reading {kind} {name}", api_version, kind, resource.get, name=name, namespace=namespace)
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
        resource = self.client.resource(api_version, kind)
        if resource is None:
            return []
        what, clock = f"Listing {kind}", self.client.deadline.clock
        end = clock() + self.client.seconds(LIST_SECONDS)
        read = functools.partial(
            self.client.text,
            what,
            resource.get,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
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
        resource = self.client.require(api_version, kind)
        try:
            return self.client.answer(
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
        resource = self.client.require(definition["apiVersion"], definition["kind"])
        metadata = definition["metadata"]
        return self.client.answer(
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

    def patch(
        self, api_version: str, kind: str, name: str, body: JsonObject, namespace: str | None = None, part: str = "", **how: str
    ) -> JsonObject:
        """Merge a patch into an object, and return it; None as a value removes its key, and a list replaces a list.

        :arg body: with ``metadata.resourceVersion``, the object is changed only if it still is of that version. A caller
            that replaces a list to which others write as well (a node's taints) reads the object, patches it so, and begins
            anew on a conflict.
        :arg part: ``status`` for that alone, which a patch of the whole leaves as it is.
        :arg how: ``dry_run="All"`` stores nothing, and returns what the object would be.
        :raises TenancyError: with ``status`` 409 where the object was changed since it was of that version.
        """
        resource = self.client.require(api_version, kind)
        return self.client.answer(
            f"Changing {kind} {name}",
            api_version,
            kind,
            (resource.subresources[part] if part else resource).patch,
            body,
            # Done twice, it would meet the version that it made itself.
            repeatable="resourceVersion" not in (body.get("metadata") or {}),
            name=name,
            namespace=namespace,
            content_type="application/merge-patch+json",
            field_manager=FIELD_MANAGER,
            **how,
        )

    def delete(
        self, api_version: str, kind: str, name: str, namespace: str | None = None, grace_seconds: int | None = None
    ) -> bool:
        """Delete an object, and in the background what belongs to it; return whether there was something to delete."""
        resource = self.client.resource(api_version, kind)
        if resource is None:
            return False
        body: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            self.client.text(f"Deleting {kind} {name}", resource.delete, name=name, namespace=namespace, body=body)
        except ApiError as exc:
            if exc.status == 404:
                # An attempt before this one may have deleted it.
                return exc.attempts > 1
            raise
        return True

    def create_token(self, name: str, namespace: str, seconds: int) -> str:
        """Return a token of a service account that ends after ``seconds``."""
        resource = self.client.require("v1", "ServiceAccount").subresources["token"]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
        what = f"Asking for a token of ServiceAccount {name}"
        answer = parsed(what, self.client.text(what, resource.create, body, name=name, namespace=namespace))
        status = answer.get("status")
        token = status.get("token") if isinstance(status, dict) else None
        if not isinstance(token, str):
            raise Failure("the answer holds no token").error(what)
        return token

    def version(self) -> str:
        """Return the API server's version, such as v1.35.4; on hardened servers only authenticated callers get it."""
        what = "Reading the API server's version"
        return shown(parsed(what, self.client.request(what, "/version")).get("gitVersion"))

    def may(self, verb: str, group: str, resource: str, namespace: str = "") -> bool:
        """Tell whether the server allows a verb to whom the kubeconfig stands for. Each of the three may be ``*``, for all of them.

        :arg resource: may name a subresource, as in ``pods/log``.
        :arg namespace: empty for the whole cluster.
        """
        name, _slash, part = resource.partition("/")
        asked = {"verb": verb, "group": group, "resource": name, "subresource": part, "namespace": namespace}
        body = {"apiVersion": REVIEWS, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
        what = f"Asking for the right to {verb} {resource}"
        answer = parsed(what, self.client.request(what, f"/apis/{REVIEWS}/selfsubjectaccessreviews", method="POST", body=body))
        status = answer.get("status")
        return isinstance(status, dict) and status.get("allowed") is True
