# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tenant in a sandbox: by a handler that is plain runc, which is none, and by a stand-in for a sandbox.

Neither Kata Containers nor gVisor runs on the nodes of the lab. The stand-in is runc, whose containers Linux shows another release of its kernel
(personality UNAME26), and no boot ID, which is masked. So it shows what the check sees, and keeps nothing from anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.pods import is_ready
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Cluster, Lab, changed

NAME = "kubegpu-sandbox"
NAMESPACE, MARKED = "tenant-visitors", "vcluster.loft.sh/managed-by=visitors"
VARIABLES: dict[str, Any] = {
    "lab_gpus": 1,
    "nvkind_workers": [{"count": 1}],
    "kubegpu_tenants": [{"name": "visitors", "trust": "high"}],
}
STAND_IN = "/usr/local/bin/stand-in-for-a-sandbox"
# A handler of the node's container runtime beside runc's.
HANDLER = r"""
set -eu
config=/etc/containerd/config.toml
if ! grep -q 'runtimes\.kata\]' $config; then
    runtimes=$(sed -n 's/^ *\[\(plugins.*containerd\.runtimes\)\.runc\]/\1/p' $config | head -n 1)
    printf '\n[%s.kata]\n  runtime_type = "io.containerd.runc.v2"\n  [%s.kata.options]\n    BinaryName = "%s"\n' "$runtimes" "$runtimes" "$1" >> $config
else
    sed -i '/runtimes\.kata\.options/,$ s|BinaryName = .*|BinaryName = "'"$1"'"|' $config
fi
systemctl restart containerd
"""
RUNC_WITH_ANOTHER_KERNEL = r"""#!/bin/bash
set -eu
previous=
for argument; do
    if [[ $previous == --bundle ]]; then
        jq '.linux.maskedPaths += ["/proc/sys/kernel/random/boot_id"]' "$argument/config.json" > "$argument/masked.json"
        mv "$argument/masked.json" "$argument/config.json"
    fi
    previous=$argument
done
exec setarch --uname-2.6 runc "$@"
"""


class Sandbox:
    """A lab with one tenant, and what the administrators of both see."""

    def __init__(self, lab: Lab, inventory: Path, cluster: Cluster) -> None:
        self.lab, self.cluster = lab, cluster
        self._inventory = inventory
        self.tenant = Kube.connect(kubeconfig=str(cluster.kubeconfig.parent / "tenants/visitors.yml"))

    def handler(self, program: str) -> None:
        """Have the RuntimeClass kata lead to a program, on all nodes."""
        for node in self.cluster.kube.list("v1", "Node"):
            name = node["metadata"]["name"]
            write = f"cat > {STAND_IN} <<'END'\n{RUNC_WITH_ANOTHER_KERNEL}END\nchmod 755 {STAND_IN}"
            self.cluster.on_node(name, "bash", "-c", write)
            self.cluster.on_node(name, "bash", "-c", HANDLER, "-", program)

    def ask(self, **more: Any) -> None:
        """Have the inventory ask more, or no more, for the tenant."""
        self._inventory.write_text(json.dumps(VARIABLES | {"kubegpu_tenants": [VARIABLES["kubegpu_tenants"][0] | more]}))

    def classes(self) -> dict[str, str | None]:
        """RuntimeClasses of the tenant's pods as they are on the host cluster, by the beginnings of their names."""
        pods = self.cluster.kube.list("v1", "Pod", NAMESPACE, MARKED)
        return {pod["metadata"]["name"].split("-")[0]: pod["spec"].get("runtimeClassName") for pod in pods}

    def work(self) -> None:
        """Wait until the tenant's Deployment has its pod."""

        def ready() -> tuple[bool | None, str]:
            pods = self.tenant.list("v1", "Pod", "default", "app=work")
            return (True, "") if len(pods) == 1 and is_ready(pods[0]) else (None, str([pod["status"] for pod in pods]))

        wait_for("the pod of the Deployment", ready, Deadline(180), 1.0)


@pytest.fixture(name="sandbox", scope="module")
def _sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    inventory = tmp_path_factory.mktemp("sandbox") / "variables.json"
    inventory.write_text(json.dumps(VARIABLES))
    with Lab(NAME, f"--extra-vars=@{inventory}") as lab:
        lab.site()
        yield Sandbox(lab, inventory, Cluster(lab, Path(os.environ["KUBEGPU_CACHE"])))


def deployment() -> dict[str, Any]:
    container = {"name": "c", "image": "docker.io/library/busybox:1.37.0", "command": ["sleep", "infinity"]}
    # A tenant that would like to be outside.
    spec = {"runtimeClassName": "plain", "terminationGracePeriodSeconds": 0, "containers": [container]}
    labels = {"app": "work"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "work", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


def runtime_class(name: str, handler: str) -> dict[str, Any]:
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": handler}


def test_a_sandbox_is_judged_by_what_a_pod_sees(sandbox: Sandbox) -> None:
    for kube in (sandbox.cluster.kube, sandbox.tenant):
        kube.apply(runtime_class("plain", "runc"))
    sandbox.tenant.create(deployment())
    sandbox.work()
    sandbox.ask(sandbox={"runtime_class": "kata"})

    # Without such a class, nothing is touched.
    said = sandbox.lab.play("site")
    assert sandbox.lab.code != 0
    assert "sandbox: there is no RuntimeClass kata, in which all pods of tenant visitors are to run." in said

    sandbox.handler("runc")
    sandbox.cluster.kube.create(runtime_class("kata", "kata"))
    said = sandbox.lab.play("site")
    assert sandbox.lab.code != 0
    assert "RuntimeClass kata is no sandbox there" in said
    assert "pods run outside RuntimeClass kata, because they are older than the sandbox" in said
    assert "default/work-" in said

    # What is older than the sandbox goes into it once it is made again; CoreDNS, too.
    for namespace in ("default", "kube-system"):
        for pod in sandbox.tenant.list("v1", "Pod", namespace):
            sandbox.tenant.delete("v1", "Pod", pod["metadata"]["name"], namespace)
    sandbox.work()
    assert sandbox.classes() == {"work": "kata", "coredns": "kata"}

    sandbox.handler(STAND_IN)
    sandbox.lab.site()
    assert changed(sandbox.lab.site()) == 0
    said = sandbox.lab.play("drift", "--check")
    assert sandbox.lab.code == 0, said[-6000:]


def test_a_sandbox_that_is_no_longer_asked_for_goes(sandbox: Sandbox) -> None:
    sandbox.ask()
    sandbox.lab.site()
    names = {
        one["metadata"]["name"]
        for one in sandbox.cluster.kube.list("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
    }
    assert "kubegpu-tenancy-visitors" not in names
    (pod,) = sandbox.tenant.list("v1", "Pod", "default", "app=work")
    sandbox.tenant.delete("v1", "Pod", pod["metadata"]["name"], "default")
    sandbox.work()
    assert sandbox.classes()["work"] == "plain"
