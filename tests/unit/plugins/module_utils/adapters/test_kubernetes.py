# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The adapter over a server that answers as scripted; tests/contract shows the same adapter over a real API server."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import itertools
import json
import socket
import socketserver
import tempfile
import threading

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters import asking, client, pods, retry
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.asking import ask, ask_list
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.client import _entries
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubeconfig_program import complaint
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.objects import PAGE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.pods import LARGEST_LOG
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import LARGEST
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.parallel import CONCURRENCY, concurrently
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline

from .conftest import BROKEN, drip, serve, soon, status

CONFIG = {
    "clusters": [{"name": "near", "cluster": {}}, {"name": "far", "cluster": {"proxy-url": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "a", "context": {"cluster": "near"}}, {"name": "b", "context": {"cluster": "far"}}],
    "current-context": "b",
}

WHERE = "/api/v1/namespaces/ns/configmaps"
ITEM = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "ns"}}
DONE = (200, ITEM, {})
SILENT = "Internal error occurred: failed calling webhook queue-validation.kai.scheduler: connection refused"


def failure(call, *args, **kwargs):
    with pytest.raises(TenancyError) as caught:
        call(*args, **kwargs)
    return caught.value


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [status(500), status(429, Retry_After="1"), status(503), status(504), BROKEN])
def test_what_may_be_done_twice_is_repeated(kube, script, clock, bad):
    for verb, call in {
        "GET": lambda: kube.get("v1", "ConfigMap", "x", "ns"),
        "PATCH": lambda: kube.patch("v1", "ConfigMap", "x", {"data": {}}, "ns"),
        "DELETE": lambda: kube.delete("v1", "ConfigMap", "x", "ns"),
    }.items():
        script.on(f"{verb} {WHERE}/x", bad, bad, DONE)
        assert call()
        assert [entry.partition("?")[0] for entry in script.calls] == [f"{verb} {WHERE}/x"] * 3
        script.calls.clear()
    script.on(f"PATCH {WHERE}/x", bad, DONE)
    assert kube.apply(ITEM) == ITEM
    assert clock.now < 15


@pytest.mark.parametrize("code", [400, 403, 409, 422])
def test_refusals_are_not_repeated(kube, script, code):
    script.on(f"GET {WHERE}/x", status(code, "no such luck"))
    error = failure(kube.get, "v1", "ConfigMap", "x", "ns")
    assert (error.message, error.details) == ("Reading ConfigMap x failed: no such luck", {"status": code})
    assert len(script.calls) == 1


def test_a_silent_webhook_is_for_the_caller_to_wait_for(kube, script, clock):
    script.on(f"PATCH {WHERE}/x", status(500, SILENT))
    assert SILENT in failure(kube.apply, ITEM).message
    assert clock.pauses == []


def test_a_refused_credential_is_permanent(kube, script):
    script.on(f"GET {WHERE}/x", status(401, "Unauthorized"))
    assert failure(kube.get, "v1", "ConfigMap", "x", "ns").details == {"status": 401, "permanent": True}


@pytest.mark.parametrize("text", ["<html>Sign in</html>", ""])
def test_an_answer_that_is_no_object_is_an_error(kube, script, text):
    script.on(f"GET {WHERE}/x", (200, text, {}))
    script.on(f"GET {WHERE}", (200, text, {}))
    assert "no JSON object" in failure(kube.get, "v1", "ConfigMap", "x", "ns").message
    assert "no JSON object" in failure(kube.list, "v1", "ConfigMap", "ns").message


def test_the_version_is_read_anew(kube, script):
    assert kube.version() == "v1.35.4"
    script.on("GET /version", (200, {"gitVersion": "v1.36.1"}, {}))
    assert kube.version() == "v1.36.1"


# --- lists ------------------------------------------------------------------------------------------------------------


def page(*names, more=""):
    return 200, {"metadata": {"continue": more}, "items": [{"metadata": {"name": name}} for name in names]}, {}


def test_lists_are_read_page_by_page(kube, script):
    script.on(f"GET {WHERE}", page("a", "b", more="next"), status(500), page("c"))
    assert [item["metadata"]["name"] for item in kube.list("v1", "ConfigMap", "ns", "k=v")] == ["a", "b", "c"]
    assert script.calls[0] == f"GET {WHERE}?labelSelector=k%3Dv&limit={PAGE}"
    assert script.calls[1:] == [f"GET {WHERE}?continue=next&labelSelector=k%3Dv&limit={PAGE}"] * 2


def test_a_list_whose_first_page_is_forgotten_is_read_once_more(kube, script):
    script.on(f"GET {WHERE}", page("a", more="next"), status(410, "The provided continue parameter is too old"), page("a", "b"))
    assert [item["metadata"]["name"] for item in kube.list("v1", "ConfigMap", "ns")] == ["a", "b"]
    assert script.calls[-1] == f"GET {WHERE}?limit={PAGE}"
    script.on(f"GET {WHERE}", status(410, "gone"))
    assert failure(kube.list, "v1", "ConfigMap", "ns").details["status"] == 410


def test_a_list_that_breaks_off_is_an_error(kube, script):
    script.on(f"GET {WHERE}", page("a", more="next"), status(503, "busy"))
    assert failure(kube.list, "v1", "ConfigMap", "ns").details == {"status": 503, "attempts": 5}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"items": None},
        {"items": [5]},
        {"items": [{}]},
        {"items": [{"metadata": {"name": 5}}]},
        {"items": [{"metadata": {"name": "a", "labels": {"x": 1}}}]},
        "[" * 100_000,
    ],
)
def test_a_list_of_another_form_is_an_error_and_never_an_empty_one(kube, script, answer):
    script.on(f"GET {WHERE}", (200, answer, {}))
    assert failure(kube.list, "v1", "ConfigMap", "ns").message.startswith("Listing ConfigMap failed: the answer is no")


@pytest.mark.parametrize("answer", [{}, {"kind": "Status", "metadata": {}}, {"metadata": {"name": "x", "labels": []}}])
def test_so_is_an_object(kube, script, answer):
    for verb, call in {
        "GET": lambda: kube.get("v1", "ConfigMap", "x", "ns"),
        "PATCH": lambda: kube.apply(ITEM),
        "POST": lambda: kube.create(ITEM),
    }.items():
        script.on(f"{verb} {WHERE}{'' if verb == 'POST' else '/x'}", (200, answer, {}))
        assert "not of the form of the API" in failure(call).message


def test_a_list_that_does_not_end_is_an_error(kube, script):
    script.on(f"GET {WHERE}", page("a", more="next"))
    assert "the list was not read to its end: it names the same page again" in failure(kube.list, "v1", "ConfigMap", "ns").message
    assert len(script.calls) == 2


def test_a_page_that_is_too_large_is_asked_for_in_parts(kube, script, monkeypatch):
    name = "a" * 1000
    monkeypatch.setattr(kube.client.api.client.rest_client.pool_manager, "_largest", 5000)
    script.on(f"GET {WHERE}", page(*[name] * 10), page(*[name] * 3, more="next"), page("b"))
    assert len(kube.list("v1", "ConfigMap", "ns")) == 4
    assert [call.rpartition("limit=")[2] for call in script.calls] == [str(PAGE), str(PAGE // 4), str(PAGE // 4)]
    script.on(f"GET {WHERE}/x", (200, ITEM | {"data": {"a": name * 10}}, {}))
    assert failure(kube.get, "v1", "ConfigMap", "x", "ns").details == {"status": None, "oversized": True}


def test_what_a_server_says_of_a_failure_is_one_short_line(kube, script):
    script.on(f"GET {WHERE}/x", status(403, "no\x1b[2J\n\nPLAY RECAP ***\n" + "a" * 2_000_000))
    message = failure(kube.get, "v1", "ConfigMap", "x", "ns").message
    assert message.startswith("Reading ConfigMap x failed: no PLAY RECAP *** aaa")
    assert message.isprintable()
    assert len(message) < 1200


# --- kinds ------------------------------------------------------------------------------------------------------------

GROUP = "metrics.example/v1"
METRIC = {"kind": "Metric", "name": "metrics", "namespaced": False, "verbs": []}
METRICS = (200, {"kind": "APIResourceList", "resources": [METRIC]}, {})


@pytest.mark.parametrize(("code", "attempts"), [(503, 5), (500, 5), (403, None)])
def test_a_group_that_cannot_be_read_is_not_one_without_kinds(kube, script, code, attempts):
    script.on(f"GET /apis/{GROUP}", status(code, "error trying to reach service"))
    for call in (kube.served, kube.list):
        error = failure(call, GROUP, "Metric")
        assert error.message.startswith("Looking up Metric (metrics.example/v1) failed")
        assert (error.details["status"], error.details.get("attempts")) == (code, attempts)


def test_a_group_that_comes_back_is_found(kube, script):
    script.on(f"GET /apis/{GROUP}", *[status(503)] * 4, METRICS)
    assert kube.served(GROUP, "Metric")
    assert not kube.served(GROUP, "Other")


def test_a_group_that_does_not_exist_has_no_kinds(kube, script):
    script.on(f"GET /apis/{GROUP}", (404, "404 page not found", {}))
    assert not kube.served(GROUP, "Metric")
    assert not kube.served("other.example/v1", "Other")
    assert not kube.served("v1", "Other")


@pytest.mark.parametrize(
    "answer",
    [{"resources": [{"name": "metrics"}]}, {"resources": [{}]}, {"resources": [5]}, {"resources": 5}, "[1]", "[" * 100_000],
)
def test_a_list_of_kinds_of_another_form_is_an_error(kube, script, answer):
    script.on(f"GET /apis/{GROUP}", (200, answer, {}))
    assert failure(kube.served, GROUP, "Metric").message.startswith("Looking up Metric (metrics.example/v1) failed: ")


def test_what_a_server_has_of_an_api_version_is_read_once(kube, script):
    script.on(f"GET /apis/{GROUP}", METRICS)
    assert concurrently(lambda kind: kube.served(GROUP, kind), ["Metric"] * CONCURRENCY) == [True] * CONCURRENCY
    assert script.calls == [f"GET /apis/{GROUP}"]


def test_a_kind_that_comes_later_is_found(kube, script):
    script.on(f"GET /apis/{GROUP}", (404, "404 page not found", {}), (200, {"resources": []}, {}), METRICS)
    assert [kube.served(GROUP, "Metric") for _time in range(4)] == [False, False, True, True]
    assert len(script.calls) == 3


def test_parts_of_a_kind_are_no_kinds(kube, script):
    script.on(f"GET /apis/{GROUP}", (200, {"resources": [METRIC | {"kind": "Scale", "name": "metrics/scale"}, METRIC]}, {}))
    assert kube.served(GROUP, "Metric")
    assert not kube.served(GROUP, "Scale")


# --- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [status(429), status(503, Retry_After="1")])
def test_a_create_is_repeated_where_the_server_did_nothing(kube, script, bad):
    script.on(f"POST {WHERE}", bad, DONE)
    assert kube.create(ITEM) == ITEM
    assert len(script.calls) == 2


@pytest.mark.parametrize("bad", [status(500), status(503), status(504), BROKEN])
def test_a_create_is_not_repeated_where_the_server_may_have_done_it(kube, script, bad):
    script.on(f"POST {WHERE}", bad)
    failure(kube.create, ITEM)
    assert len(script.calls) == 1


def existing(manager):
    return 200, ITEM | {"metadata": ITEM["metadata"] | {"managedFields": [{"manager": manager}]}}, {}


def test_what_an_attempt_of_ours_created_counts_as_created(kube, script):
    script.on(f"POST {WHERE}", status(503, Retry_After="1"), status(409, "already exists"))
    script.on(f"GET {WHERE}/x", existing("kubegpu.tenancy"))
    assert kube.create(ITEM)["metadata"]["name"] == "x"


@pytest.mark.parametrize("there", [existing("kubectl"), status(404)])
def test_what_somebody_else_created_does_not(kube, script, there):
    script.on(f"POST {WHERE}", status(503, Retry_After="1"), status(409, "already exists"))
    script.on(f"GET {WHERE}/x", there)
    assert failure(kube.create, ITEM).details == {"status": 409, "attempts": 2}


def test_what_existed_before_the_first_attempt_does_not_either(kube, script):
    script.on(f"POST {WHERE}", status(409, "already exists"))
    script.on(f"GET {WHERE}/x", existing("kubegpu.tenancy"))
    assert failure(kube.create, ITEM).details == {"status": 409}


def test_a_conditional_change_is_not_repeated(kube, script):
    script.on(f"PATCH {WHERE}/x", BROKEN, DONE)
    failure(kube.patch, "v1", "ConfigMap", "x", {"metadata": {"resourceVersion": "1"}}, "ns")
    assert len(script.calls) == 1
    script.on(f"PATCH {WHERE}/x", BROKEN, DONE)
    failure(kube.apply, ITEM | {"metadata": ITEM["metadata"] | {"resourceVersion": "1"}})
    assert len(script.calls) == 2


def test_what_an_attempt_of_ours_deleted_was_there(kube, script):
    script.on(f"DELETE {WHERE}/x", BROKEN, status(404))
    assert kube.delete("v1", "ConfigMap", "x", "ns") is True
    assert kube.delete("v1", "ConfigMap", "x", "ns") is False


def test_a_token_is_asked_for_by_its_subresource(kube, script):
    path = "/api/v1/namespaces/kube-system/serviceaccounts/deployer/token"
    script.on(f"POST {path}", status(500), (201, {"status": {"token": "secret"}}, {}))
    assert kube.create_token("deployer", "kube-system", 600) == "secret"
    script.on(f"POST {path}", (201, {"status": {"token": {"a": 1}}}, {}))
    assert "holds no token" in failure(kube.create_token, "deployer", "kube-system", 600).message
    del script.bodies[2:]
    assert [body["spec"] for body in script.bodies] == [{"expirationSeconds": 600}] * 2


# --- logs -------------------------------------------------------------------------------------------------------------

LOG = "/api/v1/namespaces/ns/pods/x/log"


@pytest.mark.parametrize(
    "message",
    [
        'container "c" in pod "x" is waiting to start: ContainerCreating',
        'container "c" in pod "x" is waiting to start: image can\'t be pulled',
        'container "c" in pod "x" is not available',
        'previous terminated container "c" in pod "x" not found',
    ],
)
def test_a_container_that_has_written_nothing_has_an_empty_log(kube, script, message):
    script.on(f"GET {LOG}", status(400, message))
    assert kube.pods.logs("x", "ns") == ""


@pytest.mark.parametrize(
    "bad",
    [
        status(400, "a container name must be specified for pod x, choose one of: [a b]"),
        status(403, "pods is forbidden"),
        status(404, 'pods "x" not found'),
        status(500, "dial tcp 10.0.0.1:10250: connect: connection refused"),
        BROKEN,
    ],
)
def test_a_log_that_cannot_be_read_is_not_empty(kube, script, bad):
    script.on(f"GET {LOG}", bad)
    assert failure(kube.pods.logs, "x", "ns").message.startswith("Reading the log of Pod x failed")


def test_logs_are_bounded_as_asked(kube, script):
    script.on(f"GET {LOG}", (200, "a\nb\n", {}))
    assert kube.pods.logs("x", "ns", "c", lines=2, previous=True, seconds=0) == "a\nb\n"
    assert script.calls == [f"GET {LOG}?tailLines=2&limitBytes={LARGEST_LOG}&previous=true&container=c&sinceSeconds=1"]


# --- files ------------------------------------------------------------------------------------------------------------

EXEC = "/api/v1/namespaces/ns/pods/x/exec"
ENDED, FAILED = '{"status": "Success"}', '{"status": "Failure", "message": "command terminated with non-zero exit code"}'


def test_a_file_in_a_container(kube, script):
    script.on(f"GET {EXEC}", (101, [(1, "one, "), (2, "a warning"), (1, "two"), (3, ENDED)], {}))
    assert kube.pods.read_file("x", "ns", "c", "/a/file") == "one, two"
    (call,) = script.calls
    assert call.partition("?")[2] == "command=cat&command=%2Fa%2Ffile&container=c&stderr=True&stdout=True"
    assert script.headers[-1]["authorization"] == "Bearer x"
    # Requests of the same client go their own way again.
    script.on(f"GET {LOG}", (200, "a log", {}))
    assert kube.pods.logs("x", "ns") == "a log"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((101, [(2, "no such file"), (3, FAILED)], {}), "command terminated with non-zero exit code"),
        ((101, [(1, "half of it")], {}), "it did not end in time"),
        ((101, [(3, "no JSON")], {}), "Expecting value"),
        (status(403, "forbidden"), "Handshake status 403"),
        (BROKEN, ""),
    ],
)
def test_a_file_that_cannot_be_read_is_not_empty(kube, script, answer, told):
    script.on(f"GET {EXEC}", answer)
    message = failure(kube.pods.read_file, "x", "ns", "c", "/a/file").message
    assert message.startswith("Reading /a/file in Pod x failed")
    assert told in message
    assert len(script.calls) == 1


def test_a_file_without_an_end_is_an_error(kube, script, monkeypatch):
    monkeypatch.setattr(pods, "LARGEST_FILE", 100)
    script.on(f"GET {EXEC}", (101, [(1, "a" * 60)] * 1000, {}))
    assert "more than 100 characters" in failure(kube.pods.read_file, "x", "ns", "c", "/a/file").message


@pytest.mark.parametrize("answer", ["[" * 100_000, "[]", '{"status": {"status": "Success"}}'])
def test_a_command_that_ends_in_an_odd_way_has_failed(kube, script, answer):
    script.on(f"GET {EXEC}", (101, [(1, "text"), (3, answer[:60_000])], {}))
    failure(kube.pods.read_file, "x", "ns", "c", "/a/file")


EXIT_STATUS = json.dumps(
    {
        "status": "Failure",
        "message": "command terminated with non-zero exit code",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }
)


def test_a_command_in_a_container_reads_and_writes(kube, script):
    script.on(f"GET {EXEC}", (101, [(1, "one, "), (2, "a warning"), (1, "two"), (3, EXIT_STATUS)], {}))
    written = []
    ended = kube.pods.execute("Trying it", "x", "ns", "c", ["sh"], 5, written.append, ["given ", "text"])
    assert ended == (3, "command terminated with non-zero exit code", "a warning")
    assert "".join(written) == "one, two"
    assert "stdin=True" in script.calls[0]


def test_a_command_that_did_not_begin_has_no_exit_status(kube, script):
    script.on(f"GET {EXEC}", (101, [(3, '{"status": "Failure", "message": "no such program"}')], {}))
    assert kube.pods.execute("Trying it", "x", "ns", "c", ["sh"], 5) == (-1, "no such program", "")


# --- servers that do not want to be read --------------------------------------------------------------------------------


@pytest.fixture(name="hasty")
def _hasty(monkeypatch):
    """Calls that are due when the time is up get next to none."""
    monkeypatch.setattr(retry, "LEAST_SECONDS", 0.2)
    monkeypatch.setattr(client, "LEAST_REQUEST", 0.2)
    for module in (client, pods):
        monkeypatch.setattr(module, "REQUEST_TIMEOUT", (0.2, 0.2))


SLOW = b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n"


def dripping(connection):
    connection.sendall(SLOW)
    drip(connection, b"a" * 10_000)


def test_connecting_ends_by_the_deadline(hostile, hasty, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with soon():
        error = failure(Kube.connect, host=hostile(dripping).address, api_key="x", deadline=Deadline(0.5))
    assert error.message.startswith("Connecting to the Kubernetes API failed")
    assert error.details["status"] is None


def test_every_call_ends_by_the_deadline(kube, hostile, hasty, monkeypatch):
    kube.get("v1", "ConfigMap", "x", "ns")
    monkeypatch.setattr(kube.client.api.client.configuration, "host", hostile(dripping).address)
    monkeypatch.setattr(kube.client, "deadline", Deadline(0.5))
    for call in (
        lambda: kube.list("v1", "ConfigMap", "ns"),
        lambda: kube.get("v1", "ConfigMap", "x", "ns"),
        lambda: kube.pods.logs("x", "ns"),
        lambda: kube.pods.metrics("x", "ns", 80),
        lambda: kube.served("other.example/v1", "Other"),
        lambda: kube.pods.read_file("x", "ns", "c", "/a"),
        kube.version,
    ):
        with soon():
            failure(call)


def test_a_file_that_comes_slowly_ends_too(kube, hostile, hasty, monkeypatch):
    def act(connection):
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\n")
        drip(connection, b"X: " + b"a" * 10_000)

    monkeypatch.setattr(kube.client.api.client.configuration, "host", hostile(act).address)
    with soon():
        assert "did not end within 0.4 s" in failure(kube.pods.read_file, "x", "ns", "c", "/a").message


def test_pages_end_by_the_deadline(kube, script, clock, monkeypatch):
    numbers = itertools.count()

    def endless(method, path, body, headers):
        clock.now += 10
        return page(more=str(next(numbers)))

    kube.get("v1", "ConfigMap", "x", "ns")
    monkeypatch.setattr(script, "next", endless)
    assert "the list was not read to its end: its time is up" in failure(kube.list, "v1", "ConfigMap", "ns").message
    assert next(numbers) == 10


# --- one request without a client ----------------------------------------------------------------------------------------


def changed(kubeconfig, **cluster):
    config = copy.deepcopy(kubeconfig)
    config["clusters"][0]["cluster"] |= {key.replace("_", "-"): value for key, value in cluster.items()}
    return config


def test_an_answer_comes_with_a_certificate_and_with_a_token(tls, script):
    script.on("GET /api", (200, {"kind": "APIVersions"}, {}))
    assert ask(tls, "/api") == {"kind": "APIVersions"}
    assert "Authorization" not in script.headers[-1]
    token = tls | {"users": [{"name": "admin", "user": {"token": "secret"}}]}
    assert ask(token, "/api") == {"kind": "APIVersions"}
    assert script.headers[-1]["Authorization"] == "Bearer secret"
    # People add contexts of their own to a tenant's file, and kubectl sorts them by name.
    first = {
        "clusters": {"name": "a", "cluster": {"server": "https://other.example"}},
        "users": {"name": "a", "user": {"token": "other"}},
    }
    more = {kind: [entry, *token[kind]] for kind, entry in first.items()}
    more["contexts"] = [{"name": "a", "context": {"cluster": "a", "user": "a"}}, *token["contexts"]]
    assert ask(token | more, "/api") == {"kind": "APIVersions"}
    assert script.headers[-1]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(("code", "permanent"), [(401, True), (403, True), (404, None), (429, None), (500, None), (503, None)])
def test_a_refused_credential_ends_a_wait_and_a_server_that_starts_does_not(tls, script, code, permanent):
    script.on("GET /api", status(code, "no entry"))
    error = failure(ask, tls, "/api")
    assert error.message == f"GET {tls['clusters'][0]['cluster']['server']}/api failed: no entry"
    assert (error.details["status"], error.details.get("permanent")) == (code, permanent)
    assert len(script.calls) == 1


@pytest.mark.parametrize("bad", [BROKEN, (200, "<html>", {}), (302, "", {"Location": "/login"})])
def test_an_answer_that_is_none_may_come_later(tls, script, bad):
    script.on("GET /api", bad)
    assert "permanent" not in failure(ask, tls, "/api").details


def test_a_server_that_is_not_there_may_come_later(tls):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    error = failure(ask, changed(tls, server=f"https://127.0.0.1:{port}"), "/api")
    assert error.details == {"status": None}
    assert "refused" in error.message


@pytest.mark.parametrize("act", [dripping, lambda connection: drip(connection, b"HTTP/1.1 200 OK\r\nX: " + b"a" * 10_000)])
def test_a_timeout_is_that_of_the_whole_answer(tls, hostile, act):
    config = changed(tls, server=hostile(act).address)
    for call in (ask, ask_list):
        with soon():
            assert failure(call, config, "/api", timeout=0.5).details == {"status": None}


def test_a_timeout_is_that_of_the_handshake_too(tls, hostile):
    server = hostile(lambda connection: drip(connection, b"\x16\x03\x03\x40\x00\x02" + b"\0" * 10_000), awaits_request=False)
    with soon():
        assert failure(ask, changed(tls, server=f"https://127.0.0.1:{server.port}"), "/api", timeout=0.5).details == {
            "status": None
        }


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a": ' * 100_000, '{"a": NaN}', "a" * (LARGEST + 1)], ids=["[", "{", "NaN", "size"]
)
def test_an_answer_is_no_deeper_and_no_larger_than_is_read(tls, script, text):
    script.on("GET /api", (200, text, {}))
    assert failure(ask, tls, "/api", timeout=20).details["status"] is None


LIST = "/apis/scheduling.run.ai/v2/queues"


def test_a_list_is_asked_for_page_by_page(tls, script):
    script.on(f"GET {LIST}", page("a", "b", more="a b&c"), page("c"))
    assert [item["metadata"]["name"] for item in ask_list(tls, LIST)] == ["a", "b", "c"]
    assert script.calls == [f"GET {LIST}?limit={PAGE}", f"GET {LIST}?limit={PAGE}&continue=a+b%26c"]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"items": None},
        {"items": {"a": "b"}},
        {"items": [5]},
        {"items": [{}]},
        {"items": [{"metadata": {"name": "a", "annotations": {"x": {}}}}]},
        {"items": [], "metadata": "text"},
        {"items": [], "metadata": {"continue": ["a"]}},
    ],
)
def test_a_list_of_another_form_is_an_error(tls, script, answer):
    script.on(f"GET {LIST}", (200, answer, {}))
    error = failure(ask_list, tls, LIST)
    assert error.message.startswith(f"GET {LIST} failed: the answer is not of the form of the API")
    assert error.details == {"status": None}


def test_a_list_without_an_end_is_an_error(tls, script, monkeypatch):
    numbers = itertools.count()
    monkeypatch.setattr(script, "next", lambda *_request: page(more=str(next(numbers))))
    with soon():
        assert failure(ask_list, tls, LIST, timeout=0.5).details == {"status": None}
    monkeypatch.setattr(asking, "ASKED_LIST", dataclasses.replace(asking.ASKED_LIST, pages=3))
    assert "at most 3 pages" in failure(ask_list, tls, LIST).message


def test_a_list_that_is_refused_says_how(tls, script):
    script.on(f"GET {LIST}", status(403, "no\nentry"))
    assert failure(ask_list, tls, LIST).details == {"status": 403, "permanent": True}


def test_a_server_that_is_silent_may_answer_later(tls):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"https://127.0.0.1:{silent.getsockname()[1]}"
        assert failure(ask, changed(tls, server=address), "/api", timeout=0.2).details == {"status": None}


def test_a_certificate_that_does_not_verify_ends_a_wait(tls, certificate):
    port = tls["clusters"][0]["cluster"]["server"].rpartition(":")[2]
    other = certificate(datetime.datetime(2100, 1, 1))
    for config in (changed(tls, server=f"https://localhost:{port}"), changed(tls, certificate_authority_data=other)):
        error = failure(ask, config, "/api")
        assert "CERTIFICATE_VERIFY_FAILED" in error.message
        assert error.details == {"status": None, "permanent": True}


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config["clusters"].clear(),
        lambda config: config["clusters"][0]["cluster"].pop("server"),
        lambda config: config["clusters"][0]["cluster"].pop("certificate-authority-data"),
        lambda config: config["clusters"][0]["cluster"].update({"certificate-authority-data": "bm9uZQ=="}),
        lambda config: config["users"][0].update(user={}),
        lambda config: config["users"][0].update(user=None),
        lambda config: config["users"][0]["user"].update({"client-key-data": "!"}),
        lambda config: config["users"][0]["user"].update({"client-key-data": None}),
        lambda config: config["users"][0].update(user={"token": "two\nlines"}),
    ],
)
def test_a_malformed_kubeconfig_ends_a_wait(tls, change):
    config = copy.deepcopy(tls)
    change(config)
    error = failure(ask, config, "/api")
    assert "the kubeconfig is malformed" in error.message
    assert error.details == {"status": None, "permanent": True}


class Tunnel(socketserver.StreamRequestHandler):
    """A proxy that does what CONNECT asks for."""

    def handle(self):
        line = self.rfile.readline().decode().split()
        while self.rfile.readline().strip():
            pass
        self.server.script.append(line[:2])
        host, _colon, port = line[1].rpartition(":")
        with socket.create_connection((host, int(port))) as there:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=self.pump, args=(there, self.connection), daemon=True)
            back.start()
            self.pump(self.connection, there)
            back.join(5)

    @staticmethod
    def pump(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def test_a_proxy_is_asked_for_a_tunnel(tls, script):
    script.on("GET /api", (200, {}, {}))
    seen = []
    proxy = serve(Tunnel, seen)
    try:
        assert ask(changed(tls, proxy_url=f"http://127.0.0.1:{proxy.server_port}"), "/api") == {}
    finally:
        proxy.shutdown()
        proxy.server_close()
    assert seen == [["CONNECT", tls["clusters"][0]["cluster"]["server"].removeprefix("https://")]]


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1080", "socks5h://127.0.0.1:1080", "ftp://127.0.0.1"])
def test_a_proxy_of_another_kind_is_refused_at_once(tls, url):
    named = changed(tls, proxy_url=url) | CONFIG | {"clusters": [{"name": "far", "cluster": {"proxy-url": url}}]}
    for call in (
        lambda: ask(changed(tls, proxy_url=url), "/api"),
        lambda: Kube.connect(kubeconfig=CONFIG, proxy=url),
        lambda: Kube.connect(kubeconfig=named),
    ):
        error = failure(call)
        assert f"The proxy {url} is of kind" in error.message
        assert error.details == {"status": None, "permanent": True}


def test_no_message_shows_what_a_kubeconfig_keeps(tmp_path):
    user = {"auth-provider": {"name": "oidc", "config": {"client-secret": "S3CRET"}}}
    entries = {
        "indented": {"users": [{"name": "x", "token": "S3CRET"}]},
        "provider": {"users": [{"name": "x", "user": user}]},
        "proxy": {"clusters": [{"name": "far", "cluster": {"server": "http://x", "proxy-url": "socks5://u:S3CRET@h:1"}}]},
    }
    whole = CONFIG | {"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "far", "user": "x"}}]}
    texts = {name: yaml.safe_dump(whole | entry) for name, entry in entries.items()}
    texts |= {f"text {mark}": f"users: [{{name: x, user: {{token: {mark}S3CRET}}}}]" for mark in "*!@"}
    for name, text in texts.items():
        (tmp_path / "config").write_text(text)
        message = failure(Kube.connect, kubeconfig=str(tmp_path / "config")).message
        assert "S3CRET" not in message, name
        assert "kube-config" in message or "kubeconfig" in message or "The proxy socks5://h:1 is of kind socks5" in message, (
            message
        )


def test_several_kubeconfigs_are_the_clients_to_merge(tmp_path):
    one, gone = tmp_path / "one", tmp_path / "gone"
    one.write_text("odd: [")
    assert "does not exist" not in failure(Kube.connect, kubeconfig=f"{gone}:{one}").message
    assert "does not exist" in failure(Kube.connect, kubeconfig=f"{gone}:{gone}").message


@pytest.mark.parametrize("kubeconfig", [{"clusters": []}, {"clusters": 5, "current-context": "x", "contexts": [{"name": "x"}]}])
def test_no_connection_is_tried_with_a_malformed_kubeconfig(kubeconfig):
    assert failure(Kube.connect, kubeconfig=kubeconfig).details == {"status": None, "permanent": True}


@pytest.mark.parametrize(("context", "proxy"), [(None, "http://127.0.0.1:1"), ("a", None), ("gone", None)])
def test_the_proxy_is_that_of_the_contexts_cluster(context, proxy, tmp_path):
    (tmp_path / "config").write_text(yaml.safe_dump(CONFIG))
    for kubeconfig in (str(tmp_path / "config"), CONFIG):
        assert _entries(kubeconfig, context)[0].get("proxy-url") == proxy


@pytest.mark.parametrize("text", ["", "odd: [", "- list"])
def test_what_is_no_kubeconfig_is_the_clients_to_refuse(text, tmp_path):
    (tmp_path / "config").write_text(text)
    assert _entries(str(tmp_path / "config"), None) == ({}, {})
    assert failure(Kube.connect, kubeconfig=str(tmp_path / "config")).details == {"status": None, "permanent": True}


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path):
    error = failure(Kube.connect, kubeconfig=str(tmp_path / "gone"))
    assert error.message.endswith(f"kubeconfig: the file {tmp_path}/gone does not exist on this host")
    assert error.details == {"status": None, "permanent": True}


def test_the_environments_kubeconfig_has_a_proxy_too(tmp_path, monkeypatch):
    (tmp_path / "config").write_text(
        yaml.safe_dump(CONFIG | {"clusters": [{"name": "far", "cluster": {"proxy-url": "socks5://x"}}]})
    )
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(tmp_path / "config"))
    assert "The proxy socks5://x is of kind" in failure(Kube.connect).message


# --- rights ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status_", "allowed"), [({"allowed": True}, True), ({"allowed": False}, False), ({}, False), (None, False)]
)
def test_a_right_is_asked_for(kube, script, status_, allowed):
    script.on("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", (201, {"status": status_}, {}))
    assert kube.may("get", "", "pods/log", "ns") is allowed
    asked = {"verb": "get", "group": "", "resource": "pods", "subresource": "log", "namespace": "ns"}
    assert script.bodies[-1]["spec"] == {"resourceAttributes": asked}


# --- kubeconfigs as people have them ---------------------------------------------------------------------------------------


def kubeconfig(folder, server, user, **cluster):
    """Write one whose current context is not its first one, and return its path."""
    config = {
        "clusters": [
            {"name": "a", "cluster": {"server": "http://127.0.0.1:1"}},
            {"name": "b", "cluster": {"server": server} | cluster},
        ],
        "users": [{"name": "a", "user": {}}, {"name": "b", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in "ab"],
        "current-context": "b",
    }
    (folder / "config").write_text(yaml.safe_dump(config))
    return str(folder / "config")


def program(folder, text, **more):
    (folder / "bin").mkdir()
    (folder / "bin/login").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "bin/login").chmod(0o755)
    return {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./bin/login", "interactiveMode": "Never"} | more
    }


GIVES = (
    'echo "{\\"kind\\": \\"ExecCredential\\", \\"apiVersion\\": \\"client.authentication.k8s.io/v1\\", '
    '\\"status\\": {\\"token\\": \\"$1-$WHO\\"}}"'
)


@pytest.fixture(name="address")
def _address(kube):
    return kube.client.api.configuration.host


def test_a_program_gives_the_credentials(address, script, tmp_path):
    script.on("GET /version", (200, {"gitVersion": "v1.35.4"}, {}))
    user = program(tmp_path, GIVES, args=["for"], env=[{"name": "WHO", "value": "me"}])
    assert Kube.connect(kubeconfig=kubeconfig(tmp_path, address, user), deadline=Deadline(20)).version() == "v1.35.4"
    assert script.headers[-1]["authorization"] == "Bearer for-me"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("echo token expired >&2; exit 255", "ended with exit status 255: token expired"),
        ("exit 3", "ended with exit status 3"),
        ("echo secret", "printed no JSON object"),
        ('echo \'{"apiVersion": "v9"}\'', "answers in v9, and the kubeconfig asks for client.authentication.k8s.io/v1"),
        (
            'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "x", "status": {}}\'',
            "printed neither a token nor a client certificate with its key",
        ),
        (
            'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "secret"}}\'',
            "printed a JSON object without kind, which is to be ExecCredential",
        ),
    ],
)
def test_a_program_that_gives_none_is_named_with_the_reason(address, script, tmp_path, text, told):
    error = failure(Kube.connect, kubeconfig=kubeconfig(tmp_path, address, program(tmp_path, text)), deadline=Deadline(20))
    named = "the program ./bin/login, which the kubeconfig names for its credentials,"
    assert error.message == f"Connecting to the Kubernetes API failed: {named} {told}"
    assert error.details == {"status": None, "permanent": True}
    assert "secret" not in error.message
    # Nothing was asked without credentials.
    assert script.calls == []


@pytest.mark.parametrize(
    ("command", "where"), [("login-of-none", ", or not on the PATH of the task's user"), ("/none/login", "")]
)
def test_a_program_that_is_missing_is_named(address, tmp_path, command, where):
    user = program(tmp_path, "", command=command, installHint="See https://aws.example.")
    error = failure(Kube.connect, kubeconfig=kubeconfig(tmp_path, address, user), deadline=Deadline(20))
    assert (
        f"the program {command}, which the kubeconfig names for its credentials, is not installed on this host{where}"
        in error.message
    )
    assert error.message.endswith("The kubeconfig says: See https://aws.example.")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"command": None}, "exec in the kubeconfig names no program: its command is missing, or no text"),
        ({"command": ["aws"]}, "exec in the kubeconfig names no program: its command is missing, or no text"),
        ({"args": "get-token"}, "its args are no list of texts."),
        ({"args": [5]}, "its args are no list of texts. Write numbers between quotation marks"),
        ({"env": [{"name": "A"}]}, "its env is no list of entries with name and value, both of them texts."),
        ({"env": [{"name": "A", "value": 5}]}, "its env is no list of entries with name and value, both of them texts."),
        ({"env": {"A": "5"}}, "its env is no list of entries with name and value, both of them texts."),
        ({"env": 5}, "its env is no list of entries with name and value, both of them texts."),
    ],
)
def test_an_exec_of_another_form_is_told_by_its_key(tmp_path, more, told):
    assert told in complaint(program(tmp_path, GIVES, **more)["exec"], str(tmp_path))


def test_a_program_without_an_end_is_named(address, tmp_path, monkeypatch):
    monkeypatch.setattr(client, "SECONDS", 0.3)
    user = program(tmp_path, "exec sleep 5")
    error = failure(Kube.connect, kubeconfig=kubeconfig(tmp_path, address, user), deadline=Deadline(20))
    assert "did not end within 0.3 s. If it waits for a login, log in before" in error.message


def test_files_are_found_from_the_kubeconfigs_folder(tls, script, tmp_path, pair):
    script.on("GET /version", (200, {"gitVersion": "v1.35.4"}, {}))
    certificate, private, _path = pair
    (tmp_path / "pki").mkdir()
    for name, content in {"ca.crt": certificate * 2, "a.crt": certificate, "a.key": private, "token": b"secret"}.items():
        (tmp_path / "pki" / name).write_bytes(content)
    server = tls["clusters"][0]["cluster"]["server"].replace("127.0.0.1", "localhost")
    user = {"client-certificate": "pki/a.crt", "client-key": "./pki/a.key", "tokenFile": "pki/token"}
    path = kubeconfig(tmp_path, server, user, **{"certificate-authority": "pki/ca.crt", "tls-server-name": "127.0.0.1"})
    assert Kube.connect(kubeconfig=path, deadline=Deadline(20)).version() == "v1.35.4"
    assert script.headers[-1]["authorization"] == "Bearer secret"
