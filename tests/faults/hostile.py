# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the administrator of a tenant tries against the operator's run, and what keeps it from others.

An attempt leaves something behind that the operator's programs read: on the host cluster, where vCluster's syncer brings it with the
labels, annotations and content that the tenant gave it, or in the tenant's own API. Whether that reaches them stands in the order of the
profiles. It was seen; a change of it has to be understood, and then written here.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import gzip
import http.server
import itertools
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import (
    FRACTION_NOTE,
    GPU_GROUP_LABEL,
    GPU_RESOURCE,
    KAI_NAMESPACE,
    KAI_SCHEDULERS,
    QUEUE_API_VERSION,
    QUEUE_KIND,
    QUEUE_LABEL,
    RESERVATION_APP,
    RESERVED_GPU_NOTE,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._metrics.facts import KAI, LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.facts import RECORD_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import DEFAULT_VERSION
from ansible_collections.kubegpu.tenancy.tests.faults.attacks import HARMLESS, HTTPS, IMAGE, Attacker, Outcome

# Where the tenants that attack stand in what follows: their names, and what they are.
PROFILES = {
    "own-kai": "`high`, with a KAI Scheduler of its own",
    "high": "`high`",
    "partial": "`partial`",
    "zero": "`zero`",
    "beside": "`partial`, on shared nodes and by a shared KAI Scheduler",
}
HELD, STOPPED = "held", "stopped"

# Has the syncer bring a Secret or ConfigMap to the host cluster, although no pod names it.
FORCED = {"vcluster.loft.sh/force-sync": "true"}
# Label by which an API server keeps the APIServices of CRDs as they are.
AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
# Deeper than the stack of any parser that recurses.
DEEP = "[" * 100_000
# Clears a terminal, begins a line of its own, and holds a character that YAML does not print.
TEXT = "a\x1b[2J\x1b[1;1H\n\nPLAY RECAP ***\nlab : ok=99 failed=0 \U0001f600"
# What a list, a chart's record or an answer unpacks to, in bytes.
UNPACKED = 200 * 2**20
# Pods that wait, more than anybody reads by hand, and less than the quota of the profiles that have one.
CROWD = 100
CHAIN = 1_500
# Seconds within which all nodes know of endpoints.
NODES_KNOW = 5
NAMESPACES = 30


class Hostile(Attacker):
    """The administrator of a tenant who means the operator.

    :ivar prey: UUID of a GPU that another tenant has.
    :ivar liar: a server of its own.
    :ivar shares: whether the host cluster's KAI Scheduler places its pods.
    """

    prey = ""
    liar: Liar
    shares = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._made: list[tuple[str, str, str, str | None]] = []

    def make(self, kind: str, name: str, namespace: str | None = "default", api: str = "v1", **fields: Any) -> None:
        """Make an object, and its namespace where it is to be in one that is not there.

        :arg fields: ``labels`` and ``notes``, which are its annotations, are metadata.
        """
        if namespace not in (None, "default") and self.kube.get("v1", "Namespace", str(namespace)) is None:
            self.make("Namespace", str(namespace), None)
        metadata = {"name": name, "labels": fields.pop("labels", {}), "annotations": fields.pop("notes", {})}
        metadata |= {"namespace": namespace} if namespace else {}
        self._made.append((api, kind, name, namespace))
        self.kube.create({"apiVersion": api, "kind": kind, "metadata": metadata | fields.pop("metadata", {}), **fields})

    def take(self, kind: str, name: str, api: str, **fields: Any) -> None:
        """Make an object outside of namespaces, or change the one that its API server made, which that makes again once it is gone."""
        if self.kube.get(api, kind, name) is None:
            self.make(kind, name, None, api, **fields)
            return
        self._made.append((api, kind, name, None))
        self.kube.patch(api, kind, name, {"metadata": {"labels": {AUTOMANAGED: None}}} | fields)

    def secret(self, name: str, **fields: Any) -> Outcome:
        """Have a Secret on the host cluster."""
        self.make("Secret", name, notes=FORCED, **fields)
        return self.synced("Secret", name)

    def pod(
        self, name: str, gpus: int = 0, namespace: str = "default", spec: dict[str, Any] | None = None, **fields: Any
    ) -> Outcome:
        """Have a pod that runs on, or waits, where the operator reads pods.

        :arg spec: replaces what is harmless; ``container`` and ``image`` among the fields, what is in its container.
        """
        (harmless,) = HARMLESS["containers"]
        limits = harmless["resources"]["limits"] | ({GPU_RESOURCE: str(gpus)} if gpus else {})
        container = harmless | {"command": ["sleep", "86400"], "image": fields.pop("image", IMAGE)}
        container |= {"resources": {"limits": limits}} | fields.pop("container", {})
        if self.shares:
            fields["labels"] = {QUEUE_LABEL: self.name} | fields.get("labels", {})
        scheduler = {"schedulerName": "kai-scheduler"} if self.shares and gpus else {}
        self.make("Pod", name, namespace, spec=HARMLESS | scheduler | {"containers": [container]} | (spec or {}), **fields)
        return self.synced("Pod", name, namespace)

    def synced(self, kind: str, name: str, namespace: str = "default", seconds: float = 30) -> Outcome:
        """Tell whether an object comes to the host cluster.

        A pod that a scheduler of the tenant's own finds no node for does not, and is read in the tenant.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.host.get("v1", kind, f"{name}-x-{namespace}-x-{self.name}", self.namespace):
                return True, "on the host cluster"
            if refused := self.refusal(name):
                return False, refused
            pod = self.kube.get("v1", kind, name, namespace) or {}
            if any(one.get("reason") == "Unschedulable" for one in pod.get("status", {}).get("conditions") or []):
                return True, "in the tenant"
            time.sleep(0.5)
        return False, "it never came to the host cluster"

    def undo(self) -> None:
        """Remove all that it made, and wait until the host cluster has nothing of it."""
        names = {name for _api, _kind, name, _namespace in self._made}
        for api, kind, name, namespace in reversed(self._made):
            # What its API server cannot be asked for any more is not there either.
            if self.kube.get(api, kind, name, namespace):
                self.kube.patch(api, kind, name, {"metadata": {"finalizers": None}}, namespace)
                self.kube.delete(api, kind, name, namespace, grace_seconds=0)
        self._made.clear()
        deadline = time.monotonic() + 120
        while left := self._left(names):
            assert time.monotonic() < deadline, left
            time.sleep(1)

    def _left(self, names: set[str]) -> list[str]:
        kinds = ("Pod", "Secret", "ConfigMap", "Service", "PersistentVolumeClaim")
        found = [item["metadata"]["name"] for kind in kinds for item in self.host.list("v1", kind, self.namespace)]
        return [name for name in found if name.partition("-x-")[0] in names and name.endswith(f"-x-{self.name}")]


# --- a server of the tenant's own --------------------------------------------------------------------------------

# What it answers to a path: pieces of a body, and whether they are packed.
Lie = Callable[[str], tuple[Iterable[bytes], bool]]
# The groups of KAI Scheduler's queues, and of what uses them.
GROUPS = ("v2", "v2alpha2")


class Liar:
    """A server behind an APIService and a webhook of a tenant.

    A tenant runs it anywhere that its control plane reaches. The lab has no image with such a server, so that it runs beside the test.

    :ivar address: by which pods of the lab reach it.
    :ivar lie: what it answers to lists; what it serves otherwise is right. None: it has nothing.
    """

    def __init__(self, folder: Path, address: str) -> None:
        self.address = address
        self.lie: Lie | None = None
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=liar", "-keyout", "key", "-out", "cert"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(folder / "cert", folder / "key")
        self._server = _Server((address, HTTPS), functools.partial(_Answers, self))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_args: Any) -> None:
        """Say nothing: who asks may go before the end of an answer that has none."""


class _Answers(http.server.BaseHTTPRequestHandler):
    """One answer of it."""

    timeout = 120

    def __init__(self, liar: Liar, *args: Any) -> None:
        self._liar = liar
        super().__init__(*args)

    def do_GET(self) -> None:
        path, _mark, query = self.path.partition("?")
        if self._liar.lie is None or path.count("/") < 3 or "watch=" in query:
            self.send_error(404)
        elif path.count("/") == 3:
            self._send([json.dumps(_kinds(path.rpartition("/")[2])).encode()])
        else:
            self._send(*self._liar.lie(path))

    def do_POST(self) -> None:
        """Answer a webhook never."""
        time.sleep(60)

    def _send(self, body: Iterable[bytes], packed: bool = False) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        for piece in body:
            self.wfile.write(piece)
            self.wfile.flush()

    def log_message(self, *_args: Any) -> None:
        """Keep what the tests print readable."""


def _kinds(version: str) -> dict[str, Any]:
    """Return the kinds of a version of KAI Scheduler's group, as discovery answers."""
    kinds = {"v2": ("queues", QUEUE_KIND, False), "v2alpha2": ("podgroups", "PodGroup", True)}
    name, kind, namespaced = kinds.get(version, kinds["v2"])
    served = {"name": name, "singularName": "", "kind": kind, "namespaced": namespaced, "verbs": ["get", "list"]}
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"scheduling.run.ai/{version}", "resources": [served]}


def _queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "labels": OWNED_LABELS}, "spec": spec}


def forms(path: str) -> tuple[Iterable[bytes], bool]:
    """Return queues and groups of pods of other forms than KAI Scheduler's, and amounts that are no numbers."""
    amounts = ["Infinity", "sNaN", "1e999999999", str(10**30), "abc", [], {}]
    odd = [{"metadata": {"name": "x"}, "spec": 0}, {"metadata": {"name": "y"}, "spec": {"resources": "x"}}, 7, None]
    if "podgroups" in path:
        uses = [{"allocated": {"cpu": amount, GPU_RESOURCE: amount}, "requested": "x"} for amount in amounts]
        groups = [{"metadata": {"name": "g"}, "spec": {"queue": "q0"}, "status": {"resourcesStatus": one}} for one in uses]
        return [json.dumps({"items": [*odd, *groups]}).encode()], False
    specs = [{"resources": {"gpu": {"quota": amount, "limit": amount}}, "parentQueue": []} for amount in amounts]
    return [json.dumps({"items": [*odd, *(_queue(f"q{n}", **spec) for n, spec in enumerate(specs))]}).encode()], False


def deep(_path: str) -> tuple[Iterable[bytes], bool]:
    """Return what is nested deeper than a parser recurses."""
    return [f'{{"items": {DEEP}'.encode()], False


def chain(_path: str) -> tuple[Iterable[bytes], bool]:
    """Return queues of which each has the one before as its parent."""
    items = [_queue(f"q{number}", parentQueue=f"q{number - 1}" if number else "", resources={}) for number in range(CHAIN)]
    return [json.dumps({"metadata": {}, "items": items}).encode()], False


def pages(_path: str) -> tuple[Iterable[bytes], bool]:
    """Return a page that says that there are more."""
    return [json.dumps({"metadata": {"continue": "more"}, "items": [_queue("q")]}).encode()], False


def drip(_path: str) -> tuple[Iterable[bytes], bool]:
    """Return a byte a second."""

    def blanks() -> Iterator[bytes]:
        while True:
            yield b" "
            time.sleep(1)

    return blanks(), False


def bomb(_path: str) -> tuple[Iterable[bytes], bool]:
    """Return what unpacks to a thousand times as much."""
    return [gzip.compress(b'{"items": [' + b" " * UNPACKED + b"]}", 9)], True


# --- attempts ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Attack:
    """An attempt.

    :ivar does: what it does, in a sentence.
    :ivar by: what keeps it from others.
    :ivar reaches: whether it comes where the operator's programs read, in the order of the profiles.
    :ivar group: attempts of one group are there at once, in their order.
    :ivar own: whether it may change what is said of the tenant itself, beside its pods and GPUs.
    """

    does: str
    by: str
    reaches: tuple[str, ...]
    group: str
    own: bool
    attempt: Callable[[Hostile], Outcome]

    def try_as(self, attacker: Hostile) -> Outcome:
        """Try it; return whether it came where the operator's programs read, and why it did not."""
        try:
            return self.attempt(attacker)
        except TenancyError as exc:
            return False, exc.message


# On the host cluster; in the tenant's own API.
SYNCED, SERVED = "objects", "answers"
HOSTILE: list[Attack] = []
Attempt = Callable[[Hostile], Outcome]


def attack(group: str, by: str, reaches: str, own: bool = False) -> Callable[[Attempt], Attempt]:
    """Register an attempt, whose docstring says what it does; ``reaches`` are words, ``held`` or ``stopped``."""

    def register(attempt: Attempt) -> Attempt:
        HOSTILE.append(Attack(str(attempt.__doc__).rstrip("."), by, tuple(reaches.split()), group, own, attempt))
        return attempt

    return register


ALL = "held held held held held"


def first_failure(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the first of several outcomes that is none, or the last."""
    outcome = True, ""
    for outcome in outcomes:
        if not outcome[0]:
            break
    return outcome


@attack(SYNCED, "one reader of amounts, which knows `1k`", "held held held held stopped")
def a_pod_with_a_thousand_gpus(attacker: Hostile) -> Outcome:
    """A pod that asks for 1,000 GPUs, which the API server returns as `1k`."""
    return attacker.pod("thousand", 1000)


@attack(SYNCED, "objects of a syncer are no configurations; each is read by itself, within a size and a depth", ALL)
def configurations_of_virtual_clusters(attacker: Hostile) -> Outcome:
    """Secrets that pass for configurations of virtual clusters: no YAML, 100,000 deep, with all nodes, with a quota that is no number."""
    nodes = {"sync": {"fromHost": {"nodes": {"enabled": True, "selector": {"all": True}}}}}
    own = {"controlPlane": {"distro": {"k8s": {"scheduler": {"enabled": True}}}}}
    quota = {"policies": {"resourceQuota": {"enabled": True, "quota": {f"requests.{GPU_RESOURCE}": "lots"}}}}
    contents = ["{", DEEP, json.dumps(nodes | own), json.dumps(nodes | quota), json.dumps(nodes | {"policies": []})]
    return first_failure(
        attacker.secret(f"vc-config-{number}", labels={"app": "vcluster"}, stringData={"config.yaml": content})
        for number, content in enumerate(contents)
    )


@attack(SYNCED, "the record by its name, and of no syncer", ALL)
def records_of_verifications(attacker: Hostile) -> Outcome:
    """ConfigMaps that pass for the record of its verification: of another state, 100,000 deep, of the year 1."""
    record = {"at": "2026-11-24T00:00:00Z", "wanted": "x", "fingerprint": "y", "results": "[]"}
    for number, change in enumerate(({}, {"results": DEEP}, {"at": "0001-01-01T00:00:00Z"})):
        attacker.make("ConfigMap", f"a{number}", labels={RECORD_LABEL: "verified"}, notes=FORCED, data=record | change)
    return first_failure(attacker.synced("ConfigMap", f"a{number}") for number in range(3))


@attack(SYNCED, "reservations only where KAI Scheduler keeps them; parts of a GPU from 0 to 1", "held held held held stopped")
def reservations_and_parts(attacker: Hostile) -> Outcome:
    """A pod with a GPU that passes for a reservation, and pods with parts of it: -1, NaN, infinite, without an end."""
    group = {GPU_GROUP_LABEL: "g"}
    outcomes = [attacker.pod("reservation", 1, labels=group | {"app": RESERVATION_APP})]
    for number, part in enumerate(("0.001", "-1", "NaN", "sNaN", "inf", "1e999999999")):
        outcomes.append(attacker.pod(f"part-{number}", labels=group, notes={FRACTION_NOTE: part}))
    return first_failure(outcomes)


@attack(SYNCED, "what a pod has, by kubelet; its name, by the syncer", ALL)
def anothers_device_and_name(attacker: Hostile) -> Outcome:
    """A pod without GPUs that says it holds another tenant's device, under the name of that tenant's pod."""
    notes = {RESERVED_GPU_NOTE: attacker.prey, "vcluster.loft.sh/namespace": "default", "vcluster.loft.sh/name": "holds"}
    notes["vcluster.loft.sh/owner-references"] = DEEP[:1000]
    return attacker.pod("thief", notes=notes)


@attack(SYNCED, "Kubernetes' own sum for a pod", "held held held held held")
def a_sidecar_with_gpus(attacker: Hostile) -> Outcome:
    """A pod whose sidecar has as many GPUs as its container."""
    (harmless,) = HARMLESS["containers"]
    limits = harmless["resources"]["limits"] | {GPU_RESOURCE: "1"}
    sidecar = harmless | {
        "name": "sidecar",
        "command": ["sleep", "86400"],
        "restartPolicy": "Always",
        "resources": {"limits": limits},
    }
    return attacker.pod("sidecar", 1, spec={"initContainers": [sidecar]})


@attack(
    SYNCED,
    "the host cluster's KAI Scheduler keeps to namespaces with a label; a policy of the API server to queues",
    "held held held held stopped",
)
def a_pod_in_anothers_queue(attacker: Hostile) -> Outcome:
    """A pod with a GPU in another tenant's queue of the KAI Scheduler that this one does not share."""
    spec = {"schedulerName": "kai-scheduler"}
    # Its own KAI Scheduler has no such queue, and would not place it.
    if attacker.name == "own-kai":
        spec["nodeName"] = attacker.kube.list("v1", "Node")[0]["metadata"]["name"]
    return attacker.pod("foreign", 1, spec=spec, labels={QUEUE_LABEL: attacker.other.name})


@attack(SYNCED, "objects of a syncer are none of this collection's", ALL)
def objects_of_the_collection(attacker: Hostile) -> Outcome:
    """Objects with the labels of this collection: a Service by which metrics are read, a pod, a claim, a Secret."""
    labels = OWNED_LABELS | {LABEL: KAI, "kubegpu.tenancy/tenant": attacker.other.name}
    attacker.make("Service", "metrics", labels=labels, spec={"ports": [{"port": 80}], "clusterIP": "None"})
    attacker.make("PersistentVolumeClaim", f"data-{attacker.name}-0", labels=labels, spec=claim())
    outcomes = [attacker.pod("owned", labels=labels), attacker.secret("owned", labels=labels)]
    return first_failure([*outcomes, attacker.synced("Service", "metrics")])


def claim() -> dict[str, Any]:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}


@attack(SYNCED, "objects of a syncer are no control plane", ALL)
def parts_of_a_control_plane(attacker: Hostile) -> Outcome:
    """Parts of a control plane: a pod that crashes, a Service, a kubeconfig that leads to another tenant's name."""
    labels = {"app": "vcluster", "release": attacker.name, "vcluster-name": attacker.other.name, "chart": "vcluster-0.1.0"}
    attacker.make("Service", attacker.name, labels=labels, spec={"ports": [{"port": 443}]})
    config = {"clusters": [{"name": "x", "cluster": {"server": "https://203.0.113.1"}}], "users": DEEP[:10], "contexts": 0}
    outcomes = [
        attacker.pod("plane", labels=labels, container={"command": ["false"]}, spec={"restartPolicy": "Always"}),
        attacker.secret(f"vc-{attacker.other.name}", labels=labels, stringData={"config": json.dumps(config)}),
    ]
    return first_failure([*outcomes, attacker.synced("Service", attacker.name)])


@attack(SYNCED, "pages of lists, and time that grows no faster than what is read", ALL)
def a_crowd(attacker: Hostile) -> Outcome:
    """A hundred pods that wait."""
    spec = {"nodeSelector": {"nobody": "has-this"}}
    (harmless,) = HARMLESS["containers"]
    for number in range(CROWD):
        attacker.make("Pod", f"crowd-{number}", spec=HARMLESS | spec | {"containers": [harmless]})
    return attacker.synced("Pod", f"crowd-{CROWD - 1}", seconds=90)


@attack(SYNCED, "the release by what was installed", ALL)
def a_pod_that_passes_for_kai_scheduler(attacker: Hostile) -> Outcome:
    """A pod that passes for KAI Scheduler, with the tag of another release."""
    labels = {"app": KAI_SCHEDULERS[0]}
    return attacker.pod("forged", namespace=KAI_NAMESPACE, labels=labels, image="registry.invalid/scheduler:v0.1.0")


@attack(SYNCED, "one printable line of each text", ALL)
def texts_for_the_terminal(attacker: Hostile) -> Outcome:
    """Texts that clear a terminal and pass for a play recap: as an image, as the name of a pod, as a priority class's."""
    notes = {"vcluster.loft.sh/name": TEXT, "vcluster.loft.sh/namespace": TEXT}
    container = {"env": [{"name": "TEXT", "value": TEXT}]}
    return first_failure(
        [
            attacker.pod("text", notes=notes, image=f"registry.invalid/x:{TEXT}", container=container),
            attacker.pod("text", namespace=KAI_NAMESPACE, labels={"app": "scheduler"}, image=f"registry.invalid/x:{TEXT}"),
        ]
    )


@attack(SYNCED, "policy of the API server, which admits no record of Helm from a syncer", "stopped " * 5, own=True)
def records_of_helm(attacker: Hostile) -> Outcome:
    """Secrets that pass for Helm's records of its own virtual cluster: with what is another tenant's, to be deleted, and too large."""
    manifest = json.dumps(precious(attacker.other.namespace))
    outcomes = []
    for number, more in enumerate(({"manifest": manifest}, {"manifest": " " * UNPACKED})):
        data = {"release": helm_record(attacker.name, attacker.namespace, 1000 + number, **more)}
        labels = {"owner": "helm", "name": attacker.name, "status": "deployed", "version": str(1000 + number)}
        outcomes.append(attacker.secret(f"helm-{number}", labels=labels, stringData=data, type="helm.sh/release.v1"))
    if attacker.name == "own-kai":
        # So that the operator's run works on the tenant.
        attacker.kube.delete(QUEUE_API_VERSION, QUEUE_KIND, "work")
    return first_failure(outcomes)


def precious(namespace: str) -> dict[str, Any]:
    """Return an object of the host cluster that a tenant has no business with."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "precious", "namespace": namespace}}


def helm_record(name: str, namespace: str, version: int, **more: Any) -> str:
    """Return what Helm keeps of a revision of a release, which is the last one."""
    chart = {"metadata": {"name": "vcluster", "version": DEFAULT_VERSION, "apiVersion": "v2"}, "templates": [], "values": {}}
    info = {"status": "deployed", "first_deployed": "2026-01-01T00:00:00Z", "last_deployed": "2026-01-01T00:00:00Z"}
    record = {"name": name, "namespace": namespace, "version": version, "info": info, "chart": chart, "config": {"a": "b"}}
    return base64.b64encode(gzip.compress(json.dumps(record | more).encode(), 9)).decode()


# --- in its own API ----------------------------------------------------------------------------------------------


@attack(SERVED, "a record that cannot be read is that tenant's; nothing unpacks it without a bound", ALL, own=True)
def a_record_of_kai_scheduler(attacker: Hostile) -> Outcome:
    """In its own cluster, Helm's record of a KAI Scheduler that is not there, too large."""
    release = helm_record(kai.RELEASE_NAME, KAI_NAMESPACE, 1000, manifest=" " * UNPACKED)
    labels = {"owner": "helm", "name": kai.RELEASE_NAME, "status": "deployed", "version": "1000"}
    name = f"sh.helm.release.v1.{kai.RELEASE_NAME}.v1000"
    attacker.make("Secret", name, KAI_NAMESPACE, labels=labels, stringData={"release": release}, type="helm.sh/release.v1")
    return True, "in the tenant"


@attack(SERVED, "events are read by what is known, and shown as one line", ALL)
def events_of_another_form(attacker: Hostile) -> Outcome:
    """In its own cluster, events without a reason or time, with texts that clear a terminal, about a pod that waits."""
    attacker.make("Pod", "waits", spec=HARMLESS | {"schedulerName": "nobody"})
    pod = attacker.kube.get("v1", "Pod", "waits", "default")
    assert pod
    about = {"kind": "Pod", "namespace": "default", "name": "waits", "uid": pod["metadata"]["uid"]}
    for number, more in enumerate(({}, {"message": TEXT * 20, "reason": "FailedScheduling", "type": "Warning"}, {"count": -1})):
        attacker.make("Event", f"odd-{number}", involvedObject=about, **more)
    return True, "in the tenant"


@attack(SERVED, "a wait has a bound, for any number of namespaces", ALL)
def namespaces_that_never_end(attacker: Hostile) -> Outcome:
    """In its own cluster, namespaces that pass for those of former schedulers, and never end."""
    for number in range(NAMESPACES):
        name = f"former-{number}"
        metadata = {"finalizers": ["example.com/never"]}
        attacker.make("Namespace", name, None, labels={"kubegpu.tenancy/scheduler": name}, metadata=metadata)
        attacker.kube.delete("v1", "Namespace", name)
    return True, "in the tenant"


def lie(attacker: Hostile, what: Lie | None) -> Outcome:
    """Answer lists of queues by a server of its own; ``what`` is None where that has nothing."""
    attacker.liar.lie = what
    if attacker.kube.get("v1", "Service", "liar", "default") is None:
        serve_lies(attacker)
    for version in GROUPS:
        # The API server looks again whether the server is there once the object changes; otherwise ever more rarely.
        note = {"metadata": {"annotations": {"example.com/lie": what.__name__ if what else "none"}}}
        attacker.kube.patch("apiregistration.k8s.io/v1", "APIService", f"{version}.scheduling.run.ai", note)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        live = attacker.kube.get("apiregistration.k8s.io/v1", "APIService", f"{GROUPS[0]}.scheduling.run.ai") or {}
        conditions = {one["type"]: one for one in live.get("status", {}).get("conditions") or []}
        available = conditions.get("Available", {}).get("status") == "True"
        if available is (what is not None) and (live.get("spec") or {}).get("service"):
            return True, "in the tenant"
        time.sleep(1)
    return False, str(conditions.get("Available", {}).get("message"))


def serve_lies(attacker: Hostile) -> None:
    """Have the groups of KAI Scheduler's queues answered by the server."""
    ports = [{"port": HTTPS}]
    attacker.make("Service", "liar", spec={"ports": ports})
    attacker.make("Endpoints", "liar", subsets=[{"addresses": [{"ip": attacker.liar.address}], "ports": ports}])
    attacker.make(
        "EndpointSlice",
        "liar",
        api="discovery.k8s.io/v1",
        labels={"kubernetes.io/service-name": "liar"},
        addressType="IPv4",
        endpoints=[{"addresses": [attacker.liar.address]}],
        ports=ports,
    )
    # The API server keeps its first connection, also where the Service led it to the tenant's control plane: until its endpoints are on the host
    # cluster, and the nodes know of them.
    attacker.synced("Endpoints", "liar")
    time.sleep(NODES_KNOW)
    for version in GROUPS:
        name = f"{version}.scheduling.run.ai"
        spec = {
            "group": "scheduling.run.ai",
            "version": version,
            "groupPriorityMinimum": 1000,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "liar", "namespace": "default", "port": HTTPS},
        }
        attacker.take("APIService", name, "apiregistration.k8s.io/v1", spec=spec)


@attack(SERVED, "what cannot be read of a tenant is that tenant's, after a few attempts", ALL, own=True)
def an_api_without_a_server(attacker: Hostile) -> Outcome:
    """An API service of its own for KAI Scheduler's queues, whose server has nothing."""
    return lie(attacker, None)


@attack(SERVED, "what has another form is left out and named, and is that tenant's alone", ALL, own=True)
def answers_of_another_form(attacker: Hostile) -> Outcome:
    """The same, whose server has queues of another form, and amounts that are no numbers."""
    return lie(attacker, forms)


@attack(SERVED, "documents have a depth", ALL, own=True)
def an_answer_nested_deep(attacker: Hostile) -> Outcome:
    """The same, with an answer that is nested 100,000 deep."""
    return lie(attacker, deep)


@attack(SERVED, "queues are read in a time that grows with their number", ALL, own=True)
def a_chain_of_queues(attacker: Hostile) -> Outcome:
    """The same, with 1,500 queues in a chain."""
    return lie(attacker, chain)


@attack(SERVED, "pages have a most, and end with the run's deadline", ALL, own=True)
def pages_without_end(attacker: Hostile) -> Outcome:
    """The same, with pages that have no end."""
    return lie(attacker, pages)


@attack(SERVED, "answers have a size, also unpacked", ALL, own=True)
def an_answer_that_unpacks(attacker: Hostile) -> Outcome:
    """The same, with an answer that unpacks to a thousand times its size."""
    return lie(attacker, bomb)


@attack(SERVED, "answers have a deadline in all, not for each byte", ALL, own=True)
def an_answer_that_drips(attacker: Hostile) -> Outcome:
    """The same, with a byte a second."""
    return lie(attacker, drip)


@attack(SERVED, "its verification fails within its time; others go on", ALL, own=True)
def a_webhook_that_never_answers(attacker: Hostile) -> Outcome:
    """A webhook for its pods, which never answers."""
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*"}]
    service = {"name": "liar", "namespace": "default", "port": HTTPS, "path": "/hook"}
    hook = {"name": "never.example.com", "rules": rules, "clientConfig": {"service": service}, "sideEffects": "None"}
    hook |= {"timeoutSeconds": 30, "failurePolicy": "Ignore", "admissionReviewVersions": ["v1"]}
    api = "admissionregistration.k8s.io/v1"
    attacker.make("MutatingWebhookConfiguration", "never", None, api=api, webhooks=[hook])
    return True, "in the tenant"


@attack(SERVED, "its verification fails with one printable line; others go on", ALL, own=True)
def a_policy_that_denies(attacker: Hostile) -> Outcome:
    """A policy of its API server that admits no namespaces and no pods, with a text that clears a terminal."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods", "namespaces"]}
    validation = {"expression": "false", "message": TEXT.replace("\n", " ")}
    api = "admissionregistration.k8s.io/v1"
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation], "failurePolicy": "Fail"}
    attacker.make("ValidatingAdmissionPolicy", "denies", None, api=api, spec=spec)
    binding = {"policyName": "denies", "validationActions": ["Deny"]}
    attacker.make("ValidatingAdmissionPolicyBinding", "denies", None, api=api, spec=binding)
    return True, "in the tenant"


def groups() -> dict[str, list[Attack]]:
    """Return the attempts by what they use, in their order."""
    return {name: list(attacks) for name, attacks in itertools.groupby(HOSTILE, key=lambda one: one.group)}
