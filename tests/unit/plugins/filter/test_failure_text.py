# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.filter.failure_text import failure_text


@pytest.mark.parametrize(
    ("result", "task", "text"),
    [
        ({"msg": "no GPU"}, {"name": "Make the cluster"}, "Make the cluster: no GPU"),
        (
            {"msg": "non-zero return code", "stderr_lines": ["importing", "no space left on device"]},
            {"name": "Import the image"},
            "Import the image: non-zero return code: no space left on device",
        ),
        ({"stderr_lines": []}, {}, "a task: see the output above"),
    ],
)
def test_a_failure_is_one_line(result, task, text):
    assert failure_text(result, task) == text
