# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Refuse a daemon.json that dockerd would refuse or misread, and one that cannot be edited without changing its meaning."""

from __future__ import annotations

import json
import typing as t

from .._common.errors import Problem, refusal, refuse
from .._common.text import shown
from .facts import REMAPPED, ROOTLESS, SOCKETS


class Number(str):
    """A number as it is spelled, so that Python neither rounds it nor refuses a long one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and str.__eq__(self, other)

    __hash__ = str.__hash__


def parse(content: bytes | None, name: str = "daemon.json") -> dict[str, t.Any]:
    """Parse the document.

    :arg content: None for a file that does not exist, which is an empty document.
    :arg name: of the file, in messages.
    :raises TenancyError: for everything dockerd would refuse or silently misread.
    """
    return parse_text(decode(content, name), name)


def decode(content: bytes | None, name: str) -> str:
    """Return the file's text; that of an empty document for a file that does not exist.

    :raises TenancyError: when it is not plain UTF-8.
    """
    if content is None:
        return "{}"
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in content:
        raise refusal("not-utf-8", f"{name} holds NUL bytes, as UTF-16 does: save it as UTF-8.")
    if content.startswith(b"\xef\xbb\xbf"):
        raise refusal(
            "byte-order-mark", f"{name} starts with a byte-order mark, which not every release of Docker accepts: remove it."
        )
    if not content.strip():
        raise refusal("empty", f"{name} is empty: remove it, or write {{}} into it.")
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise refusal("not-utf-8", f"{name} is not UTF-8: {exc}") from exc


def parse_text(text: str, name: str) -> dict[str, t.Any]:
    """Parse the document's text; errors as of ``parse``."""

    def pairs(items: list[tuple[str, t.Any]]) -> dict[str, t.Any]:
        keys = [key for key, _value in items]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise refusal("listed-twice", f"{name} names a key twice: {', '.join(twice)}. Keep the one that is meant.")
        return dict(items)

    def constant(value: str) -> t.Any:
        raise refusal("not-json", f"{name} is not valid JSON: {value} is no value.")

    try:
        document = json.loads(text, object_pairs_hook=pairs, parse_int=Number, parse_float=Number, parse_constant=constant)
    except json.JSONDecodeError as exc:
        raise refusal("not-json", f"{name} is not valid JSON: {exc}") from exc
    except RecursionError as exc:
        raise refusal("nested-too-deep", f"{name} is nested too deeply.") from exc
    if not isinstance(document, dict):
        raise refusal("wrong-type", f"{name} has to be a JSON object.")
    _check_types(document, name)
    return document


def _check_types(document: dict[str, t.Any], name: str) -> None:
    """Refuse other types than dockerd expects, in the settings that are read here."""
    for key in ("runtimes", "features"):
        if not isinstance(document.get(key, {}), dict):
            raise refusal("wrong-type", f"{key} in {name} has to be an object.")
    for key, value in document.get("runtimes", {}).items():
        if not isinstance(value, dict):
            raise refusal("wrong-type", f"runtimes.{key} in {name} has to be an object.")
    for key, value in document.get("features", {}).items():
        if not isinstance(value, bool):
            raise refusal("wrong-type", f"features.{key} in {name} has to be true or false.")
    default = document.get("default-runtime", "runc")
    if not isinstance(default, str) or isinstance(default, Number) or not default:
        raise refusal("wrong-type", f"default-runtime in {name} has to be a runtime's name.")


def check_engine(client: str, address: str, info: dict[str, t.Any] | None, document: dict[str, t.Any], name: str) -> None:
    """Refuse what answers to ``docker`` and is not the Docker of root that systemd starts, or maps users.

    :arg client: what ``docker --version`` prints; ``address``, the variable DOCKER_HOST, empty where it is not set.
    :arg info: what ``docker info`` prints; None where Docker does not answer.
    :arg document: content of daemon.json, whose name is ``name``.
    :raises TenancyError: with each of these that is there.
    """
    options = " ".join((info or {}).get("SecurityOptions") or [])
    remapped = REMAPPED in options or bool(document.get("userns-remap"))
    refuse(_engine_problems(client, address, ROOTLESS in options, name if remapped else ""))


def _engine_problems(client: str, address: str, rootless: bool, remapped: str) -> t.Iterator[Problem]:
    """List what is wrong with the Docker that answers.

    :arg remapped: the file that has it map users; empty where it does not.
    """
    if client.startswith("podman"):
        yield Problem(
            "podman",
            f"The program docker is Podman's ({shown(client)}), which reads no daemon.json. Install Docker Engine, and remove the "
            "package podman-docker.",
        )
    if address and address not in SOCKETS:
        yield Problem(
            "another-docker",
            f"DOCKER_HOST is {shown(address)}, so that docker asks another Docker than the one whose service would be restarted. "
            f"Unset it for the user that this module runs as, or set it to {SOCKETS[0]}.",
        )
    if rootless:
        yield Problem(
            "rootless-docker",
            "Docker runs rootless, where NVIDIA's runtime gets no devices and nodes of a cluster no GPUs. Have docker ask the Docker "
            "that root runs: `docker context use default`.",
        )
    if remapped:
        yield Problem(
            "users-remapped",
            f"Docker maps users (userns-remap in {remapped}), under which containers may not open GPUs. Take userns-remap out and restart "
            "Docker; its containers and images are then those from before it was set.",
        )
