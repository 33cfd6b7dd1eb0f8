# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server in memory, with the verbs of the Kubernetes adapter; tests/contract holds it against a real one."""

from __future__ import annotations

import base64
import copy
import datetime
import itertools
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

Object = dict[str, Any]
Key = tuple[str, str, str | None, str]


def merged(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def matches(selector: str | None, labels: dict[str, str]) -> bool:
    """Whether labels satisfy a selector of equalities, of ``key in (a, b)`` and of keys that have to exist."""
    for term in _terms(selector or ""):
        if " in (" in term:
            key, _in, values = term.partition(" in (")
            if labels.get(key.strip()) not in [value.strip() for value in values.rstrip(")").split(",")]:
                return False
        elif "=" in term:
            key, _equals, value = term.partition("=")
            if labels.get(key.strip()) != value.lstrip("=").strip():
                return False
        elif term not in labels:
            return False
    return True


def _terms(selector: str) -> list[str]:
    terms, depth = [""], 0
    for letter in selector:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            terms.append("")
        else:
            terms[-1] += letter
    return [term.strip() for term in terms if term.strip()]


class InMemoryApi:
    """Objects by kind, namespace and name.

    :arg objects: those that are there from the start.
    :arg unserved: pairs of API version and kind that this server does not know.
    :ivar proxy_url: as of the adapter.
    :ivar tokens: those that it issued, JSON Web Tokens without a valid signature.
    :ivar writes: (verb, kind, name) of every write, in order; ``reads`` alike.
    """

    def __init__(
        self,
        objects: Iterable[Object] = (),
        unserved: Iterable[tuple[str, str]] = (),
        version: str = "v1.35.4",
        proxy_url: str | None = None,
    ) -> None:
        self.proxy_url = proxy_url
        self.objects: dict[Key, Object] = {}
        self.unserved = set(unserved)
        self.writes: list[tuple[str, str, str]] = []
        self.reads: list[tuple[str, str, str | None]] = []
        self.pod_logs: dict[str, str] = {}
        self.tokens: list[str] = []
        self._version = version
        self._counter = itertools.count(1)
        self._reactions: list[tuple[str, str, Callable[[Object], object]]] = []
        for item in objects:
            self.put(item)

    # --- for tests ---

    def put(self, item: Object) -> Object:
        """Have an object, without it counting as a write of the code under test."""
        stored = copy.deepcopy(item)
        metadata = stored.setdefault("metadata", {})
        metadata["resourceVersion"] = str(next(self._counter))
        metadata.setdefault("uid", f"uid-{metadata['resourceVersion']}")
        metadata.setdefault("creationTimestamp", datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        if stored.get("kind") == "Secret" and "stringData" in stored:
            texts = stored.pop("stringData")
            stored["data"] = stored.get("data", {}) | {
                key: base64.b64encode(text.encode()).decode() for key, text in texts.items()
            }
        self.objects[self._key(stored)] = stored
        return copy.deepcopy(stored)

    def drop(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> None:
        """Have no such object, and with a namespace nothing in it."""
        found = self._find(api_version, kind, name, namespace)
        if found is not None:
            del self.objects[self._key(found)]
        if kind == "Namespace":
            self.objects = {key: item for key, item in self.objects.items() if key[2] != name}

    def react(self, verb: str, kind: str, reaction: Callable[[Object], object]) -> None:
        """Call ``reaction`` with the object after each such write, as a controller would see it; it may raise TenancyError."""
        self._reactions.append((verb, kind, reaction))

    @staticmethod
    def _key(item: Object) -> Key:
        metadata = item["metadata"]
        return item["apiVersion"], item["kind"], metadata.get("namespace"), metadata["name"]

    def _find(self, api_version: str, kind: str, name: str, namespace: str | None) -> Object | None:
        return self.objects.get((api_version, kind, namespace, name)) if self.served(api_version, kind) else None

    def _wrote(self, verb: str, item: Object) -> Object:
        self.writes.append((verb, item["kind"], item["metadata"]["name"]))
        for wanted, kind, reaction in self._reactions:
            if (wanted, kind) == (verb, item["kind"]):
                reaction(copy.deepcopy(item))
        return copy.deepcopy(item)

    def _require(self, what: str, api_version: str, kind: str, name: str, namespace: str | None) -> Object:
        if not self.served(api_version, kind):
            raise TenancyError(f"The API server has no {kind} in {api_version}: is its CRD installed?", status=404)
        found = self._find(api_version, kind, name, namespace)
        if found is None:
            raise TenancyError(f"{what} {kind} {name} failed: not found", status=404)
        return found

    # --- the adapter's verbs ---

    def served(self, api_version: str, kind: str) -> bool:
        return (api_version, kind) not in self.unserved

    def version(self) -> str:
        return self._version

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        self.reads.append(("get", kind, name))
        return copy.deepcopy(self._find(api_version, kind, name, namespace))

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[Object]:
        self.reads.append(("list", kind, namespace))
        if not self.served(api_version, kind):
            return []
        return [
            copy.deepcopy(item)
            for key, item in sorted(self.objects.items(), key=lambda entry: (entry[0][2] or "", entry[0][3]))
            if key[:2] == (api_version, kind)
            and (namespace is None or key[2] == namespace)
            and matches(label_selector, item["metadata"].get("labels") or {})
            and _fields_match(field_selector, item)
        ]

    def create(self, definition: Object) -> Object:
        definition = copy.deepcopy(definition)
        metadata = definition["metadata"]
        if "name" not in metadata:
            metadata["name"] = f"{metadata.pop('generateName')}{next(self._counter)}"
        name, kind = metadata["name"], definition["kind"]
        if not self.served(definition["apiVersion"], kind):
            raise TenancyError(f"The API server has no {kind} in {definition['apiVersion']}: is its CRD installed?", status=404)
        if self._key(definition) in self.objects:
            raise TenancyError(f"Creating {kind} {name} failed: it already exists", status=409)
        namespace = metadata.get("namespace")
        home = self.objects.get(("v1", "Namespace", None, namespace)) if namespace else None
        if home is not None and "deletionTimestamp" in home["metadata"]:
            raise TenancyError(f"Creating {kind} {name} failed: namespace {namespace} is being terminated", status=403)
        return self._wrote("create", self.put(definition))

    def apply(self, definition: Object) -> Object:
        metadata = definition["metadata"]
        found = self._find(definition["apiVersion"], definition["kind"], metadata["name"], metadata.get("namespace"))
        return self._wrote("apply", self.put(merged(found or {}, definition)))

    def patch(self, api_version: str, kind: str, name: str, body: Object, namespace: str | None = None) -> Object:
        found = self._require("Changing", api_version, kind, name, namespace)
        expected = (body.get("metadata") or {}).get("resourceVersion")
        if expected not in (None, found["metadata"]["resourceVersion"]):
            raise TenancyError(f"Changing {kind} {name} failed: it was changed meanwhile", status=409)
        return self._wrote("patch", self.put(merged(found, body)))

    def delete(
        self, api_version: str, kind: str, name: str, namespace: str | None = None, grace_seconds: int | None = None
    ) -> bool:
        found = self._find(api_version, kind, name, namespace)
        if found is None:
            return False
        if found["metadata"].get("finalizers"):
            found["metadata"]["deletionTimestamp"] = "2026-11-22T12:00:00Z"
        else:
            self.drop(api_version, kind, name, namespace)
        self._wrote("delete", found)
        return True

    def create_token(self, name: str, namespace: str, seconds: int) -> str:
        self._require("Asking for a token of", "v1", "ServiceAccount", name, namespace)
        now = int(time.time())
        claims = {"sub": f"system:serviceaccount:{namespace}:{name}", "iat": now, "exp": now + seconds, "jti": len(self.tokens)}
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        self.tokens.append(f"e30.{payload}.signature")
        self.writes.append(("token", "ServiceAccount", name))
        return self.tokens[-1]

    def logs(
        self,
        name: str,
        namespace: str,
        container: str | None = None,
        lines: int = 20,
        previous: bool = False,
        seconds: int | None = None,
    ) -> str:
        self._require("Reading the log of", "v1", "Pod", name, namespace)
        return "\n".join(self.pod_logs.get(name, "").splitlines()[-lines:])


def _fields_match(selector: str | None, item: Object) -> bool:
    for term in (selector or "").split(","):
        path, _equals, wanted = term.partition("=")
        value: Any = item
        for key in path.split(".") if path else ():
            value = value.get(key, "") if isinstance(value, dict) else ""
        if path and str(value) != wanted.lstrip("="):
            return False
    return True
