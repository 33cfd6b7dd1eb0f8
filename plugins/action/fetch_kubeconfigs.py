# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One command on the host and plain writes here, where slurp and copy would take two tasks for each file."""

from __future__ import annotations

import base64
import shlex
import typing as t
from pathlib import Path

import yaml
from ansible.plugins.action import ActionBase
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.files import write_file
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError


class ActionModule(ActionBase):
    """See the module's documentation."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        _result, args = self.validate_argument_spec(
            argument_spec={
                "src": {"type": "path", "required": True},
                "names": {"type": "list", "elements": "str", "required": True},
                "dest": {"type": "path", "required": True},
                "proxy_url": {"type": "str", "default": ""},
            }
        )
        files = [f"{name}.yml" for name in args["names"]]
        paths = " ".join(shlex.quote(f"{args['src']}/{file}") for file in files)
        # One line for each file, so that none can be taken for two.
        read = self._low_level_execute_command(f"for file in {paths}; do base64 -w 0 < $file && echo || exit 1; done")
        if read["rc"] != 0:
            return {"failed": True, "msg": f"src: {read['stderr'].strip() or 'cannot be read'}"}
        texts = [via(base64.b64decode(line).decode(), args["proxy_url"]) for line in read["stdout"].splitlines() if line.strip()]
        if len(texts) != len(files):
            return {"failed": True, "msg": f"src: {len(texts)} of {len(files)} kubeconfigs came, an empty one may be among them."}
        dest = Path(args["dest"])
        try:
            stale = {dest / file: text for file, text in zip(files, texts, strict=True) if not is_current(dest / file, text)}
            if stale and not self._task.check_mode:
                dest.mkdir(mode=0o700, parents=True, exist_ok=True)
                for path, text in stale.items():
                    write_file(str(path.absolute()), text.encode(), 0o600)
        except (OSError, TenancyError) as exc:
            return {"failed": True, "msg": f"dest: {exc}"}
        return {"changed": bool(stale), "dest": str(dest)}


def via(kubeconfig: str, proxy_url: str) -> str:
    """The same kubeconfig, reaching every cluster through a proxy; unchanged where there is none."""
    if not proxy_url:
        return kubeconfig
    config = yaml.safe_load(kubeconfig)
    for cluster in config["clusters"]:
        # Ansible's strings know where they come from, and YAML takes plain ones only.
        cluster["cluster"]["proxy-url"] = str(proxy_url)
    return yaml.safe_dump(config, sort_keys=False)


def is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.stat().st_mode & 0o777 == 0o600 and path.read_text("utf-8") == text
