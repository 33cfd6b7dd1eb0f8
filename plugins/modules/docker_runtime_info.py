#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.docker_runtime_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_runtime_info
short_description: Report what a host has of GPU driver, Docker and NVIDIA's container toolkit
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Reports the versions of NVIDIA's driver, of Docker and of NVIDIA's container toolkit, each as its program prints it.
    A program that is missing, or that fails, is no error. Docker need not run.
  - Reports also the toolkit's configuration as clusters in Docker need it, and which of the kernel's limits are lower than asked for.
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
options:
  toolkit_config:
    description:
      - The toolkit's configuration file. It need not exist.
    type: path
    default: /etc/nvidia-container-runtime/config.toml
  limits:
    description:
      - Kernel settings by name, each with the value that it should have at least.
    type: dict
    default: {}
attributes:
  diff_mode:
    support: none
seealso:
  - module: kubegpu.tenancy.docker_runtime
"""

EXAMPLES = r"""
- name: See what the host has
  kubegpu.tenancy.docker_runtime_info:
    limits: {fs.inotify.max_user_instances: 8192}
  register: host

- name: Require NVIDIA's driver
  ansible.builtin.assert:
    that: host.driver.version
    fail_msg: "nvidia-smi does not run here: {{ host.driver.output }}"
"""

RETURN = r"""
driver:
  description: NVIDIA's driver, as C(nvidia-smi) reports it.
  returned: success
  type: dict
  contains: &program
    version:
      description: Its version. Empty where its program is missing, fails or does not say.
      type: str
      returned: always
      sample: 580.82.07
    rc:
      description: The program's exit status, V(127) where there is none.
      type: int
      returned: always
      sample: 0
    output:
      description: What the program printed, or that there is none.
      type: str
      returned: always
docker:
  description: Docker's client.
  returned: success
  type: dict
  contains: *program
toolkit:
  description: NVIDIA's container toolkit, as C(nvidia-ctk) reports it.
  returned: success
  type: dict
  contains: *program
runtime_program:
  description: Path of C(nvidia-container-runtime). Null where there is none.
  returned: success
  type: str
  sample: /usr/bin/nvidia-container-runtime
toolkit_config:
  description:
    - What O(toolkit_config) has to hold for device lists to be accepted as volume mounts
      (C(accept-nvidia-visible-devices-as-volume-mounts)), by the toolkit itself. Null without the toolkit.
  returned: success
  type: str
low_limits:
  description: Those of O(limits) that are lower on the host, with the value that is asked for.
  returned: success
  type: dict
  sample: {fs.inotify.max_user_instances: 8192}
"""

import re

from ..module_utils._adapters.host import Host
from ..module_utils._common.errors import TenancyError
from ..module_utils._common.quantity import whole
from ..module_utils._common.run import Result
from ..module_utils._kernel.host_module import ModuleRun, run_host_module

ARGUMENT_SPEC = {
    "toolkit_config": {"type": "path", "default": "/etc/nvidia-container-runtime/config.toml"},
    "limits": {"type": "dict", "default": {}},
}
VOLUME_MOUNTS = "accept-nvidia-visible-devices-as-volume-mounts=true"


def reconcile(run: ModuleRun) -> Result:
    host = Host(run.run_program, run.find_program)
    toolkit, config = _program(host, "nvidia-ctk", "--version"), None
    if toolkit["rc"] == 0:
        code, config = host.output(
            "nvidia-ctk", "config", f"--config-file={run.params['toolkit_config']}", f"--set={VOLUME_MOUNTS}"
        )
        if code:
            raise TenancyError(f"nvidia-ctk config failed: {config}")
    try:
        limits = {name: whole(value) for name, value in run.params["limits"].items()}
    except ValueError as exc:
        raise TenancyError(f"limits: {exc}") from exc
    return run.result(
        driver=_program(host, "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        docker=_program(host, "docker", "--version"),
        toolkit=toolkit,
        runtime_program=run.find_program("nvidia-container-runtime"),
        toolkit_config=config,
        low_limits={name: value for name, value in limits.items() if host.kernel_limit(name) < value},
    )


def _program(host: Host, name: str, *args: str) -> Result:
    code, output = host.output(name, *args)
    version = re.search(r"[0-9]+(\.[0-9]+)+", output)
    return {"rc": code, "version": version[0] if version and not code else "", "output": output.strip()}


def main() -> None:
    run_host_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
