# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the probe of kind kai_scheduling is tried with."""

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.plan import Settings
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse

SETTINGS = Settings("kai-probe", scheduler_name="kai-scheduler", runtime_class="nvidia")
QUEUES = parse(
    [
        {
            "name": "ml",
            "gpu": {"limit": 4},
            "children": [{"name": "training", "gpu": {"limit": 4}}, {"name": "notebooks", "gpu": {"limit": 2}}],
        },
        {"name": "open"},
    ]
)
