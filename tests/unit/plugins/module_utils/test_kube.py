# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import threading

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, _proxy_url, finish
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.parallel import CONCURRENCY, side_by_side

CONFIG = {
    "clusters": [{"name": "near", "cluster": {}}, {"name": "far", "cluster": {"proxy-url": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "a", "context": {"cluster": "near"}}, {"name": "b", "context": {"cluster": "far"}}],
    "current-context": "b",
}


@pytest.mark.parametrize(("context", "proxy"), [(None, "http://127.0.0.1:1"), ("a", None), ("gone", None)])
def test_the_proxy_is_that_of_the_contexts_cluster(context, proxy, tmp_path):
    (tmp_path / "config").write_text(yaml.safe_dump(CONFIG))
    assert _proxy_url(str(tmp_path / "config"), context) == proxy
    assert _proxy_url(CONFIG, context) == proxy


@pytest.mark.parametrize("text", ["", "odd: [", "- list"])
def test_what_is_no_kubeconfig_is_the_clients_to_refuse(text, tmp_path):
    (tmp_path / "config").write_text(text)
    assert _proxy_url(str(tmp_path / "config"), None) is None
    assert _proxy_url(str(tmp_path / "gone"), None) is None


def test_a_token_is_asked_for_by_its_subresource():
    asked = {}

    class Token:
        def create(self, body, **where):
            asked.update(body["spec"], **where)
            return {"status": {"token": "secret"}}

    class Client:
        def resource(self, kind, api_version):
            assert (kind, api_version) == ("ServiceAccount", "v1")
            return type("Accounts", (), {"subresources": {"token": Token()}})

    assert Kube(Client()).create_token("deployer", "kube-system", 600) == "secret"
    assert asked.pop("serializer")(None, {}) == {}
    assert asked == {"expirationSeconds": 600, "name": "deployer", "namespace": "kube-system"}


def test_threads_ask_one_after_the_other_what_the_server_knows():
    asking = threading.Lock()

    class Client:
        def resource(self, kind, _api_version):
            assert asking.acquire(blocking=False)
            threading.Event().wait(0.01)
            asking.release()
            return kind

    kube = Kube(Client())
    assert side_by_side(lambda kind: kube.served("v1", kind), ["Pod"] * CONCURRENCY) == [True] * CONCURRENCY


def test_warnings_are_told_one_by_one_and_not_returned():
    told = []

    class Module:
        warn = told.append

        def exit_json(self, **result):
            told.append(result)

    finish(Module(), {"changed": True, "warnings": ["odd", "old"]})
    assert told == ["odd", "old", {"changed": True}]
