# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the code takes for granted of Helm, shown of the one in memory and, where there is a cluster, of Helm 3 and Helm 4.

The lab pins the programs; they are built into the lab's cache where it has not got them yet, which takes Go.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import Program
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Chart, Helm
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm_output import UPGRADE_ARGUMENTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.facts import UNFINISHED
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.lifecycle import HelmRelease
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.helm import InMemoryHelm
from ansible_collections.kubegpu.tenancy.tests.unit.problems import sentences
from ansible_collections.kubegpu.tenancy.tests.unit.recipes import built

KUBECONFIG = os.environ.get("KUBEGPU_CONTRACT_KUBECONFIG")
ROLE_FILES = Path(__file__).parents[2] / "lab/roles/lab/files"
PINNED = sorted(path.name.removeprefix("helm-") for path in (ROLE_FILES / "programs").glob("helm-v*"))
CHART, VERSION = "tiny-chart", "1.2.3-rc.1"
STATES = ["deployed", "failed", "superseded", "uninstalled", *sorted(UNFINISHED)]

FILES = {
    "Chart.yaml": f"apiVersion: v2\nname: {CHART}\nversion: {VERSION}\n",
    "values.yaml": "text: hello\nrefuse: ''\nhook: false\nnested: {known: 1}\n",
    "values.schema.json": json.dumps(
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "text": {"type": "string"},
                "refuse": {"type": "string"},
                "hook": {"type": "boolean"},
                "nested": {"type": "object", "additionalProperties": False, "properties": {"known": {"type": "integer"}}},
            },
        }
    ),
    "templates/content.yaml": (
        "{{ if .Values.refuse }}{{ fail .Values.refuse }}{{ end }}\napiVersion: v1\nkind: ConfigMap\n"
        "metadata: {name: {{ .Release.Name }}}\ndata: {text: {{ .Values.text | quote }}}\n"
        '{{ if .Capabilities.APIVersions.Has "contract.kubegpu.example/v1/Nothing" }}served: true{{ end }}\n'
    ),
    # No scheduler of this name runs anywhere, so that the hook never ends.
    "templates/hook.yaml": (
        "{{ if .Values.hook }}\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}-hook\n"
        "  annotations: {helm.sh/hook: 'pre-install,pre-upgrade,pre-delete'}\n"
        "spec: {schedulerName: kubegpu-contract, containers: [{name: c, image: registry.invalid/c}]}\n{{ end }}\n"
    ),
}

# Not in the chart above, because helm would leave it behind.
CRD = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.contract.kubegpu.example}\n"


def execute(args: list[str], *, data: str | None = None, environ_update: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Run a program as AnsibleModule.run_command does."""
    environment = os.environ | (environ_update or {})
    done = subprocess.run(args, input=data, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def program(version: str) -> Path:
    """Return helm of that version from the lab's cache."""
    helm = Program("helm", version, f"helm.sh/helm/{version[:2]}")
    return built(ROLE_FILES, helm).program_dir(helm) / "helm"


@dataclasses.dataclass
class Setting:
    """A Helm over an API server, with a namespace that the tests of it have to themselves, and a name of its own for each test."""

    kube: Any
    helm: Any
    namespace: str
    chart: Chart
    name: str = ""

    def release(self) -> Release | None:
        return self.life().found

    def install(self, **values: Any) -> Release:
        self.helm.upgrade(self.name, self.namespace, self.chart, values, 20)
        found = self.release()
        assert found
        return found

    def life(self) -> HelmRelease:
        release = HelmRelease(self.kube, self.helm, self.name, self.namespace)
        release.inspect()
        return release

    def set_status(self, status: str) -> None:
        """Have the last revision in another state, as a kill leaves it."""
        if isinstance(self.helm, InMemoryHelm):
            self.helm.set_status(self.name, self.namespace, status)
            return
        found = self.release()
        assert found
        record = self.kube.get("v1", "Secret", found.record, self.namespace)["data"]["release"]
        # Base64 of the API, and of helm.
        release = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(record))))
        release["info"]["status"] = status
        packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode()))).decode()
        body = {"metadata": {"labels": {"status": status}}, "data": {"release": packed}}
        self.kube.patch("v1", "Secret", found.record, body, self.namespace)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    real = PINNED if KUBECONFIG else []
    if "version" in metafunc.fixturenames:
        metafunc.parametrize("version", ["in_memory", *real], scope="module")
    elif "real_version" in metafunc.fixturenames:
        metafunc.parametrize("real_version", real, scope="module")


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart."""
    folder = tmp_path_factory.mktemp("charts") / CHART
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture(scope="module", name="real_namespace")
def _real_namespace() -> Iterator[str]:
    kube, name = Kube.connect(kubeconfig=KUBECONFIG), f"kubegpu-contract-{secrets.token_hex(4)}"
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    kube.delete("v1", "Namespace", name)
    wait_for(f"the end of {name}", lambda: (None if kube.get("v1", "Namespace", name) else True, "it is still there"), 90)


def _real(version: str, namespace: str, folder: Path) -> Setting:
    helm = Helm(execute, str(program(version)), str(KUBECONFIG))
    return Setting(Kube.connect(kubeconfig=KUBECONFIG), helm, namespace, Chart(str(folder)), f"r{secrets.token_hex(4)}")


@pytest.fixture(name="setting")
def _setting(version: str, folder: Path, request: pytest.FixtureRequest) -> Setting:
    if version == "in_memory":
        api = InMemoryApi()
        return Setting(api, InMemoryHelm(api), "apps", Chart(CHART, VERSION), "web")
    return _real(version, request.getfixturevalue("real_namespace"), folder)


@pytest.fixture(name="real")
def _real_setting(real_version: str, folder: Path, real_namespace: str) -> Setting:
    return _real(real_version, real_namespace, folder)


# --- the verbs ---------------------------------------------------------------------------------------------------------


def test_there_is_a_program_of_each_major():
    assert {int(version[1]) for version in PINNED} == set(UPGRADE_ARGUMENTS)


def test_a_release_that_does_not_exist(setting):
    assert setting.release() is None
    assert setting.helm.uninstall(setting.name, setting.namespace, 5) == ""


def test_there_and_back(setting):
    first = setting.install(text="one", nested={"known": 2})
    values = {"text": "one", "nested": {"known": 2}}
    assert first == Release(setting.name, setting.namespace, "deployed", 1, CHART, VERSION, values, first.deployed_at)
    second = setting.install(text="two")
    # Exactly the values that were given, none of those before.
    assert (second.revision, second.status, second.values) == (2, "deployed", {"text": "two"})
    assert setting.kube.get("v1", "Secret", second.record, setting.namespace)
    setting.helm.uninstall(setting.name, setting.namespace, 5)
    assert setting.release() is None
    assert setting.kube.list("v1", "Secret", setting.namespace, f"owner=helm,name={setting.name}") == []


@pytest.mark.parametrize("status", ["pending-install", "pending-upgrade", "pending-rollback", "uninstalling"])
def test_an_unfinished_revision_is_in_the_way(setting, status):
    setting.install()
    setting.set_status(status)
    assert setting.release().status == status
    with pytest.raises(TenancyError, match=r"another operation .* is in progress|has no deployed releases"):
        setting.install()


# --- the life of a release -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", STATES)
def test_every_state_ends_deployed(setting, status):
    setting.install(text="one")
    setting.install(text="two")
    setting.set_status(status)
    life = setting.life()
    assert life.changes(VERSION, {"text": "two"}) == ([] if status == "deployed" else [("release", status, "deployed")])
    life.apply(setting.chart, {"text": "three"}, Deadline(30))
    assert setting.life().changes(VERSION, {"text": "three"}) == []


@pytest.mark.parametrize("status", STATES)
def test_every_state_can_be_removed(setting, status):
    setting.install(text="one")
    setting.install(text="two")
    setting.set_status(status)
    setting.life().remove(Deadline(30))
    assert setting.release() is None


def test_a_revision_whose_successor_is_gone(setting):
    setting.install(text="one")
    last = setting.install(text="two")
    setting.kube.delete("v1", "Secret", last.record, setting.namespace)
    life = setting.life()
    assert (life.found.status, life.found.values) == ("superseded", {"text": "one"})
    life.apply(setting.chart, {"text": "two"}, Deadline(30))
    assert setting.life().changes(VERSION, {"text": "two"}) == []


# --- Helm 3 and Helm 4 only ------------------------------------------------------------------------------------------------


def content(setting: Setting) -> str:
    return str(setting.kube.get("v1", "ConfigMap", setting.name, setting.namespace)["data"]["text"])


class TestPrograms:
    """Without a cluster these are no tests, so that none counts as skipped."""

    __test__ = bool(KUBECONFIG)

    def test_a_field_that_somebody_changed_is_set_again(self, real):
        real.install(text="one")
        # By another field manager, which a server-side apply would not overrule.
        real.kube.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": real.name, "namespace": real.namespace},
                "data": {"text": "somebody's"},
            }
        )
        real.install(text="two")
        assert content(real) == "two"

    def test_the_other_major_takes_over(self, real, real_version, folder, real_namespace):
        (other,) = [_real(version, real_namespace, folder) for version in PINNED if version != real_version]
        other.name = real.name
        real.install(text="one")
        other.install(text="two")
        assert real.release() == other.release()
        real.install(text="three")
        assert content(real) == "three"
        other.helm.uninstall(real.name, real.namespace, 5)
        assert real.release() is None

    def test_a_release_that_cannot_be_read_is_an_error(self, real, tmp_path):
        real.install(text="one")
        wait_for(
            "the service account", lambda: (real.kube.get("v1", "ServiceAccount", "default", real.namespace), "not there"), 30
        )
        config = yaml.safe_load(Path(str(KUBECONFIG)).expanduser().read_text())
        config["users"] = [
            {"name": user["name"], "user": {"token": real.kube.create_token("default", real.namespace, 600)}}
            for user in config["users"]
        ]
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        helm = Helm(execute, real.helm._binary, str(tmp_path / "config"))
        release = HelmRelease(Kube.connect(kubeconfig=str(tmp_path / "config")), helm, real.name, real.namespace)
        for call in (release.inspect, lambda: helm.uninstall(real.name, real.namespace, 5)):
            with pytest.raises(TenancyError, match="secrets is forbidden"):
                call()

    def test_an_installation_without_hooks_waits_for_none_and_makes_none(self, real):
        for text in ("one", "two"):
            real.helm.upgrade(real.name, real.namespace, real.chart, {"text": text, "hook": True}, 20, hooks=False)
            assert (real.release().status, content(real)) == ("deployed", text)
        assert real.kube.get("v1", "Pod", f"{real.name}-hook", real.namespace) is None

    def test_what_a_chart_refuses_is_named_by_its_path(self, real):
        def problems(**values: Any) -> list[str]:
            with pytest.raises(TenancyError) as caught:
                real.life().preview(real.chart, values)
            return sentences(caught.value.problems)

        assert sorted(problems(foo=1, text=7, nested={"knwon": 1})) == [
            "values.foo: the chart has no such key.",
            "values.nested.knwon: the chart has no such key. Did you mean known?",
            "values.text: must be of type string, not number.",
        ]
        assert problems(refuse="no such luck") == ["values: no such luck."]

    def test_a_chart_is_rendered_with_the_kinds_that_are_served(self, real):
        kinds = ["contract.kubegpu.example/v1/Nothing"]
        assert "served: true" in real.life().preview(real.chart, {}, kinds)
        assert "served: true" not in real.life().preview(real.chart, {})

    def test_the_crds_of_a_chart(self, real, tmp_path):
        (tmp_path / "crds").mkdir()
        (tmp_path / "crds/things.yaml").write_text(CRD)
        (tmp_path / "Chart.yaml").write_text(FILES["Chart.yaml"])
        assert [crd["metadata"]["name"] for crd in real.helm.crds(Chart(str(tmp_path)))] == ["things.contract.kubegpu.example"]
        assert real.helm.crds(real.chart) == []

    @pytest.mark.parametrize("revision", [1, 2])
    def test_a_kill_while_a_hook_runs(self, real, revision, tmp_path):
        """The hook never ends, and nothing that repairs the release starts another one."""
        if revision == 2:
            real.install(text="one")
        values = tmp_path / "values.json"
        values.write_text(json.dumps({"hook": True}))
        command = [real.helm._binary, "upgrade", "--install", real.name, real.chart.ref, "--namespace", real.namespace]
        command += ["--values", str(values), "--timeout", "60s", "--kubeconfig", str(Path(str(KUBECONFIG)).expanduser())]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
            hook = f"{real.name}-hook"
            wait_for(
                "the hook", lambda: (real.kube.get("v1", "Pod", hook, real.namespace), "it does not exist"), 30, interval=0.2
            )
            killed.kill()
        life = real.life()
        assert (life.found.status, life.found.revision) == ({1: "pending-install", 2: "pending-upgrade"}[revision], revision)
        began = time.monotonic()
        life.apply(real.chart, {"text": "two"}, Deadline(30))
        assert time.monotonic() - began < 20
        assert (content(real), real.release().status) == ("two", "deployed")
        real.life().remove(Deadline(30))
