# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's stand-in for NVIDIA's driver: compiled, loaded and run as the lab does it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.tests.gpu.nvml import QUESTIONS, UUID, Nvml, Question

SOURCES = Path(__file__).parents[3] / "lab/roles/lab/files/gpu"

SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = 0, 1, 2, 3, 6, 7

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc compiles the doubles")


class Driver:
    """One lab's library and command, with a directory of plain files for /dev."""

    def __init__(self, directory: Path, lab: str) -> None:
        self.dev = directory / "dev"
        self.dev.mkdir()
        macros = [f'-DLAB_NAME="{lab}"', f'-DDEV_DIR="{self.dev}"']
        gcc = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", *macros]
        library, self.command = directory / "libnvidia-ml.so.580.95.05", directory / "nvidia-smi"
        shared = ["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
        subprocess.run([*gcc, *shared, "-o", str(library), str(SOURCES / "nvml.c")], check=True)
        subprocess.run([*gcc, "-static", "-o", str(self.command), str(SOURCES / "nvidia-smi.c")], check=True)
        self.nvml = ctypes.CDLL(str(library))

    def plug(self, minors: Iterable[int]) -> None:
        """Makes these the GPUs in sight, as they are when NVML is next initialized."""
        while self.nvml.nvmlShutdown() == SUCCESS:
            pass
        for node in self.dev.iterdir():
            node.unlink()
        for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{minor}" for minor in minors)):
            (self.dev / name).touch()
        assert self.nvml.nvmlInit_v2() == SUCCESS

    def count(self) -> int:
        out = ctypes.c_uint()
        assert self.nvml.nvmlDeviceGetCount_v2(ctypes.byref(out)) == SUCCESS
        return out.value

    def device(self, index: int) -> ctypes.c_void_p:
        out = ctypes.c_void_p()
        assert self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(out)) == SUCCESS
        return out

    def minors(self) -> list[int]:
        out = ctypes.c_uint()
        found = []
        for index in range(self.count()):
            assert self.nvml.nvmlDeviceGetMinorNumber(self.device(index), ctypes.byref(out)) == SUCCESS
            found.append(out.value)
        return found

    def uuids(self) -> list[str]:
        out = ctypes.create_string_buffer(96)
        found = []
        for index in range(self.count()):
            assert self.nvml.nvmlDeviceGetUUID(self.device(index), out, len(out)) == SUCCESS
            found.append(out.value.decode())
        return found

    def smi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(self.command), *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return Driver(tmp_path_factory.mktemp("one"), "one")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return Driver(tmp_path_factory.mktemp("two"), "two")


@pytest.mark.parametrize("minors", [[], [0], [0, 1, 2, 3], [3, 5], list(range(32))])
def test_devices_are_the_nodes_in_sight_in_order(driver: Driver, minors: list[int]) -> None:
    driver.plug(minors)
    assert driver.minors() == minors


def test_a_gpu_keeps_its_uuid_whatever_else_is_in_sight(driver: Driver) -> None:
    driver.plug(range(32))
    every = driver.uuids()
    assert len(set(every)) == 32
    assert all(UUID.fullmatch(uuid) for uuid in every)
    driver.plug([3, 11])
    assert driver.uuids() == [every[3], every[11]]


def test_labs_share_no_uuid(driver: Driver, other: Driver) -> None:
    driver.plug(range(32))
    other.plug(range(32))
    assert not set(driver.uuids()) & set(other.uuids())


def test_a_device_is_found_by_its_uuid_and_its_bus_id(driver: Driver) -> None:
    driver.plug([2, 4])
    out = ctypes.c_void_p()
    assert driver.nvml.nvmlDeviceGetHandleByUUID(driver.uuids()[1].encode(), ctypes.byref(out)) == SUCCESS
    assert out.value == driver.device(1).value
    assert driver.nvml.nvmlDeviceGetHandleByPciBusId_v2(b"00000000:D2:00.0", ctypes.byref(out)) == SUCCESS
    assert out.value == driver.device(0).value
    assert driver.nvml.nvmlDeviceGetHandleByUUID(b"GPU-0", ctypes.byref(out)) == NOT_FOUND


def test_what_is_wrong_is_named_by_its_code(driver: Driver) -> None:
    driver.plug([0])
    out, number, text = ctypes.c_void_p(), ctypes.c_uint(), ctypes.create_string_buffer(8)
    nvml = driver.nvml
    assert nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(out)) == INVALID_ARGUMENT
    assert nvml.nvmlDeviceGetIndex(None, ctypes.byref(number)) == INVALID_ARGUMENT
    assert nvml.nvmlDeviceGetUUID(driver.device(0), text, len(text)) == INSUFFICIENT_SIZE
    assert nvml.nvmlDeviceGetMigMode(driver.device(0), None, None) == NOT_SUPPORTED
    assert nvml.nvmlShutdown() == SUCCESS
    assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(number)) == UNINITIALIZED
    assert nvml.nvmlShutdown() == UNINITIALIZED


def test_the_command_lists_the_librarys_devices(driver: Driver) -> None:
    driver.plug([1, 6])
    first, second = driver.uuids()
    assert driver.smi("-L").stdout == f"GPU 0: NVIDIA H200 (UUID: {first})\nGPU 1: NVIDIA H200 (UUID: {second})\n"
    assert "simulated" in driver.smi().stdout


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("csv", "index, name, memory.total [MiB], driver_version\n0, NVIDIA H200, 143771 MiB, 580.95.05\n"),
        ("csv,noheader", "0, NVIDIA H200, 143771 MiB, 580.95.05\n"),
        ("csv,noheader,nounits", "0, NVIDIA H200, 143771, 580.95.05\n"),
    ],
)
def test_the_command_answers_queries(driver: Driver, form: str, expected: str) -> None:
    driver.plug([0])
    assert driver.smi("--query-gpu=index,name,memory.total,driver_version", f"--format={form}").stdout == expected


def test_the_command_without_devices(driver: Driver) -> None:
    driver.plug([])
    done = driver.smi("-L")
    assert (done.returncode, done.stdout) == (6, "No devices were found\n")


@pytest.mark.parametrize(
    ("arguments", "status"), [(["--nonsense"], 255), (["--query-gpu=speed", "--format=csv"], 2), (["--format=xml"], 255)]
)
def test_the_command_refuses_what_it_does_not_know(driver: Driver, arguments: list[str], status: int) -> None:
    done = driver.smi(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert "usage: nvidia-smi" in done.stderr


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_a_library_answers_as_a_real_one_is_asked_to(driver: Driver, question: Question) -> None:
    driver.plug([0])
    driver.nvml.nvmlShutdown()
    fields = ("uuid", "name", "memory.total", "driver_version")
    said = driver.smi(f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits").stdout
    nvml = Nvml(driver.nvml._name, dict(zip(fields, said.strip().split(", "), strict=True)), driver.dev)
    answers = {}
    for each in QUESTIONS:
        answers[each.name] = each.ask(nvml)
    answer = answers[question.name]
    assert answer.code or question.right(nvml, answer.value)
