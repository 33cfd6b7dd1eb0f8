#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.host_file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_file
short_description: Write a host file that can be restored as it was
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Writes a file whose former bytes, mode, owner or absence are recorded below C(/var/lib/kubegpu/journal) first.
  - O(state=absent) restores exactly that. A file that was edited by hand since is left alone, with a warning.
  - Kernel settings below C(/proc) and C(/sys) are files like any other.
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
options:
  path:
    description:
      - The file. It need not exist, but it must not be a symbolic link, nor stand where another user could exchange it.
    type: path
    required: true
  content:
    description:
      - What the file has to hold, ended by a newline if it is not already. Required with O(state=present).
      - A file whose name ends in C(.toml) is left alone when its values are the same already. Before
        Python 3.11, its text is compared.
    type: str
  state:
    description:
      - V(present) writes the file, V(absent) restores it.
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
    - The file's state after O(state=absent).
      V(unknown) when the module had never touched it, V(restored) when it is byte for byte what it was,
      V(merged) when it had been removed, and V(edited) when it was edited by hand since and left alone.
  returned: when O(state=absent)
  type: str
  sample: restored
steps:
  description: What was done, or would be done in check mode, in that order, and why.
  returned: when there is something to do
  type: list
  elements: dict
  contains:
    step:
      description: What.
      type: str
      returned: always
    why:
      description: The reason.
      type: str
      returned: always
    seconds:
      description: How long it took.
      type: float
      returned: not in check mode
  sample:
    - {step: write /etc/sysctl.d/90-kubegpu-fs.inotify.max_user_instances.conf, why: "it does not exist", seconds: 0.1}
seconds:
  description: How long everything took.
  returned: success
  type: float
  sample: 0.1
"""

import functools

from ..module_utils._adapters.journal import Journal
from ..module_utils._common.errors import TenancyError
from ..module_utils._common.run import Result, Run
from ..module_utils._common.values import Write
from ..module_utils._kernel.host_module import run_host_module

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None  # type: ignore[assignment]

ARGUMENT_SPEC = {
    "path": {"type": "path", "required": True},
    "content": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}


def present(run: Run, journal: Journal) -> Result:
    """Write the file, its former state recorded first."""
    path, wanted = run.params["path"], (run.params["content"].removesuffix("\n") + "\n").encode()
    before, write = journal.read(path), journal.last_write(path)
    if before is not None and _same(path, before, wanted):
        return _result(run, before, before, write)
    why = "it does not exist" if before is None else "it holds something else"
    run.perform(f"write {path}", why, functools.partial(journal.write, path, wanted))
    return _result(run, before, wanted, write)


def absent(run: Run, journal: Journal) -> Result:
    """Restore the file, unless it was edited since."""
    path = run.params["path"]
    before, write = journal.read(path), journal.last_write(path)
    outcome, after = journal.restore(path, dry=True)
    if outcome == "edited":
        run.warn(f"{path} was edited since it was written, and is left as it is.")
    restore = functools.partial(journal.restore, path)
    if after != before:
        run.perform(f"restore {path}", "absent is wanted", restore)
    elif not run.check_mode:
        restore()
    return _result(run, before, after, write) | {"outcome": outcome}


def _same(path: str, before: bytes, after: bytes) -> bool:
    """Tell whether two contents are equal; of TOML, whether their values are."""
    if before == after or not path.endswith(".toml") or tomllib is None:
        return before == after
    try:
        return tomllib.loads(before.decode()) == tomllib.loads(after.decode())
    except ValueError as exc:
        raise TenancyError(f"{path} is not valid TOML: {exc}") from exc


def _result(run: Run, before: bytes | None, after: bytes | None, write: Write | None) -> Result:
    """Return the result of a change of the file's content, with a diff of its lines.

    :arg write: the one that left what is there.
    """
    path = run.params["path"]
    old, new = ((content or b"").decode(errors="replace") for content in (before, after))
    if before != after:
        run.change(path, old, new, write)
    result = run.result()
    result["diff"] |= {"before_header": path, "after_header": path, "before": old, "after": new}
    return result


def reconcile(run: Run) -> Result:
    return present(run, Journal()) if run.params["state"] == "present" else absent(run, Journal())


def main() -> None:
    run_host_module(reconcile, ARGUMENT_SPEC, required_if=[("state", "present", ["content"])])


if __name__ == "__main__":
    main()
