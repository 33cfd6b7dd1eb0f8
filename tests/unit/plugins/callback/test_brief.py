# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator sees during a run, by Ansible itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLAY = """
- hosts: gpu1/ml,gpu1/web
  gather_facts: false
  strategy: ansible.builtin.free
  tasks:
    - name: Work
      ansible.builtin.include_tasks: more.yml
"""
MORE = """
- name: Note something
  ansible.builtin.set_fact:
    noted: true
- name: Wait for the control plane
  ansible.builtin.wait_for:
    path: /
    timeout: 5
- name: Wait for what may not be wanted
  ansible.builtin.wait_for:
    path: /
    timeout: 5
  when: inventory_hostname == 'gpu2/ml'
"""


@pytest.mark.parametrize("options", [[], ["-v"]])
def test_it_says_who_waits_for_what_and_leaves_included_files_out(tmp_path: Path, options: list[str]) -> None:
    for name, text in (("play.yml", PLAY), ("more.yml", MORE), ("hosts.yml", "all: {hosts: {gpu1/ml: , gpu1/web: }}")):
        (tmp_path / name).write_text(text)
    environment = os.environ | {"ANSIBLE_STDOUT_CALLBACK": "kubegpu.tenancy.brief"}
    command = ["ansible-playbook", "play.yml", "--inventory=hosts.yml", "--connection=local", *options]
    command.append(f"--extra-vars=ansible_python_interpreter={sys.executable}")
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    for tenant in ("ml", "web"):
        assert f"\ngpu1/{tenant}: Wait for the control plane ...\n" in done.stdout
    assert done.stdout.count(" ...\n") == 2
    assert ("included: " in done.stdout) is bool(options)
