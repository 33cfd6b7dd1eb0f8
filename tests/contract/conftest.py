# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two API servers that have to behave alike."""

from __future__ import annotations

import dataclasses
import os
import secrets
import time
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi

# Names a kubeconfig with the rights to make namespaces; without it, only the server in memory is tried.
KUBECONFIG = os.environ.get("KUBEGPU_CONTRACT_KUBECONFIG")
# Only a real server evaluates the expressions of policies, or Gatekeeper's program, which takes long to build.
collect_ignore = [] if KUBECONFIG else ["test_admission.py", "test_gatekeeper.py"]


@dataclasses.dataclass
class Server:
    """An API server, and the namespace that a test has to itself."""

    kube: Any
    namespace: str


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server_kind" in metafunc.fixturenames:
        metafunc.parametrize("server_kind", ["in_memory", "real"] if KUBECONFIG else ["in_memory"], scope="session")


@pytest.fixture(scope="session", name="kube")
def _kube(server_kind: str) -> Any:
    if server_kind == "real":
        return Kube.connect(kubeconfig=KUBECONFIG)
    kube = InMemoryApi(strict=True)

    def add_account(namespace: dict[str, Any]) -> None:
        where = {"name": "default", "namespace": namespace["metadata"]["name"]}
        kube.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": where})

    kube.react("create", "Namespace", add_account)
    return kube


def _namespace(kube: Any) -> str:
    name = f"kubegpu-contract-{secrets.token_hex(4)}"
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    wait_for(
        f"the service account of {name}", lambda: (kube.get("v1", "ServiceAccount", "default", name), "it does not exist"), 30
    )
    return name


@pytest.fixture(scope="module", name="namespace")
def _shared_namespace(kube: Any) -> Any:
    name = _namespace(kube)
    yield name
    kube.delete("v1", "Namespace", name)
    if KUBECONFIG:
        # The server in memory lets it go at once.
        deadline = time.monotonic() + 90
        while kube.get("v1", "Namespace", name) and time.monotonic() < deadline:
            time.sleep(0.5)
    assert kube.get("v1", "Namespace", name) is None


@pytest.fixture(name="server")
def _server(kube: Any, namespace: str) -> Server:
    return Server(kube, namespace)


@pytest.fixture(name="own_namespace")
def _own_namespace(kube: Any) -> Any:
    """A namespace that the test itself deletes; finalizers that hold it are removed at the end."""
    name = _namespace(kube)
    yield name
    for item in kube.list("v1", "ConfigMap", name):
        if item["metadata"].get("finalizers"):
            kube.patch("v1", "ConfigMap", item["metadata"]["name"], {"metadata": {"finalizers": None}}, name)
    kube.delete("v1", "Namespace", name)
