# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can stand where daemon.json should: refused by its name and untouched, or taken, kept and restored byte for byte."""

from __future__ import annotations

import os
import pathlib
import socket
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.docker_service import NOT_FOUND, Engine
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.journal import Journal
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._docker_runtime.lifecycle import Runtime


def link(path: pathlib.Path) -> None:
    (path.parent / "real.json").write_bytes(b"{}")
    path.symlink_to("real.json")


def dangling(path: pathlib.Path) -> None:
    path.symlink_to("nowhere")


def loop(path: pathlib.Path) -> None:
    path.symlink_to(path.name)


def device(path: pathlib.Path) -> None:
    path.symlink_to("/dev/null")


def listener(path: pathlib.Path) -> None:
    # Its path may not be longer than 107 bytes.
    before = os.getcwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(before)


def read_only(path: pathlib.Path) -> None:
    path.write_bytes(b"{}")
    path.chmod(0o444)


def in_a_file(path: pathlib.Path) -> None:
    path.parent.rmdir()
    path.parent.write_bytes(b"")


# What stands there, and what is said about it.
REFUSED: list[tuple[bytes | t.Callable[[pathlib.Path], object], str]] = [
    # Nothing in it.
    (b"", "is empty"),
    (b" ", "is empty"),
    (b"\n\n\t\r\n", "is empty"),
    # No object.
    (b"null", "has to be a JSON object"),
    (b"true", "has to be a JSON object"),
    (b"0", "has to be a JSON object"),
    (b'"runtimes"', "has to be a JSON object"),
    (b"[]", "has to be a JSON object"),
    (b'[{"runtimes": {}}]', "has to be a JSON object"),
    # No JSON.
    (b"{", "is not valid JSON"),
    (b"}", "is not valid JSON"),
    (b'{"debug": true', "is not valid JSON"),
    (b'{"debug"}', "is not valid JSON"),
    (b'{"debug": }', "is not valid JSON"),
    (b'{"debug" true}', "is not valid JSON"),
    (b'{"debug": true "tls": true}', "is not valid JSON"),
    (b"{debug: true}", "is not valid JSON"),
    (b"{'debug': true}", "is not valid JSON"),
    (b'{"debug": True}', "is not valid JSON"),
    (b'{"debug": yes}', "is not valid JSON"),
    (b'{"debug": true,}', "is not valid JSON"),
    (b'{"hosts": ["a",]}', "is not valid JSON"),
    (b'{,"debug": true}', "is not valid JSON"),
    (b'{"mtu": 01}', "is not valid JSON"),
    (b'{"mtu": +1}', "is not valid JSON"),
    (b'{"mtu": .5}', "is not valid JSON"),
    (b'{"mtu": 0x10}', "is not valid JSON"),
    (b'{"mtu": NaN}', "NaN is no value"),
    (b'{"mtu": -Infinity}', "-Infinity is no value"),
    (b'{"label": "a\nb"}', "is not valid JSON"),
    (b'{"label": "a\\x"}', "is not valid JSON"),
    (b'{"label": "\\u12"}', "is not valid JSON"),
    (b'{"label": "open}', "is not valid JSON"),
    (b"# managed\n{}", "is not valid JSON"),
    (b"// managed\n{}", "is not valid JSON"),
    (b'{"debug": true /* why */}', "is not valid JSON"),
    (b'{"debug": true} // why', "is not valid JSON"),
    (b'{"debug": true} x', "is not valid JSON"),
    (b"{}{}", "is not valid JSON"),
    (b'{"a": 1}\n{"b": 2}\n', "is not valid JSON"),
    (b"debug: true\n", "is not valid JSON"),
    (b"[runtimes]\nnvidia = 1\n", "is not valid JSON"),
    (b"<json/>", "is not valid JSON"),
    (b"{{ docker_config }}", "is not valid JSON"),
    (b"\x1f\x8b\x08" + b"\x01" * 20, "is not UTF-8"),
    # A key twice, at each level.
    (b'{"debug": true, "debug": true}', "names a key twice: debug"),
    (b'{"runtimes": {}, "runtimes": {}}', "names a key twice: runtimes"),
    (b'{"runtimes": {"a": {}, "a": {}}}', "names a key twice: a"),
    (b'{"runtimes": {"a": {"path": "x", "path": "y"}}}', "names a key twice: path"),
    (b'{"log-opts": {"x": "1", "x": "2"}}', "names a key twice: x"),
    (b'{"a": [[{"b": 1, "b": 1}]]}', "names a key twice: b"),
    (b'{"debug": true, "\\u0064ebug": false}', "names a key twice: debug"),
    # Of another type than dockerd knows.
    (b'{"runtimes": null}', "runtimes in"),
    (b'{"runtimes": []}', "runtimes in"),
    (b'{"runtimes": "nvidia"}', "runtimes in"),
    (b'{"runtimes": {"nvidia": null}}', "runtimes.nvidia in"),
    (b'{"runtimes": {"kata": "/opt/kata"}}', "runtimes.kata in"),
    (b'{"features": null}', "features in"),
    (b'{"features": ["cdi"]}', "features in"),
    (b'{"features": {"cdi": "true"}}', "features.cdi in"),
    (b'{"features": {"buildkit": 1}}', "features.buildkit in"),
    (b'{"default-runtime": null}', "default-runtime in"),
    (b'{"default-runtime": ""}', "default-runtime in"),
    (b'{"default-runtime": 7}', "default-runtime in"),
    (b'{"default-runtime": ["nvidia"]}', "default-runtime in"),
    # Of another encoding.
    (b"\xef\xbb\xbf{}", "byte-order mark"),
    (b"\xef\xbb\xbf", "byte-order mark"),
    ('{"debug": true}'.encode("utf-16"), "UTF-16"),
    ('{"debug": true}'.encode("utf-16-be"), "UTF-16"),
    ('{"debug": true}'.encode("utf-32"), "UTF-16"),
    ('{"label": "grün"}'.encode("latin-1"), "is not UTF-8"),
    (b'{"label": "\xc0\xaf"}', "is not UTF-8"),
    (b'{"label": "\xed\xa0\x80"}', "is not UTF-8"),
    (b'{"a": 1}\0', "NUL"),
    (b"\0" * 64, "NUL"),
    # Without end.
    (b"[" * 100000, "nested too deeply"),
    (b'{"a":' * 100000, "nested too deeply"),
    (b'{"a": ' + b"[" * 100000 + b"]" * 100000 + b"}", "nested too deeply"),
    # No file.
    (link, "is a symbolic link to .*real.json"),
    (dangling, "is a symbolic link to .*nowhere"),
    (loop, "is a symbolic link"),
    (device, "is a symbolic link to /dev/null"),
    (pathlib.Path.mkdir, "it is no regular file"),
    (os.mkfifo, "it is no regular file"),
    (listener, "cannot be read"),
    (read_only, "is read-only"),
    (in_a_file, "cannot be read: .*Not a directory"),
]

ACCEPTED = [
    b"{}",
    b"{ }",
    b"\n{\n}\n\n",
    b"\t{\r\n}\r\n",
    b'{"mtu": 12345678901234567890123456789012345678901234567890}',
    b'{"mtu": 1' + b"0" * 10000 + b"}",
    b'{"a": 1E+400, "b": -0.0, "c": 1.10, "d": 1e-999}',
    b'{"runtimes": {}}',
    b'{"features": {}}',
    b'{"runtimes":{},"features":{},"default-runtime":"runc"}',
    b'{"features": {"buildkit": true, "containerd-snapshotter": true}}',
    b'{"runtimes": {"nvidia": {}}}',
    b'{"runtimes": {"nvidia": {"path": "/old", "runtimeArgs": ["--debug"], "n": 1.50}}}',
    b'{"runtimes": {"a.b": {"path": "x"}, "": {}}}',
    b'{"default-runtime": "nvidia"}',
    b'{"default-runtime": "\\u006evidia", "debug": false}',
    b'{"": null, " ": [null]}',
    b'{"label": "} , { \\" \\\\"}',
    b'{"label": "\\ud83d\\ude00 \\ud800 \\/ \\b"}',
    '{"läbel": "\U0001f600 \u2028 \x7f"}'.encode(),
    b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}",
    b'{"hosts":\n\n\n[ "a" ,"b"\t]\n  ,  "z" : { } }',
    b'{"labels": ["' + b"x" * 1000000 + b'"]}',
]


def reconciled(tmp_path: pathlib.Path, path: pathlib.Path, state: str) -> dict[str, t.Any]:
    options = {"set_as_default": True, "cdi": True, "apply": False, "allow_restart": False, "timeout": 1}
    params = options | {"state": state, "config_file": str(path), "name": "nvidia", "path": "nvidia-container-runtime"}
    # A host without dockerd.
    engine = Engine(lambda *_args, **_more: (NOT_FOUND, "", ""))
    runtime = Runtime(Run(params), Journal(str(tmp_path / "journal")), engine)
    return runtime.present() if state == "present" else runtime.absent()


def listing(top: pathlib.Path) -> dict[str, tuple[int, bytes | None]]:
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() and not path.is_symlink() else None)
        for path in top.rglob("*")
    }


@pytest.mark.parametrize(
    ("there", "words"), [*REFUSED, *((content, "") for content in ACCEPTED)], ids=lambda value: ascii(value)[:40]
)
def test_what_can_stand_there(tmp_path: pathlib.Path, there: bytes | t.Callable[[pathlib.Path], object], words: str) -> None:
    path = tmp_path / "docker" / "daemon.json"
    path.parent.mkdir()
    if isinstance(there, bytes):
        path.write_bytes(there)
    else:
        there(path)
    before = listing(tmp_path)
    if words:
        with pytest.raises(TenancyError, match=f"(?s){words}") as caught:
            reconciled(tmp_path, path, "present")
        assert str(path) in caught.value.message
        assert listing(tmp_path) == before
    else:
        assert reconciled(tmp_path, path, "present")["changed"]
        assert reconciled(tmp_path, path, "absent")["outcome"] == "restored"
        assert listing(tmp_path) == before
