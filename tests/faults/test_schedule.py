# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ops repository run by a timer of systemd and by a CronJob: what was changed by hand is taken back, and a run that fails is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.tests.faults.labs import CONTROL_PLANE, ROOT, Cluster, Lab, changed

Data = dict[str, Any]
CONTROLLER = "kubegpu-faults-schedule-controller"
# As schedule/cronjob.yml names it.
IMAGE, NAMESPACE = "registry.example/ops-repo:1", "kubegpu-ops"
PACKAGES = ("ca-certificates", "curl", "git", "jq", "openssh-client", "python3", "systemd-sysv")
WEB = {"name": "web", "trust": "partial", "vcluster": {"kubernetes_version": "v1.35.4"}}
POLICIES = ("networking.k8s.io/v1", "NetworkPolicy")
# Seconds for one run of site and verify.
RUN = 1200
# An alert goes into this file of the controller.
ALERTS = "/tmp/alerts"
LISTENER = f"""
import http.server

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        with open("{ALERTS}", "ab") as file:
            file.write(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

http.server.HTTPServer(("127.0.0.1", 9999), Handler).serve_forever()
"""
DOCKERFILE = """
FROM scratch
ADD rootfs.tar /
COPY files /
RUN useradd --create-home --shell /bin/bash --uid 1000 kubegpu
COPY --chown=1000:1000 srv /srv
WORKDIR /srv/ops-repo
ENV container=docker PATH=/opt/python/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
CMD ["/lib/systemd/systemd"]
"""


def run(*command: str | Path, given: str = "", seconds: float = 900, **options: Any) -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=seconds, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


def make_image(folder: Path, cache: Path, lab: Lab) -> None:
    """Make the image of a controller: a small Debian with Ansible, Helm, and a clone of the ops repository for one cluster."""
    folder.mkdir()
    run("mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", "trixie", folder / "rootfs.tar")
    files = folder / "files"
    python, share = files / "opt/python", files / "usr/local/share"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    # Of Debian's Python, not of the one that runs this test.
    run(*pip, "--only-binary=:all:", "--python-version=3.13", f"--target={python}", "-r", ROOT / "requirements/run.txt")
    for program in (python / "bin").iterdir():
        program.write_text("#!/usr/bin/python3\n" + program.read_text().partition("\n")[2])
    path = files / "usr/lib/python3/dist-packages/kubegpu.pth"
    path.parent.mkdir(parents=True)
    path.write_text("/opt/python\n")
    (files / "usr/local/bin").mkdir(parents=True)
    shutil.copy(next(cache.glob("programs/helm-v3.*/helm")), files / "usr/local/bin/helm")
    shutil.copytree(cache / "charts", share / "charts")
    make_repository(folder / "srv")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    run("docker", "build", f"--label=kubegpu.tenancy.lab={lab.name}", f"--tag={IMAGE}", folder)


def make_repository(folder: Path) -> None:
    """Make an ops repository with a cluster of the test's own, as a forge and as a clone with its collections."""
    forge, repo = folder / "forge.git", folder / "ops-repo"
    shutil.copytree(ROOT / "examples/ops-repo", folder / "sample", ignore=shutil.ignore_patterns("collections", ".ansible"))
    production = folder / "sample/inventories/production"
    shutil.rmtree(production)
    production.mkdir()
    (production / "hosts.yml").write_text(yaml.safe_dump(inventory([WEB])))
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"]
    for command in (["init", "--quiet", "--initial-branch=main"], ["add", "."], ["commit", "--quiet", "--message=all"]):
        run(*git, *command, cwd=folder / "sample")
    run("git", "clone", "--quiet", "--bare", folder / "sample", forge)
    run("git", "clone", "--quiet", forge, repo)
    run("git", "remote", "set-url", "origin", "/srv/forge.git", cwd=repo)
    shutil.rmtree(folder / "sample")
    run("ansible-galaxy", "collection", "build", f"--output-path={folder}", ROOT)
    (archive,) = folder.glob("*.tar.gz")
    install = ["ansible-galaxy", "collection", "install", "--offline", "--no-deps", f"--collections-path={repo / 'collections'}"]
    # Otherwise Ansible takes the sources of the collection for installed.
    run(*install, archive, env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(repo / "collections"), "PYTHONPATH": ""})
    archive.unlink()
    theirs = Path(os.environ["KUBEGPU_VENV"]) / "collections/ansible_collections/kubernetes"
    shutil.copytree(theirs, repo / "collections/ansible_collections/kubernetes")


def inventory(tenants: list[Data]) -> Data:
    host = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "kubegpu_cluster_provider": "existing",
        "kubegpu_kubeconfig": "/etc/kubegpu/dc1/cluster.yml",
        "kubegpu_charts": "/usr/local/share/charts",
        "device_plugin_probe_image": "docker.io/library/busybox:1.37.0",
        "kubegpu_evidence": "{{ ansible_config_file | dirname }}/evidence",
        "kubegpu_tenants": tenants,
    }
    return {"kubegpu_clusters": {"hosts": {"dc1": host}}}


class Controller:
    """A container with systemd beside the lab's host, which reaches the lab's cluster."""

    def __init__(self, lab: Lab, cluster: Cluster) -> None:
        self.lab = lab
        self.cluster = cluster

    def start(self) -> None:
        options = [
            "--cap-add=SYS_ADMIN",
            *(f"--security-opt={what}=unconfined" for what in ("seccomp", "apparmor", "systempaths")),
        ]
        options += ["--cgroupns=host", "--volume=/sys/fs/cgroup:/sys/fs/cgroup:rw", "--tmpfs=/run", "--tmpfs=/tmp:exec"]
        options += [f"--network={self.lab.name}", f"--label=kubegpu.tenancy.lab={self.lab.name}", "--stop-signal=SIGRTMIN+3"]
        run("docker", "run", "--detach", f"--name={CONTROLLER}", *options, IMAGE)

        def booted() -> tuple[bool | None, str]:
            done = subprocess.run(
                ["docker", "exec", CONTROLLER, "systemctl", "is-system-running"], capture_output=True, text=True, check=False
            )
            return (True if done.stdout.strip() in ("running", "degraded") else None), done.stdout + done.stderr

        wait_for("systemd in the controller", booted, 120)

    def do(self, script: str, given: str = "") -> str:
        """Run a script in the controller, as root."""
        return run("docker", "exec", "--interactive", CONTROLLER, "bash", "-euc", script, given=given)

    def prepare(self) -> None:
        """Do what a person does once: secrets, the way to the cluster, and the units. The timer elapses at once, not at the full hour."""
        config = yaml.safe_load(self.cluster.kubeconfig.read_text())
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        address = run("docker", "inspect", "--format", form, self.lab.name).strip()
        config["clusters"][0]["cluster"]["proxy-url"] = f"http://{address}:8888"
        self.write("/etc/kubegpu/dc1/cluster.yml", yaml.safe_dump(config), "kubegpu")
        settings = {
            "ANSIBLE_INVENTORY": "inventories/production",
            "VAULT_PASSWORD": "example",
            "ALERT_WEBHOOK": "http://127.0.0.1:9999/",
            "PATH": "/opt/python/bin:/usr/local/bin:/usr/bin:/bin",
        }
        self.write("/etc/kubegpu/ops-repo.env", "".join(f"{name}={value}\n" for name, value in settings.items()), "root")
        self.do("cp /srv/ops-repo/schedule/kubegpu@* /etc/systemd/system")
        self.write(
            "/etc/systemd/system/kubegpu@merge.timer.d/now.conf",
            "[Timer]\nOnCalendar=\nOnActiveSec=1s\nRandomizedDelaySec=0\nAccuracySec=1s\n",
            "root",
        )
        self.write("/tmp/listener.py", LISTENER, "root")
        # For the test's own commands, which are root's.
        self.do("git config --global --add safe.directory '*'")
        self.do("systemd-run --quiet --unit=listener python3 /tmp/listener.py; systemctl daemon-reload")

    def write(self, path: str, content: str, owner: str) -> None:
        script = f"mkdir -p $(dirname {path}); cat > {path}; chmod 600 {path}; chown {owner}: {path}"
        self.do(script, content)

    def elapse(self) -> str:
        """Let the timer elapse, and return how the run ended: success, or another result of systemd's, and what it printed."""
        self.do("systemctl stop kubegpu@merge.timer; systemctl reset-failed; journalctl --rotate --vacuum-time=1s --quiet")
        before = self._show("InvocationID")
        self.do("systemctl enable --quiet --now kubegpu@merge.timer")

        def ended() -> tuple[bool | None, str]:
            # In this order: the state before the run would be that of the one before.
            run, state = self._show("InvocationID"), self._show("ActiveState")
            # systemd forgets what no unit refers to: then it has none.
            return (True if state in ("inactive", "failed") and run not in (before, "") else None), state

        wait_for("the run of the timer", ended, RUN)
        said = self._show("Result") + "\n" + self.do("journalctl --no-pager --output=cat --unit=kubegpu@merge.service")
        print(said, flush=True)
        return said

    def _show(self, name: str) -> str:
        return self.do(f"systemctl show kubegpu@merge.service --property={name} --value").strip()


@pytest.fixture(scope="module", name="cluster")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cache = Path(os.environ["KUBEGPU_CACHE"])
    layout = {"lab_gpus": 1, "lab_network_policies": True, "nvkind_workers": [{"gpus": [0]}], "kubegpu_tenants": []}
    with Lab("kubegpu-faults-schedule", f"--extra-vars={json.dumps(layout)}") as lab:
        lab.site()
        try:
            make_image(tmp_path_factory.mktemp("controller") / "image", cache, lab)
            yield Cluster(lab, cache)
        finally:
            subprocess.run(["docker", "rm", "--force", "--volumes", CONTROLLER], capture_output=True, check=False)
            subprocess.run(["docker", "rmi", IMAGE], capture_output=True, check=False)


def change_by_hand(cluster: Cluster) -> set[str]:
    """Delete the network policies of the tenant, and return their names."""
    names = policies(cluster)
    assert names
    for name in names:
        cluster.kube.delete(*POLICIES, name, "tenant-web")
    return names


def policies(cluster: Cluster) -> set[str]:
    return {item["metadata"]["name"] for item in cluster.kube.list(*POLICIES, "tenant-web")}


def test_a_timer_brings_a_cluster_to_what_was_merged_again_and_again(cluster: Cluster) -> None:
    controller = Controller(cluster.lab, cluster)
    controller.start()
    controller.prepare()
    said = controller.elapse()
    assert said.startswith("success\n"), said[-6000:]
    assert cluster.kube.get("v1", "Namespace", "tenant-web")
    controller.do(f"rm -f {ALERTS}")
    # What is merged meanwhile comes with the next run, as what was changed by hand.
    names = change_by_hand(cluster)
    tenants = yaml.safe_dump(inventory([WEB | {"quota": {"count/pods": 250}}]))
    file = "inventories/production/hosts.yml"
    git = "git -c user.name=x -c user.email=x@example.com"
    controller.do(f"git clone --quiet /srv/forge.git /tmp/clone; cat > /tmp/clone/{file}", tenants)
    controller.do(
        f"cd /tmp/clone; {git} commit --quiet --all --message=quota; git push --quiet; chown -R kubegpu: /srv/forge.git"
    )
    said = controller.elapse()
    assert said.startswith("success\n"), said[-6000:]
    assert policies(cluster) == names
    merged = controller.do(f"git -C /srv/ops-repo show HEAD:{file}")
    assert yaml.safe_load(merged) == yaml.safe_load(tenants)
    quotas = [item["spec"]["hard"] for item in cluster.kube.list("v1", "ResourceQuota", "tenant-web")]
    assert {"count/pods": "250"}.items() <= {key: value for hard in quotas for key, value in hard.items()}.items()
    assert "NetworkPolicy vc-work-web" in json.loads(controller.do(f"cat {ALERTS}; rm {ALERTS}"))["text"]

    # Without the forge and the cluster, the run fails, and that is told.
    controller.do("mv /srv/forge.git /srv/away; sed -i s/8888/8889/ /etc/kubegpu/dc1/cluster.yml")
    said = controller.elapse()
    assert said.startswith("exit-code\n"), said[-6000:]
    assert "nothing was pulled" in said
    alerts = controller.do(f"cat {ALERTS}")
    assert [
        said for said in ("it could not be told", "git pull failed", "site failed") if f"GPU clusters: {said}" not in alerts
    ] == []


def test_a_cronjob_does_the_same_from_within_its_cluster(cluster: Cluster) -> None:
    kube = cluster.kube
    names = change_by_hand(cluster)
    for node in (CONTROL_PLANE, "kubegpu-worker"):
        load = f"docker exec -i {cluster.lab.name} docker exec -i {node} ctr --namespace k8s.io images import -"
        run("bash", "-euo", "pipefail", "-c", f"docker save {IMAGE} | {load}")
    documents = list(yaml.safe_load_all((ROOT / "examples/ops-repo/schedule/cronjob.yml").read_text()))
    objects = [item for document in documents for item in document.get("items", [document])]
    namespace, *others = objects
    kube.create(namespace)
    metadata = {"name": "ops-repo", "namespace": NAMESPACE}
    kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"VAULT_PASSWORD": "example"}})
    for item in others:
        kube.create(item)
    job = ("batch/v1", "CronJob", "merge")
    kube.patch(*job, {"spec": {"schedule": "* * * * *"}}, NAMESPACE)

    def started() -> tuple[str | None, str]:
        jobs = kube.list("batch/v1", "Job", NAMESPACE)
        return (jobs[0]["metadata"]["name"] if jobs else None), "no job"

    first = wait_for("the first job", started, 120)
    for name in ("merge", "nightly"):
        kube.patch("batch/v1", "CronJob", name, {"spec": {"suspend": True}}, NAMESPACE)
    log_of(cluster, first)
    assert policies(cluster) == names
    # The tenant's kubeconfig is still there, so the second run has nothing to do.
    template = (kube.get(*job, NAMESPACE) or {})["spec"]["jobTemplate"]["spec"]
    kube.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "again", "namespace": NAMESPACE}, "spec": template}
    )
    assert changed(log_of(cluster, "again")) == 0
    for item in objects:
        kube.delete(item["apiVersion"], item["kind"], item["metadata"]["name"], item["metadata"].get("namespace"))


def log_of(cluster: Cluster, name: str) -> str:
    """Wait until a job has ended well, and return what it printed."""
    kube = cluster.kube

    def log() -> str:
        (pod, *_none) = kube.list("v1", "Pod", NAMESPACE, label_selector=f"job-name={name}")
        return kube.pods.logs(pod["metadata"]["name"], NAMESPACE, lines=5000)

    def ended() -> tuple[bool | None, str]:
        status = (kube.get("batch/v1", "Job", name, NAMESPACE) or {}).get("status") or {}
        assert not status.get("failed"), log()[-6000:]
        return (True if status.get("succeeded") else None), json.dumps(status)

    wait_for(f"job {name}", ended, RUN)
    return log()
