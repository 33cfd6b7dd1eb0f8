# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report of usage, for tests of what is made of it."""

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._usage import report

H100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"
NOTHING = {"promised": 0.0, "held": 0.0, "borrowed": 0.0, "idle": 0.0, "used": 0.0, "unused": 0.0, "use_not_measured": 0.0}
DAYS = ("2026-10-01", "2026-10-02")
USAGE = {
    "begin": "2026-10-01T00:00:00Z",
    "end": "2026-10-03T00:00:00Z",
    "time_zone": "UTC",
    "source": "kube-state-metrics",
    "cluster": [
        {"day": DAYS[0], "hours": 24.0, "not_measured": 0.0, "had": 192.0, "held": 100.5, "other": 20.0, "free": 71.5},
        {"day": DAYS[1], "hours": 24.0, "not_measured": 12.0, "had": 96.0, "held": 60.0, "other": 0.0, "free": 36.0},
    ],
    "products": {H100: 288.0},
    "tenants": [
        {"tenant": "ml", "product": H100, "day": DAYS[0]} | NOTHING | {"promised": 96.0, "held": 90.5, "idle": 5.5, "used": 40.0},
        {"tenant": "ml", "product": H100, "day": DAYS[1]} | NOTHING | {"promised": 48.0, "held": 50.0, "borrowed": 2.0},
        *(
            {"tenant": "web", "product": L4, "day": day}
            | NOTHING
            | {"promised": None, "borrowed": None, "idle": None, "held": 10.0}
            for day in DAYS
        ),
    ],
    "queues": [
        {"tenant": "ml", "queue": "ml/training", "day": day, "promised": 48.0, "held": 40.0, "borrowed": 0.0, "idle": 8.0}
        for day in DAYS
    ],
    "not_measured": [{"what": "GPUs", "hours": 12.0}],
    "notes": ["No series says what was promised to web."],
}
SETTINGS = {"prices": {H100: 2.5}, "currency": "EUR", "folder": "/usage"}
AT = "2026-11-01T06:00:00Z"


def reported(only=(), **more):
    host = {"_kubegpu": {"usage": SETTINGS, "only": list(only)}, "_kubegpu_usage_series": {"usage": USAGE}}
    hostvars = {"dc1": host} | more
    return report(hostvars, list(hostvars), AT)
