# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the adapter to the GPU host."""

from __future__ import annotations

import hashlib
import pathlib
import socket

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.host import Host, lock
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.nvidia import PROGRAMS, Gpu
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline


def test_gpus_are_asked_of_the_driver() -> None:
    host = Host(lambda args, **_more: (0, "GPU 0: NVIDIA H200 (UUID: GPU-0000)\n", ""), lambda name: f"/usr/bin/{name}")
    assert host.gpus() == [Gpu(0, "GPU-0000", 0)]
    with pytest.raises(TenancyError, match="nvidia-smi -L failed: no driver"):
        Host(lambda args, **_more: (9, "no driver\n", ""), lambda name: f"/usr/bin/{name}").gpus()
    with pytest.raises(TenancyError, match="this host has no nvidia-smi"):
        Host(lambda args, **_more: (0, "", ""), lambda name: None).gpus()


def test_programs_come_with_their_checksums(tmp_path: pathlib.Path) -> None:
    def find(name: str) -> str | None:
        return str(tmp_path / name) if (tmp_path / name).exists() else None

    host = Host(lambda args, **_more: (0, "", ""), find)
    for name in PROGRAMS[:-1]:
        (tmp_path / name).write_text(name)
    with pytest.raises(TenancyError, match=f"This host lacks {PROGRAMS[-1]}"):
        host.programs()
    (tmp_path / PROGRAMS[-1]).write_text("")
    name = PROGRAMS[0]
    assert host.programs()[name] == (str(tmp_path / name), hashlib.sha256(name.encode()).hexdigest())


def test_one_run_at_a_time() -> None:
    now = Deadline(0)
    with lock("test", now):
        with pytest.raises(TenancyError, match=r"another run on the cluster test.*another process"), lock("test", now):
            pass
        with lock("other", now):
            pass
    with lock("test", now), socket.socket(socket.AF_UNIX) as other, pytest.raises(OSError, match="in use"):
        other.bind("\0kubegpu/test")
