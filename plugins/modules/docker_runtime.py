#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.docker_runtime."""

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
    O(state=absent) restores it byte for byte, or, when the file was edited by hand since, takes out only what this module put in.
    A setting of this module that was changed or removed since stays as it is, and is named in RV(kept).
  - Two edits are no clear decision, and are refused with all versions of the setting in RV(conflicts). One is a changed
    entry of the runtime while C(default-runtime) still names it because of this module. The other is one that would leave
    C(default-runtime) naming a runtime that the file has no more.
  - Mode and owner stay as they are, also when they were changed since. A file that no user may write is left as it is.
  - Docker reloads its configuration where that is enough, and is restarted where it is not. When it does not run with its
    configuration then, the file is restored and Docker with it, and the module fails with the end of Docker's log.
  - With O(apply), refuses Podman's program under the name C(docker), a rootless Docker, one with C(userns-remap), and a C(DOCKER_HOST) of
    another Docker than that of root, before anything is written or restarted.
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
      - With V(false) only the file changes, and RV(docker) reports what that calls for.
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
      - Seconds for the whole change, until Docker runs with its configuration.
      - To put the former file back when that fails, it takes up to 60 seconds more.
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
    - The file's state after O(state=absent).
      V(unknown) when the module had never touched it, V(restored) when it is byte for byte what it was,
      V(merged) when it had been edited since, and only the settings of this module were taken out.
  returned: when O(state=absent)
  type: str
  sample: restored
kept:
  description:
    - Settings that were changed or removed by hand after this module had made them, and that were therefore left alone.
  returned: when O(state=absent)
  type: list
  elements: str
  sample: []
conflicts:
  description:
    - What has to be decided by hand, each with its versions V(before), V(written) and V(now).
  returned: when O(state=absent) is refused because of them
  type: list
  elements: dict
  sample: []
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
    - {step: reload Docker, why: "to take over default-runtime, runtimes.nvidia", seconds: 0.3}
seconds:
  description: How long everything took.
  returned: success
  type: float
  sample: 0.6
docker_log:
  description:
    - The last lines of Docker's log.
  returned: when Docker did not run with the file
  type: str
  sample: "failed to start daemon: default runtime not found"
"""

from ..module_utils._adapters.docker_service import Engine
from ..module_utils._adapters.journal import Journal
from ..module_utils._common.run import Result
from ..module_utils._docker_runtime.lifecycle import Runtime
from ..module_utils._kernel.host_module import ModuleRun, run_host_module

ARGUMENT_SPEC = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "config_file": {"type": "path", "default": "/etc/docker/daemon.json"},
    "name": {"type": "str", "default": "nvidia"},
    "path": {"type": "str", "default": "nvidia-container-runtime"},
    "set_as_default": {"type": "bool", "default": True},
    "cdi": {"type": "bool"},
    "apply": {"type": "bool", "default": True},
    "allow_restart": {"type": "bool", "default": False},
    "timeout": {"type": "int", "default": 120},
}


def reconcile(run: ModuleRun) -> Result:
    runtime = Runtime(run, Journal(), Engine(run.run_program))
    return runtime.present() if run.params["state"] == "present" else runtime.absent()


def main() -> None:
    run_host_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
