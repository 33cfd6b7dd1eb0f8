# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.secrets import (
    digest,
    digested,
    without_password,
    without_secrets,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import differences
from hypothesis import given
from hypothesis import strategies as st

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abc"), TREES), st.dictionaries(st.sampled_from("abc"), TREES))
def test_digests_differ_where_the_values_do(before, after):
    # In Python true is 1, in a chart it is not.
    before, after = (json.loads(json.dumps(tree).replace("true", "null").replace("false", "null")) for tree in (before, after))
    paths = [
        [path for path, _old, _new in differences(*trees)] for trees in ((before, after), (digested(before), digested(after)))
    ]
    assert paths[0] == paths[1]


@given(TREES)
def test_a_digest_stands_for_itself(tree):
    assert digested(digested(tree)) == digested(tree)
    assert digest(digest(tree)) == digest(tree)


def test_what_hides_nothing_stays():
    plain = {"on": True, "off": False, "none": None, "text": "", "list": [], "below": {}}
    assert digested(plain) == plain
    assert digested({"size": 0, "text": "0"}).keys() == {"size", "text"}
    assert 0 not in digested({"size": 0}).values()


def test_equal_numbers_have_one_digest():
    """Helm's record has 1 where a user wrote 1.0."""
    assert digest([{"a": 1.0}]) == digest([{"a": 1}])
    assert digest(1) != digest("1")
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://u:pw@proxy.example:3128/x", "http://proxy.example:3128/x"),
        ("http://u:p@w@proxy.example", "http://proxy.example"),
        # A slash has to be written as %2F, which people forget.
        ("http://u:p/w@proxy.example", "http://proxy.example"),
        ("https://host.example:6443", "https://host.example:6443"),
        ("oci://registry.example:5000/charts/kai@sha256:0a1b", "oci://registry.example:5000/charts/kai@sha256:0a1b"),
        ("web@example", "web@example"),
        ("", ""),
    ],
)
def test_addresses_are_shown_without_a_password(address, shown):
    assert without_password(address) == shown


def test_secrets_are_found_at_any_depth():
    data = {
        "values": {"a": "pw"},
        "settings": {"kai_scheduler_values": {"a": "pw"}, "values_file": "plain"},
        "tenants": [{"scheduler": {"values": {"a": ["pw"]}}}],
        "proxies": ["http://u:pw@host"],
        "kubeconfig": {"users": [{"token": "pw"}]},
        "many": ("plain", 1, None),
    }
    shown = without_secrets(data)
    assert "pw" not in json.dumps(shown)
    assert (shown["settings"]["values_file"], shown["many"], shown["proxies"]) == ("plain", ("plain", 1, None), ["http://host"])
    assert without_secrets({"kubeconfig": "/etc/kubegpu/cluster.yml"}) == {"kubeconfig": "/etc/kubegpu/cluster.yml"}
