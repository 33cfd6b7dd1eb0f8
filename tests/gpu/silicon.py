# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold what the lab simulates against a real GPU: NVML, nvidia-smi, and what NVIDIA's programs and this collection's make of either.

Prints a table in Markdown, and ends with exit status 1 where the two differ.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import datetime
import functools
import glob
import json
import os
import platform
import re
import stat
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.nvidia import parse_gpus, parse_minor
from ansible_collections.kubegpu.tenancy.tests.gpu import kubelet
from ansible_collections.kubegpu.tenancy.tests.gpu.nvml import QUESTIONS, UUID, Answer, Nvml, unsupported

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "lab/roles/lab/files/gpu"
VERSION = "580.95.05"
FIELDS = ("index", "uuid", "name", "memory.total", "driver_version")
FORM = "--format=csv,noheader,nounits"

# Of the page docs/contributing/real-gpus.md, which holds the report of the last run on a real GPU.
TITLE = """\
# On real GPUs

The [lab](../how-to/lab.md) has no GPU. A small library stands in for NVIDIA's `libnvidia-ml`, and a small program for `nvidia-smi`. `tests/gpu/run` holds
both against the real ones: each function that the library answers, the forms and exit statuses of the program, and what NVIDIA's own programs
make of either: the specification of `nvidia-ctk cdi generate`, the device plugin, containers by `nvidia-container-runtime`. It also runs what
this collection reads on a GPU host. A kubelet's side of the device plugin's API is a double (`tests/gpu/kubelet.py`).

It needs a machine with one NVIDIA GPU, gcc and Python, as root, and no network. It takes twenty seconds, and leaves that machine as it was.

```
tests/gpu/pack                              # on a machine with a network; then copy this folder, with build/gpu, to the one with the GPU
tests/gpu/run --report docs/contributing/real-gpus.md    # there: writes this page
```

Not tried on a real GPU so far: Docker, the cluster of nvkind, KAI Scheduler, several GPUs, MIG.

""".splitlines()


@dataclasses.dataclass
class Driver:
    """A driver's library and command.

    :ivar environment: by which programs find it.
    :ivar options: of nvidia-ctk, by which it finds it.
    """

    library: str
    smi: str
    dev: Path
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    options: list[str] = dataclasses.field(default_factory=list)

    def run(self, *command: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run a program with this driver."""
        return subprocess.run(command, env=os.environ | self.environment, capture_output=True, text=True, check=False, **more)

    def ask(self, *args: str) -> Answer:
        """Run nvidia-smi."""
        done = self.run(self.smi, *args)
        return Answer(done.returncode, done.stdout.strip() if not done.returncode else None)

    @functools.cached_property
    def facts(self) -> dict[str, str]:
        """What nvidia-smi says of the first GPU, by field; it takes up to a second to start."""
        done = self.run(self.smi, f"--query-gpu={','.join(FIELDS)}", FORM)
        return dict(zip(FIELDS, next(csv.reader(done.stdout.splitlines(), skipinitialspace=True)), strict=True))


def admission_copy(folder: Path) -> Driver:
    """Compile the lab's stand-in, with one GPU, as a driver's root folder."""
    libraries, programs, dev = folder / "usr/lib/x86_64-linux-gnu", folder / "usr/bin", folder / "dev"
    for made in (libraries, programs, dev):
        made.mkdir(parents=True)
    for name, minor in (("nvidia0", 0), ("nvidiactl", 255)):
        os.mknod(dev / name, stat.S_IFCHR | 0o666, os.makedev(195, minor))
    gcc = ["gcc", "-O2", f'-DDEV_DIR="{dev}"', f'-DDRIVER_VERSION="{VERSION}"']
    library, smi = libraries / f"libnvidia-ml.so.{VERSION}", programs / "nvidia-smi"
    subprocess.run([*gcc, "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", library, SOURCES / "nvml.c"], check=True)
    subprocess.run([*gcc, "-static", "-o", smi, SOURCES / "nvidia-smi.c"], check=True)
    link = libraries / "libnvidia-ml.so.1"
    link.symlink_to(library.name)
    environment = {
        "LD_LIBRARY_PATH": f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":"),
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    return Driver(str(link), str(smi), dev, environment, [f"--driver-root={folder}", f"--dev-root={folder}"])


REAL = Driver("libnvidia-ml.so.1", "nvidia-smi", Path("/dev"))


@dataclasses.dataclass(frozen=True)
class Row:
    """One thing that was compared."""

    subject: str
    simulated: str
    real: str
    same: bool


def nvml(simulated: Driver, real: Driver) -> Iterator[Row]:
    """Compare the answers of the libraries."""
    # The real one first: by its name alone, the loader would take the stand-in for it once that is there.
    other, one = (Nvml(driver.library, driver.facts, driver.dev) for driver in (real, simulated))
    for question in QUESTIONS:
        answers = [question.ask(library) for library in (one, other)]
        same = answers[0].code == answers[1].code and all(
            answer.code or question.right(library, answer.value) for answer, library in zip(answers, (one, other), strict=True)
        )
        same = same and (not question.alike or answers[0].value == answers[1].value)
        yield Row(question.name, str(answers[0]), str(answers[1]), same)
    absent = [name for name in unsupported(SOURCES / "nvml.c") if not hasattr(other.library, name)]
    yield Row(
        "functions that the stand-in calls not supported",
        "there",
        f"not there: {', '.join(absent)}" if absent else "there",
        not absent,
    )


def smi(simulated: Driver, real: Driver) -> Iterator[Row]:
    """Compare the commands: forms, exit statuses, and what this collection reads in them."""
    listings = [driver.ask("-L") for driver in (simulated, real)]
    shape = [re.sub(r"NVIDIA [^(]+", "NAME ", UUID.sub("UUID", str(listing).splitlines()[0])) for listing in listings]
    yield Row("nvidia-smi -L", str(listings[0]), str(listings[1]), shape[0] == shape[1])
    parsed = [[gpu.uuid for gpu in parse_gpus(str(listing))] for listing in listings]
    right = all(uuids and uuids[0] == driver.facts["uuid"] for uuids, driver in zip(parsed, (simulated, real), strict=True))
    yield Row("GPUs that the collection reads in it", str(len(parsed[0])), str(len(parsed[1])), right)
    for form in ("csv", "csv,noheader", "csv,noheader,nounits"):
        answers = [driver.ask(f"--query-gpu={','.join(FIELDS)}", f"--format={form}") for driver in (simulated, real)]
        shapes = [
            [
                re.sub(r"\d+", "0", re.sub(r"NVIDIA [^,]+", "NAME", UUID.sub("UUID", line)))
                for line in str(answer).splitlines()[:2]
            ]
            for answer in answers
        ]
        versions = [[re.sub(r"(0\.)+0$", "VERSION", line) for line in lines] for lines in shapes]
        yield Row(
            f"nvidia-smi --query-gpu=… --format={form}",
            *("<br>".join(str(a).splitlines()[:2]) for a in answers),
            versions[0] == versions[1],
        )
    for wrong in (["--query-gpu=nothing", "--format=csv"], ["--query-gpu=index"], ["--nothing"]):
        done = [driver.run(driver.smi, *wrong) for driver in (simulated, real)]
        said = [f"{one.returncode}: {(one.stdout + one.stderr).strip()[:200]}" for one in done]
        yield Row(f"nvidia-smi {' '.join(wrong)}", *said, done[0].returncode == done[1].returncode)


def minors(real: Driver) -> Iterator[Row]:
    """Read the minor numbers of devices as nvkind_cluster does: the stand-in has no such files, and its indexes are its minors."""
    read = [parse_minor(Path(path).read_text()) for path in glob.glob("/proc/driver/nvidia/gpus/*/information")]
    nodes = [minor for minor in read if minor and (real.dev / f"nvidia{minor[1]}").exists()]
    uuids = {real.facts["uuid"]}
    yield Row(
        "UUID and minor in /proc/driver/nvidia/gpus/*/information",
        "no such files",
        str(read),
        {uuid for uuid, _minor in nodes} == uuids,
    )


def cdi(simulated: Driver, real: Driver) -> Iterator[Row]:
    """Compare what ``nvidia-ctk cdi generate`` writes."""
    specs: list[Any] = []
    for driver in (simulated, real):
        runs = [driver.run("nvidia-ctk", "cdi", "generate", *driver.options) for _run in range(2)]
        if runs[0].returncode:
            raise RuntimeError(runs[0].stderr[-1500:])
        specs.append(yaml.safe_load(runs[0].stdout) | {"again": runs[0].stdout == runs[1].stdout})

    def row(subject: str, of: Callable[[Any, Driver], Any], right: Callable[[Any], bool] | None = None) -> Row:
        found = [of(spec, driver) for spec, driver in zip(specs, (simulated, real), strict=True)]
        same = all(map(right, found)) if right else found[0] == found[1]
        return Row(f"nvidia-ctk cdi generate: {subject}", *(json.dumps(one) for one in found), same)

    def nodes(spec: Any, driver: Driver) -> list[str]:
        edits = next(device["containerEdits"] for device in spec["devices"] if device["name"] == "0")
        return sorted(node["path"] for node in edits["deviceNodes"] if re.fullmatch(r"/dev/nvidia\d+", node["path"]))

    def mounts(spec: Any, driver: Driver) -> list[str]:
        paths = [mount["containerPath"] for mount in spec["containerEdits"]["mounts"]]
        version = re.escape(driver.facts["driver_version"])
        wanted = re.compile(rf".*/(libnvidia-ml\.so\.{version}|nvidia-smi)")
        return sorted(re.sub(version, "VERSION", Path(path).name) for path in paths if wanted.fullmatch(path))

    yield row("twice the same", lambda spec, _driver: spec["again"])
    yield row(
        "version and kind",
        lambda spec, _driver: f"{spec['cdiVersion']} {spec['kind']}",
        lambda text: text.endswith(" nvidia.com/gpu"),
    )
    yield row(
        "names of devices",
        lambda spec, driver: [device["name"].replace(driver.facts["uuid"], "UUID") for device in spec["devices"]],
    )
    yield row("nodes of device 0", nodes, lambda found: len(found) == 1)
    yield row("library and command among the mounts", mounts)
    yield row(
        "variables", lambda spec, _driver: [re.sub("=/.*", "=FOLDER", text) for text in spec["containerEdits"].get("env", [])]
    )


def device_plugin(simulated: Driver, real: Driver, work: Path) -> Iterator[Row]:
    """Start NVIDIA's device plugin as the role's chart does, list its devices, and allocate one."""
    found: list[dict[str, Any]] = []
    for driver in (simulated, real):
        log, uuid = work / "device-plugin.log", driver.facts["uuid"]
        command = [
            "nvidia-device-plugin",
            "--device-list-strategy=envvar",
            "--pass-device-specs=false",
            "--fail-on-init-error=true",
        ]
        try:
            with kubelet.registered(command, driver.environment, log) as plugin:
                listed, allocated = plugin.devices(), plugin.allocate(uuid)
                found.append(
                    {
                        "registers": f"{plugin.registered.resource_name} {plugin.registered.version}",
                        "lists": [(name.replace(uuid, "UUID"), health) for name, health in listed],
                        "gives a container": {key: value.replace(uuid, "UUID") for key, value in allocated.items()},
                    }
                )
        except Exception as exc:
            raise RuntimeError(f"{exc!r}: {log.read_text()[-1500:]}") from exc
    for what, simulated_one in found[0].items():
        yield Row(f"device plugin: {what}", str(simulated_one), str(found[1][what]), simulated_one == found[1][what])


def container(simulated: Driver, real: Driver, work: Path) -> Iterator[Row]:
    """Start containers by NVIDIA's runtime, and list the GPUs that each sees; what does so with the stand-in are the lab's own tests."""
    programs, config = work / "programs", work / "nvidia-container-runtime/config.toml"
    config.parent.mkdir()
    settings = {"nvidia-container-runtime.runtimes": programs / "runc", "nvidia-ctk.path": programs / "nvidia-ctk"}
    if real is simulated:
        settings["nvidia-container-cli.root"] = work / "lab"
    done = real.run("nvidia-ctk", "config", *(f"--set={key}={value}" for key, value in settings.items()), f"--output={config}")
    if done.returncode:
        raise RuntimeError(done.stderr)
    for what, devices in (("the first GPU", "0"), ("the first GPU by its UUID", real.facts["uuid"]), ("no GPU", "void")):
        seen = _seen(real, work, devices)
        same = "GPU-" not in seen if devices == "void" else real.facts["uuid"] in seen
        yield Row(f"container that asks for {what}", "", UUID.sub("UUID", seen), same)


def _seen(driver: Driver, work: Path, devices: str) -> str:
    """Return the devices and GPUs in a container that has the host's programs and libraries."""
    name = f"kubegpu-{devices[:8]}"
    bundle, said = work / name, work / f"{name}.log"
    # NVIDIA's hooks write links beside the libraries, and the linker's cache: over the host's folder, and in one of its own.
    for folder in ("rootfs/usr", "rootfs/etc", "upper", "scratch"):
        (bundle / folder).mkdir(parents=True)
    for path in map(Path, ("/bin", "/lib", "/lib64")):
        (bundle / "rootfs" / path.name).symlink_to(f"usr{path}")
    layers = ["lowerdir=/usr", f"upperdir={bundle}/upper", f"workdir={bundle}/scratch"]
    mounts: list[dict[str, Any]] = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
        {"destination": "/usr", "type": "overlay", "source": "overlay", "options": layers},
    ]
    spec = {
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs"},
        "process": {
            "cwd": "/",
            "args": ["sh", "-c", "ls -d /dev/nvidia[0-9]*; nvidia-smi -L"],
            "env": [
                *(f"{key}={os.environ[key]}" for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ),
                f"NVIDIA_VISIBLE_DEVICES={devices}",
                "NVIDIA_DRIVER_CAPABILITIES=utility",
            ],
            "user": {"uid": 0, "gid": 0},
        },
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]},
    }
    (bundle / "config.json").write_text(json.dumps(spec))
    runtime = ["nvidia-container-runtime", f"--root={work}/runc"]
    environment = os.environ | driver.environment | {"XDG_CONFIG_HOME": str(work)}
    with said.open("w") as output:
        for command in (["create", f"--bundle={bundle}", name], ["start", name]):
            subprocess.run([*runtime, *command], env=environment, stdout=output, stderr=output, check=False, timeout=60)
    for _attempt in range(60):
        if (
            '"status": "running"'
            not in subprocess.run([*runtime, "state", name], capture_output=True, text=True, check=False).stdout
        ):
            break
        time.sleep(0.5)
    subprocess.run([*runtime, "delete", "--force", name], capture_output=True, check=False)
    return said.read_text().strip()


def roles(real: Driver, work: Path) -> Iterator[Row]:
    """Run the role for Docker's runtime in check mode, and the module by which it reads the host."""
    command = ["ansible", "localhost", "--module-name=kubegpu.tenancy.docker_runtime_info", "--check"]
    done = real.run(*command, f"--extra-vars=ansible_python_interpreter={sys.executable}")
    if done.returncode:
        raise RuntimeError(done.stdout[-1500:] + done.stderr[-1500:])
    host = yaml.safe_load(done.stdout.partition("=>")[2])
    version = real.facts["driver_version"]
    yield Row("driver that docker_runtime_info reads", "", host["driver"]["version"], host["driver"]["version"] == version)
    line = "accept-nvidia-visible-devices-as-volume-mounts = true"
    yield Row(
        "configuration that the role would write",
        line,
        str(line in (host["toolkit_config"] or "")),
        line in (host["toolkit_config"] or ""),
    )
    book = work / "check.yml"
    book.write_text("- {hosts: localhost, gather_facts: false, roles: [kubegpu.tenancy.docker_nvidia_runtime]}\n")
    done = real.run("ansible-playbook", "--check", str(book), f"--extra-vars=ansible_python_interpreter={sys.executable}")
    refused = "docker does not run on this host. Install Docker Engine."
    said = "ends well" if not done.returncode else f"refuses: {refused}" if refused in done.stdout else done.stdout[-1500:]
    yield Row("role docker_nvidia_runtime in check mode", "", said, not done.returncode or refused in done.stdout)


def compare(simulated: Driver, real: Driver, work: Path) -> list[Row]:
    """Compare all; what cannot be compared is a row that says why."""
    parts: dict[str, Callable[[], Iterable[Row]]] = {
        "NVML": lambda: nvml(simulated, real),
        "nvidia-smi": lambda: smi(simulated, real),
        "minors": lambda: minors(real),
        "CDI": lambda: cdi(simulated, real),
        "device plugin": lambda: device_plugin(simulated, real, work),
        "containers": lambda: container(simulated, real, work),
        "roles": lambda: roles(real, work),
    }
    rows: list[Row] = []
    for name, part in parts.items():
        print(f"gpu: {name}", file=sys.stderr, flush=True)
        try:
            rows += part()
        # Even if one part fails, the others are still worth their time on a machine that is lent.
        except Exception as exc:
            traceback.print_exc()
            rows.append(Row(name, "", f"could not be compared: {exc}", False))
    return rows


def page(rows: Iterable[Row], real: Driver, rehearsed: bool) -> str:
    """Return the table, with what it was seen on."""
    facts = real.facts
    system = platform.freedesktop_os_release()["PRETTY_NAME"]
    where = f"{facts['name']}, driver {facts['driver_version']}, {system}"
    if rehearsed:
        where = "the lab's stand-in on both sides"
    lines = [
        *TITLE,
        f"Run on {datetime.datetime.now(datetime.UTC):%Y-%m-%d}: {where}.",
        "",
        "| what | the lab | the real GPU | |",
        "|---|---|---|---|",
    ]
    for row in rows:
        judged = "" if row.same else "**differs**"
        cells = (row.subject, row.simulated, row.real, judged)
        lines.append(f"| {' | '.join(UUID.sub('GPU-…', cell).replace('|', '/').replace(chr(10), '<br>') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Compare, print, and return the exit status: 1 where something differs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--stand-in", action="store_true")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    simulated = admission_copy(options.work / "lab")
    rows = compare(simulated, simulated if options.admission_copy else REAL, options.work)
    text = page(rows, simulated if options.admission_copy else REAL, options.admission_copy)
    print(text)
    if options.report:
        options.report.write_text(text)
    different = [row.subject for row in rows if not row.same]
    print(f"gpu: {len(rows)} compared, {len(different)} differ", *different, sep="\n  ")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
