# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A DOUBLE of the program nvkind, as of NVIDIA/nvkind's commit 24c190e: none of its code, on the real kind, kubectl and docker.

It does in the same order what that commit does, with the same arguments, messages and exit statuses. What stands in
for something: a template may hold no actions, but for a quoted string; GPUs are counted by nvidia-smi, not by NVML;
nodes get NVIDIA's toolkit from the host, not from the internet; and no driver means that its files are masked already.

NVKIND_DOUBLE makes it fail as the real one was seen to:
  umount     while the GPUs of other nodes are hidden: the cluster is whole, without the RuntimeClass
  offline    the first node does not reach the internet, no node is set up
  configmap  its ConfigMap is not written, and the cause is lost
  killed     by SIGKILL, with kind, as soon as there are containers
"""

from __future__ import annotations

import datetime
import json
import os
import re
import secrets
import shutil
import signal
import string
import subprocess
import sys
import time
import typing as t

import yaml

CONFIGMAP = "nvkind-cluster-config"
DEVICES = "/var/run/nvidia-container-devices"
PROGRAMS = ("nvidia-ctk", "nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-cdi-hook")
RUNTIME_CLASS = '{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"}'
DEFAULT = {
    "apiVersion": "kind.x-k8s.io/v1alpha4",
    "kind": "Cluster",
    "nodes": [
        {"role": "control-plane"},
        {"role": "worker", "extraMounts": [{"hostPath": "/dev/null", "containerPath": f"{DEVICES}/all"}]},
    ],
}
# What it decodes; other keys are dropped in silence.
KEYS = {"kind", "apiVersion", "name", "nodes", "networking", "featureGates", "runtimeConfig", "kubeadmConfigPatches"} | {
    "kubeadmConfigPatchesJSON6902",
    "containerdConfigPatches",
    "containerdConfigPatchesJSON6902",
}
NODE_KEYS = {
    "role",
    "image",
    "labels",
    "extraMounts",
    "extraPortMappings",
    "kubeadmConfigPatches",
    "kubeadmConfigPatchesJSON6902",
}
MOUNT_KEYS = {"containerPath", "hostPath", "readOnly", "selinuxRelabel", "propagation"}

# Flags and the variables that set them too; --wait shares one with --retain.
TEXTS = {
    "name": "KIND_CLUSTER_NAME",
    "image": "KIND_CLUSTER_IMAGE",
    "config-template": "KIND_CLUSTER_CONFIG_TEMPLATE",
    "config-values": "KIND_CLUSTER_CONFIG_VALUES",
    "kubeconfig": "KUBECONFIG",
}
SWITCHES = {"retain": "KIND_CLUSTER_RETAIN", "skip-gpu-setup": "NVKIND_SKIP_GPU_SETUP"}
DURATIONS = {"wait": "KIND_CLUSTER_RETAIN"}
TRUE, FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")

MODE = os.environ.get("NVKIND_DOUBLE", "")


class Fatal(Exception):
    """Ends the program as its logger does: one line, a stack, status 255."""


def output(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Fatal(f"executing command: exit status {done.returncode}")
    return done.stdout


def in_node(node: str, script: str) -> None:
    sys.stdout.flush()
    done = subprocess.run(["docker", "exec", node, "bash", "-c", script], check=False)
    if done.returncode != 0:
        raise Fatal(f"running script on {node}: executing command: exit status {done.returncode}")


# --- flags ---


def parse(args: list[str], known: t.Container[str]) -> dict[str, str]:
    flags = {}
    for name, variable in [*TEXTS.items(), *SWITCHES.items(), *DURATIONS.items()]:
        if name in known and os.environ.get(variable):
            flags[name] = check(name, os.environ[variable], f' from environment variable "{variable}"')
    rest = list(args)
    while rest:
        name, equals, value = rest.pop(0).lstrip("-").partition("=")
        if name not in known:
            raise usage(f"flag provided but not defined: -{name}")
        if not equals and name in SWITCHES:
            value = "true"
        elif not equals and not rest:
            raise usage(f"flag needs an argument: -{name}")
        elif not equals:
            value = rest.pop(0)
        flags[name] = check(name, value, "")
    return flags


def check(name: str, value: str, source: str) -> str:
    if name in SWITCHES and value not in TRUE + FALSE:
        raise usage(f'could not parse "{value}" as bool value{source} for flag {name}: strconv.ParseBool: parsing "{value}"')
    if name in DURATIONS and not re.fullmatch(r"0|(\d+(\.\d+)?(ns|us|ms|s|m|h))+", value):
        raise usage(f'could not parse "{value}" as duration value{source} for flag {name}: time: invalid duration "{value}"')
    return value


def usage(error: str) -> Fatal:
    print(f"Incorrect Usage: {error}\n")
    return Fatal(error)


# --- configuration ---


def render(template: str) -> dict[str, t.Any]:
    action = re.compile(r'\{\{"([^"]*)"\}\}')
    if "{{" in action.sub("", template):
        raise SystemExit("The double of nvkind cannot execute templates.")
    config = yaml.safe_load(action.sub(r"\1", template))
    config = {key: value for key, value in config.items() if key in KEYS}
    config["nodes"] = [{key: value for key, value in node.items() if key in NODE_KEYS} for node in config.get("nodes") or []]
    for node in config["nodes"]:
        if "extraMounts" in node:
            node["extraMounts"] = [{key: mount[key] for key in mount if key in MOUNT_KEYS} for mount in node["extraMounts"]]
    return config


def new_config(flags: dict[str, str]) -> dict[str, t.Any]:
    config = render(json.dumps(DEFAULT))
    if "config-template" in flags:
        try:
            with open(flags["config-template"], encoding="utf-8") as stream:
                config = render(stream.read())
        except OSError as exc:
            raise Fatal(f"reading file: open {exc.filename}: {exc.strerror}") from exc
    if not config.get("name"):
        config["name"] = f"nvkind-{secrets.token_hex(3)[:5]}"
    for node in config["nodes"] if "image" in flags else ():
        node["image"] = flags["image"]
    return config


def clusters() -> list[str]:
    return output("kind", "get", "clusters", "-q").split()


def existing_config(name: str) -> str:
    """As everything after kind, by the variable KUBECONFIG: the flag is only read by print-gpus."""
    command = ["kubectl", "--context", f"kind-{name}", "--namespace", "default", "get", "configmap", CONFIGMAP, "--output=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Fatal(f"getting config bytes: getting configmap: {done.stderr.strip()}")
    return json.loads(done.stdout)["data"]["config"]


def settle(name: str, config: dict[str, t.Any] | None) -> dict[str, t.Any]:
    """The configuration of a new cluster, or of the one that there is."""
    if name not in clusters():
        config = config or new_config({})
        return config | {"name": name or config["name"]}
    existing = existing_config(name)
    if config is None:
        return render(existing)
    if yaml.safe_load(existing) != config | {"name": name}:
        raise Fatal("cannot pass new config to existing cluster")
    return config | {"name": name}


def nodes(name: str, config: dict[str, t.Any]) -> list[tuple[str, list[str]]]:
    """Nodes with their GPUs: both in order of role and name, so that from the tenth worker on they do not fit."""
    found = sorted(output("kind", "get", "nodes", "--name", name).split())
    # Also what kind prints on stderr, as it does where KIND_EXPERIMENTAL_PROVIDER is set.
    for node in found:
        if not node.rstrip(string.digits).endswith(("control-plane", "worker")):
            raise Fatal(f"getting cluster nodes: unable to determine node role from name: {node}")
    paired: list[tuple[str, list[str]]] = []
    for role in ("control-plane", "worker"):
        names = [node for node in found if node.rstrip(string.digits).endswith(role)]
        wanted = [node for node in config["nodes"] if node["role"] == role]
        if len(names) != len(wanted):
            raise Fatal(f"node names and configs mismatch for {role} role")
        paired += [(node, devices(mine)) for node, mine in zip(names, wanted, strict=True)]
    return paired


def devices(node: dict[str, t.Any]) -> list[str]:
    mounts = [mount["containerPath"] for mount in node.get("extraMounts", []) if mount["hostPath"] == "/dev/null"]
    return [os.path.basename(path) for path in mounts if os.path.dirname(path) == DEVICES]


# --- nodes ---


def install_toolkit(node: str) -> None:
    if MODE == "offline":
        in_node(node, "echo 'E: Unable to locate package nvidia-container-toolkit' >&2; exit 100")
    for program in PROGRAMS:
        subprocess.run(["docker", "cp", "-L", shutil.which(program) or program, f"{node}:/usr/bin/{program}"], check=True)


def mask_driver(node: str, mine: list[str]) -> None:
    if MODE == "umount":
        try:
            in_node(node, "echo 'umount: /proc/driver/nvidia: not mounted.' >&2; exit 32")
        except Fatal as exc:
            raise Fatal(f"masking /proc/driver/nvidia/params on {node}: {exc}") from exc
    if "all" in mine:
        return
    for index in range(len(output("nvidia-smi", "-L").splitlines())):
        if str(index) not in mine:
            in_node(node, f"while umount /dev/nvidia{index} 2> /dev/null; do :; done; rm -rf /dev/nvidia{index}")


def set_up(node: str, mine: list[str]) -> None:
    steps: tuple[tuple[str, t.Callable[[], None]], ...] = (
        ("installing container toolkit", lambda: install_toolkit(node)),
        (
            "configuring container runtime",
            lambda: in_node(
                node,
                "nvidia-ctk runtime configure --runtime=containerd --config-source=file; systemctl restart containerd",
            ),
        ),
        ("patching /proc/driver/nvidia", lambda: mask_driver(node, mine)),
    )
    for what, step in steps:
        try:
            step()
        except Fatal as exc:
            raise Fatal(f"{what} on node '{node}': {exc}") from exc


# --- commands ---


def create(args: list[str]) -> None:
    flags = parse(args, {**TEXTS, **SWITCHES, **DURATIONS})
    given = flags.keys() & {"image", "config-template", "config-values"}
    config = new_config(flags) if given else None
    try:
        config = settle(flags.get("name", ""), config)
    except Fatal as exc:
        raise Fatal(f"new cluster: setting config: {exc}") from exc
    name = config["name"]
    try:
        create_cluster(name, config, flags)
    except Fatal as exc:
        raise Fatal(f"creating cluster: {exc}") from exc
    for node, mine in nodes(name, config):
        if mine and flags.get("skip-gpu-setup", "0") in FALSE:
            set_up(node, mine)
    for what, command, data in (
        ("getting cluster info", ["cluster-info", "--context", f"kind-{name}"], None),
        ("getting cluster info", ["--context", f"kind-{name}", "get", "nodes"], None),
        ("registering runtime class", ["--context", f"kind-{name}", "apply", "-f", "-"], RUNTIME_CLASS),
    ):
        print("+ kubectl", *command, flush=True)
        done = subprocess.run(["kubectl", *command], input=data, text=True, check=False)
        if done.returncode != 0:
            text = " ".join(command)
            raise Fatal(f"{what}: running process: error running 'kubectl {text}': exit status {done.returncode}")


def create_cluster(name: str, config: dict[str, t.Any], flags: dict[str, str]) -> None:
    written = yaml.safe_dump(config, sort_keys=False)
    command = ["kind", "create", "cluster", "--name", name, "--config", "-"]
    command += ["--retain"] if flags.get("retain") in TRUE else []
    command += ["--wait", flags["wait"]] if flags.get("wait", "0") != "0" else []
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as kind:
        assert kind.stdin
        kind.stdin.write(written)
        kind.stdin.close()
        if MODE == "killed":
            kill_with(kind, name, len(config["nodes"]))
    if kind.returncode != 0:
        raise Fatal(f"executing command: exit status {kind.returncode}")
    command = ["kubectl", "--context", f"kind-{name}", "--namespace", "default", "create", "configmap", CONFIGMAP]
    command += ["--from-file=config=/dev/stdin"]
    if MODE == "configmap" or subprocess.run(command, input=written, text=True, capture_output=True, check=False).returncode:
        raise Fatal("adding config to cluster: writing configmap: %!w(<nil>)")


def kill_with(kind: subprocess.Popen[str], name: str, count: int) -> None:
    command = ["docker", "ps", "--quiet", "--filter", f"label=io.x-k8s.kind.cluster={name}"]
    while kind.poll() is None and len(output(*command).split()) < count:
        time.sleep(0.1)
    kind.kill()
    os.kill(os.getpid(), signal.SIGKILL)


def list_clusters(_args: list[str]) -> None:
    print("\n".join(sorted(clusters())) or "No kind clusters found.")


def print_gpus(args: list[str]) -> None:
    flags = parse(args, {"name", "kubeconfig"})
    name = flags.get("name") or current(flags.get("kubeconfig") or os.path.expanduser("~/.kube/config"))
    if name not in clusters():
        raise Fatal(f"unknown cluster: {name}")
    try:
        config = settle(name, None)
    except Fatal as exc:
        raise Fatal(f"getting cluster: setting config: {exc}") from exc
    listed = []
    for node, mine in nodes(name, config):
        if not mine:
            continue
        query = ("nvidia-smi", "--query-gpu=index,name,uuid", "--format=csv,noheader")
        try:
            lines = output("docker", "exec", node, *query).strip().splitlines()
        except Fatal as exc:
            raise Fatal(f"getting GPU info on node '{node}': {exc}") from exc
        listed.append(
            {"node": node, "gpus": [dict(zip(("Index", "Name", "UUID"), line.split(", "), strict=True)) for line in lines]}
        )
    print(json.dumps(listed or None, indent=4))


def current(kubeconfig: str) -> str:
    try:
        with open(kubeconfig, encoding="utf-8") as stream:
            context = (yaml.safe_load(stream) or {}).get("current-context") or ""
    except OSError as exc:
        raise Fatal(f"updating flags with defaults: marshaling GPU info: open {kubeconfig}: {exc.strerror}") from exc
    if not context.startswith("kind-"):
        reason = f"current kubecontext is not a kind cluster: {context}" if context else "no current kubecontext set"
        raise Fatal(f"updating flags with defaults: {reason}")
    return context.removeprefix("kind-")


COMMANDS = {"create": create, "list": list_clusters, "print-gpus": print_gpus}


def main(args: list[str]) -> int:
    if args[:1] != ["cluster"] or args[1:2] in ([], ["--help"], ["help"]):
        print("nvkind cluster {list,create,print-gpus}, by a double of commit 24c190e")
        return 0
    if args[1] not in COMMANDS:
        print(f"No help topic for '{args[1]}'", file=sys.stderr)
        return 3
    try:
        COMMANDS[args[1]](args[2:])
    except Fatal as exc:
        sys.stdout.flush()
        stamp = datetime.datetime.now().strftime("%m%d %H:%M:%S.%f")
        stack = "goroutine 1 [running]:\nk8s.io/klog/v2/internal/dbg.Stacks(0x0)"
        print(f"F{stamp} {os.getpid():7d} main.go:46] Error: {exc}\n{stack}", file=sys.stderr)
        return 255
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
