# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import tarfile

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Chart, find_chart
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

UPSTREAM = Chart("oci://ghcr.io/kai/kai-scheduler", "v0.13.1")


@pytest.fixture
def charts(tmp_path):
    folder = tmp_path / "kai-scheduler"
    folder.mkdir()
    (folder / "Chart.yaml").write_text("name: kai-scheduler\nversion: v0.13.1\n")
    with tarfile.open(tmp_path / "kai-scheduler-v0.13.1.tgz", "w:gz") as archive:
        archive.add(folder, "kai-scheduler")
    return tmp_path


def find(source, version="v0.13.1"):
    return find_chart(str(source), "kai-scheduler", version, UPSTREAM)


def test_where_charts_are_found(charts):
    archive = charts / "kai-scheduler-v0.13.1.tgz"
    assert find("") is UPSTREAM
    assert find("oci://registry.example/charts/") == Chart("oci://registry.example/charts/kai-scheduler", "v0.13.1")
    assert find(charts) == find(archive) == Chart(str(archive))
    assert find(charts / "kai-scheduler") == Chart(str(charts / "kai-scheduler"))


@pytest.mark.parametrize(
    ("source", "version", "told"),
    [
        ("", "v0.12.0", r"there is no .*/kai-scheduler-v0\.12\.0\.tgz"),
        ("kai-scheduler-v0.13.1.tgz", "v0.12.0", r"is kai-scheduler v0\.13\.1, not kai-scheduler v0\.12\.0"),
        ("kai-scheduler", "v0.12.0", r"is kai-scheduler v0\.13\.1, not kai-scheduler v0\.12\.0"),
        ("gone.tgz", "v0.13.1", "there is no .*gone.tgz"),
        ("odd.tgz", "v0.13.1", "odd.tgz is no chart"),
        ("empty.tgz", "v0.13.1", "empty.tgz is no chart: it has no Chart.yaml"),
    ],
)
def test_what_is_not_there_or_another(charts, source, version, told):
    (charts / "odd.tgz").write_text("no archive")
    tarfile.open(charts / "empty.tgz", "w:gz").close()
    with pytest.raises(TenancyError, match=f"chart_source: .*{told}"):
        find(charts / source, version)
