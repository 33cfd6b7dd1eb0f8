# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of tenants as data, by the playbooks as a person runs them: refusals, parts of a run, several clusters."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.oidc import BINDING
from ansible_collections.kubegpu.tenancy.tests.faults.issuer import Issuer
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT, Cluster, Lab, changed

WORKERS = [{"gpus": [0, 1]}]
BASE = {"lab_gpus": 2, "nvkind_workers": WORKERS}
ML = {"name": "team-ml", "trust": "high", "gpu_nodes": {"count": 1}, "vcluster": {"kubernetes_version": "v1.35.4"}}
WEB = {"name": "web", "trust": "high", "vcluster": {"kubernetes_version": "v1.35.4"}}
FOLDER = Path("~/.kube/kubegpu").expanduser()


def variables(*tenants: dict[str, Any], **more: Any) -> str:
    return f"--extra-vars={json.dumps(BASE | {'kubegpu_tenants': tenants} | more)}"


@pytest.fixture(scope="module", name="life")
def _life() -> Iterator[Lab]:
    lab = Lab("kubegpu-faults-life")
    try:
        lab.site(variables(ML, WEB))
        yield lab
    finally:
        said = lab.play("cleanup", variables(ML, WEB))
        assert (lab.code, lab.everything()) == (0, []), said[-6000:]


def test_a_run_that_finds_all_as_wanted_changes_nothing_and_works_on_no_tenant(life: Lab) -> None:
    said = life.site(variables(ML, WEB))
    assert changed(said) == 0
    assert "Create or change the virtual cluster" not in said
    assert said.count("2 of 2") == 2


def test_a_run_leaves_evidence_and_check_mode_none(life: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    wanted = variables(ML, WEB, kubegpu_evidence=str(folder))
    assert f"Would write tenancy.html, tenancy.xml and tenancy.json in {folder}." in life.site(wanted, "--check")
    assert not folder.exists()
    assert changed(life.site(wanted)) == 0
    first = json.loads((folder / "tenancy.json").read_text())
    ((ml, web),) = [cluster["tenants"] for cluster in first["clusters"]]
    assert (first["result"], len(ml["checks"]), len(web["checks"])) == ("passed", 2, 2)
    assert all(digest.startswith("sha256:") for digest in ml["images"].values())
    assert ml["images"]
    assert changed(life.site(wanted)) == 0
    since = json.loads((folder / "tenancy.json").read_text())["since"]
    assert since == {"at": first["at"], "changes": [], "notes": []}
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == dict.fromkeys(
        ("tenancy.html", "tenancy.json", "tenancy.xml"), 0o644
    )


@pytest.mark.parametrize(
    "tags", ["--skip-tags=cluster", "--skip-tags=lab", "--tags=tenants,verify,summary", "--tags=summary", "--tags=verify"]
)
def test_parts_of_a_run_leave_kubeconfigs_that_work(life: Lab, tags: str) -> None:
    said = life.site(variables(ML, WEB), tags)
    assert changed(said) == 0
    for path in (FOLDER / life.name / "cluster.yml", FOLDER / life.name / "tenants" / "web.yml"):
        assert "proxy-url" in yaml.safe_load(path.read_text())["clusters"][0]["cluster"], path


def test_a_tenant_without_room_is_refused_at_once_with_the_way_out(life: Lab) -> None:
    other = ML | {"name": "team-b"}
    said = " ".join(life.play("site", variables(other, WEB)).split())
    assert life.code != 0
    assert "Nodes are held by team-ml" in said
    assert "kubegpu.tenancy.cleanup -e kubegpu_only=team-ml" in said
    assert "Give Docker NVIDIA's runtime" not in said, "it was refused only after work on the host"
    summary = said.rpartition("TASK [Print the summary]")[2].partition("PLAY [")[0]
    assert summary.count("FAILED lab") == 1, summary


def test_a_further_worker_is_refused_at_once_because_it_comes_only_with_another_cluster(life: Lab) -> None:
    more = ML | {"name": "team-b"}
    said = " ".join(life.play("site", variables(ML, WEB, more, nvkind_workers=[{"gpus": [0]}, {"gpus": [1]}])).split())
    assert life.code != 0
    assert "Nodes and their GPUs come only with another cluster. Pass recreate (in an inventory nvkind_recreate)" in said
    assert "Give Docker NVIDIA's runtime" not in said, "it was refused only after work on the host"
    # What the cluster lacks says no more than that.
    assert "are free" not in said


def test_a_release_without_support_is_refused_where_it_does_not_run(life: Lab) -> None:
    guest = WEB | {"name": "guest", "scheduler": {"name": "kai", "version": "v0.13.1"}}
    said = " ".join(life.play("site", variables(ML, WEB, guest)).split())
    assert life.code != 0
    assert "kubegpu_tenants[2] (guest).scheduler.version: v0.13.1 is refused. end-of-support: " in said
    assert "Give Docker NVIDIA's runtime" not in said, "it was refused only after work on the host"
    # Nor is a tenant removed that would not be made again.
    said = " ".join(
        life.play("reset", variables(ML, WEB | {"scheduler": guest["scheduler"]}), "--extra-vars=kubegpu_only=web").split()
    )
    assert life.code != 0
    assert "kubegpu_tenants[1] (web).scheduler.version: v0.13.1 is refused. end-of-support: " in said
    assert (FOLDER / life.name / "tenants" / "web.yml").exists()


def test_what_is_not_listed_is_named_and_removed_only_when_asked(life: Lab) -> None:
    said = life.site(variables(ML))
    assert "web: made by this collection, not listed any more, stays; kubegpu_unlisted: remove takes it away." in said
    assert (FOLDER / life.name / "tenants" / "web.yml").exists()


def test_one_tenant_is_removed_by_name_and_the_other_stays(life: Lab) -> None:
    said = life.play("cleanup", variables(ML, WEB), "--extra-vars=kubegpu_only=web")
    assert life.code == 0, said[-4000:]
    assert not (FOLDER / life.name / "tenants" / "web.yml").exists()
    said = life.site(variables(ML))
    assert changed(said) == 0
    assert "made by this collection, not listed any more" not in said


def test_check_mode_says_what_would_be(life: Lab) -> None:
    said = life.site(variables(ML, WEB), "--check")
    row = next(line for line in said.splitlines() if line.strip().startswith("web "))
    assert " absent " in row
    assert "2 of 2" not in row
    assert "web: to be made and verified" in said


def test_a_reset_makes_a_tenant_anew(life: Lab) -> None:
    said = life.play("reset", variables(ML, WEB), "--extra-vars=kubegpu_only=team-ml")
    assert life.code == 0, said[-4000:]
    row = next(line for line in said.splitlines() if line.strip().startswith("team-ml ") and "2 of 2" in line)
    assert " running " in row
    assert "web " not in said.rpartition("TASK [Print the summary]")[2].partition("PLAY RECAP")[0]


def test_a_state_that_is_not_written_back_is_told_from_both_sides(life: Lab) -> None:
    """A tenant's own policy refuses the state of a pod, which runs on the host cluster and waits for its tenant."""
    tenant = Kube.connect(kubeconfig=str(FOLDER / life.name / "tenants" / "team-ml.yml"))
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/status"]}
    spec: dict[str, Any] = {"matchConstraints": {"resourceRules": [rule]}}
    spec |= {"validations": [{"expression": "object.metadata.name != 'stuck'", "message": "no state for stuck"}]}
    binding = {"policyName": "stuck", "validationActions": ["Deny"]}
    container = {"name": "work", "image": "docker.io/library/busybox:1.37.0", "command": ["sleep", "600"]}
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    made = [
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", None, spec),
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", None, binding),
        ("v1", "Pod", "default", pod),
    ]

    def told() -> tuple[bool | None, str]:
        said = " ".join(life.play("info", variables(ML, WEB), "--tags=pending", "--extra-vars=kubegpu_only=team-ml").split())
        runs = re.search(
            r"default/stuck\b.* It runs on node [\w-]+ of the host cluster since .*; its state is not written back: ", said
        )
        return (True if runs else None), said[-3000:]

    try:
        for api, kind, namespace, of_kind in made:
            metadata = {"name": "stuck"} | ({"namespace": namespace} if namespace else {})
            tenant.create({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": of_kind})
        wait_for("what is said of the pod", told, 180)
    finally:
        for api, kind, namespace, _spec in made:
            tenant.delete(api, kind, "stuck", namespace)


def test_a_temporary_tenant_comes_stays_and_expires(life: Lab) -> None:
    """Nothing is listed for it, and no other tenant is touched."""
    kubeconfig = FOLDER / life.name / "tenants" / "ci-1234.yml"

    def job(expires: str) -> str:
        tenant = {"name": "ci-1234", "trust": "high", "vcluster": {"kubernetes_version": "v1.35.4"}, "expires": expires}
        return f"--extra-vars={json.dumps({'kubegpu_temporary_tenant': tenant})}"

    said = life.site(variables(ML), job("1h"))
    summary = said.rpartition("TASK [Print the summary]")[2].partition("PLAY [")[0]
    assert "2 of 2" in next(line for line in summary.splitlines() if line.strip().startswith("ci-1234 ")), summary
    assert "ci-1234: temporary, expires at " in summary
    assert "team-ml " not in summary
    assert kubeconfig.exists()
    assert changed(life.site(variables(ML), job("1h"))) == 0
    # Until then it does not count as unlisted.
    said = life.site(variables(ML, kubegpu_unlisted="remove"))
    assert (changed(said), kubeconfig.exists()) == (0, True), said[-4000:]
    said = life.play("expire", variables(ML))
    assert (life.code, changed(said), kubeconfig.exists()) == (0, 0, True), said[-4000:]

    # By now it is older than that.
    life.site(variables(ML), job("1m"))
    said = life.play("expire", variables(ML), "--check")
    assert (life.code, kubeconfig.exists()) == (0, True), said[-4000:]
    assert "ci-1234: expired at " in said
    said = life.play("expire", variables(ML))
    assert (life.code, kubeconfig.exists()) == (0, False), said[-4000:]
    host = Cluster(life, Path(os.environ["KUBEGPU_CACHE"]))
    assert host.kube.get("v1", "Namespace", "tenant-ci-1234") is None
    assert changed(life.play("expire", variables(ML))) == 0

    life.site(variables(ML), job("1h"))
    said = life.play("expire", variables(ML), job("1h"))
    assert (life.code, kubeconfig.exists()) == (0, False), said[-4000:]
    assert changed(life.site(variables(ML))) == 0


def test_users_of_an_issuer_are_let_in_by_their_groups(life: Lab) -> None:
    folder = FOLDER / life.name / "tenants"
    path, login = folder / "web.yml", folder / "web.oidc.yml"

    def status(token: str) -> int:
        """Return what the tenant's API server answers to a token."""
        config = yaml.safe_load(path.read_text())
        config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
        try:
            Kube.connect(kubeconfig=config).list("v1", "Secret", "kube-system")
        except ApiError as exc:
            return exc.status or 0
        return 200

    with Issuer(life) as issuer:
        said = life.site(variables(ML, WEB | {"oidc": issuer.entry(admins=["leads"])}))
        assert "2 of 2" in said
        assert changed(life.site(variables(ML, WEB | {"oidc": issuer.entry(admins=["leads"])}))) == 0
        assert [status(issuer.token("ann", "leads")), status(issuer.token("bob", "others"))] == [200, 403]
        assert [status(issuer.token("ann", "leads", client="another")), status(Issuer(life).token("ann", "leads"))] == [401, 401]
        config = yaml.safe_load(login.read_text())
        assert config["users"][0]["user"].keys() == {"exec"}
        assert f"--oidc-issuer-url={issuer.url}" in config["users"][0]["user"]["exec"]["args"]
        # The administrator's stays as it is.
        administrator = Kube.connect(kubeconfig=str(path))
        binding = ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", BINDING)
        assert administrator.get(*binding)
        life.site(variables(ML, WEB))
        assert (status(issuer.token("ann", "leads")), login.exists()) == (401, False)
        wait_for("the end of the binding", lambda: (administrator.get(*binding) is None or None, "there"), 60)


def test_adapters_see_what_their_doubles_show(life: Lab) -> None:
    """Of Kubernetes and of Helm, 3 and 4: the contract that unit tests rest on, on a real API server."""
    contract = Path(__file__).parents[1] / "contract"
    environment = os.environ | {"KUBEGPU_CONTRACT_KUBECONFIG": str(FOLDER / life.name / "cluster.yml")}
    done = subprocess.run(["pytest", "--quiet", contract], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]


def test_one_broken_cluster_does_not_stop_the_other(life: Lab, tmp_path: Path) -> None:
    """Two labs in one inventory, one of which asks for a node image that does not exist; and a cluster that is not there."""
    inventory, other = tmp_path / "hosts.yml", Lab("kubegpu-faults-life-b")
    (tmp_path / "group_vars").symlink_to(Path(__file__).parents[2] / "inventories" / "lab" / "group_vars")
    labs = {
        "lab": {"lab_name": life.name},
        "broken": {"lab_name": other.name, "nvkind_image": "127.0.0.1:5000/docker.io/kindest/node:none"},
    }
    nowhere = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "kubegpu_cluster_provider": "existing",
        "kubegpu_kubeconfig": "/nowhere/x.yml",
    }
    groups = {"hosts": {"nowhere": nowhere}, "children": {"kubegpu_labs": {"hosts": labs}}}
    inventory.write_text(yaml.safe_dump({"kubegpu_clusters": groups}))
    # Their names are those of the inventory.
    wanted = variables(ML, kubegpu_evidence=str(tmp_path / "evidence"))
    command = ["ansible-playbook", "site.yml", f"--inventory={inventory}", wanted]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500, check=False)
    finally:
        other.play("cleanup")
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert other.everything() == []
    summary = said.rpartition("TASK [Print the summary]")[2].partition("PLAY [")[0]
    rows = {line.split()[0]: line for line in summary.splitlines() if line.split()[1:2] == ["team-ml"]}
    assert rows.keys() == {"lab", "broken", "nowhere"}, said[-8000:]
    assert "2 of 2" in rows["lab"], summary
    for cluster in ("broken", "nowhere"):
        assert "not reached" in rows[cluster], summary
        assert summary.count(f"FAILED {cluster}") == 1, summary
    assert "undefined" not in said
    evidence = json.loads((tmp_path / "evidence/tenancy.json").read_text())
    assert evidence["result"] == "failed"
    assert {cluster["name"]: cluster["nodes"] is None for cluster in evidence["clusters"]} == {
        "lab": False,
        "broken": True,
        "nowhere": True,
    }


def test_a_tenant_on_an_existing_cluster_by_its_kubeconfig_and_proxy(life: Lab, tmp_path: Path) -> None:
    """The same cluster, by another inventory, from this machine: its kubeconfig lies anywhere and names a proxy."""
    cache = Path(os.environ["KUBEGPU_CACHE"])
    folder = tmp_path / "elsewhere"
    folder.mkdir(mode=0o755)
    kubeconfig = folder / "admin.conf"
    kubeconfig.write_bytes((FOLDER / life.name / "cluster.yml").read_bytes())
    inventory = tmp_path / "hosts.yml"
    guest = {"name": "guest", "trust": "high", "vcluster": {"kubernetes_version": "v1.35.4"}}
    host = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "kubegpu_cluster_provider": "existing",
        "kubegpu_kubeconfig": str(kubeconfig),
        "kubegpu_charts": str(cache / "charts"),
        "kubegpu_tenants": [guest],
    }
    inventory.write_text(yaml.safe_dump({"kubegpu_clusters": {"hosts": {"dc1": host}}}))
    helm = next(cache.glob("programs/helm-v3.*/helm")).parent
    environment = os.environ | {"PATH": f"{helm}:{os.environ['PATH']}"}

    def play(book: str, *args: str) -> str:
        command = ["ansible-playbook", f"playbooks/{book}.yml", f"--inventory={inventory}", *args]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return done.stdout

    before = sorted((path.name, path.stat().st_mode) for path in [folder, *folder.iterdir()])
    said = play("site")
    assert "2 of 2" in said
    assert "team-ml: made by this collection, not listed any more, stays" in said
    assert changed(play("site")) == 0
    made = FOLDER / "dc1" / "tenants" / "guest.yml"
    assert "proxy-url" in yaml.safe_load(made.read_text())["clusters"][0]["cluster"]
    assert made.stat().st_mode & 0o777 == 0o600
    play("cleanup", "--extra-vars=kubegpu_confirm=dc1")
    assert not (FOLDER / "dc1").exists()
    assert sorted((path.name, path.stat().st_mode) for path in [folder, *folder.iterdir()]) == before
    assert changed(life.site(variables(ML))) == 0
