# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""API servers by the real programs, which the lab's build left in the cache: without nodes, controllers and a scheduler."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.tests.faults.labs import free_ports
from ansible_collections.kubegpu.tenancy.tests.unit.test_rollout_playbook import awaited

# Seconds, on a machine that does other things.
START = 180


class ApiServer:
    """An API server with its etcd. As a context, both are killed at the end.

    :ivar processes: etcd, and the API server.
    :arg programs: the folder of programs in the lab's cache.
    :arg options: more options of the API server.
    """

    def __init__(self, folder: Path, programs: Path, *options: str) -> None:
        self.folder = folder
        folder.mkdir()
        self.port, client, peer = free_ports(3)
        (folder / "tokens.csv").write_text('of-the-test,admin,admin,"system:masters"\n')
        for command in (["genrsa", "-out", "key"], ["rsa", "-in", "key", "-pubout", "-out", "public"]):
            subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
        etcd = [
            next(programs.glob("etcd-*")) / "etcd",
            "--data-dir=etcd",
            "--unsafe-no-fsync",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
        ]
        etcd += [f"--{kind}-client-urls=http://127.0.0.1:{client}" for kind in ("listen", "advertise")]
        server = [next(programs.glob("kubernetes-*/kube-apiserver")), f"--etcd-servers=http://127.0.0.1:{client}"]
        server += [
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--cert-dir=certificates",
        ]
        server += ["--token-auth-file=tokens.csv", "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24"]
        server += [
            "--service-account-key-file=public",
            "--service-account-signing-key-file=key",
            "--service-account-issuer=https://localhost",
            *options,
        ]
        self._log = (folder / "log").open("w")
        self.processes = [subprocess.Popen(program, cwd=folder, stdout=self._log, stderr=self._log) for program in (etcd, server)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self._log.close()

    @property
    def kubeconfig(self) -> Path:
        path = self.folder / "kubeconfig"
        cluster = {
            "server": f"https://127.0.0.1:{self.port}",
            "certificate-authority": str(self.folder / "certificates/apiserver.crt"),
        }
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "c", "user": {"token": "of-the-test"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "current-context": "c",
        }
        path.write_text(yaml.safe_dump(content))
        path.chmod(0o600)
        return path

    @property
    def kube(self) -> Kube:
        return Kube.connect(kubeconfig=str(self.kubeconfig))

    def wait(self) -> None:
        """Wait until it answers."""
        awaited(self._answers, START)

    def _answers(self) -> bool:
        if not (self.folder / "certificates/apiserver.crt").exists():
            return False
        try:
            return self.kube.get("v1", "Namespace", "kube-system") is not None
        except TenancyError:
            return False

    def signal(self, number: signal.Signals) -> None:
        self.processes[1].send_signal(number)

    @contextmanager
    def slow(self) -> Iterator[None]:
        """Have it answer in one of four seconds only."""
        ended = threading.Event()

        def hold() -> None:
            while not ended.wait(1):
                self.signal(signal.SIGSTOP)
                ended.wait(3)
                self.signal(signal.SIGCONT)

        thread = threading.Thread(target=hold)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@contextmanager
def garbage_collected(server: ApiServer, programs: Path) -> Iterator[None]:
    """Have Kubernetes' own controller remove what belongs to objects that are gone."""
    (port,) = free_ports(1)
    (program,) = programs.glob("kubernetes-*/kube-controller-manager")
    command = [program, f"--kubeconfig={server.kubeconfig}"]
    command += ["--controllers=garbage-collector-controller", "--leader-elect=false", "--cert-dir=controllers"]
    command += ["--bind-address=127.0.0.1", f"--secure-port={port}"]
    with (server.folder / "controllers.log").open("w") as log:
        process = subprocess.Popen(command, cwd=server.folder, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()
