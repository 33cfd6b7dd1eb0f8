# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._fleet import merged, summary
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._fleet_files import state
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._fleet_metrics import metrics
from ansible_collections.kubegpu.tenancy.tests.unit.plugins.plugin_utils.test_backups import Store, record
from ansible_collections.kubegpu.tenancy.tests.unit.plugins.plugin_utils.test_fleet import NOW, run, write

SERIES = """\
# HELP kubegpu_evidence_timestamp_seconds When the newest evidence of a cluster was written; 0 without evidence.
# TYPE kubegpu_evidence_timestamp_seconds gauge
kubegpu_evidence_timestamp_seconds{cluster="gpu1"} 1795856400
kubegpu_evidence_timestamp_seconds{cluster="gpu9"} 0
# HELP kubegpu_cluster_differences What the newest drift found to differ from the inventory, unless site has run since.
# TYPE kubegpu_cluster_differences gauge
kubegpu_cluster_differences{cluster="gpu1"} 2
# HELP kubegpu_cluster_waits What waits for a person on a cluster: what failed, is left to do, or has several owners.
# TYPE kubegpu_cluster_waits gauge
kubegpu_cluster_waits{cluster="gpu1"} 1
# HELP kubegpu_tenant_backup_timestamp_seconds When the newest backup of a tenant was made; 0 without a backup.
# TYPE kubegpu_tenant_backup_timestamp_seconds gauge
kubegpu_tenant_backup_timestamp_seconds{cluster="gpu1",tenant="ml"} 0
kubegpu_tenant_backup_timestamp_seconds{cluster="gpu1",tenant="web"} 1795748400
# HELP kubegpu_tenant_kubeconfig_expiry_timestamp_seconds When the certificate or token in a tenant's kubeconfig ends.
# TYPE kubegpu_tenant_kubeconfig_expiry_timestamp_seconds gauge
kubegpu_tenant_kubeconfig_expiry_timestamp_seconds{cluster="gpu1",tenant="ml"} 1827392400
# HELP kubegpu_scheduler_support_end_timestamp_seconds When upstream's support of a KAI Scheduler's release ends; without a tenant, \
of the one that tenants share.
# TYPE kubegpu_scheduler_support_end_timestamp_seconds gauge
kubegpu_scheduler_support_end_timestamp_seconds{cluster="gpu1",tenant="ml",release="v0.16.8"} 1806537600
kubegpu_scheduler_support_end_timestamp_seconds{cluster="gpu1",tenant="",release="v0.13.1"} 1798761600
"""


def seen():
    """Evidence of a drift on a cluster with a tenant that has KAI Scheduler of its own, one that shares, and one that is paused."""
    found = run("gpu1", at="09:00", name="drift", tenants=("ml", "web", "idle"), pending=["gpu1/ml: a", "gpu1/web: b"])
    found["problems"] = ["gpu1: one node could not be read"]
    (cluster,) = found["clusters"]
    ml, web, idle = cluster["tenants"]
    ml["kubeconfig_expires"] = "2027-11-28T09:00:00Z"
    release = {"wanted": "v0.13.1", "running": "v0.13.1", "end_of_support": "2026-12", "supported": True}
    web["scheduler"] = {"name": "kai", "shared": True} | release
    cluster["shared_scheduler"] = {"scheduler": web["scheduler"]}
    idle |= {"state": "paused", "scheduler": None}
    return found


def test_a_fleet_as_series(tmp_path):
    write(tmp_path / "evidence", "monday", seen())
    store = Store(str(tmp_path / "backups"), "gpu1", "web")
    for hour in (2, 3):
        store.keep(record(hour), b"content", None)
    store.keep(record(1, at="2099-01-01T00:00:00+00:00"), b"content", None)
    backups = {"gpu1": str(tmp_path / "backups")}
    fleet = state(str(tmp_path / "evidence"), NOW, ["gpu1", "gpu9"], backups)
    assert metrics(fleet, backups) == SERIES
    assert [one["backed_up_at"] for one in fleet["clusters"][0]["tenants"]] == [None, "2026-11-27T03:00:00Z", None]
    # Without a folder, nothing is said of backups.
    assert "backup" not in metrics(state(str(tmp_path / "evidence"), NOW), {})


# tests/check installs it.
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool reads the series")
def test_prometheus_reads_the_series():
    odd = merged([summary(run('g"p\\u', at="09:00"), "x")], NOW)
    for text in (SERIES, metrics(odd, [])):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_no_fleet_has_no_series():
    assert metrics(merged([], NOW), []) == ""


def test_what_a_run_did_not_read_of_a_kubeconfig_an_earlier_one_did():
    later = run("gpu1", at="10:00", name="verify", tenants=("ml", "web", "idle"))
    (cluster,) = merged([summary(one, "x") for one in (seen(), later)], NOW)["clusters"]
    assert [one["kubeconfig_expires"] for one in cluster["tenants"]] == ["2027-11-28T09:00:00Z", None, None]
    wrong = json.loads(json.dumps(seen()).replace("2027-11-28T09:00:00Z", "next year"))
    with pytest.raises(ValueError, match="next year"):
        summary(wrong, "x")
