# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.run_lock import locked
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import WaitTimeout
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline

HOLD = "import fcntl, sys; file = open(sys.argv[1], 'rb'); fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True); input()"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cluster.yml"
    path.write_text("x")
    return str(path)


@pytest.fixture
def other(file):
    """Another process that holds the file."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_one_run_after_the_other(file, other):
    with pytest.raises(WaitTimeout, match="another run that works on the tenants of this cluster"), locked(file, Deadline(0)):
        pytest.fail("both at once")
    # Killed, not asked.
    other.kill()
    other.wait()
    for _run in range(2):
        with locked(file, Deadline(5)):
            pass


@pytest.mark.parametrize("path", ["", "/there/is/none"])
def test_what_cannot_be_held_holds_nobody_up(path):
    with locked(path, Deadline(0)):
        pass


def test_an_error_of_the_work_stays_what_it_is(file):
    with pytest.raises(OSError, match="disk"), locked(file, Deadline(0)):
        raise OSError("disk")
