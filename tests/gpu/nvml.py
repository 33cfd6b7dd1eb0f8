# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a libnvidia-ml.so.1 answers, function by function: the real one's answers are of the kind and unit that the stand-in's are.

Names, arguments and codes are those of NVIDIA's documented interface (https://docs.nvidia.com/deploy/nvml-api/).
"""

from __future__ import annotations

import ctypes
import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MIB = 2**20
UUID = re.compile(r"GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
BUS_ID, LEGACY_BUS_ID = (re.compile(rf"[0-9A-F]{{{digits}}}:[0-9A-F]{{2}}:[0-9A-F]{{2}}\.0") for digits in (8, 4))
NVIDIA = 0x10DE
NO_UUID = b"GPU-00000000-0000-0000-0000-000000000000"
XID_CRITICAL_ERROR, NO_EVENT = 8, 1 << 60
TIMEOUT, WAITED_MS = 10, 100
CODES = (0, 1, 2, 3, 6, 7, 10)


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _Pci(ctypes.Structure):
    _fields_ = [
        ("busIdLegacy", ctypes.c_char * 16),
        *((name, ctypes.c_uint) for name in ("domain", "bus", "device", "pciDeviceId", "pciSubSystemId")),
        ("busId", ctypes.c_char * 32),
    ]


class _Event(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("ids", ctypes.c_uint * 2),
    ]


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a function answered.

    :ivar code: 0 for success.
    :ivar value: what it gave, as is.
    """

    code: int
    value: Any = None

    def __str__(self) -> str:
        said = "success" if not self.code else f"error {self.code}"
        if isinstance(self.value, dict):
            return ", ".join(f"{key} {value}" for key, value in self.value.items())
        return said if self.value is None else f"{self.value}" if not self.code else f"{said}, {self.value}"


class Nvml:
    """A loaded library, and its first device.

    :ivar facts: what ``nvidia-smi`` of the same driver says of that device, by its names of fields.
    """

    def __init__(self, path: str, facts: dict[str, str], dev: Path = Path("/dev")) -> None:
        self.library = ctypes.CDLL(path)
        self.facts = facts
        self.dev = dev
        self.device = ctypes.c_void_p()

    def call(self, name: str, *args: Any) -> int:
        """Call a function, and return its code."""
        return int(getattr(self.library, name)(*args))

    def start(self) -> Answer:
        """Initialize it, and find the first device."""
        code = self.call("nvmlInit_v2")
        self.call("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(self.device))
        return Answer(code)

    def text(self, name: str, *args: Any, size: int = 96) -> Answer:
        """Ask for a text."""
        out = ctypes.create_string_buffer(96)
        code = self.call(name, *args, out, size)
        return Answer(code, out.value.decode() if not code else None)

    def number(self, name: str, *args: Any, kind: Any = ctypes.c_uint) -> Answer:
        """Ask for a number."""
        out = kind()
        code = self.call(name, *args, ctypes.byref(out))
        return Answer(code, out.value if not code else None)

    def of_device(self, name: str) -> Answer:
        """Ask for a number of the first device."""
        return self.number(name, self.device)

    def found(self, name: str, key: bytes) -> Answer:
        """Tell whether the first device is found by a key."""
        out = ctypes.c_void_p()
        code = self.call(name, key, ctypes.byref(out))
        return Answer(code, "the first device" if out.value == self.device.value else "another device" if not code else None)

    def structure(self, name: str, kind: Any) -> Answer:
        """Ask for a structure of the first device, as a dictionary."""
        out = kind()
        code = self.call(name, self.device, ctypes.byref(out))
        return Answer(code, {field: getattr(out, field) for field, *_kind in out._fields_} if not code else None)


def _pci(nvml: Nvml) -> dict[str, Any]:
    answer = nvml.structure("nvmlDeviceGetPciInfo_v3", _Pci).value
    return {key: value.decode() if isinstance(value, bytes) else value for key, value in (answer or {}).items()}


def _capability(nvml: Nvml) -> Answer:
    major, minor = ctypes.c_int(), ctypes.c_int()
    code = nvml.call("nvmlDeviceGetCudaComputeCapability", nvml.device, ctypes.byref(major), ctypes.byref(minor))
    return Answer(code, f"{major.value}.{minor.value}")


def _processes(nvml: Nvml) -> Answer:
    number = ctypes.c_uint(0)
    code = nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", nvml.device, ctypes.byref(number), None)
    return Answer(code, number.value)


def _events(nvml: Nvml, types: int) -> Answer:
    """Register for events, wait for one, and free the set; the last answer that is not success, and how long it waited in ms."""
    events, event = ctypes.c_void_p(), _Event()
    if code := nvml.call("nvmlEventSetCreate", ctypes.byref(events)):
        return Answer(code, "nvmlEventSetCreate")
    try:
        if code := nvml.call("nvmlDeviceRegisterEvents", nvml.device, ctypes.c_ulonglong(types), events):
            return Answer(code, "nvmlDeviceRegisterEvents")
        began = time.monotonic()
        code = nvml.call("nvmlEventSetWait_v2", events, ctypes.byref(event), WAITED_MS)
        waited = (time.monotonic() - began) * 1000
        return Answer(code, "waited as long as asked" if WAITED_MS <= waited < 20 * WAITED_MS else f"waited {waited:.0f} ms")
    finally:
        nvml.call("nvmlEventSetFree", events)


def _is(pattern: str) -> Callable[[Nvml, Any], bool]:
    return lambda _nvml, value: re.fullmatch(pattern, str(value)) is not None


def _memory_right(nvml: Nvml, value: dict[str, int]) -> bool:
    return value["total"] // MIB == int(nvml.facts["memory.total"]) and value["free"] + value["used"] <= value["total"]


def _pci_right(_nvml: Nvml, value: dict[str, Any]) -> bool:
    forms = BUS_ID.fullmatch(value["busId"]) and LEGACY_BUS_ID.fullmatch(value["busIdLegacy"])
    number = f"{value['domain']:08X}:{value['bus']:02X}:{value['device']:02X}.0"
    return bool(forms) and value["busId"] == number and value["pciDeviceId"] & 0xFFFF == NVIDIA


def _any(_nvml: Nvml, _value: Any) -> bool:
    return True


@dataclasses.dataclass(frozen=True)
class Question:
    """What is asked of both libraries.

    :ivar right: whether a value is of the documented kind and unit.
    :ivar alike: whether both have to give the same value, and not only the same code.
    """

    name: str
    ask: Callable[[Nvml], Answer]
    right: Callable[[Nvml, Any], bool] = _any
    alike: bool = False


# In this order: the last ones are asked of a library that was shut down.
QUESTIONS = (
    Question("nvmlDeviceGetCount_v2, before nvmlInit", lambda n: n.number("nvmlDeviceGetCount_v2")),
    Question("nvmlInit_v2", Nvml.start),
    Question("nvmlErrorString", lambda n: Answer(0, _error_texts(n)), alike=True),
    Question("nvmlSystemGetDriverVersion", lambda n: n.text("nvmlSystemGetDriverVersion"), _is(r"\d{3}\.\d+(\.\d+)?")),
    Question(
        "nvmlSystemGetNVMLVersion",
        lambda n: n.text("nvmlSystemGetNVMLVersion"),
        lambda n, value: re.fullmatch(r"\d\d\." + re.escape(n.facts["driver_version"]), value) is not None,
    ),
    Question(
        "nvmlSystemGetCudaDriverVersion_v2",
        lambda n: n.number("nvmlSystemGetCudaDriverVersion_v2", kind=ctypes.c_int),
        _is(r"1[1-9]0\d0"),
    ),
    Question("nvmlDeviceGetCount_v2", lambda n: n.number("nvmlDeviceGetCount_v2"), _is(r"[1-9]\d*")),
    Question("nvmlDeviceGetCount_v2, without a place", lambda n: Answer(n.call("nvmlDeviceGetCount_v2", None))),
    Question(
        "nvmlDeviceGetHandleByIndex_v2, of none", lambda n: n.number("nvmlDeviceGetHandleByIndex_v2", 999, kind=ctypes.c_void_p)
    ),
    Question("nvmlDeviceGetUUID", lambda n: n.text("nvmlDeviceGetUUID", n.device), lambda n, value: value == n.facts["uuid"]),
    Question("nvmlDeviceGetUUID, in 8 bytes", lambda n: n.text("nvmlDeviceGetUUID", n.device, size=8)),
    Question(
        "nvmlDeviceGetHandleByUUID",
        lambda n: n.found("nvmlDeviceGetHandleByUUID", n.facts["uuid"].encode()),
        alike=True,
    ),
    Question("nvmlDeviceGetHandleByUUID, of none", lambda n: n.found("nvmlDeviceGetHandleByUUID", NO_UUID)),
    Question("nvmlDeviceGetHandleByUUID, of no UUID", lambda n: n.found("nvmlDeviceGetHandleByUUID", b"GPU-0")),
    Question("nvmlDeviceGetPciInfo_v3", lambda n: Answer(0, _pci(n)), _pci_right),
    Question(
        "nvmlDeviceGetHandleByPciBusId_v2",
        lambda n: n.found("nvmlDeviceGetHandleByPciBusId_v2", _pci(n)["busId"].encode()),
        alike=True,
    ),
    Question(
        "nvmlDeviceGetHandleByPciBusId_v2, of none", lambda n: n.found("nvmlDeviceGetHandleByPciBusId_v2", b"00000000:FE:1E.0")
    ),
    Question("nvmlDeviceGetName", lambda n: n.text("nvmlDeviceGetName", n.device), lambda n, value: value == n.facts["name"]),
    Question("nvmlDeviceGetIndex", lambda n: n.of_device("nvmlDeviceGetIndex"), alike=True),
    Question("nvmlDeviceGetIndex, of no device", lambda n: n.number("nvmlDeviceGetIndex", None)),
    Question(
        "nvmlDeviceGetMinorNumber",
        lambda n: n.of_device("nvmlDeviceGetMinorNumber"),
        lambda n, value: (n.dev / f"nvidia{value}").exists(),
    ),
    Question("nvmlDeviceGetBrand", lambda n: n.of_device("nvmlDeviceGetBrand"), alike=True),
    Question("nvmlDeviceGetArchitecture", lambda n: n.of_device("nvmlDeviceGetArchitecture"), alike=True),
    Question("nvmlDeviceGetCudaComputeCapability", _capability, alike=True),
    Question("nvmlDeviceGetMemoryInfo", lambda n: n.structure("nvmlDeviceGetMemoryInfo", _Memory), _memory_right),
    Question("nvmlDeviceIsMigDeviceHandle", lambda n: n.of_device("nvmlDeviceIsMigDeviceHandle"), alike=True),
    Question("nvmlDeviceGetMaxMigDeviceCount", lambda n: n.of_device("nvmlDeviceGetMaxMigDeviceCount"), alike=True),
    Question(
        "nvmlDeviceGetTopologyCommonAncestor, with itself",
        lambda n: n.number("nvmlDeviceGetTopologyCommonAncestor", n.device, n.device),
    ),
    Question("nvmlDeviceGetComputeRunningProcesses_v3", _processes, alike=True),
    Question(
        "nvmlDeviceGetSupportedEventTypes",
        lambda n: n.number("nvmlDeviceGetSupportedEventTypes", n.device, kind=ctypes.c_ulonglong),
        lambda _n, value: bool(value & XID_CRITICAL_ERROR),
    ),
    Question("nvmlEventSetWait_v2, for a critical error", lambda n: _events(n, XID_CRITICAL_ERROR), alike=True),
    Question("nvmlDeviceRegisterEvents, for what is no event", lambda n: _events(n, NO_EVENT), alike=True),
    Question("nvmlShutdown", lambda n: Answer(n.call("nvmlShutdown"))),
    Question("nvmlShutdown, once more", lambda n: Answer(n.call("nvmlShutdown"))),
)


def _error_texts(nvml: Nvml) -> str:
    nvml.library.nvmlErrorString.restype = ctypes.c_char_p
    return ", ".join(nvml.library.nvmlErrorString(code).decode() for code in CODES)


def unsupported(source: Path) -> list[str]:
    """Return the names of functions which the stand-in answers with "not supported", from its source."""
    return re.findall(r"^NOT_SUPPORTED\((\w+)\)$", source.read_text(), re.MULTILINE)
