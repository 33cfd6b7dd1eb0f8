# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import yaml
from ansible.template import trust_as_template
from ansible_collections.kubegpu.tenancy.plugins.action.fetch_kubeconfigs import ActionModule, by_gateway, command, via
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import LARGEST
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.tests.unit.runs import untimed

KEY = "PRIVATE-KEY-OF-THE-TENANT"
CONTEXT = f"contexts: [{{name: here, context: {{cluster: web, user: {KEY}}}}}]\ncurrent-context: here\n"
TEXT = f"apiVersion: v1\nclusters:\n- cluster: {{server: 'https://10.0.0.3:30002'}}\n  name: web\nusers: [{{name: {KEY}, user: {{}}}}]\n{CONTEXT}"
PROXY = "http://127.0.0.1:28080"


def test_every_cluster_gets_the_proxy():
    # A tagged string, as Ansible passes it.
    config = yaml.safe_load(via(TEXT, trust_as_template(PROXY), "/f"))
    assert config["clusters"] == [{"name": "web", "cluster": {"server": "https://10.0.0.3:30002", "proxy-url": PROXY}}]


def test_a_proxy_that_the_file_names_stays_unless_another_is_given():
    named = via(TEXT, "http://own:3128", "/f")
    assert via(named, "", "/f") == named
    assert yaml.safe_load(via(named, PROXY, "/f"))["clusters"][0]["cluster"]["proxy-url"] == PROXY


@pytest.mark.parametrize(
    "text",
    [
        f"key: [{KEY}",
        f"- {KEY}",
        KEY,
        "clusters: {a: b}",
        "clusters: []",
        f"{KEY}: 1",
        f"clusters: [{{name: a, cluster: [{KEY}]}}]",
        f"clusters: [{{name: a}}]\nx: {KEY}",
        f"x: {'[' * 100_000}{KEY}",
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_kubeconfig_is_not_quoted(text):
    with pytest.raises(TenancyError, match=r"^/f is no kubeconfig") as failure:
        via(text, PROXY, "/f")
    assert KEY not in str(failure.value)


def test_with_a_proxy_all_else_stays_as_it_was():
    others = "password: 12:34:56, answer: on, quoted: '12:34:56', exec: {command: login}"
    text = f"clusters: [{{name: a, cluster: &a {{server: x}}}}, {{name: b, cluster: *a}}]\nusers: [{{name: a, user: {{{others}}}}}]\n"
    changed = via(text, PROXY, "/f")
    assert changed.count("proxy-url: http://127.0.0.1:28080") == 2
    lines = {line.strip() for line in changed.splitlines()}
    assert {"password: 12:34:56", "answer: on", "quoted: '12:34:56'", "command: login"} <= lines
    assert "&" not in changed
    assert "*" not in changed


def test_a_kubeconfig_leads_to_the_gateway_without_a_proxy():
    named = via(TEXT, "http://own:3128", "/f")
    config = yaml.safe_load(by_gateway(named, trust_as_template("gpu1.example"), "", PROXY, "/f"))
    assert config["clusters"] == [{"name": "web", "cluster": {"server": "https://gpu1.example:30002"}}]
    config = yaml.safe_load(by_gateway(TEXT, "fd00::5", "kubernetes", "", "/f"))
    assert config["clusters"][0]["cluster"] == {"server": "https://[fd00::5]:30002", "tls-server-name": "kubernetes"}


def test_what_is_at_no_port_of_a_node_does_not_lead_to_the_gateway():
    balanced = TEXT.replace("10.0.0.3:30002", "lb.example")
    assert by_gateway(balanced, "gpu1.example", "", "", "/f") == balanced
    assert by_gateway(balanced, "gpu1.example", "", PROXY, "/f") == via(balanced, PROXY, "/f")


@pytest.mark.parametrize("cluster", [False, True])
def test_the_administrators_kubeconfig_leads_to_the_gateway_if_that_is_asked_for(host, tmp_path, cluster):
    fetch(host, ["team"], tmp_path / "here", gateway="10.0.0.5", gateway_cluster=cluster, proxy_url=PROXY)
    found = {name: yaml.safe_load((tmp_path / "here" / name).read_text()) for name in ("cluster.yml", "tenants/team.yml")}
    leads = {name: config["clusters"][0]["cluster"] for name, config in found.items()}
    assert leads["tenants/team.yml"] == {"server": "https://10.0.0.5:30002"}
    closed = {"server": "https://10.0.0.3:30002", "proxy-url": PROXY}
    assert leads["cluster.yml"] == ({"server": "https://10.0.0.5:30002", "tls-server-name": "kubernetes"} if cluster else closed)
    assert not fetch(host, ["team"], tmp_path / "here", gateway="10.0.0.5", gateway_cluster=cluster, proxy_url=PROXY)["changed"]


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Path:
    """A folder on the host whose name has to be quoted."""
    host = tmp_path / "the host's $(files)"
    for name in ("cluster.yml", "tenants/team.yml", "tenants/it's.yml"):
        (host / name).parent.mkdir(parents=True, exist_ok=True)
        (host / name).write_text(TEXT + f"# {name}\n")
    return host


def fetch(
    host: Path,
    tenants: list[str],
    dest: Path,
    check_mode: bool = False,
    transport: str = "ssh",
    home: Path = Path("/nowhere"),
    **more: object,
) -> dict[str, object]:
    """Run it with a shell here as the host, where this is the home directory."""
    args = {"cluster": str(host / "cluster.yml"), "tenants": tenants, "tenants_dir": str(host / "tenants"), "dest": str(dest)}
    context = SimpleNamespace(no_log=False)
    task = Mock(check_mode=check_mode, async_val=0, args=args | more)
    action = ActionModule(task, Mock(_play_context=context, transport=transport), Mock(), None, None, None)

    def run(command: str) -> dict[str, object]:
        assert context.no_log is True
        environment = os.environ | {"HOME": str(home)}
        done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
        return {"rc": done.returncode, "stdout": f"Welcome!\n{done.stdout}", "stderr": done.stderr}

    action._low_level_execute_command = run
    result = action.run()
    assert context.no_log is False
    return result


def listing(dest: Path) -> list[str]:
    return sorted(str(path.relative_to(dest)) for path in dest.rglob("*") if path.is_file())


def test_when_a_kubeconfig_ends_is_told_and_its_content_is_not(host, tmp_path):
    claims = base64.urlsafe_b64encode(b'{"exp": 1827392400}').decode().rstrip("=")
    (host / "tenants/team.yml").write_text(TEXT.replace("user: {}", f"user: {{token: e30.{claims}.{KEY}}}"))
    result = fetch(host, ["team", "it's"], tmp_path / "here", check_mode=True)
    assert result["expires"] == {"team": "2027-11-28T09:00:00Z", "it's": None}
    assert KEY not in str(result)


def test_all_come_as_they_are_and_only_once(host, tmp_path):
    tenants, dest = ["team", "it's"], tmp_path / "here/dc1"
    predicted = fetch(host, tenants, dest, check_mode=True)
    assert (predicted["changed"], predicted["dest"], dest.parent.exists()) == (True, str(dest), False)

    names = ["cluster.yml", "tenants/it's.yml", "tenants/team.yml"]
    assert untimed(fetch(host, tenants, dest)) == untimed(predicted)
    assert predicted["diff"] == {"before": {}, "after": {str(dest / name): "as on the host" for name in names}}
    assert {(step["step"], step["why"]) for step in predicted["steps"]} == {
        (f"write {dest / name}", "it does not exist") for name in names
    }
    assert listing(dest) == names
    assert [(dest / name).read_text() for name in names] == [(host / name).read_text() for name in names]
    modes = [path.stat().st_mode & 0o777 for path in (dest, dest / "tenants", *(dest / name for name in names))]
    assert modes == [0o700, 0o700, 0o600, 0o600, 0o600]
    assert fetch(host, tenants, dest)["changed"] is False

    (dest / "cluster.yml").chmod(0o644)
    mended = fetch(host, tenants, dest)
    assert mended["diff"]["before"] == {str(dest / "cluster.yml"): "mode 0644"}
    assert [step["why"] for step in mended["steps"]] == ["it differs from the host's"]
    assert (dest / "cluster.yml").stat().st_mode & 0o777 == 0o600


def test_a_home_directory_is_that_of_the_host(tmp_path):
    home = tmp_path / "the host's $(home)"
    (home / "tenants").mkdir(parents=True)
    (home / "k.yml").write_text(TEXT)
    (home / "tenants/team.yml").write_text(TEXT)
    folders = {"cluster": "~/k.yml", "tenants_dir": "~/tenants"}
    fetched = fetch(Path("~"), ["team"], tmp_path / "here", home=home, **folders)
    assert "failed" not in fetched
    assert listing(tmp_path / "here") == ["cluster.yml", "tenants/team.yml"]
    # A token's file is found from every folder, and by the whole path.
    people_have(home, tokenFile="pki/token")
    (home / "cluster.yml").rename(home / "k.yml")
    (home / "pki/token").write_text("new\n")
    fetch(Path("~"), ["team"], tmp_path / "here", transport="local", home=home, **folders)
    copy = yaml.safe_load((tmp_path / "here/cluster.yml").read_text())
    assert copy["users"][0]["user"] == {"tokenFile": str(home / "pki/token")}
    unknown = fetch(Path("~"), [], tmp_path / "here", home=home, cluster="~no-such-user/k.yml")
    assert unknown["msg"] == "~no-such-user/k.yml is missing on the host."


def test_a_variable_in_a_path_is_none_of_the_controllers(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "k.yml").write_text(TEXT)
    answer = fetch(tmp_path, [], tmp_path / "here", cluster="$HOME/k.yml")
    assert answer["msg"] == "$HOME/k.yml is missing on the host."


def test_files_of_others_stay_and_absent_ones_go(host, tmp_path):
    fetch(host, ["team", "it's"], tmp_path / "here")
    assert fetch(host, [], tmp_path / "here")["changed"] is False
    assert len(listing(tmp_path / "here")) == 3
    going = tmp_path / "here/tenants/team.yml"
    predicted = fetch(host, [], tmp_path / "here", check_mode=True, absent=["team"])
    assert (predicted["diff"]["before"], predicted["diff"]["after"]) == ({str(going): "there"}, {})
    assert predicted["diff"]["written"][str(going)]["by"].startswith("owner ")
    assert predicted["steps"] == [{"step": f"remove {going}", "why": "absent is wanted"}]
    assert fetch(host, [], tmp_path / "here", absent=["team", "never"])["changed"] is True
    assert listing(tmp_path / "here") == ["cluster.yml", "tenants/it's.yml"]
    assert fetch(host, [], tmp_path / "here", absent=["team", "never"])["changed"] is False


ISSUER = {"issuer_url": "https://login.example", "client_id": "kubegpu", "scopes": ["groups"], "ca": "PEM"}


def test_users_of_an_issuer_get_a_kubeconfig_without_a_secret(host, tmp_path):
    dest = tmp_path / "here"
    login = {"team": ISSUER}
    predicted = fetch(host, ["team", "it's"], dest, check_mode=True, oidc=login)
    assert str(dest / "tenants/team.oidc.yml") in predicted["diff"]["after"]
    assert fetch(host, ["team", "it's"], dest, oidc=login)["changed"]
    assert fetch(host, ["team", "it's"], dest, oidc=login)["changed"] is False
    assert listing(dest) == ["cluster.yml", "tenants/it's.yml", "tenants/team.oidc.yml", "tenants/team.yml"]
    text = (dest / "tenants/team.oidc.yml").read_text()
    written, administrators = yaml.safe_load(text), yaml.safe_load((dest / "tenants/team.yml").read_text())
    assert written["clusters"] == administrators["clusters"]
    ((user,),) = [[item["user"] for item in written["users"]]]
    assert user.keys() == {"exec"}
    assert user["exec"]["command"] == "kubectl"
    assert user["exec"]["args"][:2] == ["oidc-login", "get-token"]
    assert {"--oidc-issuer-url=https://login.example", "--oidc-extra-scope=groups", "--certificate-authority-data=UEVN"} <= set(
        user["exec"]["args"]
    )
    # An issuer that is trusted no more, and a tenant that is gone.
    assert fetch(host, ["team", "it's"], dest)["changed"]
    assert "tenants/team.oidc.yml" not in listing(dest)
    fetch(host, ["team"], dest, oidc=login)
    fetch(host, [], dest, absent=["team"])
    assert listing(dest) == ["cluster.yml", "tenants/it's.yml"]


def test_nothing_is_asked_of_the_host_where_files_only_go(host, tmp_path):
    assert fetch(host, None, tmp_path / "here", cluster=None, tenants_dir=None, absent=["team"])["changed"] is False


def test_all_that_are_missing_are_named_and_the_others_are_brought(host, tmp_path):
    answer = fetch(host, ["team", "gone", "lost"], tmp_path / "here")
    assert (answer["failed"], answer["changed"]) == (True, True)
    assert answer["msg"].splitlines() == [f"{host}/tenants/{name}.yml is missing on the host." for name in ("gone", "lost")]
    assert sorted(path.name for path in (tmp_path / "here").rglob("*.yml")) == ["cluster.yml", "team.yml"]


def test_check_mode_expects_what_earlier_tasks_would_have_made(host, tmp_path):
    fetch(host, [], tmp_path / "here")
    predicted = fetch(host, ["gone"], tmp_path / "here", check_mode=True)
    path = tmp_path / "here/tenants/gone.yml"
    assert (predicted["changed"], predicted["diff"]["after"]) == (True, {str(path): "as on the host"})
    assert predicted["steps"] == [{"step": f"write {path}", "why": "it does not exist"}]


@pytest.mark.parametrize("names", [["../web"], ["a/b"], [".web"], [""]])
@pytest.mark.parametrize("option", ["tenants", "absent"])
def test_names_that_lead_elsewhere_are_refused(host, tmp_path, names, option):
    answer = fetch(
        host, names if option == "tenants" else [], tmp_path / "here", **({} if option == "tenants" else {option: names})
    )
    assert answer == {"failed": True, "msg": f"{option}: {names[0]!r} is not the name of a tenant."}


def test_a_tenant_is_wanted_or_not(host, tmp_path):
    assert "absent: team is one of tenants" in fetch(host, ["team"], tmp_path / "here", absent=["team"])["msg"]


def test_an_empty_one_is_no_kubeconfig(host, tmp_path):
    (host / "tenants/empty.yml").touch()
    assert "tenants/empty.yml is empty" in fetch(host, ["empty"], tmp_path / "here")["msg"]


@pytest.mark.parametrize(
    ("user", "named"),
    [
        ("exec: {command: sh}", "exec"),
        ("auth-provider: {name: gcp}", "auth-provider"),
        ("tokenFile: /root/.ssh/id_ed25519", "tokenFile"),
        ("client-key: /root/.ssh/id_ed25519, token: a", "client-key"),
        ("<<: {exec: {command: sh}}", "exec"),
        ("? !!str exec\n    : {command: sh}", "exec"),
    ],
)
def test_a_tenants_kubeconfig_runs_nothing_and_sends_no_file_of_the_controller(host, tmp_path, user, named):
    text = f"clusters: []\nusers:\n- name: a\n  user: {{{user}}}\n"
    (host / "tenants/team.yml").write_text(text)
    answer = fetch(host, ["team", "it's"], tmp_path / "here")
    assert (answer["failed"], answer["changed"]) == (True, True)
    assert answer["msg"].startswith(f"{host}/tenants/team.yml is not brought here: its users have {named}, ")
    # What is wrong with one is that one's, and the administrator's may need a program: those of clouds do.
    assert listing(tmp_path / "here") == ["cluster.yml", "tenants/it's.yml"]
    (host / "cluster.yml").write_text(TEXT.replace("user: {}", "user: {exec: {command: sh}}"))
    assert "warnings" not in fetch(host, [], tmp_path / "here")
    assert "command: sh" in (tmp_path / "here/cluster.yml").read_text()


def people_have(folder: Path, **user: object) -> dict[str, object]:
    """Write a kubeconfig of which the first context, cluster and user are others, and return the one that counts."""
    (folder / "pki").mkdir()
    cluster = {"server": "https://[fd00::10]:6443", "certificate-authority": "pki/ca.crt", "tls-server-name": "dc1.example"}
    other = {"certificate-authority-data": "T1RIRVI=", "server": "https://other.example"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "other", "cluster": other}, {"name": "dc1", "cluster": cluster}],
        "users": [{"name": "nobody", "user": {"token": "of-nobody"}}, {"name": "admin", "user": user}],
        "contexts": [
            {"name": "first", "context": {"cluster": "other", "user": "nobody"}},
            {"name": "second", "context": {"cluster": "dc1", "user": "admin", "namespace": "ops"}},
        ],
        "current-context": "second",
    }
    (folder / "cluster.yml").write_text(yaml.safe_dump(config))
    (folder / "pki/ca.crt").write_text("AUTHORITY ONE\nAUTHORITY TWO\n")
    return config


def inline(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_the_copy_holds_the_current_context_alone_with_what_its_files_hold(host, tmp_path):
    key = tmp_path / "elsewhere.key"
    config = people_have(host, **{"client-certificate": "./pki/admin.crt", "client-key": str(key), "username": "admin"})
    (host / "pki/admin.crt").write_text("CERTIFICATE\n")
    key.write_text(KEY)
    assert "failed" not in fetch(host, [], tmp_path / "here")
    copy = yaml.safe_load((tmp_path / "here/cluster.yml").read_text())
    cluster = {"server": "https://[fd00::10]:6443", "tls-server-name": "dc1.example"}
    cluster["certificate-authority-data"] = inline("AUTHORITY ONE\nAUTHORITY TWO\n")
    user = {"username": "admin", "client-certificate-data": inline("CERTIFICATE\n"), "client-key-data": inline(KEY)}
    assert copy == config | {
        "clusters": [{"name": "dc1", "cluster": cluster}],
        "users": [{"name": "admin", "user": user}],
        "contexts": config["contexts"][1:],
    }
    assert fetch(host, [], tmp_path / "here")["changed"] is False
    # A renewed one is another content.
    (host / "pki/admin.crt").write_text("RENEWED\n")
    assert fetch(host, [], tmp_path / "here")["changed"] is True


def test_what_is_written_into_it_counts_more_than_a_file_and_a_file_of_a_token_more_than_a_token(host, tmp_path):
    people_have(
        host,
        **{"client-certificate": "gone.crt", "client-certificate-data": "R0lWRU4=", "tokenFile": "pki/token", "token": "old"},
    )
    (host / "pki/token").write_text("new\n")
    fetch(host, [], tmp_path / "here")
    copy = yaml.safe_load((tmp_path / "here/cluster.yml").read_text())
    assert copy["users"][0]["user"] == {"client-certificate-data": "R0lWRU4=", "token": "new"}


@pytest.mark.parametrize(
    ("command", "copied", "known"),
    [("sh", "sh", True), ("aws-of-no-controller", "aws-of-no-controller", False), ("bin/login", "{host}/bin/login", False)],
)
def test_a_program_stays_and_the_run_says_where_the_controller_has_it_not(host, tmp_path, command, copied, known):
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": command,
        "args": ["eks", "get-token", "--cluster-name", "dc1"],
        "env": [{"name": "AWS_PROFILE", "value": "12:34:56"}],
        "interactiveMode": "Never",
        "installHint": "See https://aws.example.",
    }
    people_have(host, exec=program)
    answer = fetch(host, [], tmp_path / "here")
    copy = yaml.safe_load((tmp_path / "here/cluster.yml").read_text())
    path = copied.format(host=host)
    assert copy["users"][0]["user"] == {"exec": program | {"command": path}}
    warning = (
        f"The cluster's kubeconfig gets its credentials from the program {path}, which is not there on the controller. Its copy here works "
        "once it is. Its kubeconfig says: See https://aws.example."
    )
    assert answer.get("warnings", []) == ([] if known else [warning])


@pytest.mark.parametrize(
    ("user", "warning"),
    [
        ({"exec": {"args": ["eks"]}}, "The cluster's kubeconfig has exec without a command. "),
        ({"exec": ["aws"]}, "The cluster's kubeconfig has exec without a command. "),
        (
            {"exec": {"command": "pki/ca.crt"}},
            "gets its credentials from the program {host}/pki/ca.crt, which is not executable on the controller. ",
        ),
    ],
)
def test_a_program_that_cannot_be_run_is_a_warning(host, tmp_path, user, warning):
    people_have(host, **user)
    (told,) = fetch(host, [], tmp_path / "here")["warnings"]
    assert warning.format(host=host) in told


@pytest.mark.parametrize(
    ("server", "transport", "more", "warned"),
    [
        ("https://127.0.0.1:6443", "ssh", {}, True),
        ("https://[::1]:6443", "ssh", {}, True),
        ("https://localhost:6443", "ssh", {}, True),
        ("https://127.0.0.1:6443", "local", {}, False),
        ("https://10.0.0.3:6443", "ssh", {}, False),
        ("https://localhost.example", "ssh", {}, False),
        ("https://[x", "ssh", {}, False),
        ("https://127.0.0.1:6443", "ssh", {"proxy_url": PROXY}, False),
        ("https://127.0.0.1:6443", "ssh", {"gateway": "10.0.0.5", "gateway_cluster": True}, False),
    ],
)
def test_a_copy_that_leads_to_the_controller_itself_is_a_warning(host, tmp_path, server, transport, more, warned):
    (host / "cluster.yml").write_text(TEXT.replace("https://10.0.0.3:30002", server))
    told = fetch(host, [], tmp_path / "here", transport=transport, **more).get("warnings", [])
    assert [line.partition(", ")[0] for line in told] == ([f"The copy of {host}/cluster.yml leads to {server}"] if warned else [])
    # A copy that is there already was warned of.
    assert "warnings" not in fetch(host, [], tmp_path / "here", transport=transport, **more)


@pytest.mark.parametrize(
    ("file", "told"),
    [(".", "is no file on the host, but a folder, a pipe or a device."), ("/dev/zero", "is no file on the host, but a folder,")],
)
def test_what_is_no_file_is_named_with_the_key_that_names_it(host, tmp_path, file, told):
    people_have(host, **{"client-certificate": file, "client-key": "gone"})
    first, second = fetch(host, ["team"], tmp_path / "here")["msg"].splitlines()
    whole = file if file.startswith("/") else host
    assert first.startswith(f"{whole}, which {host}/cluster.yml names as client-certificate, {told}")
    assert second == f"{host}/gone, which {host}/cluster.yml names as client-key, is missing on the host."
    assert listing(tmp_path / "here") == ["tenants/team.yml"]


def test_every_file_that_is_missing_is_named_with_the_key_that_names_it(host, tmp_path):
    people_have(host, **{"client-certificate": "pki/a.crt", "client-key": "pki/a.key"})
    (host / "pki/ca.crt").unlink()
    assert fetch(host, ["team"], tmp_path / "here")["msg"].splitlines() == [
        f"{host}/pki/{name}, which {host}/cluster.yml names as {key}, is missing on the host."
        for name, key in (("ca.crt", "certificate-authority"), ("a.crt", "client-certificate"), ("a.key", "client-key"))
    ]
    assert listing(tmp_path / "here") == ["tenants/team.yml"]


def test_a_token_that_another_program_renews_is_named_where_the_controller_has_it(host, tmp_path):
    people_have(host, tokenFile="pki/token")
    (host / "pki/token").write_text("new\n")
    fetch(host, [], tmp_path / "here", transport="local")
    copy = yaml.safe_load((tmp_path / "here/cluster.yml").read_text())
    assert copy["users"][0]["user"] == {"tokenFile": str(host / "pki/token")}
    (host / "pki/token").write_text("newer\n")
    assert fetch(host, [], tmp_path / "here", transport="local")["changed"] is False


def test_a_token_that_is_no_text_is_not_quoted(host, tmp_path):
    people_have(host, tokenFile="pki/token")
    (host / "pki/token").write_bytes(b"\xff\xfe")
    assert fetch(host, [], tmp_path / "here")["msg"] == f"{host}/pki/token holds no token, because it is no text."


@pytest.mark.parametrize(
    ("context", "told"),
    [
        (
            "current-context: gone\n",
            "its current-context 'gone' is none of its contexts (here). Choose one: kubectl config use-context NAME",
        ),
        ("", "its current-context '' is none of its contexts (here)."),
        ("users: []\ncurrent-context: here\n", f"its context here names the user {KEY}, which it has not."),
        ("current-context: here\nclusters: []\n", "its context here leads to the cluster web, which it has not."),
    ],
)
def test_one_without_a_current_context_is_refused(host, tmp_path, context, told):
    text = TEXT.replace("current-context: here\n", context)
    if "clusters: []" in context:
        text = text.replace("clusters:\n- cluster: {server: 'https://10.0.0.3:30002'}\n  name: web\n", "")
    if "users: []" in context:
        text = text.replace(f"users: [{{name: {KEY}, user: {{}}}}]\n", "")
    (host / "cluster.yml").write_text(text)
    assert told in fetch(host, [], tmp_path / "here")["msg"]


@pytest.mark.parametrize("merged", ["<<: {user: {exec: {command: sh}}}", "<<: *base"])
def test_a_user_that_is_merged_in_is_a_user(host, tmp_path, merged):
    text = f"x: &base {{user: {{exec: {{command: sh}}}}}}\nusers:\n- name: a\n  {merged}\n"
    (host / "tenants/team.yml").write_text(text)
    assert "its users have exec" in fetch(host, ["team"], tmp_path / "here")["msg"]


@pytest.mark.parametrize("content", ["[" * 100_000, "users: x", "a: 1\na: 2\n", "\x00"], ids=lambda content: repr(content[:10]))
def test_what_a_tenants_file_may_hold_has_to_be_known(host, tmp_path, content):
    (host / "tenants/team.yml").write_text(content)
    assert fetch(host, ["team"], tmp_path / "here")["msg"].startswith(f"{host}/tenants/team.yml is no kubeconfig")
    assert listing(tmp_path / "here") == ["cluster.yml"]


def test_one_that_is_too_large_is_no_kubeconfig(host, tmp_path):
    (host / "cluster.yml").write_bytes(b"#" * (LARGEST + 3))
    assert f"is larger than {LARGEST} bytes" in fetch(host, ["team"], tmp_path / "here")["msg"]
    assert listing(tmp_path / "here") == ["tenants/team.yml"]


def test_a_pipe_on_the_host_does_not_hold_it_up(host, tmp_path):
    os.mkfifo(host / "tenants/pipe.yml")
    assert "pipe.yml is no file on the host" in fetch(host, ["pipe"], tmp_path / "here")["msg"]


def test_one_that_cannot_be_read_is_an_error_of_its_own(host, tmp_path):
    (host / "tenants/folder.yml").mkdir()
    assert "folder.yml is no file on the host" in fetch(host, ["folder", "team"], tmp_path / "here")["msg"]
    assert listing(tmp_path / "here") == ["cluster.yml", "tenants/team.yml"]


def test_a_folder_that_cannot_be_made_is_an_error(host, tmp_path):
    (tmp_path / "file").touch()
    answer = fetch(host, [], tmp_path / "file/here")
    assert answer["failed"]
    assert os.fspath(tmp_path / "file") in answer["msg"]


# A program in the place of ssh that runs the last argument here, for Ansible's own connection plugin.
SSH = """#!/bin/sh
for last; do :; done
exec sh -c "$last"
"""


@pytest.mark.parametrize(("connection", "pipelining"), [("local", "true"), ("ssh", "true"), ("ssh", "false")])
def test_no_verbosity_shows_a_key(host, tmp_path, connection, pipelining):
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    variables = {
        "ansible_connection": connection,
        "ansible_ssh_executable": str(ssh),
        "ansible_pipelining": pipelining,
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"gpu1": variables}}}))
    options = {"cluster": str(host / "cluster.yml"), "tenants": ["team"], "tenants_dir": str(host / "tenants")}
    options |= {"dest": str(tmp_path / "here"), "proxy_url": PROXY}
    play = [{"hosts": "all", "gather_facts": False, "tasks": [{"kubegpu.tenancy.fetch_kubeconfigs": options, "diff": True}]}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(play))
    environment = os.environ | {"ANSIBLE_LOCAL_TEMP": str(tmp_path / "tmp"), "ANSIBLE_HOST_KEY_CHECKING": "false"}
    done = subprocess.run(
        ["ansible-playbook", "-vvvvv", "-i", str(tmp_path / "hosts.yml"), str(tmp_path / "play.yml")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown
    assert listing(tmp_path / "here") == ["cluster.yml", "tenants/team.yml"]
    assert KEY in (tmp_path / "here/tenants/team.yml").read_text()
    # The command is shown, and its answer is not: neither as it is nor in base64, however that is aligned.
    assert "base64 -w 0" in shown
    for hidden in (KEY, *(base64.b64encode(b" " * shift + KEY.encode()).decode()[4:-4] for shift in range(3))):
        assert hidden not in shown


def test_the_command_takes_every_path_as_one():
    done = subprocess.run(["sh", "-c", command(["/no such", "/$(touch x)"])], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["kubeconfig:-"] * 2
