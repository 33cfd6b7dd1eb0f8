# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.kubeconfig import chosen
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kubeconfig.current import (
    File,
    alone,
    files_of,
    with_contents,
)

PATH = "/etc/site/cluster.yml"


def config(cluster=None, user=None, **more):
    return {
        "clusters": [{"name": "a", "cluster": {"server": "a"}}, {"name": "b", "cluster": cluster or {"server": "b"}}],
        "users": [{"name": "a", "user": {"token": "a"}}, {"name": "b", "user": user or {"token": "b"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in ("a", "b")],
        "current-context": "b",
    } | more


def test_the_current_context_counts_unless_another_is_named():
    assert chosen(config()) == ({"server": "b"}, {"token": "b"})
    assert chosen(config(), "a") == ({"server": "a"}, {"token": "a"})


@pytest.mark.parametrize("given", [{}, {"current-context": "x"}, config(contexts=None), config(**{"current-context": None})])
def test_without_such_a_context_there_is_nothing(given):
    assert chosen(given) == ({}, {})


def test_a_context_without_a_user_stays_without_one():
    found = alone(config(contexts=[{"name": "b", "context": {"cluster": "b"}}]), PATH)
    assert (len(found["clusters"]), found["users"], files_of(found, PATH)) == (1, [], [])


def test_of_two_of_one_name_the_first_counts_as_for_the_modules():
    twice = [{"name": "b", "cluster": {"server": "first"}}, {"name": "b", "cluster": {"server": "second"}}]
    assert alone(config(clusters=twice), PATH)["clusters"] == twice[:1]
    assert chosen(config(clusters=twice))[0] == {"server": "first"}


@pytest.mark.parametrize(
    ("named", "path"),
    [
        ("ca.crt", "/etc/site/ca.crt"),
        ("./pki/ca.crt", "/etc/site/pki/ca.crt"),
        ("../ca.crt", "/etc/ca.crt"),
        ("/pki/ca.crt", "/pki/ca.crt"),
    ],
)
def test_files_are_found_from_the_kubeconfigs_folder(named, path):
    given = alone(config({"server": "b", "certificate-authority": named}), PATH)
    (file,) = files_of(given, PATH)
    assert file == File("clusters", "certificate-authority", path)
    assert with_contents(given, {file: "Q0E="})["clusters"][0]["cluster"] == {"server": "b", "certificate-authority-data": "Q0E="}


def test_a_kubeconfig_without_files_stays_as_it_is():
    given = alone(config(), PATH)
    assert with_contents(given, {}) == given


@pytest.mark.parametrize(
    ("command", "copied"),
    [("aws", "aws"), ("bin/login", "/etc/site/bin/login"), ("/bin/login", "/bin/login"), ("./login", "/etc/site/login")],
)
def test_a_program_is_found_from_any_folder(command, copied):
    (user,) = alone(config(user={"exec": {"command": command, "args": ["a"]}}), PATH)["users"]
    assert user["user"] == {"exec": {"command": copied, "args": ["a"]}}


def test_contexts_that_there_are_are_named():
    with pytest.raises(TenancyError, match=r"'x' is none of its contexts \(a, b\)"):
        alone(config(**{"current-context": "x"}), PATH)


def test_a_file_of_blanks_holds_no_token():
    given = alone(config(user={"tokenFile": "tok"}), PATH)
    (file,) = files_of(given, PATH)
    with pytest.raises(TenancyError, match=r"^/etc/site/tok holds no token, but blanks only\.$"):
        with_contents(given, {file: "IAo="})
