# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook fleet itself, with evidence and an inventory whose hosts cannot be reached."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence import evidence
from ansible_collections.kubegpu.tenancy.tests.unit.hostvars import AT, two_clusters
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import Site


def test_it_writes_the_state_of_the_fleet_and_reaches_no_cluster(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("gpu1", None, kubegpu_backup_folder="{{ inventory_dir }}/backups")
    site.add("gpu9", None)
    folder = tmp_path / "evidence"
    (folder / "monday").mkdir(parents=True)
    (folder / "monday/tenancy.json").write_text(json.dumps(evidence(two_clusters().reports(), AT)))
    options = (f"--extra-vars=fleet_evidence={folder}", f"--extra-vars=fleet_dest={tmp_path}/page")
    said = site.run("--check", *options, playbook="fleet")
    assert (site.code, (tmp_path / "page").exists()) == (0, False), said
    said = site.run(*options, playbook="fleet")
    assert site.code == 0, said
    for line in ("gpu1     failed", "gpu9     unknown", f"Wrote fleet.html, fleet.json and fleet.prom in {tmp_path}/page."):
        assert line in said
    assert [one["name"] for one in json.loads((tmp_path / "page/fleet.json").read_text())["clusters"]] == ["gpu1", "gpu9"]
    assert "gpu1" in (tmp_path / "page/fleet.html").read_text()
    # The inventory names the folder of its backups, in which there is none.
    series = (tmp_path / "page/fleet.prom").read_text()
    assert 'kubegpu_tenant_backup_timestamp_seconds{cluster="gpu1",tenant="ml"} 0' in series
    assert 'kubegpu_evidence_timestamp_seconds{cluster="gpu9"} 0' in series
    said = site.run(playbook="fleet")
    assert (site.code, "-e fleet_evidence=FOLDER" in said) == (2, True), said
