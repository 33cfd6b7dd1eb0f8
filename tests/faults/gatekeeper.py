# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gatekeeper beside an API server: the programs of its two Deployments as processes, and what else its release's manifests have."""

from __future__ import annotations

import base64
import os
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

import yaml
from ansible_collections.kubegpu.tenancy.tests.faults.api_server import START, ApiServer
from ansible_collections.kubegpu.tenancy.tests.faults.labs import free_ports
from ansible_collections.kubegpu.tenancy.tests.unit.test_rollout_playbook import awaited

Object = dict[str, Any]
NAMESPACE, ACCOUNT = "gatekeeper-system", "gatekeeper-admin"
WEBHOOK, AUDIT = "gatekeeper-controller-manager", "gatekeeper-audit"
HOOKS = {"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
# What is for programs in pods.
LEFT_OUT = {"Deployment", "Service", "Secret", "PodDisruptionBudget", "ResourceQuota"}


class Gatekeeper:
    """Gatekeeper's programs. As a context, they are killed at the end.

    :ivar port: of its webhooks.
    :arg program: its manager; ``manifests``, the file of its release with all objects of an installation.
    """

    def __init__(self, folder: Path, server: ApiServer, program: Path, manifests: Path) -> None:
        self._folder, self._server, self._program = folder, server, program
        # Its audit writes into a folder that has to be there.
        (folder / "audit").mkdir(parents=True)
        self._objects: list[Object] = [one for one in yaml.safe_load_all(manifests.read_text()) if one]
        (self.port,) = free_ports(1)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "tls.key", "-out", "tls.crt", "-days", "2"]
        made += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run(made, cwd=folder, check=True, capture_output=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for name in list(self._processes):
            self.kill(name)

    def install(self) -> None:
        """Create what its manifests have, start its programs, and have the API server ask them."""
        kube = self._server.kube
        hooks = [item for item in self._objects if item["kind"] in HOOKS]
        for item in self._objects:
            if item["kind"] not in HOOKS | LEFT_OUT:
                kube.create(item)
        for name in (AUDIT, WEBHOOK):
            # Each reads its own pod, to whom its reports belong.
            template = self._deployment(name)["spec"]["template"]
            kube.create({"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": name, "namespace": NAMESPACE}})
            self.start(name)
        authority = base64.b64encode((self._folder / "tls.crt").read_bytes()).decode()
        for item in hooks:
            for hook in item["webhooks"]:
                address = f"https://127.0.0.1:{self.port}{hook['clientConfig']['service']['path']}"
                hook["clientConfig"] = {"url": address, "caBundle": authority}
                # What is not answered in time is admitted, and this machine does other things.
                hook["timeoutSeconds"] = 30
            kube.create(item)

    def start(self, name: str) -> None:
        """Start the program of a Deployment with its arguments and others for addresses and times, and wait until it is ready."""
        (health,) = free_ports(1)
        (container,) = self._deployment(name)["spec"]["template"]["spec"]["containers"]
        command = [self._program, *container["args"], f"--kubeconfig={self._kubeconfig()}"]
        command += ["--host=127.0.0.1", f"--port={self.port}", f"--health-addr=127.0.0.1:{health}"]
        # By default it would serve metrics at all addresses.
        command += ["--metrics-backend=opentelemetry", "--otlp-endpoint=127.0.0.1:1", "--otlp-metric-interval=1h"]
        command += ["--disable-cert-rotation", f"--cert-dir={self._folder}", f"--api-cache-dir={self._folder / 'audit'}"]
        command += ["--audit-interval=2", "--constraint-violations-limit=500", "--log-denies"]
        own = {"POD_NAME": name, "POD_NAMESPACE": NAMESPACE, "NAMESPACE": NAMESPACE, "CONTAINER_NAME": "manager"}
        with self.log(name).open("a") as log:
            process = subprocess.Popen(command, env=os.environ | own, stdout=log, stderr=log)
        self._processes[name] = process

        def ready() -> bool:
            assert process.poll() is None, self.log(name).read_text()[-6000:]
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=5):
                    return True
            except (urllib.error.URLError, OSError):
                return False

        awaited(ready, START)

    def _deployment(self, name: str) -> Object:
        (found,) = [one for one in self._objects if one["kind"] == "Deployment" and one["metadata"]["name"] == name]
        return found

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def reported(self) -> int:
        """How many violations of requests its webhook has logged."""
        return self.log(WEBHOOK).read_text().count("denied admission: ")

    def _kubeconfig(self) -> Path:
        """With the rights that its manifests give it."""
        path = self._folder / "kubeconfig"
        content = yaml.safe_load(self._server.kubeconfig.read_text())
        content["users"][0]["user"] = {"token": self._server.kube.create_token(ACCOUNT, NAMESPACE, 86400)}
        path.write_text(yaml.safe_dump(content))
        path.chmod(0o600)
        return path
