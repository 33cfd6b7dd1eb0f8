# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._render.facts import MARK
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._rendered import Change, changes, former, read, write
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

ONE, TWO = f"{MARK}\n---\na: 1\n", f"{MARK}\n---\na: 2\n"


def put(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def bring(folder, wanted, whole=True):
    differing = changes(read(str(folder)), wanted, whole)
    write(str(folder), differing)
    return differing


def test_files_are_written_once(tmp_path):
    folder = tmp_path / "clusters/dc1"
    wanted = {"web": {"a.yaml": ONE, "inside/b.yaml": TWO}}
    assert bring(folder, wanted) == [Change("web/a.yaml", "", ONE), Change("web/inside/b.yaml", "", TWO)]
    assert (folder / "web/inside/b.yaml").read_text() == TWO
    before = (folder / "web/a.yaml").stat()
    assert bring(folder, wanted) == []
    assert (folder / "web/a.yaml").stat() == before


def test_what_differs_is_replaced_and_shown():
    (change,) = changes({"web/a.yaml": ONE}, {"web": {"a.yaml": TWO}}, True)
    assert change.diff() == {"before_header": "web/a.yaml", "after_header": "web/a.yaml", "before": ONE, "after": TWO}


def test_own_files_that_are_not_needed_go_with_their_folders_and_others_stay(tmp_path):
    put(tmp_path, {"web/a.yaml": ONE, "web/README.md": "Ours.\n", "gone/inside/a.yaml": ONE, "kustomization.yaml": "a: 1\n"})
    found = bring(tmp_path, {"web": {"b.yaml": TWO}})
    assert [(change.path, bool(change.after)) for change in found] == [
        ("gone/inside/a.yaml", False),
        ("web/a.yaml", False),
        ("web/b.yaml", True),
    ]
    assert listing(tmp_path) == ["kustomization.yaml", "web/README.md", "web/b.yaml"]
    assert not (tmp_path / "gone").exists()


def test_files_of_tenants_that_are_left_out_stay(tmp_path):
    put(tmp_path, {"web/a.yaml": ONE, "ml/a.yaml": ONE})
    bring(tmp_path, {"web": {}}, whole=False)
    assert listing(tmp_path) == ["ml/a.yaml"]


def test_somebody_elses_file_in_the_way_is_refused_and_nothing_is_written(tmp_path):
    put(tmp_path, {"web/a.yaml": "a: 1\n"})
    (tmp_path / "web/link.yaml").symlink_to("/etc/hostname")
    (tmp_path / "web/binary.yaml").write_bytes(b"\xff")
    with refuses("not-ours", "not-ours", "not-ours"):
        bring(tmp_path, {"web": dict.fromkeys(("a.yaml", "binary.yaml", "link.yaml", "other.yaml"), ONE)})
    assert listing(tmp_path) == ["web/a.yaml", "web/binary.yaml", "web/link.yaml"]


def test_a_file_of_the_operator_that_begins_alike_is_none_of_ours(tmp_path):
    put(tmp_path, {"web/a.yaml": f"{MARK} Not.\n", "web/b.yaml": f"\n{MARK}\n"})
    assert read(str(tmp_path)) == {"web/a.yaml": None, "web/b.yaml": None}


def test_the_scheduler_until_now_is_read_from_own_files_alone():
    flux = f"{MARK}\n---\nkind: HelmRelease\nspec: {{releaseName: kai-scheduler, chart: {{spec: {{version: v0.16.8}}}}}}\n"
    helm = f"{MARK}\n---\nrelease: second\nversion: 1.0.0\n"
    found = {
        "ml/scheduler.yaml": flux,
        "web/scheduler/chart.yaml": helm,
        "a/scheduler.yaml": None,
        "b/a.yaml": helm,
        "c.yaml": ONE,
    }
    assert former(found | {"d/scheduler.yaml": ONE}) == {
        "ml": {"release": "kai-scheduler", "version": "v0.16.8"},
        "web": {"release": "second", "version": "1.0.0"},
    }


def test_an_own_file_that_cannot_be_read_any_more_is_named():
    with pytest.raises(TenancyError, match=r"^ml/scheduler\.yaml cannot be read: .* Restore it from git\.$"):
        former({"ml/scheduler.yaml": f"{MARK}\n<<<<<<< HEAD\na: [\n"})
