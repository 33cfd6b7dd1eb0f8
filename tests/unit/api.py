# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server in memory, with the verbs of the Kubernetes adapter; tests/contract holds it against a real one.

What it leaves out: it fills in no defaults, checks no schemas, runs no controllers (a Namespace gets no default
ServiceAccount, a Deployment no pods: a test adds what it needs with ``react``), and replaces every list that is applied,
where a real server merges lists whose items have keys.
"""

from __future__ import annotations

import base64
import copy
import datetime
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.pods import Ended
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import CILIUM

Object = dict[str, Any]
Key = tuple[str, str, "str | None", str]
Path = tuple[str, ...]

# What only the server sets.
SERVERS_OWN = ("uid", "creationTimestamp", "deletionTimestamp", "generation", "managedFields", "resourceVersion")

# Kinds with a spec whose generation a real server does not count.
NO_GENERATION = {"Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod", "ResourceQuota", "Service"}

IDENTITY: set[Path] = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}


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
    """Tell whether labels satisfy a selector: equalities, sets, and keys that have to exist or must not."""
    return all(_matches(term, labels) for term in _terms(selector or ""))


def _matches(term: str, labels: dict[str, str]) -> bool:
    if found := re.fullmatch(r"(\S+)\s+(in|notin)\s+\((.*)\)", term):
        key, operator, values = found.groups()
        return (labels.get(key) in [value.strip() for value in values.split(",")]) == (operator == "in")
    if found := re.fullmatch(r"(.*?)\s*(!=|==|=)\s*(.*)", term):
        key, operator, value = found.groups()
        return (labels.get(key) == value) == (operator != "!=")
    return term[1:] not in labels if term.startswith("!") else term in labels


def _terms(selector: str) -> list[str]:
    terms, depth = [""], 0
    for letter in selector:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            terms.append("")
        else:
            terms[-1] += letter
    return [term.strip() for term in terms if term.strip()]


def _leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from _leaves(below, (*path, key))
    else:
        yield path


def _at(item: Any, path: Path) -> Any:
    for key in path:
        item = item.get(key) if isinstance(item, dict) else None
    return item


def _without(item: Object, path: Path) -> Object:
    """Remove what is at a path, and the mappings that are empty then."""
    if path[0] not in item:
        return item
    rest = {key: value for key, value in item.items() if key != path[0]}
    below = _without(item[path[0]], path[1:]) if len(path) > 1 and isinstance(item[path[0]], dict) else {}
    return rest | ({path[0]: below} if below else {})


def written_by(item: Object, manager: str, time: str, *paths: Path) -> Object:
    """Return an object whose fields at these paths a manager wrote last, as a real server notes it; the one in memory does not."""
    fields: Object = {}
    for path in paths:
        below = fields
        for key in path:
            below = below.setdefault(f"f:{key}", {})
    entry = {"manager": manager, "operation": "Update", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields}
    noted = [*item["metadata"].get("managedFields", []), entry]
    return item | {"metadata": item["metadata"] | {"managedFields": noted}}


class InMemoryApi:
    """Objects by kind, namespace and name. Threads may share it.

    :arg objects: the objects that are there from the start.
    :arg unserved: pairs of API version and kind that this server does not know.
    :ivar proxy_url: as of the adapter.
    :ivar tokens: the tokens that it issued, JSON Web Tokens without a valid signature.
    :arg strict: whether a namespace has to exist before something can be created in it, as on a real server.
    :ivar writes: (verb, kind, name) of every write, in order; ``reads`` alike.
    :ivar denied: what it allows no user: pairs of verb and resource.
    :ivar pod_logs: by the name of the pod; a pod without an entry has written nothing yet.
    :ivar commands: is called with the pod, a command, what takes its output, and its input, and returns how it ended; None where none can run.
    :ivar pod_metrics: alike; a pod without an entry does not answer. ``pod_files``: of each pod one file; without one, it has no such file.
    """

    def __init__(
        self,
        objects: Iterable[Object] = (),
        unserved: Iterable[tuple[str, str]] = (),
        version: str = "v1.35.4",
        proxy_url: str | None = None,
        strict: bool = False,
    ) -> None:
        self.proxy_url = proxy_url
        self.objects: dict[Key, Object] = {}
        # No cluster has all of these.
        self.unserved = {CILIUM, *unserved}
        self.strict = strict
        self.writes: list[tuple[str, str, str]] = []
        self.reads: list[tuple[str, str, str | None]] = []
        self.pod_logs: dict[str, str] = {}
        self.pod_metrics: dict[str, str] = {}
        self.pod_files: dict[str, str] = {}
        self.commands: Callable[[str, list[str], Callable[[str], object], Iterable[str]], Ended] | None = None
        self.tokens: list[str] = []
        self._version = version
        self.denied: set[tuple[str, str]] = set()
        self._counter = itertools.count(1)
        self._reactions: list[tuple[str, str, Callable[[Object], object]]] = []
        self._failures: list[tuple[str, str, TenancyError]] = []
        self._applied: dict[Key, set[Path]] = {}
        self._lock = threading.RLock()
        for item in objects:
            self.put(item)

    # --- for tests ---

    def put(self, item: Object) -> Object:
        """Have an object as it is given, without it counting as a write of the code under test."""
        stored = copy.deepcopy(item)
        metadata = stored.setdefault("metadata", {})
        metadata["resourceVersion"] = str(next(self._counter))
        metadata.setdefault("uid", f"uid-{metadata['resourceVersion']}")
        metadata.setdefault("creationTimestamp", _now())
        if "spec" in stored and stored["kind"] not in NO_GENERATION:
            metadata.setdefault("generation", 1)
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
            self._applied.pop(self._key(found), None)
        if kind == "Namespace":
            self.objects = {key: item for key, item in self.objects.items() if key[2] != name}
            self._applied = {key: paths for key, paths in self._applied.items() if key[2] != name}

    def react(self, verb: str, kind: str, reaction: Callable[[Object], object]) -> None:
        """Call ``reaction`` with the object after each such write, as a controller would see it; it may raise TenancyError."""
        self._reactions.append((verb, kind, reaction))

    def add_account(self, namespace: Object) -> None:
        """Give a namespace its service account, as a reaction to its creation: what a controller does on a real cluster."""
        metadata = {"name": "default", "namespace": namespace["metadata"]["name"]}
        self.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})

    def fail(self, verb: str, kind: str, error: TenancyError, times: int = 1) -> None:
        """Answer the next such calls, reading ones too (get, list, logs), with an error and do nothing else."""
        self._failures += [(verb, kind, error)] * times

    # --- how it works ---

    @staticmethod
    def _key(item: Object) -> Key:
        metadata = item["metadata"]
        return item["apiVersion"], item["kind"], metadata.get("namespace"), metadata["name"]

    def _find(self, api_version: str, kind: str, name: str, namespace: str | None) -> Object | None:
        return self.objects.get((api_version, kind, namespace, name)) if self.served(api_version, kind) else None

    def _enter(self, verb: str, kind: str) -> None:
        for failure in self._failures:
            if failure[:2] == (verb, kind):
                self._failures.remove(failure)
                raise failure[2]

    def _wrote(self, verb: str, item: Object) -> Object:
        self.writes.append((verb, item["kind"], item["metadata"]["name"]))
        for wanted, kind, reaction in self._reactions:
            if (wanted, kind) == (verb, item["kind"]):
                reaction(copy.deepcopy(item))
        return copy.deepcopy(item)

    def _require_kind(self, api_version: str, kind: str) -> None:
        if not self.served(api_version, kind):
            raise ApiError(f"The API server has no {kind} in {api_version}: is its CRD installed?", status=404)

    def _require(self, what: str, api_version: str, kind: str, name: str, namespace: str | None) -> Object:
        self._require_kind(api_version, kind)
        found = self._find(api_version, kind, name, namespace)
        if found is None:
            raise ApiError(f"{what} {kind} {name} failed: not found", status=404)
        return found

    def _store(self, before: Object, after: Object) -> Object:
        """Keep what a write made of an object; only a change gives it a new version."""
        after = copy.deepcopy(after)
        for key in SERVERS_OWN:
            after["metadata"].pop(key, None)
        after["metadata"] |= {key: before["metadata"][key] for key in SERVERS_OWN if key in before["metadata"]}
        if after == before:
            return copy.deepcopy(before)
        if "generation" in before["metadata"] and after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] += 1
        stored = self.put(after)
        if "deletionTimestamp" in stored["metadata"] and not stored["metadata"].get("finalizers"):
            self._remove(stored)
        return stored

    def _remove(self, item: Object) -> None:
        """Have an object no more, and its namespace neither if that only waited for it."""
        key = self._key(item)
        self.objects.pop(key, None)
        self._applied.pop(key, None)
        home = self.objects.get(("v1", "Namespace", None, key[2] or ""))
        if home is not None and "deletionTimestamp" in home["metadata"] and not any(other[2] == key[2] for other in self.objects):
            del self.objects[self._key(home)]

    def _end(self, item: Object) -> None:
        """Delete as a server does: what has finalizers stays until they are gone, a namespace until it is empty."""
        name = item["metadata"]["name"]
        inside = [other for key, other in self.objects.items() if item["kind"] == "Namespace" and key[2] == name]
        if item["metadata"].get("finalizers") or inside:
            item["metadata"].setdefault("deletionTimestamp", _now())
            item["metadata"]["resourceVersion"] = str(next(self._counter))
            if item["kind"] == "Namespace":
                item["status"] = item.get("status", {}) | {"phase": "Terminating"}
            for other in inside:
                self._end(other)
        else:
            self._remove(item)

    # --- the adapter's verbs ---

    @property
    def pods(self) -> InMemoryApi:
        """What goes on in pods, by the verbs at the end."""
        return self

    def served(self, api_version: str, kind: str) -> bool:
        return (api_version, kind) not in self.unserved

    def version(self) -> str:
        return self._version

    def may(self, verb: str, group: str, resource: str, namespace: str = "") -> bool:
        with self._lock:
            self.reads.append(("may", verb, resource))
            self._enter("may", "SelfSubjectAccessReview")
            return not any(verb in ("*", refused) and resource in ("*", denied) for refused, denied in self.denied)

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        with self._lock:
            self.reads.append(("get", kind, name))
            self._enter("get", kind)
            return copy.deepcopy(self._find(api_version, kind, name, namespace))

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[Object]:
        with self._lock:
            self.reads.append(("list", kind, namespace))
            self._enter("list", kind)
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
        with self._lock:
            kind = definition["kind"]
            self._enter("create", kind)
            self._require_kind(definition["apiVersion"], kind)
            definition = copy.deepcopy(definition)
            metadata = definition["metadata"]
            for key in SERVERS_OWN:
                metadata.pop(key, None)
            if not metadata.get("name"):
                metadata["name"] = f"{metadata['generateName']}{next(self._counter)}"
            self._welcome(f"Creating {kind} {metadata['name']} failed", metadata.get("namespace"))
            if self._key(definition) in self.objects:
                raise ApiError(f"Creating {kind} {metadata['name']} failed: it already exists", status=409)
            stored = self.put(definition)
        return self._wrote("create", stored)

    def _welcome(self, what: str, namespace: str | None) -> None:
        home = self.objects.get(("v1", "Namespace", None, namespace)) if namespace else None
        if home is not None and "deletionTimestamp" in home["metadata"]:
            raise ApiError(f"{what}: namespace {namespace} is being terminated", status=403)
        if self.strict and namespace and home is None:
            raise ApiError(f"{what}: namespace {namespace} not found", status=404)

    def apply(self, definition: Object) -> Object:
        api_version, kind, metadata = definition["apiVersion"], definition["kind"], definition["metadata"]
        with self._lock:
            self._enter("apply", kind)
            self._require_kind(api_version, kind)
            key, leaves = self._key(definition), set(_leaves(definition)) - IDENTITY
            existing = self.objects.get(key)
            if existing is None:
                self._welcome(f"Applying {kind} {metadata['name']} failed", metadata.get("namespace"))
                stored = self.put(definition)
            else:
                self._unchanged_since(metadata, existing, f"Applying {kind} {metadata['name']}")
                kept = copy.deepcopy(existing)
                for path in self._applied.get(key, set()) - leaves:
                    kept = _without(kept, path)
                stored = self._store(existing, merged(kept, self._as_stored(definition)))
            self._applied[key] = leaves
        return self._wrote("apply", stored)

    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        body: Object,
        namespace: str | None = None,
        part: str = "",
        dry_run: str = "",
    ) -> Object:
        with self._lock:
            self._enter("patch", kind)
            existing = self._require("Changing", api_version, kind, name, namespace)
            self._unchanged_since(body.get("metadata") or {}, existing, f"Changing {kind} {name}")
            before = copy.deepcopy(existing)
            if dry_run:
                return merged(before, self._as_stored(body | {"kind": kind}))
            stored = self._store(existing, merged(existing, self._as_stored(body | {"kind": kind})))
            # What another writer changes is no longer owned by the writer that applied it.
            owned = self._applied.get(self._key(before), set())
            owned -= {path for path in owned if _at(before, path) != _at(stored, path)}
        return self._wrote("patch", stored)

    @staticmethod
    def _unchanged_since(metadata: Object, existing: Object, what: str) -> None:
        if metadata.get("resourceVersion") not in (None, existing["metadata"]["resourceVersion"]):
            raise ApiError(f"{what} failed: the object has been modified", status=409)

    @staticmethod
    def _as_stored(body: Object) -> Object:
        """Return a Secret's texts as the server keeps them."""
        if body["kind"] != "Secret" or "stringData" not in body:
            return body
        texts = {key: base64.b64encode(text.encode()).decode() for key, text in body["stringData"].items()}
        return {key: value for key, value in body.items() if key != "stringData"} | {"data": (body.get("data") or {}) | texts}

    def delete(
        self, api_version: str, kind: str, name: str, namespace: str | None = None, grace_seconds: int | None = None
    ) -> bool:
        with self._lock:
            self._enter("delete", kind)
            existing = self._find(api_version, kind, name, namespace)
            if existing is None:
                return False
            self._end(existing)
        self._wrote("delete", existing)
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
        lines: int | None = 20,
        previous: bool = False,
        seconds: int | None = None,
    ) -> str:
        self._enter("logs", "Pod")
        self._require("Reading the log of", "v1", "Pod", name, namespace)
        return "\n".join(self.pod_logs.get(name, "").splitlines()[-(lines or 0) :])

    def metrics(self, pod: str, namespace: str, port: int) -> str:
        self._enter("metrics", "Pod")
        self._require("Reading the metrics of", "v1", "Pod", pod, namespace)
        if pod not in self.pod_metrics:
            raise ApiError(f"Reading the metrics of Pod {pod}: error trying to reach service", status=503)
        return self.pod_metrics[pod]

    def read_file(self, pod: str, namespace: str, container: str, path: str) -> str:
        self._enter("read_file", "Pod")
        self._require(f"Reading {path} in", "v1", "Pod", pod, namespace)
        if pod not in self.pod_files:
            raise ApiError(f"Reading {path} in Pod {pod} failed: command terminated with exit code 1", status=None)
        return self.pod_files[pod]

    def execute(
        self,
        what: str,
        pod: str,
        namespace: str,
        container: str,
        command: list[str],
        seconds: float,
        write: Callable[[str], object] | None = None,
        stdin: Iterable[str] = (),
    ) -> Ended:
        self._enter("execute", "Pod")
        self._require(f"{what} in", "v1", "Pod", pod, namespace)
        return self.commands(pod, command, write or (lambda piece: None), stdin)


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _fields_match(selector: str | None, item: Object) -> bool:
    for term in _terms(selector or ""):
        path, operator, wanted = re.fullmatch(r"(.*?)(!=|==|=)(.*)", term).groups()
        value = _at(item, tuple(path.split(".")))
        if (str("" if value is None else value) == wanted) != (operator != "!="):
            return False
    return True
