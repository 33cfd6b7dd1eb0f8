# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""What the lab is made of, as data: programs, root filesystems, container images and charts.

Nothing here is a step; _build.py makes files of it, or _pull.py fetches what upstream publishes. Names of images, paths in them and entry points are
the upstream projects' own, so that their charts and manifests run unmodified, and either way gives the same lab.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import validation as _kai_releases
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano import facts as _volcano
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts as _vcluster

KAI_SERVICES = (
    "admission",
    "binder",
    "operator",
    "podgroupcontroller",
    "podgrouper",
    "queuecontroller",
    "resourcereservation",
    "scheduler",
)
# Kubernetes' programs of a control plane, each with an image of its name.
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
# KAI moved between two GitHub organisations, and its module with it.
KAI_MODULES = {"v0.12.0": "github.com/NVIDIA/KAI-scheduler", "v0.13.1": "github.com/kai-scheduler/KAI-scheduler"}
# The toolkit's programs, and the Debian package of each.
NVIDIA_PROGRAMS = {
    "nvidia-ctk": "nvidia-container-toolkit-base",
    "nvidia-container-runtime": "nvidia-container-toolkit-base",
    "nvidia-container-runtime-hook": "nvidia-container-toolkit",
    "nvidia-cdi-hook": "nvidia-container-toolkit-base",
}
NVIDIA_PACKAGES = "https://nvidia.github.io/libnvidia-container/stable/deb/amd64"
DEVICE_PLUGIN_CHARTS = "https://nvidia.github.io/k8s-device-plugin"
# Docker's packages in the Debian releases that a host can be of: 20.10 in bookworm, 26.1 in trixie.
HOST_RELEASES = {"bookworm": ("docker.io",), "trixie": ("docker.io", "docker-cli")}
# What vCluster starts first in pods of tenants' StatefulSets (sync.toHost.pods.rewriteHosts in chart/values.yaml, v0.34.0 to v0.36.1).
REWRITE_HOSTS = "mirror.gcr.io/library/alpine:3.20"
DRIVER_LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# Ends the tag of a node image whose network enforces network policies. Upstream's does so under its own name.
ENFORCING = "-network-policies"


@dataclasses.dataclass(frozen=True)
class Program:
    """One pinned Go module under the role's files/programs/<name>-<version>/, or one C file.

    :ivar module: path of the Go module the program comes from, also the home of its chart.
    :ivar cgo: linked against libc, because it loads NVML or SQLite.
    :ivar defines: Go string variables set when linking, or C macros.
    :ivar tags: Go's build tags.
    :ivar c_source: ``module:<program>/<path>`` or ``role:<path>`` of a C file; then gcc builds it with ``c_flags``.
    """

    name: str
    version: str
    module: str = ""
    cgo: bool = False
    linker_flags: str = ""
    defines: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()
    c_source: str = ""
    c_flags: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.name}-{self.version}"


@dataclasses.dataclass(frozen=True)
class Rootfs:
    """A Debian root filesystem, made by mmdebstrap.

    :ivar customize: path under the role's files/ of a script run on it, with the tree's path as its argument.
    :ivar suite: Debian's release.
    """

    name: str
    packages: tuple[str, ...]
    variant: str = "minbase"
    customize: str = ""
    suite: str = "trixie"


@dataclasses.dataclass(frozen=True)
class File:
    """A file or folder put into an image.

    :ivar source: ``program:<id>/<binary>``, ``module:<program id>/<path>``, ``role:<path>`` or ``text:<content>``;
        ``link:<target>`` makes a symbolic link, ``roles:<path> <path>`` one file of several.
    """

    path: str
    source: str
    mode: int = 0o644


@dataclasses.dataclass(frozen=True)
class Image:
    ref: str
    files: tuple[File, ...]
    rootfs: str = ""
    entrypoint: tuple[str, ...] = ()
    user: str = ""
    stop_signal: str = ""


@dataclasses.dataclass(frozen=True)
class Chart:
    """A chart packaged from its Go module's folder.

    :ivar version: the chart's version as users name it, which for KAI has a leading v.
    :ivar home: where upstream publishes it: an ``oci://`` reference, or the address of a repository.
    """

    name: str
    version: str
    app_version: str
    source: str
    home: str


@dataclasses.dataclass(frozen=True)
class Download:
    """A file in which upstream publishes a program.

    :ivar program: id of the program.
    :ivar url: a .deb or .tar.gz, or the program itself.
    :ivar checksums: where its SHA-256 is published.
    :ivar members: paths of what is taken out of it; for the program itself, the name it gets.
    """

    program: str
    url: str
    checksums: str
    members: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Started:
    """A program of a framework that its pods start.

    :ivar image: without the tag.
    :ivar binary: the program, by the name that Go gives it; ``path``, where the image has it.
    """

    image: str
    binary: str
    path: str = "/manager"


@dataclasses.dataclass(frozen=True)
class Framework:
    """What a team installs in its own Kubernetes, or an administrator in the host cluster, beside what this collection does.

    :ivar tag: of its images; empty where it is the version.
    :ivar tags: Go's build tags.
    :ivar chart: folder of its chart in the module; empty where the module has none that can be packaged.
    """

    version: str
    module: str
    programs: tuple[Started, ...]
    chart: str = ""
    home: str = ""
    tag: str = ""
    tags: tuple[str, ...] = ()


FRAMEWORKS = {
    "jobset": Framework(
        "v0.11.1",
        "sigs.k8s.io/jobset",
        (Started("registry.k8s.io/jobset/jobset", "jobset"),),
        "charts/jobset",
        "oci://registry.k8s.io/jobset/charts/jobset",
    ),
    "lws": Framework(
        "v0.8.0",
        "sigs.k8s.io/lws",
        (Started("registry.k8s.io/lws/lws", "cmd"),),
        "charts/lws",
        "oci://registry.k8s.io/lws/charts/lws",
    ),
    "kueue": Framework(
        "v0.17.0",
        "sigs.k8s.io/kueue",
        (Started("registry.k8s.io/kueue/kueue", "kueue"),),
        "charts/kueue",
        "oci://registry.k8s.io/kueue/charts/kueue",
    ),
    "kuberay": Framework(
        "v1.5.1", "github.com/ray-project/kuberay/ray-operator", (Started("quay.io/kuberay/operator", "ray-operator"),)
    ),
    "trainer": Framework(
        "v2.1.0",
        "github.com/kubeflow/trainer/v2",
        (Started("ghcr.io/kubeflow/trainer/trainer-controller-manager", "trainer-controller-manager"),),
    ),
    # Without its pages, which are not in the module, and with Kubernetes as the only place where it finds what to scrape.
    "prometheus": Framework(
        "v0.316.0",
        "github.com/prometheus/prometheus",
        (Started("quay.io/prometheus/prometheus", "prometheus", "/usr/bin/prometheus"),),
        tag="v3.16.0",
        tags=("remove_all_sd", "enable_kubernetes_sd"),
    ),
    "prometheus-operator": Framework(
        "v0.93.1",
        "github.com/prometheus-operator/prometheus-operator",
        (
            Started("quay.io/prometheus-operator/prometheus-operator", "operator"),
            # The operator starts it by its path, /bin being a link.
            Started(
                "quay.io/prometheus-operator/prometheus-config-reloader",
                "prometheus-config-reloader",
                "/usr/bin/prometheus-config-reloader",
            ),
        ),
    ),
    "kube-state-metrics": Framework(
        "v2.18.0",
        "k8s.io/kube-state-metrics/v2",
        (Started("registry.k8s.io/kube-state-metrics/kube-state-metrics", "kube-state-metrics"),),
    ),
}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """All parts of a lab.

    :ivar node_images: what only a node image made here needs, because upstream's brings its own.
    :ivar downloads: the host's programs, as upstream publishes them.
    :ivar component_tags: tags of images in a node image made here, where they are not kubeadm's own choice.
    """

    programs: tuple[Program, ...]
    rootfs: tuple[Rootfs, ...]
    node_images: tuple[Image, ...]
    images: tuple[Image, ...]
    charts: tuple[Chart, ...]
    host: Image
    downloads: tuple[Download, ...]
    component_tags: dict[str, str]


def _binary(path: str, program: Program, binary: str) -> File:
    return File(path, f"program:{program.id}/{binary}", 0o755)


@dataclasses.dataclass(frozen=True)
class _Programs:
    """All programs of a lab; several where the lab has several versions, or none."""

    kind: Program
    helm: Program
    toolkit: Program
    kubernetes: Program
    etcd: Program
    coredns: Program
    kine: Program
    local_path: Program
    plugin: Program
    pause: Program
    driver: tuple[Program, ...]
    policies: tuple[Program, ...]
    kwok: tuple[Program, ...]
    volcano: tuple[Program, ...]
    frameworks: tuple[Program, ...]
    vcluster: tuple[Program, ...]
    kai: tuple[Program, ...]

    @property
    def in_order(self) -> tuple[Program, ...]:
        """Small and often needed first; what takes minutes last, so that a mistake shows early."""
        first = (self.kind, self.helm, self.toolkit, *self.driver, self.etcd, self.kine, self.plugin, self.local_path)
        return (
            *first,
            self.kubernetes,
            self.pause,
            self.coredns,
            *self.policies,
            *self.kwok,
            *self.volcano,
            *self.frameworks,
            *self.kai,
            *self.vcluster,
        )


def recipe(versions: dict[str, t.Any], lab: dict[str, t.Any]) -> Recipe:
    """The lab's parts for these versions.

    :arg versions: program name to version; ``kai`` and ``vcluster`` map to lists, ``frameworks`` to a list of names,
        ``kwok`` and ``volcano`` to an empty text where it is not wanted.
    :arg lab: ``name``, ``gpu_name``, ``gpu_memory_mib``, ``driver_version`` and Debian's ``host_release`` of the simulated host,
        and whether its cluster enforces ``network_policies``.
    """
    programs = _programs(versions, lab)
    etcd = f"{programs.etcd.version[1:]}-0"
    return Recipe(
        programs.in_order,
        _rootfs(lab["host_release"], programs),
        (*_control_plane_images(programs, etcd), *_node_services(programs)),
        (
            *_common_images(programs),
            *_vcluster_images(programs),
            *_kai_images(programs),
            *_kwok_images(programs),
            *_volcano_images(programs),
            *_framework_images(programs),
            _node(programs),
        ),
        _charts(programs),
        _host(programs, lab),
        _downloads(programs),
        component_tags={"coredns": programs.coredns.version, "etcd": etcd},
    )


# --- programs ----------------------------------------------------------------------------------------------------


def _programs(v: dict[str, t.Any], lab: dict[str, t.Any]) -> _Programs:
    kubernetes = _kubernetes(v["kubernetes"])
    return _Programs(
        kind=Program("kind", v["kind"], "sigs.k8s.io/kind"),
        # Its module is named by the major version, v3 or v4.
        helm=Program("helm", v["helm"], f"helm.sh/helm/{v['helm'].partition('.')[0]}"),
        toolkit=Program(
            "nvidia-container-toolkit", v["nvidia_container_toolkit"], "github.com/NVIDIA/nvidia-container-toolkit", cgo=True
        ),
        kubernetes=kubernetes,
        etcd=Program("etcd", v["etcd"]),
        coredns=Program("coredns", v["coredns"], "github.com/coredns/coredns"),
        kine=Program("kine", v["kine"], "github.com/k3s-io/kine", cgo=True),
        local_path=Program("local-path-provisioner", v["local_path_provisioner"], "github.com/rancher/local-path-provisioner"),
        plugin=_device_plugin(v["device_plugin"]),
        pause=_pause(kubernetes),
        driver=_driver(lab),
        # The version that node/network-policies.yaml names.
        policies=(Program("kube-network-policies", "v0.7.0", "sigs.k8s.io/kube-network-policies"),)
        if lab["network_policies"]
        else (),
        # Only rehearsals need it.
        kwok=(Program("kwok", v["kwok"], "sigs.k8s.io/kwok"),) if v["kwok"] else (),
        # Only a tenant that brings it needs it.
        volcano=(Program("volcano", v["volcano"], "volcano.sh/volcano"),) if v["volcano"] else (),
        frameworks=tuple(map(_framework_program, v["frameworks"])),
        vcluster=tuple(map(_vcluster_program, v["vcluster"])),
        kai=tuple(map(_kai_program, v["kai"])),
    )


def _kubernetes(version: str) -> Program:
    # Without it every client sees v0.0.0, and version checks of charts and kubeadm fail.
    defines = tuple((f"k8s.io/{part}/version.gitVersion", version) for part in ("component-base", "client-go/pkg"))
    return Program("kubernetes", version, "k8s.io/kubernetes", defines=defines)


def _device_plugin(version: str) -> Program:
    # NVML is loaded at run time, so its symbols stay open, as in the module's own build.
    flags = '-extldflags "-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files"'
    return Program("k8s-device-plugin", version, "github.com/NVIDIA/k8s-device-plugin", cgo=True, linker_flags=flags)


def _vcluster_program(version: str) -> Program:
    defines = (("github.com/loft-sh/vcluster/pkg/telemetry.SyncerVersion", f"v{version}"),)
    return Program("vcluster", f"v{version}", "github.com/loft-sh/vcluster", defines=defines)


def _kai_program(version: str) -> Program:
    return Program("kai-scheduler", version, KAI_MODULES.get(version, ""), cgo=True)


def _framework_program(name: str) -> Program:
    if name not in FRAMEWORKS:
        raise TenancyError(f"lab_frameworks: {name} is none of {', '.join(FRAMEWORKS)}.")
    framework = FRAMEWORKS[name]
    return Program(name, framework.version, framework.module, tags=framework.tags)


def _pause(kubernetes: Program) -> Program:
    source = f"module:{kubernetes.id}/build/pause/linux/pause.c"
    return Program("pause", "3.10", c_source=source, c_flags=("-Os", "-static"))


def _driver(lab: dict[str, t.Any]) -> tuple[Program, ...]:
    """The simulated driver: NVML, and nvidia-smi."""
    version = lab["driver_version"]
    defines = (
        ("LAB_NAME", lab["name"]),
        ("GPU_NAME", lab["gpu_name"]),
        ("GPU_MEMORY_MIB", str(lab["gpu_memory_mib"])),
        ("DRIVER_VERSION", version),
    )
    shared = ("-O2", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1")
    return (
        Program("libnvidia-ml.so", version, c_source="role:gpu/nvml.c", c_flags=shared, defines=defines),
        Program("nvidia-smi", version, c_source="role:gpu/nvidia-smi.c", c_flags=("-O2", "-static"), defines=defines),
    )


# --- images ------------------------------------------------------------------------------------------------------


def _control_plane_images(programs: _Programs, etcd: str) -> tuple[Image, ...]:
    """What kubeadm starts, where upstream's node image has it inside.

    :arg etcd: tag of its image.
    """
    kubernetes, pause = programs.kubernetes, programs.pause
    return (
        *(
            Image(f"registry.k8s.io/{name}:{kubernetes.version}", (_binary(f"/usr/local/bin/{name}", kubernetes, name),))
            for name in CONTROL_PLANE
        ),
        Image(
            f"registry.k8s.io/kube-proxy:{kubernetes.version}",
            (_binary("/usr/local/bin/kube-proxy", kubernetes, "kube-proxy"),),
            rootfs="base",
        ),
        Image(f"registry.k8s.io/etcd:{etcd}", (_binary("/usr/local/bin/etcd", programs.etcd, "etcd"),)),
        _coredns("registry.k8s.io/coredns/coredns", programs.coredns, programs.coredns.version),
        # containerd's configuration in kind's node image and kubeadm each name their own pause image.
        *(
            Image(
                f"registry.k8s.io/pause:{tag}", (_binary("/pause", pause, "pause"),), entrypoint=("/pause",), user="65535:65535"
            )
            for tag in ("3.10", "3.10.1")
        ),
    )


def _node_services(programs: _Programs) -> tuple[Image, ...]:
    """What runs on every node beside that: storage, and a network, with policies or without."""
    local_path, kubernetes = programs.local_path, programs.kubernetes
    return (
        Image(
            f"docker.io/rancher/local-path-provisioner:{local_path.version}",
            (_binary("/usr/bin/local-path-provisioner", local_path, "local-path-provisioner"),),
        ),
        Image(
            "docker.io/kubegpu/lab-cni:0.1.0",
            (
                _binary("/usr/local/bin/kubectl", kubernetes, "kubectl"),
                File("/usr/local/bin/lab-cni", "role:node/lab-cni.sh", 0o755),
            ),
            rootfs="base",
            entrypoint=("/usr/local/bin/lab-cni",),
        ),
        *(
            Image(
                f"registry.k8s.io/networking/{program.name}:{program.version}",
                # /bin is a link in Debian, and has to stay one.
                (_binary("/usr/bin/netpol", program, "cmd"),),
                rootfs="base",
            )
            for program in programs.policies
        ),
    )


def _common_images(programs: _Programs) -> tuple[Image, ...]:
    """What pods of any kind start, and the device plugin."""
    coredns, plugin = programs.coredns, programs.plugin
    return (
        Image("docker.io/library/busybox:1.37.0", (), rootfs="busybox"),
        # In front of the shell that is there already, by PATH.
        Image(REWRITE_HOSTS, (File("/usr/local/bin/sh", "role:rewrite-hosts.sh", 0o755),), rootfs="busybox"),
        _coredns("docker.io/coredns/coredns", coredns, coredns.version[1:]),
        Image(
            f"nvcr.io/nvidia/k8s-device-plugin:{plugin.version}",
            # Without GPU feature discovery, which needs images of its own.
            tuple(
                _binary(f"/usr/bin/{name}", plugin, name)
                for name in ("nvidia-device-plugin", "config-manager", "mps-control-daemon")
            ),
            rootfs="base",
        ),
    )


def _vcluster_images(programs: _Programs) -> tuple[Image, ...]:
    """The control plane of a virtual cluster: Kubernetes, and each version of vCluster."""
    kubernetes = programs.kubernetes
    return (
        Image(
            f"ghcr.io/loft-sh/kubernetes:{kubernetes.version}",
            (
                *(_binary(f"/kubernetes/{name}", kubernetes, name) for name in CONTROL_PLANE),
                _binary("/kubernetes/kine", programs.kine, "kine"),
            ),
            rootfs="base",
        ),
        *(
            Image(
                f"ghcr.io/loft-sh/vcluster-oss:{program.version[1:]}",
                (_binary("/vcluster", program, "vcluster"),),
                rootfs="base",
                entrypoint=("/vcluster", "start"),
            )
            for program in programs.vcluster
        ),
    )


def _kai_images(programs: _Programs) -> tuple[Image, ...]:
    """The services of each version of KAI Scheduler, and what its hooks run."""
    services = [
        Image(
            f"{_kai_releases.release(program.version).registry}/{service}:{program.version}",
            (_binary("/workspace/app", program, service),),
            rootfs="base",
            entrypoint=("/workspace/app",),
            user="65532:65532",
        )
        for program in programs.kai
        for service in KAI_SERVICES
    ]
    upgraders = [
        Image(
            f"{_kai_releases.release(program.version).registry}/crd-upgrader:{program.version}",
            (
                _binary("/usr/bin/kubectl", programs.kubernetes, "kubectl"),
                File("/internal-crds", f"module:{program.id}/deployments/kai-scheduler/crds"),
                File("/apply-crds.sh", f"module:{program.id}/deployments/crd-upgrader/apply-crds.sh", 0o755),
            ),
            rootfs="base",
            entrypoint=("/apply-crds.sh",),
            user="65532:65532",
        )
        for program in programs.kai
    ]
    return (*services, *upgraders)


def _kwok_images(programs: _Programs) -> tuple[Image, ...]:
    """What plays the kubelets of a rehearsal's nodes."""
    return tuple(
        Image(
            f"registry.k8s.io/kwok/kwok:{program.version}",
            (_binary("/usr/local/bin/kwok", program, "kwok"),),
            entrypoint=("/usr/local/bin/kwok",),
            user="65532:65532",
        )
        for program in programs.kwok
    )


def _volcano_images(programs: _Programs) -> tuple[Image, ...]:
    """The services of Volcano. Its chart has the webhooks' certificate made by a script beside them, with openssl and kubectl."""
    return tuple(
        Image(
            f"docker.io/volcanosh/vc-{service}:{program.version}",
            (
                _binary(f"/vc-{service}", program, service),
                _binary("/usr/bin/kubectl", programs.kubernetes, "kubectl"),
                File(
                    "/gen-admission-secret.sh",
                    f"module:{program.id}/installer/dockerfile/webhook-manager/gen-admission-secret.sh",
                    0o755,
                ),
            )
            if service == "webhook-manager"
            else (_binary(f"/vc-{service}", program, service),),
            rootfs="openssl",
            entrypoint=(f"/vc-{service}",),
        )
        for program in programs.volcano
        for service in ("scheduler", "controller-manager", "webhook-manager")
    )


def _framework_images(programs: _Programs) -> tuple[Image, ...]:
    """The programs of frameworks."""
    return tuple(
        Image(
            f"{started.image}:{FRAMEWORKS[program.name].tag or program.version}",
            (_binary(started.path, program, started.binary),),
            # With certificates of authorities, and folders for temporary files.
            rootfs="base",
            entrypoint=(started.path,),
            user="65532:65532",
        )
        for program in programs.frameworks
        for started in FRAMEWORKS[program.name].programs
    )


def _coredns(repository: str, coredns: Program, tag: str) -> Image:
    return Image(f"{repository}:{tag}", (_binary("/coredns", coredns, "coredns"),), entrypoint=("/coredns",))


def _node(programs: _Programs) -> Image:
    """kind's node image: the files of its own base image on Debian's containerd (images/base/Dockerfile of kind)."""
    kind, kubernetes, enforcing = programs.kind, programs.kubernetes, bool(programs.policies)
    files = f"module:{kind.id}/images/base/files"
    network = "roles:node/default-cni.yaml node/network-policies.yaml" if enforcing else "role:node/default-cni.yaml"
    return Image(
        f"docker.io/kindest/node:{kubernetes.version}{ENFORCING if enforcing else ''}",
        (
            File("/usr/local/bin/entrypoint", f"{files}/usr/local/bin/entrypoint", 0o755),
            File("/etc/crictl.yaml", f"{files}/etc/crictl.yaml"),
            File("/etc/containerd/config.toml", f"{files}/etc/containerd/config.toml"),
            File("/etc/default/kubelet", f"{files}/etc/default/kubelet"),
            File("/etc/sysctl.d", f"{files}/etc/sysctl.d"),
            File("/etc/systemd/system", f"{files}/etc/systemd/system"),
            File("/kind/bin", f"{files}/kind/bin", 0o755),
            File("/kind/version", f"text:{kubernetes.version}"),
            File("/kind/manifests/default-cni.yaml", network),
            File("/kind/manifests/default-storage.yaml", f"storage:{programs.local_path.id}/deploy/local-path-storage.yaml"),
            *(_binary(f"/usr/bin/{name}", kubernetes, name) for name in ("kubelet", "kubeadm", "kubectl")),
        ),
        rootfs="node",
        entrypoint=("/usr/local/bin/entrypoint", "/sbin/init"),
        stop_signal="SIGRTMIN+3",
    )


# --- charts and the host -----------------------------------------------------------------------------------------


def _charts(programs: _Programs) -> tuple[Chart, ...]:
    plugin = programs.plugin
    kais = [
        Chart(
            "kai-scheduler",
            program.version,
            program.version,
            f"module:{program.id}/deployments/kai-scheduler",
            _kai_releases.release(program.version).chart,
        )
        for program in programs.kai
    ]
    vclusters = [
        Chart("vcluster", program.version[1:], program.version[1:], f"module:{program.id}/chart", _vcluster.REPOSITORY)
        for program in programs.vcluster
    ]
    folder = f"module:{plugin.id}/deployments/helm/nvidia-device-plugin"
    return (
        *kais,
        *vclusters,
        *_charts_of_teams(programs),
        Chart("nvidia-device-plugin", plugin.version[1:], plugin.version[1:], folder, DEVICE_PLUGIN_CHARTS),
    )


def _charts_of_teams(programs: _Programs) -> list[Chart]:
    """Of what only some tenants bring."""
    volcanos = [
        Chart(
            "volcano",
            program.version[1:],
            program.version[1:],
            f"module:{program.id}/installer/helm/chart/volcano",
            _volcano.REPOSITORY,
        )
        for program in programs.volcano
    ]
    frameworks = [
        Chart(
            chart.chart.rpartition("/")[2],
            program.version[1:],
            program.version[1:],
            f"module:{program.id}/{chart.chart}",
            chart.home,
        )
        for program in programs.frameworks
        if (chart := FRAMEWORKS[program.name]).chart
    ]
    return [*volcanos, *frameworks]


def _downloads(programs: _Programs) -> tuple[Download, ...]:
    kind, helm, toolkit, kubernetes = programs.kind, programs.helm, programs.toolkit, programs.kubernetes
    kind_url = f"https://kind.sigs.k8s.io/dl/{kind.version}/kind-linux-amd64"
    helm_url = f"https://get.helm.sh/helm-{helm.version}-linux-amd64.tar.gz"
    kubectl_url = f"https://dl.k8s.io/release/{kubernetes.version}/bin/linux/amd64/kubectl"
    return (
        Download(kind.id, kind_url, f"{kind_url}.sha256sum", ("kind",)),
        Download(helm.id, helm_url, f"{helm_url}.sha256sum", ("linux-amd64/helm",)),
        Download(kubernetes.id, kubectl_url, f"{kubectl_url}.sha256", ("kubectl",)),
        *(
            Download(
                toolkit.id,
                f"{NVIDIA_PACKAGES}/{package}_{toolkit.version[1:]}-1_amd64.deb",
                f"{NVIDIA_PACKAGES}/Packages",
                tuple(f"usr/bin/{name}" for name, home in NVIDIA_PROGRAMS.items() if home == package),
            )
            for package in sorted(set(NVIDIA_PROGRAMS.values()))
        ),
    )


def _rootfs(host_release: str, programs: _Programs) -> tuple[Rootfs, ...]:
    if host_release not in HOST_RELEASES:
        raise TenancyError(f"lab_host_release: {host_release} is none of {', '.join(HOST_RELEASES)}.")
    network = ("iptables", "nftables", "iproute2", "conntrack", "kmod", "ca-certificates")
    return (
        Rootfs("busybox", ("busybox-static",), variant="extract", customize="busybox.sh"),
        Rootfs("base", network, customize="iptables-of-kernel.sh"),
        # The script of Volcano's image is for Alpine's shell, which knows more than Debian's.
        *(Rootfs("openssl", ("openssl", "ca-certificates"), customize="bash-as-sh.sh") for _program in programs.volcano),
        Rootfs(
            "node",
            (*network, "systemd", "systemd-sysv", "dbus", "containerd", "runc", "containernetworking-plugins", "socat", "ethtool")
            + ("mount", "util-linux", "procps", "libseccomp2", "bash", "jq", "hostname", "curl"),
            customize="node/customize.sh",
        ),
        Rootfs(
            "host",
            ("systemd", "systemd-sysv", "dbus", *HOST_RELEASES[host_release], "iptables", "iproute2", "kmod", "ca-certificates")
            + ("procps", "sudo", "python3", "python3-kubernetes", "python3-jsonpatch", "python3-yaml")
            + ("docker-registry", "tinyproxy-bin", "haproxy"),
            customize="host/customize.sh",
            suite=host_release,
        ),
    )


def _host(programs: _Programs, lab: dict[str, t.Any]) -> Image:
    """The GPU host: systemd, Docker and what an operator has on one, with the simulated driver of this lab."""
    kubernetes, toolkit = programs.kubernetes, programs.toolkit
    nvml, smi = programs.driver
    return Image(
        f"kubegpu.tenancy/lab-host/{lab['name']}",
        (
            _binary("/usr/local/bin/kind", programs.kind, "kind"),
            _binary("/usr/local/bin/helm", programs.helm, "helm"),
            _binary("/usr/local/bin/kubectl", kubernetes, "kubectl"),
            *(_binary(f"/usr/bin/{name}", toolkit, name) for name in NVIDIA_PROGRAMS),
            _binary(f"{DRIVER_LIBRARIES}/{nvml.name}.{nvml.version}", nvml, nvml.name),
            File(f"{DRIVER_LIBRARIES}/{nvml.name}.1", f"link:{nvml.name}.{nvml.version}"),
            _binary("/usr/bin/nvidia-smi", smi, "nvidia-smi"),
            File("/etc/systemd/system/lab-devices.service", "role:host/lab-devices.service"),
            File("/usr/local/sbin/lab-devices", "role:host/lab-devices.sh", 0o755),
            File("/etc/systemd/system/lab-proxy.service", "role:host/lab-proxy.service"),
            File("/etc/tinyproxy.conf", "role:host/tinyproxy.conf"),
            File("/etc/docker/registry/config.yml", "role:host/registry.yml"),
        ),
        rootfs="host",
        entrypoint=("/lib/systemd/systemd",),
        stop_signal="SIGRTMIN+3",
    )
