# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common import verbatim
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.kubeconfig import ENTRIES, entry
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kubeconfig import plan
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kubeconfig import values as kc

SECRET = {
    "metadata": {"name": "vc-web"},
    "data": {"certificate-authority": "Q0E=", "client-certificate": "Q0VSVA==", "client-key": "S0VZ", "token": ""},
}


OWN = kc.kubeconfig(SECRET, "web", "https://10.0.0.3:30002")
# As kubectl writes it, with what it does not know left in.
THEIRS = {
    "apiVersion": "v1",
    "clusters": [{"cluster": {"server": "https://a"}, "name": "a"}, {"cluster": {"server": "https://b"}, "name": "b"}],
    "contexts": [{"context": {"cluster": "a", "user": "a"}, "name": "a"}],
    "current-context": "a",
    "kind": "Config",
    "preferences": {},
    "users": [{"name": "a", "user": {"exec": {"command": "login", "env": None}}}],
    "x-notes": ["keep"],
}


def test_merge_adds_and_without_takes_away_again():
    before = copy.deepcopy(THEIRS)
    merged = plan.merge(THEIRS, OWN, False)
    assert before == THEIRS
    assert list(merged) == list(THEIRS)
    assert [[item["name"] for item in merged[kind]] for kind in ENTRIES] == [["a", "b", "web"], ["a", "web"], ["a", "web"]]
    assert merged["current-context"] == "a"
    assert entry(merged, "users", "a") == THEIRS["users"][0]["user"]
    assert plan.merge(merged, OWN, False) == merged
    assert plan.without(merged, "web") == THEIRS

    current = plan.merge(THEIRS, OWN, True)
    assert current == merged | {"current-context": "web"}
    assert plan.without(current, "web") == THEIRS | {"current-context": ""}


def test_merge_replaces_in_place_and_keeps_what_the_context_holds_besides():
    merged = copy.deepcopy(plan.merge(None, OWN, False))
    assert plan.merge(merged, OWN, False) == merged == OWN
    merged["contexts"][0]["context"]["namespace"] = "training"
    merged["clusters"].append({"name": "later", "cluster": {}})
    new = kc.kubeconfig(SECRET, "web", "https://lb", None)
    again = plan.merge(merged, new, False)
    assert [item["name"] for item in again["clusters"]] == ["web", "later"]
    assert entry(again, "clusters", "web")["server"] == "https://lb"
    assert entry(again, "contexts", "web") == {"cluster": "web", "user": "web", "namespace": "training"}


@pytest.mark.parametrize(
    "existing", [None, {"kind": "Config"}, {"kind": "Config", "clusters": None, "users": [], "contexts": None, "preferences": {}}]
)
def test_nothing_is_left_of_own_entries_alone(existing):
    merged = plan.merge(existing, OWN, False)
    assert plan.holds(merged, "web")
    assert plan.without(merged, "web") is None
    assert not plan.holds(existing, "web")


@pytest.mark.parametrize("leads", [{"cluster": "a", "user": "a"}, {"cluster": "web", "user": "a"}, {"cluster": "web"}])
def test_a_context_of_the_same_name_that_leads_elsewhere_is_not_ours(leads):
    other = yaml.safe_dump(THEIRS | {"contexts": [{"name": "web", "context": leads}]}).encode()
    with pytest.raises(TenancyError, match=rf"^/f has a context web already, which leads to the cluster {leads['cluster']},"):
        plan.parse(other, "/f", "web")
    assert plan.parse(other, "/f", "other")


@pytest.mark.parametrize("content", [b"", b"# nothing yet\n"])
def test_an_empty_file_holds_nothing(content):
    assert plan.parse(content, "/f", "web") is None


@pytest.mark.parametrize("config", [OWN, THEIRS, {"kind": "Config", "users": None}])
def test_parse(config):
    assert plan.parse(yaml.safe_dump(config).encode(), "/f", "web") == config


@pytest.mark.parametrize(
    "content",
    [
        b"client-key-data: [S0VZ",
        b"\xff\xfe\x00S0VZ",
        b"- S0VZ",
        b"S0VZ",
        b"server: S0VZ",
        b"kind: Secret",
        b"kind: Config\nusers: {a: S0VZ}",
        b"kind: Config\nusers: [S0VZ]",
        b"kind: Config\nusers: [{user: {}}]",
        b"kind: Config\nusers: [{name: a, user: S0VZ}]",
    ],
)
def test_what_is_no_kubeconfig_is_refused_and_not_quoted(content):
    with pytest.raises(TenancyError, match=r"^/f is no kubeconfig") as failure:
        plan.parse(content, "/f", "web")
    assert "S0VZ" not in str(failure.value)


@pytest.mark.parametrize(
    "content",
    [
        b"kind: Config\nx: " + b"[" * 2000,
        b"kind: Config\nx: " + b"[" * 100_000,
        b"kind: Config\nusers: [{name: [S0VZ]}]",
        b"kind: Config\nusers: [{name: }]",
        b"kind: Config\nusers: [{name: a, user: [S0VZ]}]",
        b"kind: Config\nusers: S0VZ",
        b"kind: [S0VZ]",
        b"kind: Config\n---\nkind: Config",
        b"kind: Config\nkind: S0VZ",
        b"kind: Config\nusers: &a [{name: a, user: *a}]",
    ],
    ids=lambda content: repr(content[:40]),
)
def test_odd_files_are_refused_by_name(content):
    with pytest.raises(TenancyError, match=r"^/f is no kubeconfig, and stays as it is") as failure:
        plan.parse(content, "/f", "web")
    assert "S0VZ" not in str(failure.value)


@pytest.mark.parametrize("leads", ["cluster: []", "cluster: [web], user: web", "cluster: {a: b}, user: []", "user: web", ""])
def test_a_context_that_leads_nowhere_is_not_ours(leads):
    content = f"kind: Config\ncontexts: [{{name: web, context: {{x: y, {leads}}}}}]".encode()
    with pytest.raises(
        TenancyError, match=r"^/f has a context web already, which leads to the cluster .*Give another context_name"
    ):
        plan.parse(content, "/f", "web")


def test_texts_of_others_are_shown_as_one_line():
    content = b'kind: Config\ncontexts: [{name: web, context: {cluster: "a\\n\\e[2JPLAY RECAP"}}]'
    with pytest.raises(TenancyError, match=r"^.* leads to the cluster a PLAY RECAP, and stays as it is") as failure:
        plan.parse(content, "/f", "web")
    assert str(failure.value).isprintable()


# As people and programs other than kubectl write it.
ODD = """\
kind: Config
preferences: &p {colors: on}
clusters:
- &own {name: web, cluster: {server: "https://old"}}
- *own
- name: 2026
  cluster: {server: https://a, insecure-skip-tls-verify: yes, extensions: *p}
users:
- name: 12:34:56
  user: {username: 017, password: 12:34:56, quoted: '12:34:56'}
current-context: on
"""


def test_entries_of_others_stay_exactly_as_they_were():
    existing = plan.parse(ODD.encode(), "/f", "web")
    text = verbatim.dump(plan.merge(existing, OWN, False))
    lines = [line.strip() for line in text.splitlines()]
    for line in (
        "colors: on",
        "- name: 2026",
        "insecure-skip-tls-verify: yes",
        "- name: 12:34:56",
        "username: 017",
        "password: 12:34:56",
        "quoted: '12:34:56'",
        "current-context: on",
    ):
        assert line in lines
    # One of that name in place of two, and nothing that points elsewhere.
    assert lines.count("- name: web") == 3
    assert not [line for line in lines if "*" in line or "&" in line]
    again = plan.parse(text.encode(), "/f", "web")
    assert plan.merge(again, OWN, False) == again
    assert verbatim.dump(plan.without(again, "web")) == verbatim.dump(
        plan.without(existing, "web") | {"contexts": [], "users": existing["users"]}
    )
    # By its text, as kubectl compares names.
    assert plan.holds(existing, "2026")


@pytest.mark.parametrize("value", [["https://a"], {"a": "b"}, 5, None])
def test_a_summary_of_odd_values(value):
    odd = {
        "kind": "Config",
        "clusters": [{"name": "web", "cluster": {"server": value, "proxy-url": value}}],
        "current-context": value,
    }
    found = plan.summary(odd, "web")
    assert all(isinstance(text, str) for text in found.values())
    assert plan.same_credentials(odd, odd, "web")


def test_summary_holds_no_credentials():
    assert plan.summary(OWN, "web") == {"context": "web", "server": "https://10.0.0.3:30002", "current_context": "web"}
    assert plan.summary(THEIRS, "web") == {"current_context": "a"}
    assert plan.summary(None, "web") == {}
    by_proxy = kc.kubeconfig(SECRET, "web", "https://a", "http://proxy:3128")
    assert plan.summary(by_proxy, "web")["proxy_url"] == "http://proxy:3128"
    assert plan.summary(kc.kubeconfig(SECRET, "web", "https://user:word@a"), "web")["server"] == "https://a"
    by_proxy = kc.kubeconfig(SECRET, "web", "https://a", "http://user:secret@proxy:3128")
    assert plan.summary(by_proxy, "web")["proxy_url"] == "http://proxy:3128"
    assert plan.same_credentials(OWN, by_proxy, "web")
    assert not plan.same_credentials(OWN, kc.with_token(OWN, "other"), "web")
    assert not plan.same_credentials(None, OWN, "web")
