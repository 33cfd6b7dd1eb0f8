# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes with snapshots on the nodes of a lab.

Snapshot controller, snapshotter, provisioner and CRDs are those of pinned modules of Kubernetes' CSI project. The driver is a double
(``programs/csi-double``): a volume and its snapshots are folders of one node, and each node has its own provisioner and snapshotter.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.kubegpu.lab.plugins.plugin_utils import _recipe
from ansible_collections.kubegpu.lab.plugins.plugin_utils._build import Builder
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import File, Image, Program, Recipe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._backup.facts import SNAPSHOTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.status import unready
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab
from ansible_collections.kubegpu.tenancy.tests.unit.recipes import LAB, ROLE, VERSIONS

Object = dict[str, Any]
DRIVER = "csi.kubegpu.test"
STORAGE_CLASS = SNAPSHOT_CLASS = NAMESPACE = "csi-double"

# Its module is that of the CRDs, from which the programs have their types.
SNAPSHOTTER = Program("external-snapshotter", "v8.6.0", "github.com/kubernetes-csi/external-snapshotter/client/v8")
PROVISIONER = Program("external-provisioner", "v6.3.0", "github.com/kubernetes-csi/external-provisioner/v6")
# Own code: its folder csi-double has no version.
DOUBLE = Program("csi", "double")
BUSYBOX = next(one for one in _recipe.recipe(VERSIONS, LAB).rootfs if one.name == "busybox")
# By the names of the programs.
IMAGES = {
    name: Image(ref, (File(f"/{name}", f"program:{program.id}/{name}", 0o755),), rootfs=rootfs, entrypoint=(f"/{name}",))
    for name, program, ref, rootfs in (
        ("snapshot-controller", SNAPSHOTTER, f"registry.k8s.io/sig-storage/snapshot-controller:{SNAPSHOTTER.version}", ""),
        ("csi-snapshotter", SNAPSHOTTER, f"registry.k8s.io/sig-storage/csi-snapshotter:{SNAPSHOTTER.version}", ""),
        ("csi-provisioner", PROVISIONER, f"registry.k8s.io/sig-storage/csi-provisioner:{PROVISIONER.version}", ""),
        ("csi-double", DOUBLE, "docker.io/kubegpu/csi-double:test", BUSYBOX.name),
    )
}

# On each node: what stands for volumes and snapshots, and kubelet's own folder.
FOLDER, KUBELET = "/var/lib/csi-double", "/var/lib/kubelet"
PLUGIN = f"{KUBELET}/plugins/{DRIVER}"
READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete")
# Of all the programs together: groups, resources and verbs.
RULES = (
    ("", ("nodes",), READ),
    ("", ("persistentvolumes", "persistentvolumeclaims", "events"), READ + WRITE),
    ("storage.k8s.io", ("storageclasses", "csinodes", "volumeattachments"), READ),
    ("snapshot.storage.k8s.io", ("*",), READ + WRITE),
)
# A snapshot or volume is tried again in seconds, not in minutes.
SOON = "--retry-interval-max=10s"
SIDECARS = {
    "csi-provisioner": ("--strict-topology", "--immediate-topology=false", "--node-deployment-immediate-binding=false"),
    "csi-snapshotter": (),
}
# Seconds for nodes to pull the images, and for the programs to start and register.
START = 300


def build() -> list[Object]:
    """Build the images into the registry that nodes pull from, once for the user's cache, and return the CRDs of snapshots."""
    parts = Recipe((DOUBLE, SNAPSHOTTER, PROVISIONER), (BUSYBOX,), (), tuple(IMAGES.values()), (), Image("", ()), (), {})
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "programs").symlink_to(Path(__file__).parent / "programs")
        (home / BUSYBOX.customize).symlink_to(ROLE / "files" / BUSYBOX.customize)
        builder = Builder(parts, Path(os.environ["KUBEGPU_CACHE"]), home, print)
        builder.build()
        crds = builder.compiler.module_dir(SNAPSHOTTER) / "config/crd"
    return [yaml.safe_load(path.read_text()) for path in sorted(crds.glob("snapshot.storage.k8s.io_*.yaml"))]


def install(lab: Lab) -> None:
    """Install the driver on all nodes of a lab's cluster, with its classes, and wait until they can be used."""
    crds = build()
    kube = Kube.connect(kubeconfig=str(Path(f"~/.kube/kubegpu/{lab.name}/cluster.yml").expanduser()))
    for crd in crds:
        kube.apply(crd)
    kinds = {crd["spec"]["names"]["kind"] for crd in crds}

    def served() -> tuple[bool | None, str]:
        missing = sorted(kind for kind in kinds if not kube.served(SNAPSHOTS, kind))
        return (None, f"no {', '.join(missing)}") if missing else (True, "")

    wait_for("the kinds of snapshots", served, 60)
    for definition in (*_rights(), _controller(), _driver(), *_classes()):
        kube.apply(definition)
    wait_for("the driver on all nodes, and the snapshot controller", lambda: _ready(kube), START, 2.0)


def snapshots(lab: Lab) -> list[str]:
    """Return the snapshots that the driver has on all nodes, each as NODE/NAME."""
    names = f"docker exec $node ls {FOLDER}/snapshots 2>/dev/null"
    script = f'for node in $(docker ps --format "{{{{.Names}}}}"); do for name in $({names}); do echo $node/$name; done; done'
    return lab.run("bash", "-c", script).split()


def _ready(kube: Kube) -> tuple[bool | None, str]:
    nodes = {node["metadata"]["name"] for node in kube.list("v1", "Node")}
    registered = {
        node["metadata"]["name"]
        for node in kube.list("storage.k8s.io/v1", "CSINode")
        if any(driver["name"] == DRIVER for driver in node["spec"].get("drivers") or [])
    }
    seen = [unready(item) for kind in ("Deployment", "DaemonSet") for item in kube.list("apps/v1", kind, NAMESPACE)]
    seen.append(f"no driver on {', '.join(sorted(nodes - registered))}" if nodes - registered else "")
    return (None, "; ".join(filter(None, seen))) if any(seen) else (True, "")


def _object(api_version: str, kind: str, name: str, **fields: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}} | fields


def _rights() -> list[Object]:
    """Return the namespace, and the account of all the programs."""
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [of], "resources": [*resources], "verbs": [*verbs]} for of, resources, verbs in RULES]
    role = {"apiGroup": group, "kind": "ClusterRole", "name": NAMESPACE}
    metadata = {"name": NAMESPACE, "namespace": NAMESPACE}
    return [
        _object("v1", "Namespace", NAMESPACE),
        _object("v1", "ServiceAccount", NAMESPACE, metadata=metadata),
        _object(f"{group}/v1", "ClusterRole", NAMESPACE, rules=rules),
        _object(f"{group}/v1", "ClusterRoleBinding", NAMESPACE, roleRef=role, subjects=[{"kind": "ServiceAccount"} | metadata]),
    ]


def _container(name: str, *args: str, **more: Any) -> Object:
    node = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    return {"name": name, "image": IMAGES[name].ref, "args": [*args], "env": [node]} | more


def _workload(kind: str, name: str, containers: list[Object], folders: dict[str, str]) -> Object:
    """Return a workload that runs on any node.

    :arg folders: of the node, by the names of the volumes.
    """
    volumes = [{"name": key, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for key, path in folders.items()]
    pod = {"serviceAccountName": NAMESPACE, "tolerations": [{"operator": "Exists"}], "containers": containers, "volumes": volumes}
    labels = {"app": name}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}, "minReadySeconds": 5}
    return _object("apps/v1", kind, name, metadata={"name": name, "namespace": NAMESPACE}, spec=spec)


def _controller() -> Object:
    # Each snapshot gets its node's name as a label, by which that node's snapshotter finds it.
    container = _container("snapshot-controller", "--enable-distributed-snapshotting", SOON)
    return _workload("Deployment", "snapshot-controller", [container], {})


def _driver() -> Object:
    places = [f"--driver={DRIVER}", "--node=$(NODE_NAME)", f"--folder={FOLDER}", f"--kubelet={KUBELET}"]
    mounts = [
        {"name": "folder", "mountPath": FOLDER},
        # Its mounts are to be seen by kubelet and by the pods.
        {"name": "kubelet", "mountPath": KUBELET, "mountPropagation": "Bidirectional"},
    ]
    driver = _container("csi-double", *places, securityContext={"privileged": True}, volumeMounts=mounts)
    each = [f"--csi-address={PLUGIN}/csi.sock", "--node-deployment", "--timeout=120s", SOON]
    mount = {"name": "plugin", "mountPath": PLUGIN}
    sidecars = [_container(name, *each, *args, volumeMounts=[mount]) for name, args in SIDECARS.items()]
    folders = {"folder": FOLDER, "kubelet": KUBELET, "plugin": PLUGIN}
    return _workload("DaemonSet", "csi-double", [driver, *sidecars], folders)


def _classes() -> list[Object]:
    spec = {"attachRequired": False, "fsGroupPolicy": "File", "volumeLifecycleModes": ["Persistent"]}
    # A volume is made on the node of its first pod.
    how = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Delete"}
    return [
        _object("storage.k8s.io/v1", "CSIDriver", DRIVER, spec=spec),
        _object("storage.k8s.io/v1", "StorageClass", STORAGE_CLASS, **how),
        _object(SNAPSHOTS, "VolumeSnapshotClass", SNAPSHOT_CLASS, driver=DRIVER, deletionPolicy="Delete"),
    ]
