# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module device_plugin."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm import Chart, Release
from ansible_collections.kubegpu.tenancy.plugins.modules.device_plugin import VALUES, DevicePlugin

NAMESPACE = "nvidia-device-plugin"


class FakeKube:
    def __init__(self, gpus: dict[str, int]) -> None:
        self.objects: dict[tuple[str, str], dict[str, t.Any]] = {}
        self.gpus = gpus
        self.ready = 1

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, t.Any] | None:
        return self.objects.get((kind, name))

    def create(self, definition: dict[str, t.Any]) -> None:
        self.objects[definition["kind"], definition["metadata"]["name"]] = definition

    def delete(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> bool:
        return self.objects.pop((kind, name), None) is not None

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, label_selector: str | None = None
    ) -> list[dict[str, t.Any]]:
        if kind == "Node":
            return [
                {"metadata": {"name": name}, "status": {"allocatable": {"nvidia.com/gpu": str(count)} if count else {}}}
                for name, count in self.gpus.items()
            ]
        if kind == "DaemonSet":
            status = {
                "observedGeneration": 1,
                "desiredNumberScheduled": 1,
                "updatedNumberScheduled": 1,
                "numberReady": self.ready,
            }
            return [{"metadata": {"generation": 1}, "status": status}]
        waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}}
        return [{"metadata": {"name": "plugin-x"}, "status": {"containerStatuses": [] if self.ready else [waiting]}}]


class FakeHelm:
    def __init__(self, status: str = "") -> None:
        self.calls: list[str] = []
        self.found = Release(NAMESPACE, NAMESPACE, status, 1, NAMESPACE, "0.17.4", {}) if status else None

    def release(self, name: str, namespace: str) -> Release | None:
        return self.found

    def upgrade(self, name: str, namespace: str, chart: Chart, values: dict[str, t.Any], timeout: int) -> str:
        self.calls.append("upgrade")
        self.found = Release(name, namespace, "deployed", 1, name, chart.version, values)
        return ""

    def uninstall(self, name: str, namespace: str, timeout: int) -> str:
        self.calls.append("uninstall")
        self.found = None
        return ""


def plugin(kube: FakeKube, helm: FakeHelm, check_mode: bool = False, **params: t.Any) -> DevicePlugin:
    defaults: dict[str, t.Any] = {
        "namespace": NAMESPACE,
        "version": "0.17.4",
        "chart_source": "",
        "values": {},
        "expected_gpus": {"w1": 4},
        "timeout": 0,
    }
    return DevicePlugin(defaults | params, t.cast(t.Any, kube), t.cast(t.Any, helm), check_mode)


def test_there_and_back() -> None:
    kube, helm = FakeKube({"w1": 4, "w2": 2}), FakeHelm()
    predicted = plugin(kube, helm, check_mode=True).present()
    assert (helm.calls, kube.objects) == ([], {})
    done = plugin(kube, helm).present()
    assert done == predicted | {"gpus": {"w1": 4, "w2": 2}}
    assert done["diff"]["after"] == {
        "RuntimeClass nvidia": "handler nvidia",
        "namespace": NAMESPACE,
        "version": "0.17.4",
        "values": VALUES,
    }
    assert not plugin(kube, helm).present()["changed"]
    assert helm.calls == ["upgrade"]

    assert plugin(kube, helm, check_mode=True).absent()["changed"]
    assert plugin(kube, helm).absent()["changed"]
    assert (helm.calls, kube.objects) == (["upgrade", "uninstall"], {})
    assert not plugin(kube, helm).absent()["changed"]


@pytest.mark.parametrize(
    ("gpus", "ready", "words"),
    [
        ({"w1": 3}, 1, "w1 offers 3 of 4 GPUs"),
        ({"w1": 4, "w2": 0}, 1, "w2 offers 0 of some GPUs"),
        ({"w2": 1}, 1, "w1 is not labelled"),
        ({"w1": 4}, 0, "0 of 1 pods of the plugin are ready; plugin-x: ErrImagePull no such host"),
    ],
)
def test_missing_gpus_are_named(gpus: dict[str, int], ready: int, words: str) -> None:
    kube = FakeKube(gpus)
    kube.ready = ready
    with pytest.raises(TenancyError, match=words):
        plugin(kube, FakeHelm()).present()


def test_an_installation_that_was_killed_starts_over() -> None:
    kube, helm = FakeKube({"w1": 4}), FakeHelm("pending-install")
    kube.create({"kind": "Namespace", "metadata": {"name": NAMESPACE}})
    assert plugin(kube, helm).present()["changed"]
    assert helm.calls == ["uninstall", "upgrade"]


def test_what_others_made_stays() -> None:
    kube, helm = FakeKube({"w1": 4}), FakeHelm()
    kube.create({"kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"})
    kube.create({"kind": "Namespace", "metadata": {"name": NAMESPACE}})
    plugin(kube, helm).present()
    plugin(kube, helm).absent()
    assert len(kube.objects) == 2


def test_a_runtime_class_with_another_handler_is_refused() -> None:
    kube = FakeKube({})
    kube.create({"kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "runc"})
    with pytest.raises(TenancyError, match="handler runc"):
        plugin(kube, FakeHelm()).present()
