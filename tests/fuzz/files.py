# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that others share or wrote: kubeconfigs, daemon.json, documents, logs, kubelet's notes, and evidence of earlier runs."""

from __future__ import annotations

import base64
import copy
import datetime
import functools
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm_output import error_message, violations
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubeconfig import read_kubeconfig
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common import verbatim
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import (
    DEEPEST,
    depth,
    load_documents,
    load_manifests,
    parse_json,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.kubeconfig import ENTRIES
from ansible_collections.kubegpu.tenancy.plugins.module_utils._docker_runtime.validation import parse as parse_daemon
from ansible_collections.kubegpu.tenancy.plugins.module_utils._docker_runtime.values import Undone, edit, undo
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.status import is_error, log_cause, plain_lines, without_names
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kubeconfig import plan, values
from ansible_collections.kubegpu.tenancy.plugins.module_utils._ledger.devices import assigned
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.status import last_error
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_scheduling.status import judge_logs
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.metrics import Meter
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.lifecycle import holds_credentials
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.status import failure_lines
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence import evidence
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence_junit import junit
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence_page import page
from ansible_collections.kubegpu.tenancy.tests.fuzz.cases import Part, check_line, finite, outcome
from ansible_collections.kubegpu.tenancy.tests.fuzz.inputs import ANYTHING, JSON, LEAVES, changed, cut, encoded
from ansible_collections.kubegpu.tenancy.tests.unit.hostvars import AT, two_clusters
from ansible_collections.kubegpu.tenancy.tests.unit.plugins.module_utils.docker_runtime.test_values import WANTED, documents
from hypothesis import strategies as st

Object = dict[str, Any]

# --- kubeconfigs -------------------------------------------------------------------------------------------------

_USERS: dict[str, Object] = {
    "ml": {"client-certificate-data": "Y2VydA==", "client-key-data": "a2V5"},
    "other": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "args": ["eks"], "env": None}},
    "old": {"username": "admin", "password": "12:34:56"},
}
KUBECONFIG: Object = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {"colors": True},
    "clusters": [
        {
            "name": name,
            "cluster": {
                "server": "https://10.0.0.3:31001",
                "certificate-authority-data": "Y2E=",
                "proxy-url": "http://u:word@p:1",
            },
        }
        for name in _USERS
    ],
    "users": [{"name": name, "user": user} for name, user in _USERS.items()],
    "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "team"}} for name in _USERS],
    "current-context": "other",
}
_FILES = [
    yaml.safe_dump(KUBECONFIG, sort_keys=False),
    json.dumps(KUBECONFIG),
    yaml.safe_dump(KUBECONFIG | {"users": []}),
    "",
    "# nothing\n",
]
_MARKS = [
    *(
        "&a ",
        "*a",
        "<<: *a\n",
        "? ",
        "- ",
        ": ",
        "|\n  x\n",
        "'",
        '"',
        "!!binary ",
        "!x ",
        "---\n",
        "...\n",
        "#",
        "\t",
        "\r\n",
        "{",
        "[",
        "~",
    ),
    *("on", "12:34:56", "0o17", "1e3", ".inf", "2026-11-24", "name: ml\n", "\ufeff", "\x00", "\x85", "[" * 3000),
]
_CONTEXTS = st.sampled_from(["ml", "other", "new", "", "a b", "\u0661"])
SECRET = {
    "metadata": {"name": "vc-ml"},
    "data": {"certificate-authority": "Y2E=", "client-certificate": "Y2VydA==", "client-key": "a2V5"},
}


def check_kubeconfig(given: Object) -> None:
    """Leave a file as it is, or change the entries of one name in it and nothing else; doing it again changes nothing."""
    content, context = given["content"], given["context"]
    existing = outcome(lambda: plan.parse(content, "/x/config", context))
    outcome(lambda: plan.read(content, "/x/config"))
    file = Path(_folder().name, "config")
    file.write_bytes(content)
    holds_credentials(read_kubeconfig(str(file)), SECRET)
    new = values.kubeconfig(SECRET, context, "https://10.0.0.3:31001")
    merged = plan.merge(existing, new, given["current"])
    text = verbatim.dump(merged)
    again = plan.parse(text.encode(), "/x/config", context)
    assert again == merged
    assert plan.merge(again, new, given["current"]) == again
    assert _of_others(again, context) == _of_others(existing, context)
    assert plan.same_credentials(merged, again, context)
    left = plan.without(again, context)
    assert not plan.holds(left, context)
    assert _of_others(left, context) == _of_others(existing, context)
    for config in (existing, merged, left):
        for line in plan.summary(config, context).values():
            check_line(line)
            assert "word" not in line
    for item in (existing or {}).get("users") or []:
        check_user(item.get("user") or {})


@functools.cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def _of_others(config: Object | None, context: str) -> Any:
    """Return what a kubeconfig holds of others, types and quotes of values included."""
    kept = {key: value for key, value in (config or {}).items() if key not in ("apiVersion", "kind", "current-context")}
    for kind in ENTRIES:
        kept[kind] = [entry for entry in kept.get(kind) or [] if entry["name"] != context]
    return _told({key: value for key, value in kept.items() if value})


def _told(value: Any) -> Any:
    if isinstance(value, dict):
        return [(_told(key), _told(one)) for key, one in value.items()]
    if isinstance(value, list):
        return [_told(one) for one in value]
    return (str(value), value.tag) if isinstance(value, verbatim.Scalar) else value


def check_user(user: Any) -> None:
    """Tell when a user's access ends, or that it is not known."""
    ends = values.expiry(user)
    assert ends is None or ends.tzinfo is not None
    finite(values.iso(ends))
    assert values.serves(user.get("token"), "a", "b", 600, _NOW) in (True, False)
    assert values.expired({"data": user}, _NOW) is None or values.secret_user({"data": user})


_NOW = datetime.datetime(2026, 11, 24, tzinfo=datetime.UTC)
_CLAIMS = st.fixed_dictionaries(
    {}, optional={"exp": LEAVES, "iat": LEAVES, "sub": st.sampled_from(["system:serviceaccount:b:a", "x", 1])}
)


@st.composite
def _tokens(draw: st.DrawFn) -> Any:
    claims = json.dumps(draw(st.one_of(_CLAIMS, _CLAIMS, ANYTHING)))
    token = "e30." + base64.urlsafe_b64encode(encoded(claims)).decode().rstrip("=") + ".x"
    return draw(st.one_of(st.just(token), st.just(token), cut([token]), LEAVES))


@st.composite
def _kubeconfigs(draw: st.DrawFn) -> Object:
    config = draw(changed([KUBECONFIG], JSON, most=2))
    if isinstance(config, dict) and draw(st.booleans()):
        config["users"] = [{"name": "ml", "user": {"token": draw(_tokens())}}]
    text = draw(st.one_of(st.just(_dumped(config)), cut(_FILES, _MARKS)))
    return {"content": encoded(text), "context": draw(_CONTEXTS), "current": draw(st.booleans())}


def _dumped(value: Any) -> str:
    """Return a value as YAML; as JSON, which is YAML, too, where Python's writer does not know a text's characters."""
    try:
        return yaml.safe_dump(value, sort_keys=False)
    except (yaml.YAMLError, ValueError, UnicodeError):
        return json.dumps(value)


_USER = st.fixed_dictionaries(
    {},
    optional={"token": _tokens(), "client-certificate-data": st.one_of(LEAVES, st.just("Y2VydA==")), "client-key-data": LEAVES},
)

# --- daemon.json -------------------------------------------------------------------------------------------------

_JSON_MARKS = [
    "{",
    "}",
    "[",
    "]",
    '"',
    ",",
    ":",
    "\\",
    "null",
    '"runtimes": {}',
    '"default-runtime": ""',
    "\x00",
    "\ufeff",
    "NaN",
    "[" * 3000,
    "//x\n",
]


def check_daemon(given: Object) -> None:
    """Refuse a file and leave it, or edit it once; and have it back byte for byte."""
    original, wanted = given["content"], given["wanted"]
    left = outcome(lambda: edit(original, wanted))
    if left is None:
        return
    assert edit(left, wanted) == left
    assert undo(left, left, original) == Undone(original, [], [])
    before, after = parse_daemon(original), parse_daemon(left)
    own = ("default-runtime", "features", "runtimes")
    assert [(key, value) for key, value in after.items() if key not in own] == [
        (key, value) for key, value in before.items() if key not in own
    ]
    undone = outcome(lambda: undo(given["present"], left, original))
    if undone is not None and undone.content is not None:
        parse_daemon(undone.content)
        finite(undone.conflicts)


@st.composite
def _daemons(draw: st.DrawFn) -> Object:
    original, wanted = draw(documents()), draw(WANTED)
    if original is not None and draw(st.booleans()):
        original = encoded(draw(cut([original.decode()], _JSON_MARKS, 2)))
    present = draw(
        st.one_of(documents().filter(bool), cut([(original or b"{}").decode(errors="replace")], _JSON_MARKS, 2).map(encoded))
    )
    return {"content": original, "wanted": wanted, "present": present}


# --- documents ---------------------------------------------------------------------------------------------------


def check_document(content: bytes) -> None:
    """Read YAML and JSON, or say in one line why not; what is written verbatim is read as it was."""
    for one in outcome(lambda: load_documents(content), ValueError) or []:
        assert depth(one) <= DEEPEST
    finite(outcome(lambda: load_manifests(content.decode()), ValueError))
    found = outcome(lambda: parse_json(content), ValueError)
    finite(found)
    exact = outcome(lambda: verbatim.load(content), ValueError)
    if exact is not None:
        assert depth(exact) <= DEEPEST
        again = verbatim.load(verbatim.dump(exact))
        assert _told(again) == _told(exact)


_DOCUMENTS = [
    *_FILES,
    yaml.safe_dump_all([KUBECONFIG, [1, 2.5, None, True]]),
    "a: &a {b: 1}\nc: *a\nd: {<<: *a}\n",
    "- 1\n- [2, {3: 4}]\n",
    "x",
]

# --- logs and other texts of programs ----------------------------------------------------------------------------

_LINES = [
    'E1124 10:00:00.123456       1 reflector.go:147] failed to list *v1.Pod: pods is forbidden: User "x" cannot list resource "pods"\n',
    '2026-11-24T10:00:00.123Z\t\x1b[31mERROR\x1b[0m\tbinder\tFailed to bind pod\t{"error": "no GPU"}\n',
    "panic: runtime error: invalid memory address or nil pointer dereference\n",
    "I1124 10:00:00 all is well\n",
    '{"level":"fatal","msg":"no space left on device"}\n',
    "Error: execution error at (vcluster/templates/x.yaml:1:4): no\n\nUse --debug flag to render out invalid YAML\n",
    "Error: values don't meet the specifications\n- at '/controlPlane/x': additional properties 'a', 'b' not allowed\n",
    "- at '/sync/0': got string, want object\n",
    "kai_e2e_scheduling_latency_milliseconds 12.5\nprocess_cpu_seconds_total 1.5e2\nprocess_resident_memory_bytes 1e+08\n",
    "a" * 50_000,
    "a1" * 50_000,
    '"' * 20_001,
    " " * 50_000 + "x\n",
    "\\'" * 20_000,
    "error " * 10_000,
]
_LOG_MARKS = ["\n", "\r", "\x1b[", "\x1b[31m", '"', "'", "NaN", "+Inf", "1e999", "ERROR", "\u2028", "- at '", "Error: "]


def check_log(text: str) -> None:
    """Find in a log what it tells."""
    for line in plain_lines(text):
        is_error(line)
        log_cause(line)
        assert without_names(line) == without_names(line)
    found = last_error({"pod": text})
    if found is not None:
        check_line(found.message, 10**6)
    finite(judge_logs({"pod": text}, {}))
    failure_lines(text)
    error_message(text)
    violations(text, {"controlPlane": {"a": 1}})
    meter = Meter()
    meter.observe(0.0, text)
    meter.observe(5.0, text)
    finite(meter.measures())


# --- kubelet's notes ---------------------------------------------------------------------------------------------

_ENTRIES = [
    {"PodUID": "u", "ContainerName": "main", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"-1": ["GPU-1"]}, "AllocResp": "x"}
]
_CHECKPOINTS = [
    {
        "Data": {"PodDeviceEntries": _ENTRIES, "RegisteredDevices": {"nvidia.com/gpu": ["GPU-1", "GPU-2"], "other/x": []}},
        "Checksum": 2**63,
    },
    {"Data": {"PodDeviceEntries": None, "RegisteredDevices": None}, "Checksum": 1},
]


def check_checkpoint(text: str) -> None:
    """Tell which devices a node has, and which pods, or that this cannot be read."""
    found = outcome(lambda: assigned(text), ValueError)
    if found is not None:
        finite([sorted(found.devices), {pod: sorted(ids) for pod, ids in found.pods.items()}])


# --- evidence before this ----------------------------------------------------------------------------------------


@functools.cache
def _reports() -> list[Object]:
    return two_clusters().reports()


@functools.cache
def _former() -> Object:
    return json.loads(json.dumps(evidence(_reports(), "2026-11-23T10:00:00Z")))


def former_with_verdict(verdict: Any) -> str:
    """Return evidence in which each check of a shared scheduler has this verdict."""
    former = copy.deepcopy(_former())
    for check in former["clusters"][1]["shared_scheduler"]["checks"]:
        check["verdict"] = verdict
    return json.dumps(former)


def check_former(text: str) -> None:
    """Compare with the evidence before, or say in one line why not; all else is as without it."""
    found = evidence(_reports(), AT, text)
    assert found == evidence(copy.deepcopy(_reports()), AT, text)
    finite(found)
    assert {key: value for key, value in found.items() if key != "since"} == {
        key: value for key, value in evidence(_reports(), AT).items() if key != "since"
    }
    for note in found["since"]["notes"]:
        check_line(note)
    page(found)
    junit(found)
    # With itself, nothing has changed.
    assert evidence(_reports(), AT, json.dumps(found))["since"]["changes"] == []


@st.composite
def _texts_of(draw: st.DrawFn, right: st.SearchStrategy[Any]) -> str:
    """Return a value as JSON, whole or cut."""
    text = json.dumps(draw(right))
    return draw(st.one_of(st.just(text), st.just(text), cut([text], _JSON_MARKS, 2)))


PARTS = {
    "kubeconfigs": Part(check_kubeconfig, _kubeconfigs(), 12_000),
    "tokens": Part(check_user, _USER, 10_000),
    "daemon.json": Part(check_daemon, _daemons(), 4_000),
    "documents": Part(check_document, cut(_DOCUMENTS, _MARKS).map(encoded) | st.binary(max_size=40), 15_000),
    "logs": Part(check_log, cut(_LINES, _LOG_MARKS) | st.lists(st.sampled_from(_LINES), max_size=5).map("".join), 4_000),
    "checkpoints": Part(check_checkpoint, _texts_of(changed(_CHECKPOINTS)), 8_000),
    "former evidence": Part(check_former, _texts_of(st.deferred(lambda: changed([_former()]))), 3_000),
}
