# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Why the program that a kubeconfig names (``exec``) gives no credentials. The client for Kubernetes goes on without, and is refused."""

from __future__ import annotations

import json
import os
import subprocess
import typing as t

from .._common.documents import Unreadable, parse_json
from .._common.text import shown
from .._common.values import JsonObject
from .programs import last_lines

# Seconds for such a program. The programs of clouds take about one; a program that waits for a login never ends here.
SECONDS = 60


def complaint(program: JsonObject, folder: str | None, seconds: float = SECONDS) -> str:
    """Run the program once more, and return why it gives no credentials, as a clause that begins with its name.

    :arg program: the kubeconfig's ``exec``.
    :arg folder: of the kubeconfig's file; None for one without a file.
    """
    if not program.get("command") or not isinstance(program["command"], str):
        return "exec in the kubeconfig names no program: its command is missing, or no text"
    named = _named(program)
    if unlike := _malformed(program):
        return f"{named} cannot be run: {unlike}. Write numbers between quotation marks"
    try:
        done = _run(program, folder, seconds)
    except subprocess.TimeoutExpired:
        return overdue(program, seconds)
    except FileNotFoundError:
        hint = f". The kubeconfig says: {shown(program['installHint'])}" if program.get("installHint") else ""
        where = "" if "/" in str(program["command"]) else ", or not on the PATH of the task's user: write its whole path there"
        return f"{named} is not installed on this host{where}{hint}"
    except (OSError, ValueError) as exc:
        return f"{named} cannot be run: {shown(exc)}"
    if done.returncode:
        said = shown(last_lines(done.stderr.decode(errors="replace")))
        return f"{named} ended with exit status {done.returncode}{': ' if said else ''}{said}"
    return f"{named} {_flaw(done.stdout, program)}"


def overdue(program: JsonObject, seconds: float) -> str:
    """Return what to say of a program that did not end."""
    return f"{_named(program)} did not end within {seconds:g} s. If it waits for a login, log in before"


def _named(program: JsonObject) -> str:
    return f"the program {shown(program.get('command'))}, which the kubeconfig names for its credentials,"


def _malformed(program: JsonObject) -> str:
    """Return which key is not of the form of ExecConfig (k8s.io/client-go, tools/clientcmd/api/v1); empty where none is."""
    args, env = (program.get(key) or [] for key in ("args", "env"))
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        return "its args are no list of texts"
    if not isinstance(env, list) or not all(map(_is_variable, env)):
        return "its env is no list of entries with name and value, both of them texts"
    return ""


def _is_variable(item: t.Any) -> bool:
    return isinstance(item, dict) and all(isinstance(item.get(key), str) for key in ("name", "value"))


def _run(program: JsonObject, folder: str | None, seconds: float) -> subprocess.CompletedProcess[bytes]:
    info = {"apiVersion": program.get("apiVersion"), "kind": "ExecCredential", "spec": {"interactive": False}}
    more = {item["name"]: item["value"] for item in program.get("env") or []}
    return subprocess.run(
        [program["command"], *(program.get("args") or [])],
        cwd=folder,
        env=os.environ | more | {"KUBERNETES_EXEC_INFO": json.dumps(info)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=seconds,
        check=False,
    )


def _flaw(output: bytes, program: JsonObject) -> str:
    """Return what is wrong with what the program printed; without a part of it, which may be a token."""
    try:
        answer = parse_json(output)
    except Unreadable:
        answer = None
    if not isinstance(answer, dict):
        return "printed no JSON object"
    if answer.get("apiVersion") != program.get("apiVersion"):
        return f"answers in {shown(answer.get('apiVersion'), 100)}, and the kubeconfig asks for {shown(program.get('apiVersion'), 100)}"
    if "kind" not in answer:
        return "printed a JSON object without kind, which is to be ExecCredential"
    status = answer.get("status")
    given = status if isinstance(status, dict) else {}
    if given.get("token") or (given.get("clientCertificateData") and given.get("clientKeyData")):
        return "gave none at first, and does now. Run this again"
    return "printed neither a token nor a client certificate with its key"
