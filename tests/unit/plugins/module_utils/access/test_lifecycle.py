# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import errno
import json
import os

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._access.lifecycle import Access
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubeconfig_file import KubeconfigFile
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import LARGEST
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubegpu.tenancy.plugins.modules import vcluster_kubeconfig
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.clock import Clock
from ansible_collections.kubegpu.tenancy.tests.unit.owners import ALICE, Owners
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

RBAC = "rbac.authorization.k8s.io/v1"


def item(api_version, kind, name, namespace="tenant-web", labels=None, **more):
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata} | more


DATA = {"certificate-authority": "Q0E=", "client-certificate": "Q0VSVA==", "client-key": "S0VZ"}
NODE_PORT = {"type": "NodePort", "ports": [{"port": 443, "nodePort": 30002}]}
INGRESS = item("networking.k8s.io/v1", "Ingress", "web", spec={"rules": [{"host": "web.example"}]})
POD = item("v1", "Pod", "web-0", labels={"app": "vcluster", "release": "web"}, status={"phase": "Running", "hostIP": "10.0.0.3"})
THEIRS = {
    "kind": "Config",
    "clusters": [{"name": "a", "cluster": {"server": "https://a"}}],
    "users": [{"name": "a", "user": {"token": "theirs"}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "current-context": "a",
    "x-notes": ["keep"],
}


def host(*more, secret=True, data=None, service=None, proxy_url=None):
    """The host cluster of a virtual cluster; nothing writes there.

    :arg data: of its Secret, over the usual one.
    """
    objects = [POD, item("v1", "Service", "web", spec=NODE_PORT if service is None else service), *more]
    if secret:
        objects.append(item("v1", "Secret", "vc-web", data=DATA | (data or {})))
    return InMemoryApi(objects, proxy_url=proxy_url)


def virtual_cluster(*objects):
    """The virtual cluster itself, with two of Kubernetes' cluster roles."""
    roles = [{"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": role}} for role in ("view", "edit")]
    return InMemoryApi([*roles, *objects])


def ask(config, path):
    return {}


def refuse(config, path):
    raise TenancyError("connection refused")


def knows(virtual):
    """Answers as its API server does: accounts may read what everyone may; unknown tokens may nothing."""

    def ask(config, path):
        user = config["users"][0]["user"]
        if "token" in user and (path != "/api" or user["token"] not in virtual.tokens):
            raise ApiError("401", permanent=True)
        return {}

    return ask


@pytest.fixture(name="params")
def _params(tmp_path):
    options = {key: option.get("default") for key, option in vcluster_kubeconfig.ARGUMENT_SPEC.items()}
    return options | {"name": "web", "path": str(tmp_path / "web.yml"), "timeout": 0}


def access(params, kube=None, check_mode=False, ask=ask, virtual=None, clock=None):
    def connect(kubeconfig, context):
        assert (kubeconfig["users"][0]["user"]["client-key-data"], context) == ("S0VZ", "web")
        return virtual

    clock = clock or Clock()
    kube = kube or host()
    access.kube = kube
    run = Run(params, check_mode, kube, deadline=Deadline(params["timeout"], clock, clock.sleep))
    file = KubeconfigFile(params["path"]) if params["path"] else None
    return Access(run, knows(virtual) if virtual else ask, connect, file)


def present(*args, **kwargs):
    result = access(*args, **kwargs).present()
    assert access.kube.writes == []
    return result


def absent(*args, **kwargs):
    return access(*args, **kwargs).absent()


def written(params):
    with open(params["path"], encoding="utf-8") as file:
        return yaml.safe_load(file)


def write(params, config, mode=0o600):
    with open(params["path"], "w", encoding="utf-8") as file:
        file.write(config if isinstance(config, str) else yaml.safe_dump(config))
    os.chmod(params["path"], mode)


def test_writes_once(params):
    result = present(params)
    assert result["changed"]
    assert result["diff"]["before"] == {}
    assert result["diff"]["after"] == {
        "path": params["path"],
        "context": "web",
        "current_context": "web",
        "server": "https://10.0.0.3:30002",
        "credentials": "new",
    }
    assert os.stat(params["path"]).st_mode & 0o777 == 0o600
    assert os.listdir(os.path.dirname(params["path"])) == ["web.yml"]
    assert written(params)["current-context"] == "web"

    again = present(params)
    assert not again["changed"]
    assert again["diff"]["before"] == again["diff"]["after"]


@pytest.mark.parametrize(
    ("data", "server", "difference"),
    [({"client-key": "TkVX"}, None, {"credentials": "changed"}), ({}, "https://lb:6443", {"server": "https://lb:6443"})],
)
def test_diff_names_changes_without_secrets(params, data, server, difference):
    present(params)
    result = present(params | {"server": server}, host(data=data))
    assert result["changed"]
    assert dict(result["diff"]["after"].items() - result["diff"]["before"].items()) == difference
    assert not any(secret in json.dumps(result) for secret in ("TkVX", "S0VZ", "Q0VSVA=="))


def test_loose_mode_is_mended(params):
    write(params, THEIRS | {"clusters": None, "users": None, "contexts": None}, 0o644)
    present(params)
    os.chmod(params["path"], 0o644)
    result = present(params)
    assert (result["diff"]["before"]["mode"], result["diff"]["after"]["mode"]) == ("0644", "0600")
    assert os.stat(params["path"]).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("secret", [True, False])
def test_check_mode_writes_nothing(params, secret):
    predicted = present(params, host(secret=secret), True, refuse)
    why = "it does not exist" if secret else "the virtual cluster gets other credentials"
    assert (predicted["changed"], predicted["steps"]) == (True, [{"step": f"write {params['path']}", "why": why}])
    assert not os.path.exists(params["path"])


@pytest.mark.parametrize(
    ("kube", "answer", "match"),
    [
        (host(secret=False), ask, "vc-web does not exist"),
        (host(service={"type": "ClusterIP"}), ask, "^server: "),
        (host(), refuse, "connection refused"),
    ],
)
def test_failures_leave_no_file(params, kube, answer, match):
    with pytest.raises(TenancyError, match=match):
        present(params, kube, ask=answer)
    assert not os.path.exists(params["path"])


def test_unverified(params):
    assert present(params | {"verify": False}, ask=refuse)["changed"]


def test_an_ingress_leads_to_a_service_that_has_no_way_in(params):
    result = present(params, host(INGRESS, service={}))
    assert result["server"] == "https://web.example"


def test_without_a_path_it_is_returned_only(params):
    result = present(params | {"path": None})
    assert (result["changed"], result["diff"]) == (False, {"before": {}, "after": {}})
    assert result["kubeconfig"]["users"][0]["user"]["client-key-data"] == "S0VZ"
    assert "path" not in result


# --- files of others ---


@pytest.mark.parametrize(("make_current", "current"), [(False, "a"), (True, "web")])
def test_others_entries_stay(params, make_current, current):
    write(params, THEIRS, 0o640)
    params |= {"make_current": make_current}
    assert present(params, check_mode=True)["changed"]
    assert written(params) == THEIRS
    result = present(params)
    assert (result["diff"]["before"], result["diff"]["after"]["credentials"]) == (
        {"path": params["path"], "current_context": "a", "mode": "0640"},
        "new",
    )
    found = written(params)
    assert [[item["name"] for item in found[kind]] for kind in ("clusters", "users", "contexts")] == [["a", "web"]] * 3
    assert (found["current-context"], found["x-notes"]) == (current, ["keep"])
    assert os.stat(params["path"]).st_mode & 0o777 == 0o600
    assert not present(params)["changed"]

    assert absent(params, check_mode=True)["steps"] == [{"step": f"write {params['path']}", "why": "absent is wanted"}]
    assert written(params) == found
    result = absent(params)
    assert result["changed"]
    assert (result["diff"]["before"]["context"], result["diff"]["after"].get("context")) == ("web", None)
    assert written(params) == THEIRS | {"current-context": "" if make_current else "a"}
    assert not absent(params)["changed"]


def test_others_formatting_of_the_same_stays(params):
    present(params)
    content = "# shared\n" + json.dumps(written(params))
    write(params, content)
    assert not present(params)["changed"]
    os.chmod(params["path"], 0o644)
    assert present(params)["changed"]
    with open(params["path"], encoding="utf-8") as file:
        assert file.read() == content


def test_the_owner_stays(params, monkeypatch):
    write(params, THEIRS)
    status = os.stat(params["path"])
    owners = []
    monkeypatch.setattr("os.fchown", lambda _descriptor, *owner: owners.append(owner))
    present(params)
    assert owners == [(status.st_uid, status.st_gid)]


@pytest.mark.parametrize(
    "content",
    ["[", "- list", "kind: Secret", yaml.safe_dump(THEIRS | {"contexts": [{"name": "web", "context": {"cluster": "a"}}]})],
)
def test_a_file_that_is_none_of_this_collections_stays(params, content):
    write(params, content)
    for reach in (present, absent):
        with refuses("not-a-kubeconfig"):
            reach(params)
    with open(params["path"], encoding="utf-8") as file:
        assert file.read() == content


def test_a_symbolic_link_is_refused(params, tmp_path):
    (tmp_path / "config").write_text(yaml.safe_dump(THEIRS))
    os.symlink(tmp_path / "config", params["path"])
    with pytest.raises(TenancyError, match=r"^path: .* is a symbolic link to .*/config"):
        present(params)
    assert os.path.islink(params["path"])


@pytest.mark.parametrize("swapped_for", ["link", "folder"])
def test_the_tenants_credentials_do_not_follow_a_folder_that_is_exchanged_meanwhile(params, tmp_path, monkeypatch, swapped_for):
    owners = Owners(monkeypatch)
    home, roots = tmp_path / "alice", tmp_path / "root" / ".kube"
    for folder in (home / ".kube", roots):
        folder.mkdir(parents=True)
    program = {"name": "a", "user": {"exec": {"command": "hers"}}}
    (home / ".kube" / "config").write_text(yaml.safe_dump(THEIRS | {"users": [program]}))
    (roots / "config").write_text(yaml.safe_dump(THEIRS))
    for path in (home, home / ".kube", home / ".kube" / "config"):
        owners.give(path, ALICE)

    def ask(_config, _path):
        # While it is waited for an answer of the virtual cluster.
        (home / ".kube").rename(home / "former")
        if swapped_for == "link":
            (home / ".kube").symlink_to(roots)
        else:
            (home / ".kube").mkdir()
        owners.give(home / ".kube", ALICE)
        return {}

    with pytest.raises(
        TenancyError, match=r"^Could not write .*: path: .*/alice/\.kube is (a symbolic link|not the folder any more)"
    ):
        present(params | {"path": str(home / ".kube" / "config")}, ask=ask)
    assert yaml.safe_load((roots / "config").read_text()) == THEIRS
    assert owners.of(roots / "config") == 0
    assert os.listdir(roots) == ["config"]
    assert "hers" in (home / "former" / "config").read_text()
    assert "S0VZ" not in (home / "former" / "config").read_text()


def test_root_writes_into_the_folder_of_a_user_as_that_user(params, tmp_path, monkeypatch):
    owners = Owners(monkeypatch)
    owners.give(tmp_path, ALICE)
    assert present(params)["changed"]
    assert owners.of(tmp_path / "web.yml") == ALICE
    assert not present(params)["changed"]


@pytest.mark.parametrize(
    "content",
    [
        "kind: Config\nx: " + "[" * 2000,
        "kind: Config\ncontexts: [{name: web, context: {cluster: []}}]",
        "kind: Config\nusers: [{name: [web]}]",
        b"kind: Config\nx: \xff",
        "#" * (LARGEST + 1),
    ],
    ids=lambda content: repr(content[:30]),
)
def test_odd_files_stay_as_they_are(params, content):
    with open(params["path"], "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    for reach in (present, absent):
        with pytest.raises(TenancyError, match=rf"^path: {params['path']} "):
            reach(params)
    with open(params["path"], "rb") as file:
        assert file.read() == (content if isinstance(content, bytes) else content.encode())


def test_what_others_wrote_is_written_as_it_was(params):
    write(params, yaml.safe_dump(THEIRS) + "x-password: 12:34:56\nx-answer: on\n")
    present(params)
    with open(params["path"], encoding="utf-8") as file:
        assert {"x-password: 12:34:56", "x-answer: on"} <= set(file.read().splitlines())
    absent(params)
    with open(params["path"], encoding="utf-8") as file:
        assert {"x-password: 12:34:56", "x-answer: on"} <= set(file.read().splitlines())


def test_a_pipe_does_not_hold_it_up(params):
    os.mkfifo(params["path"])
    with pytest.raises(TenancyError, match=r"^path: .* it is no regular file"):
        present(params)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_loses_nothing(params, monkeypatch, code):
    write(params, THEIRS)

    open_file = os.open

    def fail(path, flags, *args, **more):
        if flags & os.O_CREAT:
            raise OSError(code, os.strerror(code), path)
        return open_file(path, flags, *args, **more)

    monkeypatch.setattr("os.open", fail)
    with pytest.raises(
        TenancyError,
        match=rf"^Could not write {params['path']}: path: {params['path']} cannot be written: .*{os.strerror(code)}.* has to be allowed",
    ):
        present(params)
    monkeypatch.undo()
    assert written(params) == THEIRS
    assert os.listdir(os.path.dirname(params["path"])) == ["web.yml"]
    assert present(params)["changed"]


def test_missing_folder(params):
    missing = params | {"path": "/nowhere/web.yml"}
    with refuses("no-folder"):
        present(missing)


def test_a_file_that_cannot_be_removed(params, monkeypatch):
    present(params)

    def fail(path, dir_fd):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)

    monkeypatch.setattr("os.unlink", fail)
    with pytest.raises(TenancyError, match=r"^Could not remove .*: path: .* cannot be removed"):
        absent(params)


def test_absent(params):
    assert not absent(params)["changed"]
    present(params)
    assert absent(params, check_mode=True)["changed"]
    assert os.path.exists(params["path"])
    result = absent(params)
    assert (result["changed"], result["diff"]["after"]) == (True, {})
    assert not os.path.exists(params["path"])


# --- expiry ---


def test_an_expired_certificate_is_reported_and_nothing_is_lost(params, certificate):
    present(params)
    before = written(params)
    then, later = (datetime.datetime(year, 11, 21, 12, tzinfo=datetime.timezone.utc) for year in (2025, 2060))
    expired, renewed = (host(data={"client-certificate": certificate(ends)}) for ends in (then, later))
    with pytest.raises(TenancyError, match=r"vc-web expired 2025-11-21T12:00:00Z\. The module vcluster with state=present"):
        present(params, expired)
    assert present(params, expired, check_mode=True)["changed"]
    assert written(params) == before
    result = present(params, renewed)
    assert (result["changed"], result["expires"]) == (True, "2060-11-21T12:00:00Z")
    assert not present(params, renewed)["changed"]


# --- waiting ---


def test_an_error_that_no_waiting_mends_ends_the_wait_at_once(params):
    clock = Clock()

    def ask(_config, _path):
        raise ApiError("certificate verify failed", permanent=True)

    with pytest.raises(TenancyError, match=r"^certificate verify failed$"):
        present(params | {"timeout": 300}, ask=ask, clock=clock)
    assert clock.now == 0
    with pytest.raises(TenancyError, match="Timed out after 300 s"):
        present(params | {"timeout": 300}, ask=refuse, clock=clock)


# --- proxies ---


@pytest.mark.parametrize(
    ("given", "inherited", "proxy"),
    [
        (None, None, None),
        (None, "http://host:3128", "http://host:3128"),
        ("http://own:3128", "http://host:3128", "http://own:3128"),
        ("", "http://host:3128", None),
        ("", "socks5://host:1080", None),
    ],
)
def test_the_proxy_of_the_host_cluster_is_taken_over_unless_another_is_given(params, given, inherited, proxy):
    asked = []
    present(params | {"proxy_url": given}, host(proxy_url=inherited), ask=lambda config, _path: asked.append(config) or {})
    assert [config["clusters"][0]["cluster"].get("proxy-url") for config in (*asked, written(params))] == [proxy, proxy]


@pytest.mark.parametrize(("given", "inherited"), [("socks5://proxy:1080", None), (None, "socks5://proxy:1080")])
def test_a_proxy_that_would_be_spoken_http_to_is_refused(params, given, inherited):
    with refuses("socks-proxy"):
        present(params | {"proxy_url": given}, host(proxy_url=inherited))
    assert not os.path.exists(params["path"])


# --- service accounts ---

ACCOUNT = {"name": "deployer", "namespace": "kube-system", "cluster_role": "view", "expiration": 3600}
BINDING = ("ClusterRoleBinding", "kubegpu.tenancy:kube-system:deployer")
TOKEN = ("token", "ServiceAccount", "deployer")


OTHERS_ACCOUNT = item("v1", "ServiceAccount", "deployer", "kube-system")
OTHERS_BINDING = item(RBAC, *BINDING, None, {"a": "b"})


@pytest.fixture(name="for_account")
def _for_account(params):
    return params | {"service_account": ACCOUNT}


def test_a_service_account_gets_role_and_token_once(for_account):
    virtual = virtual_cluster()
    predicted = present(for_account, check_mode=True, virtual=virtual)
    assert (predicted["changed"], virtual.writes, os.path.exists(for_account["path"])) == (True, [], False)
    steps = ["create service_account", "create cluster_role", f"write {for_account['path']}"]
    assert [step["step"] for step in predicted["steps"]] == steps

    result = present(for_account, virtual=virtual)
    assert virtual.writes == [("create", "ServiceAccount", "deployer"), ("create", *BINDING), TOKEN]
    assert result["diff"] == predicted["diff"]
    assert (
        result["diff"]["after"] | {"service_account": "kube-system/deployer", "cluster_role": "view", "credentials": "new"}
        == (result["diff"]["after"])
    )
    binding = virtual.get(RBAC, *BINDING)
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "deployer", "namespace": "kube-system"}]
    assert virtual.get("v1", "ServiceAccount", "deployer", "kube-system")["metadata"]["labels"] == OWNED_LABELS
    assert written(for_account)["users"] == [{"name": "web", "user": {"token": virtual.tokens[0]}}]
    assert virtual.tokens[0] not in json.dumps(result)

    again = present(for_account, virtual=virtual)
    assert (again["changed"], again["expires"], len(virtual.writes)) == (False, result["expires"], 3)
    assert not present(for_account, check_mode=True, virtual=virtual)["changed"]


@pytest.mark.parametrize("change", [{"expiration": 14400}, {"expiration": 600}, {"name": "other"}, "refused"])
def test_a_token_that_no_longer_serves_is_replaced(for_account, change):
    virtual = virtual_cluster()
    present(for_account, virtual=virtual)
    if change == "refused":
        virtual.tokens[:] = [""]
    else:
        for_account |= {"service_account": ACCOUNT | change}
    assert present(for_account, check_mode=True, virtual=virtual)["changed"]
    result = present(for_account, virtual=virtual)
    assert result["diff"]["after"]["credentials"] == "changed"
    assert written(for_account)["users"][0]["user"]["token"] == virtual.tokens[1]


@pytest.mark.parametrize(
    ("role", "writes"), [("edit", [("delete", *BINDING), ("create", *BINDING)]), (None, [("delete", *BINDING)])]
)
def test_another_role_is_another_binding(for_account, role, writes):
    virtual = virtual_cluster()
    present(for_account, virtual=virtual)
    virtual.writes.clear()
    for_account |= {"service_account": ACCOUNT | {"cluster_role": role}}
    assert present(for_account, check_mode=True, virtual=virtual)["changed"]
    assert virtual.writes == []
    result = present(for_account, virtual=virtual)
    assert virtual.writes == writes
    assert (result["changed"], result["diff"]["before"]["cluster_role"], result["diff"]["after"].get("cluster_role")) == (
        True,
        "view",
        role,
    )
    assert not present(for_account, virtual=virtual)["changed"]


def test_a_token_without_a_file_is_returned(for_account):
    virtual = virtual_cluster()
    for_account |= {"path": None}
    assert "kubeconfig" not in present(for_account, check_mode=True, virtual=virtual)
    assert present(for_account, virtual=virtual)["changed"]
    result = present(for_account, virtual=virtual)
    assert not result["changed"]
    assert result["kubeconfig"]["users"][0]["user"] == {"token": virtual.tokens[-1]}


@pytest.mark.parametrize("token", [5, 12.5, ["a.b.c"], {"a": "b"}, True, None, "a.é.c"])
def test_an_odd_token_in_the_file_is_replaced(for_account, token):
    virtual = virtual_cluster()
    own = {"name": "web", "user": {"token": token}}
    write(for_account, THEIRS | {"users": [own]})
    assert present(for_account, virtual=virtual)["changed"]
    assert written(for_account)["users"] == [{"name": "web", "user": {"token": virtual.tokens[-1]}}]


@pytest.mark.parametrize(
    ("change", "objects", "match"),
    [
        ({}, [OTHERS_ACCOUNT], "ServiceAccount deployer .* not made by this"),
        ({}, [OTHERS_BINDING], "not made by this"),
        ({"cluster_role": "none"}, [], "no cluster role none"),
        ({"expiration": 599}, [], "no less than 600"),
    ],
)
def test_refused_before_anything_is_written(for_account, change, objects, match):
    virtual = virtual_cluster(*objects)
    with pytest.raises(TenancyError, match=rf"^service_account\..*{match}"):
        present(for_account | {"service_account": ACCOUNT | change}, virtual=virtual)
    assert (virtual.writes, os.path.exists(for_account["path"])) == ([], False)


def test_absent_ends_the_service_account(for_account):
    virtual = virtual_cluster()
    present(for_account, virtual=virtual)
    virtual.writes.clear()
    predicted = absent(for_account, check_mode=True, virtual=virtual)
    assert (virtual.writes, os.path.exists(for_account["path"])) == ([], True)
    result = absent(for_account, virtual=virtual)
    assert virtual.writes == [("delete", "ServiceAccount", "deployer"), ("delete", *BINDING)]
    assert result["diff"] == predicted["diff"]
    assert (result["diff"]["before"]["service_account"], result["diff"]["after"]) == ("kube-system/deployer", {})
    assert not os.path.exists(for_account["path"])
    assert not absent(for_account, virtual=virtual)["changed"]


def test_absent_leaves_what_others_made(for_account):
    virtual = virtual_cluster(OTHERS_ACCOUNT)
    assert not absent(for_account | {"path": None}, virtual=virtual)["changed"]
    assert virtual.writes == []


def test_the_service_account_went_with_its_virtual_cluster(for_account):
    assert not absent(for_account, host(secret=False))["changed"]


def test_a_service_account_that_cannot_be_ended_keeps_its_file(for_account, certificate):
    virtual = virtual_cluster()
    present(for_account, virtual=virtual)
    old = certificate(datetime.datetime(2025, 11, 21))
    with pytest.raises(TenancyError, match="expired 2025-11-21"):
        absent(for_account, host(data={"client-certificate": old}))
    assert os.path.exists(for_account["path"])
