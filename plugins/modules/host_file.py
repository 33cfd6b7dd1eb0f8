#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host file that can be given back, as an Ansible module."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_file
short_description: Write a host file that can be given back as it was
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Writes a file whose former bytes, mode, owner or absence are recorded below C(/var/lib/kubegpu/journal) first.
  - O(state=absent) restores exactly that. A file that somebody edited since is left alone, with a warning.
  - Kernel settings below C(/proc) and C(/sys) are files like any other.
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
options:
  path:
    description:
      - The file. It need not exist, but it must not be a symbolic link.
    type: path
    required: true
  content:
    description:
      - What the file has to hold, ended by a newline if it is not already. Required with O(state=present).
      - A file whose name ends in C(.toml) is left alone when it says the same in other words.
    type: str
  state:
    description:
      - V(present) writes the file, V(absent) gives it back.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Allow more inotify instances
  kubegpu.tenancy.host_file:
    path: /proc/sys/fs/inotify/max_user_instances
    content: |
      8192

- name: Put the former number back
  kubegpu.tenancy.host_file:
    path: /proc/sys/fs/inotify/max_user_instances
    state: absent
"""

RETURN = r"""
outcome:
  description:
    - What became of the file with O(state=absent).
      V(unknown) when the module had never touched it, V(restored) when it is byte for byte what it was,
      V(merged) when somebody had removed it, and V(edited) when somebody edited it since and it was left alone.
  returned: when O(state=absent)
  type: str
  sample: restored
"""

import tomllib
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.files import read_file
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.journal import Journal
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError


def _same(path: str, before: bytes | None, after: bytes) -> bool:
    if before == after or before is None or not path.endswith(".toml"):
        return before == after
    try:
        return tomllib.loads(before.decode()) == tomllib.loads(after.decode())
    except ValueError as exc:
        raise TenancyError(f"{path} is not valid TOML: {exc}") from exc


def _result(path: str, before: bytes | None, after: bytes | None) -> dict[str, t.Any]:
    return {
        "changed": before != after,
        "diff": {
            "before_header": path,
            "after_header": path,
            "before": (before or b"").decode(errors="replace"),
            "after": (after or b"").decode(errors="replace"),
        },
    }


def present(params: dict[str, t.Any], journal: Journal, check_mode: bool) -> dict[str, t.Any]:
    """Write the file."""
    path, wanted = params["path"], (params["content"].removesuffix("\n") + "\n").encode()
    before = read_file(path)
    if before is not None and _same(path, before, wanted):
        return _result(path, before, before)
    if not check_mode:
        journal.write(path, wanted)
    return _result(path, before, wanted)


def absent(params: dict[str, t.Any], journal: Journal, check_mode: bool) -> dict[str, t.Any]:
    """Give the file back."""
    path = params["path"]
    before = read_file(path)
    outcome, after = journal.restore(path, dry=check_mode)
    return _result(path, before, after) | {"outcome": outcome}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "content": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ["content"])],
        supports_check_mode=True,
    )
    ensure = present if module.params["state"] == "present" else absent
    try:
        result = ensure(module.params, Journal(), module.check_mode)
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    if result.get("outcome") == "edited":
        module.warn(f"{module.params['path']} was edited since it was written, and is left as it is.")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
