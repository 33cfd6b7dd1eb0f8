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
  - A file that is not plain and valid, or that C(dockerd --validate) refuses where Docker has that (23.0), is left as it is.
  - What the file held before is recorded below C(/var/lib/kubegpu/journal) first.
    O(state=absent) restores it byte for byte, or, when somebody edited the file since, takes out only what this module put in.
    A setting of this module that somebody changed or removed since stays as they left it, and RV(kept) tells so.
  - Two edits are no clear decision, and are refused with all versions of the setting in RV(conflicts). One is a changed
    entry of the runtime while C(default-runtime) still names it because of this module. The other is one that would leave
    C(default-runtime) naming a runtime that the file has no more.
  - Mode and owner are what they are; who changed them since, meant it. A file that nobody may write is left as it is.
  - Docker reloads its configuration where that is enough, and is restarted where it is not. When it does not run with its
    configuration then, the file is restored and Docker with it, and the module fails with Docker's own words.
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
  apply:
    description:
      - Whether Docker is to run with the file at the end, by C(systemctl).
      - With V(false) only the file changes, and RV(docker) tells what that calls for.
    type: bool
    default: true
  allow_restart:
    description:
      - Whether Docker may be restarted while containers run, which stops them unless Docker runs with C(live-restore).
      - With V(false) such a restart is refused before anything is touched, and the containers are named.
    type: bool
    default: false
  timeout:
    description:
      - Seconds Docker may take to come back.
    type: int
    default: 120
seealso:
  - name: NVIDIA Container Toolkit
    description: C(nvidia-ctk runtime configure) makes the same change, but forgets what was there before.
    link: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html
"""

EXAMPLES = r"""
- name: Make NVIDIA's runtime Docker's default
  kubegpu.tenancy.docker_runtime:

- name: Give daemon.json back as it was, though that stops containers
  kubegpu.tenancy.docker_runtime:
    state: absent
    allow_restart: true
"""

RETURN = r"""
docker:
  description:
    - What it took for Docker to run with the file, or would take, V(nothing), V(reload) or V(restart).
      Docker reloads added runtimes and a named default, but neither CDI nor a default that is gone.
  returned: always
  type: str
  sample: reload
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
    - Settings that somebody changed or removed after this module had made them, and that were therefore left alone.
  returned: when O(state=absent)
  type: list
  elements: str
  sample: []
conflicts:
  description:
    - What has to be decided by hand, each with its versions V(before), V(ours) and V(now).
  returned: when O(state=absent) is refused because of them
  type: list
  elements: dict
  sample: []
docker_log:
  description:
    - The last that Docker said.
  returned: when Docker did not run with the file
  type: str
  sample: "failed to start daemon: default runtime not found"
"""

import json
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.docker_service import Engine
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.files import read_file
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.journal import Entry, Journal
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import differences as changes
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import outcome
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._docker_runtime.daemon_json import (
    Path,
    Undone,
    Wanted,
    differences,
    edit,
    lookup,
    parse,
    undo,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._docker_runtime.plan import Need, Running, need, pending

# What a diff shows of daemon.json.
SETTINGS = ("default-runtime", "features", "runtimes")
# Seconds in which a reload takes effect, or never does.
RELOAD = 20


class Runtime:
    """One daemon.json and the Docker that reads it."""

    def __init__(self, params: dict[str, t.Any], journal: Journal, engine: Engine, check_mode: bool) -> None:
        self._params = params
        self._path: str = params["config_file"]
        self._journal = journal
        self._engine = engine
        self._check_mode = check_mode
        self._before = read_file(self._path)
        self._entry = journal.entry(self._path)

    def present(self) -> dict[str, t.Any]:
        """Add the settings."""
        wanted = Wanted(self._params["name"], self._params["path"], self._params["set_as_default"], self._params["cdi"])
        after = edit(self._before, wanted, self._path)
        if after != self._before:
            self._engine.validate(after, self._path)
        needed, docker = self._needed(after, wanted.settings(), running=True)
        if not self._check_mode:
            if after != self._before:
                # Somebody's edit since is part of what will come back.
                self._journal.write(self._path, after, lambda now, entry: self._undo(now, entry).content)
            self._settle(needed, after, wanted.settings())
        return self._result(after, needed, docker)

    def absent(self) -> dict[str, t.Any]:
        """Give the file back."""
        entry = self._entry
        what, after = self._journal.restore(self._path, self._strip, dry=True)
        if entry is None:
            if not self._check_mode:
                self._journal.forget(self._path)
            return self._result(after, "nothing", []) | {"outcome": what, "kept": []}
        kept = self._undo(self._before, entry).kept if self._before is not None and what == "merged" else []
        if what == "merged" and after is not None:
            self._engine.validate(after, self._path)
        ours: dict[Path, t.Any] = {}
        for left in entry.left:
            ours |= differences(parse(entry.original), parse(left))
        needed, docker = self._needed(after, ours, running=False)
        if not self._check_mode:
            self._journal.restore(self._path, self._strip, forget=False)
            self._settle(needed, after, ours)
            # Only now: a run that was killed before Docker let go of the settings is taken up again.
            self._journal.forget(self._path)
        return self._result(after, needed, docker) | {"outcome": what, "kept": kept}

    def _undo(self, now: bytes, entry: Entry) -> Undone:
        return undo(now, entry.left[-1], entry.original, self._path)

    def _strip(self, now: bytes, entry: Entry) -> bytes | None:
        undone = self._undo(now, entry)
        if undone.conflicts:
            told = "; ".join(
                f"{conflict['setting']} is {json.dumps(conflict['now'])} now, was made {json.dumps(conflict['ours'])}"
                f" and was {json.dumps(conflict['before'])} before that"
                for conflict in undone.conflicts
            )
            raise TenancyError(
                f"{self._path} was edited since so that it cannot be told what it should become, and is left as it is: {told}. "
                "Either undo that edit, or keep what is there now by naming in default-runtime a runtime that stays.",
                conflicts=undone.conflicts,
            )
        return undone.content

    def _needed(self, after: bytes | None, ours: dict[Path, t.Any], running: bool) -> tuple[Need, list[Path]]:
        """What Docker needs to run with the file, and the settings that it lacks.

        :arg running: whether a Docker that does not run is to run at the end.
        """
        document = parse(after, self._path)
        if not self._params["apply"]:
            lacks = pending(document, ours, Running.of_file(parse(self._before, self._path)))
            return need(lacks.values()), []
        info = self._engine.info()
        if info is None:
            return ("restart" if running or self._engine.failed() else "nothing"), []
        docker = Running.of_info(info)
        lacks = pending(document, ours, docker)
        needed = need(lacks.values())
        if needed == "restart" and not docker.live_restore and not self._params["allow_restart"]:
            stopped = self._engine.containers()
            if stopped:
                settings = ", ".join(".".join(path) for path, how in lacks.items() if how == "restart")
                raise TenancyError(
                    f"Docker has to be restarted to take over {settings} of {self._path}, which would stop these containers: "
                    f"{', '.join(stopped)}. Nothing was touched. Stop them first, have Docker run with live-restore, "
                    "or say yes with allow_restart.",
                    containers=stopped,
                )
        return needed, list(lacks)

    def _settle(self, needed: Need, after: bytes | None, ours: dict[Path, t.Any]) -> None:
        """Have Docker run with the file; where it does not, put the former one back."""
        if not self._params["apply"] or needed == "nothing":
            return
        document = parse(after, self._path)
        # What Docker does without a word about CDI is its own affair.
        asked = {path: value for path, value in ours.items() if path[0] != "features" or lookup(document, path) is not None}
        try:
            self._bring(needed, lambda docker: [".".join(path) for path in pending(document, asked, docker)])
        except TenancyError as exc:
            words = self._engine.words()
            raise TenancyError(
                f"Docker did not take over {self._path}. {exc.message} {self._go_back(after)} Docker said:\n{words}",
                docker_log=words,
            ) from exc

    def _bring(self, needed: Need, lacks: t.Callable[[Running], list[str]]) -> None:
        if needed == "reload":
            self._engine.reload()
        else:
            self._engine.restart()

        def probe() -> tuple[bool | None, str]:
            info = self._engine.info()
            if info is None:
                return None, "Docker does not answer."
            missing = lacks(Running.of_info(info))
            return (None, f"It runs without {', '.join(missing)}.") if missing else (True, "")

        timeout = RELOAD if needed == "reload" else self._params["timeout"]
        wait_for("Docker to run with its configuration", probe, timeout)

    def _go_back(self, after: bytes | None) -> str:
        """What became of it."""
        if after != self._before:
            self._journal.roll_back(self._path, self._before, self._entry)
        elif self._entry is not None and self._params["state"] == "present":
            # An earlier run wrote it, and was killed before it saw this.
            self._journal.restore(self._path, lambda now, entry: self._undo(now, entry).content)
        else:
            return "The file is as it was before."
        try:
            self._bring("reload" if self._engine.info() else "restart", lambda _docker: [])
        except TenancyError as exc:
            return f"The file is restored, but Docker does not come back with it either: {exc.message}"
        return "The file is restored, and Docker runs with it."

    def _result(self, after: bytes | None, needed: Need, docker: list[Path]) -> dict[str, t.Any]:
        # The rest of the file, which stays, may hold a proxy's password or a log server's token.
        old, new = (
            {key: value for key, value in parse(content, self._path).items() if key in SETTINGS}
            for content in (self._before, after)
        )
        found = changes(old, new, self._path)
        if after == self._before:
            # Only Docker does not know yet.
            found = [(f"docker.{'.'.join(path)}", None, "as in the file") for path in docker]
        applied = self._params["apply"] and needed != "nothing"
        return outcome(found) | {"changed": after != self._before or applied, "docker": needed}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "config_file": {"type": "path", "default": "/etc/docker/daemon.json"},
            "name": {"type": "str", "default": "nvidia"},
            "path": {"type": "str", "default": "nvidia-container-runtime"},
            "set_as_default": {"type": "bool", "default": True},
            "cdi": {"type": "bool"},
            "apply": {"type": "bool", "default": True},
            "allow_restart": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    try:
        runtime = Runtime(module.params, Journal(), Engine(module.run_command, module.params["timeout"]), module.check_mode)
        result = runtime.present() if module.params["state"] == "present" else runtime.absent()
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    if result.get("outcome") == "merged":
        module.warn(
            f"{module.params['config_file']} was edited since; only the settings of this module were taken out"
            + (f", and these stay as somebody left them: {', '.join(result['kept'])}." if result["kept"] else ".")
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
