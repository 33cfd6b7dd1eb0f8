#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker's NVIDIA runtime, as an Ansible module."""

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_runtime
short_description: Add NVIDIA's container runtime to Docker's configuration
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Adds a runtime to C(daemon.json), makes it the default one and switches CDI on, and changes nothing else in the file.
    Every other key, its order, its numbers' spelling and the file's formatting stay.
  - What the file held before is recorded below C(/var/lib/kubegpu/journal) first.
    O(state=absent) restores it byte for byte, or, when somebody edited the file since, takes out only what this module put in.
  - Docker itself is not touched. A change calls for a reload of Docker, and for a restart when RV(restart_required) says so.
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
options:
  state:
    description:
      - V(present) adds the settings, V(absent) restores the file.
    type: str
    choices: [present, absent]
    default: present
  config_file:
    description:
      - Docker's configuration file.
      - It need not exist, but it must not be a symbolic link.
    type: path
    default: /etc/docker/daemon.json
  name:
    description:
      - The runtime's name in Docker.
    type: str
    default: nvidia
  path:
    description:
      - The runtime's program. A plain name is looked up by Docker in its C(PATH).
    type: str
    default: nvidia-container-runtime
  set_as_default:
    description:
      - Whether containers get this runtime without asking for it.
      - V(false) leaves C(default-runtime) as it is.
    type: bool
    default: true
  cdi:
    description:
      - The value of C(features.cdi). Docker has CDI switched on since 28.2.
      - Left alone when this option is not given.
    type: bool
seealso:
  - name: NVIDIA Container Toolkit
    description: C(nvidia-ctk runtime configure) makes the same change, but forgets what was there before.
    link: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html
"""

EXAMPLES = r"""
- name: Make NVIDIA's runtime Docker's default
  kubegpu.tenancy.docker_runtime:
  register: runtime

- name: Restart Docker
  ansible.builtin.service:
    name: docker
    state: "{{ 'restarted' if runtime['restart_required'] else 'reloaded' }}"
  when: runtime is changed

- name: Give daemon.json back as it was
  kubegpu.tenancy.docker_runtime:
    state: absent
"""

RETURN = r"""
restart_required:
  description:
    - Whether reloading Docker is not enough for the change to take effect.
      Docker reloads added runtimes and a new default, but neither a removed setting nor CDI.
  returned: always
  type: bool
  sample: false
outcome:
  description:
    - What became of the file with O(state=absent).
      V(unknown) when the module had never touched it, V(restored) when it is byte for byte what it was,
      V(merged) when it had been edited since, and only the settings of this module were taken out.
  returned: when O(state=absent)
  type: str
  sample: restored
kept:
  description:
    - Settings that somebody changed after this module had made them, and that were therefore left alone.
  returned: when O(state=absent)
  type: list
  elements: str
  sample: []
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kubegpu.tenancy.plugins.module_utils._daemon_json import Undone, Wanted, edit, parse, undo
from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._journal import Entry, Journal, read_file
from ansible_collections.kubegpu.tenancy.plugins.module_utils._values import differences, outcome

# What a diff shows of daemon.json.
SETTINGS = ("default-runtime", "features", "runtimes")


def _undo(present: bytes, entry: Entry) -> Undone:
    return undo(present, entry.left[-1], entry.original)


def _strip(present: bytes, entry: Entry) -> bytes | None:
    return _undo(present, entry).content


def _restart_required(before: bytes | None, after: bytes | None) -> bool:
    """SIGHUP makes dockerd read runtimes and the default one again, but a setting that is gone keeps its old value."""
    old, new = parse(before), parse(after)
    gone = set(old.get("runtimes", {})) - set(new.get("runtimes", {}))
    cdi = old.get("features", {}).get("cdi") != new.get("features", {}).get("cdi")
    return bool(gone) or cdi or ("default-runtime" in old and "default-runtime" not in new)


def _result(path: str, before: bytes | None, after: bytes | None) -> dict[str, t.Any]:
    # The rest of the file, which stays, may hold a proxy's password or a log server's token.
    old, new = ({key: value for key, value in parse(content).items() if key in SETTINGS} for content in (before, after))
    changed = before != after
    restart = changed and _restart_required(before, after)
    return outcome(differences(old, new, path)) | {"changed": changed, "restart_required": restart}


def present(params: dict[str, t.Any], journal: Journal, check_mode: bool) -> dict[str, t.Any]:
    """Add the settings."""
    path = params["config_file"]
    before = read_file(path)
    after = edit(before, Wanted(params["name"], params["path"], params["set_as_default"], params["cdi"]))
    if after != before and not check_mode:
        journal.write(path, after, _strip)
    return _result(path, before, after)


def absent(params: dict[str, t.Any], journal: Journal, check_mode: bool) -> dict[str, t.Any]:
    """Give the file back."""
    path = params["config_file"]
    before, entry = read_file(path), journal.entry(path)
    what, after = journal.restore(path, _strip, dry=check_mode)
    kept = _undo(before, entry).kept if before is not None and entry and what == "merged" else []
    return _result(path, before, after) | {"outcome": what, "kept": kept}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "config_file": {"type": "path", "default": "/etc/docker/daemon.json"},
            "name": {"type": "str", "default": "nvidia"},
            "path": {"type": "str", "default": "nvidia-container-runtime"},
            "set_as_default": {"type": "bool", "default": True},
            "cdi": {"type": "bool"},
        },
        supports_check_mode=True,
    )
    ensure = present if module.params["state"] == "present" else absent
    try:
        result = ensure(module.params, Journal(), module.check_mode)
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    if result.get("outcome") == "merged":
        module.warn(f"{module.params['config_file']} was edited since; only the settings of this module were taken out.")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
