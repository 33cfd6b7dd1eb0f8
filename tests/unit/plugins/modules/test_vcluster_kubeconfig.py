# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.modules import vcluster_kubeconfig as module

SECRET = {
    "metadata": {"name": "vc-web"},
    "data": {"certificate-authority": "Q0E=", "client-certificate": "Q0VSVA==", "client-key": "S0VZ"},
}
SERVICE = {"spec": {"type": "NodePort", "ports": [{"port": 443, "nodePort": 30002}]}}
POD = {"status": {"phase": "Running", "hostIP": "10.0.0.3"}}


class FakeKube:
    def __init__(self, **found):
        self.found = {"Secret": SECRET, "Service": SERVICE} | found

    def get(self, api_version, kind, name, namespace):
        assert namespace == "tenant-web"
        return self.found[kind]

    def list(self, api_version, kind, namespace, label_selector):
        return [POD]


def ask(config, path):
    return {}


def refuse(config, path):
    raise TenancyError("connection refused")


@pytest.fixture(name="params")
def _params(tmp_path):
    return {
        "name": "web",
        "namespace": None,
        "path": str(tmp_path / "web.yml"),
        "server": None,
        "proxy_url": None,
        "context_name": None,
        "verify": True,
        "timeout": 0,
    }


def test_writes_once(params):
    result = module.present(params, FakeKube(), False, ask)
    assert result["changed"]
    assert result["diff"]["before"] == {}
    assert result["diff"]["after"] == {
        "path": params["path"],
        "context": "web",
        "server": "https://10.0.0.3:30002",
        "credentials": "new",
    }
    assert os.stat(params["path"]).st_mode & 0o777 == 0o600
    assert os.listdir(os.path.dirname(params["path"])) == ["web.yml"]
    with open(params["path"], encoding="utf-8") as file:
        assert yaml.safe_load(file)["current-context"] == "web"

    again = module.present(params, FakeKube(), False, ask)
    assert not again["changed"]
    assert again["diff"]["before"] == again["diff"]["after"]


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"data": SECRET["data"] | {"client-key": "TkVX"}}, {"credentials": "changed"}),
        (None, {"server": "https://lb:6443"}),
    ],
)
def test_diff_names_changes_without_secrets(params, change, difference):
    module.present(params, FakeKube(), False, ask)
    if change:
        result = module.present(params, FakeKube(Secret=SECRET | change), False, ask)
    else:
        result = module.present(params | {"server": "https://lb:6443"}, FakeKube(), False, ask)
    assert result["changed"]
    assert dict(result["diff"]["after"].items() - result["diff"]["before"].items()) == difference
    assert not any(secret in json.dumps(result) for secret in ("TkVX", "S0VZ", "Q0VSVA=="))


def test_loose_mode_is_mended(params):
    module.present(params, FakeKube(), False, ask)
    os.chmod(params["path"], 0o644)
    result = module.present(params, FakeKube(), False, ask)
    assert (result["diff"]["before"]["mode"], result["diff"]["after"]["mode"]) == ("0644", "0600")
    assert os.stat(params["path"]).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("secret", [SECRET, None])
def test_check_mode_writes_nothing(params, secret):
    assert module.present(params, FakeKube(Secret=secret), True, refuse)["changed"]
    assert not os.path.exists(params["path"])


@pytest.mark.parametrize(
    ("kube", "answer", "match"),
    [
        (FakeKube(Secret=None), ask, "vc-web does not exist"),
        (FakeKube(Service={"spec": {"type": "ClusterIP"}}), ask, "^server: "),
        (FakeKube(), refuse, "connection refused"),
    ],
)
def test_failures_leave_no_file(params, kube, answer, match):
    with pytest.raises(TenancyError, match=match):
        module.present(params, kube, False, answer)
    assert not os.path.exists(params["path"])


def test_unverified(params):
    assert module.present(params | {"verify": False}, FakeKube(), False, refuse)["changed"]


def test_missing_folder(params):
    missing = params | {"path": "/nowhere/web.yml"}
    with pytest.raises(TenancyError, match=r"^path: there is no folder /nowhere\.$"):
        module.present(missing, FakeKube(), False, refuse)
    assert module.present(missing, FakeKube(), True, ask)["changed"]


def test_unwritable(params, tmp_path):
    (tmp_path / ".web.yml.kubegpu").mkdir()
    with pytest.raises(TenancyError, match=r"^path: .*cannot be written"):
        module.present(params, FakeKube(), False, ask)


def test_absent(params):
    assert not module.absent(params, False)["changed"]
    module.present(params, FakeKube(), False, ask)
    assert module.absent(params, True)["changed"]
    assert os.path.exists(params["path"])
    assert module.absent(params, False)["changed"]
    assert not os.path.exists(params["path"])
