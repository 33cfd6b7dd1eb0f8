# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action around a module that answers as the test says."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.kubegpu.tenancy.plugins.action import render
from ansible_collections.kubegpu.tenancy.plugins.module_utils._render.facts import MARK

TEXT = f"{MARK}\n---\na: 1\n"
SCHEDULER = f"{MARK}\n---\nrelease: second\nversion: 1.0.0\n"


class Task:
    """A task with this action; ``asked`` are the options that the module got."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.asked = None
        self.answer = {"changed": False, "files": {"web": {"a.yaml": TEXT}}}
        monkeypatch.setattr(NormalAction, "run", lambda action, *_rest: self.module(action._task.args))

    def module(self, args):
        self.asked = dict(args)
        return dict(self.answer)

    def run(self, check_mode=False, only=(), host="dc1", **args):
        task = Mock(check_mode=check_mode, async_val=0, args={"folder": str(self.folder), "cluster": {"only": list(only)}} | args)
        connection = Mock(_play_context=SimpleNamespace(no_log=False))
        return render.ActionModule(task, connection, Mock(), Mock(), None, None).run(None, {"inventory_hostname": host})

    def put(self, path, text):
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    @property
    def files(self):
        return {str(path.relative_to(self.folder)): path.read_text() for path in sorted(self.folder.rglob("*.yaml"))}


@pytest.fixture(name="task")
def _task(tmp_path, monkeypatch):
    return Task(tmp_path / "clusters", monkeypatch)


def test_what_differs_is_written_and_shown_and_a_second_run_changes_nothing(task):
    task.put("dc1/gone/a.yaml", TEXT)
    first = task.run()
    assert (first["changed"], first["files"]) == (True, ["web/a.yaml"])
    assert first["folder"] == str(task.folder / "dc1")
    assert [(one["after_header"], one["before"], one["after"]) for one in first["diff"]] == [
        ("gone/a.yaml", TEXT, ""),
        ("web/a.yaml", "", TEXT),
    ]
    assert task.files == {"dc1/web/a.yaml": TEXT}
    again = task.run()
    assert (again["changed"], again["diff"], again["files"]) == (False, [], ["web/a.yaml"])


def test_check_mode_writes_nothing_and_says_the_same(task):
    checked = task.run(check_mode=True)
    assert not task.folder.exists()
    assert task.run() == checked


def test_with_a_limit_other_tenants_keep_their_files(task):
    task.put("dc1/ml/a.yaml", TEXT)
    task.run(only=["web"])
    assert sorted(task.files) == ["dc1/ml/a.yaml", "dc1/web/a.yaml"]


def test_other_clusters_keep_their_files(task):
    task.put("dc2/ml/a.yaml", TEXT)
    task.run()
    assert sorted(task.files) == ["dc1/web/a.yaml", "dc2/ml/a.yaml"]


def test_the_module_is_told_the_clusters_name_and_the_schedulers_until_now(task):
    task.put("dc1/web/scheduler/chart.yaml", SCHEDULER)
    task.run()
    assert (task.asked["name"], task.asked["former"]) == ("dc1", {"web": {"release": "second", "version": "1.0.0"}})
    task.run(name="other")
    assert (task.asked["name"], task.asked["former"]) == ("other", {})


def test_a_refusal_leaves_all_files_as_they_are(task):
    task.put("dc1/gone/a.yaml", TEXT)
    task.answer = {"failed": True, "msg": "refused"}
    assert task.run() == {"failed": True, "msg": "refused"}
    task.answer = {"files": {"web": {"a.yaml": TEXT, "b.yaml": TEXT}}}
    task.put("dc1/web/b.yaml", "mine: 1\n")
    result = task.run()
    assert [problem["code"] for problem in result["problems"]] == ["not-ours"]
    assert sorted(task.files) == ["dc1/gone/a.yaml", "dc1/web/b.yaml"]


@pytest.mark.parametrize("host", ["../dc1", "a/b", ".git", ""])
def test_a_name_that_leads_elsewhere_is_refused(task, host):
    result = task.run(host=host)
    assert ([problem["code"] for problem in result["problems"]], task.asked) == (["not-a-name"], None)
