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
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses


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
REFUSED = [
    # Nothing in it.
    (b"", "empty"),
    (b" ", "empty"),
    (b"\n\n\t\r\n", "empty"),
    # No object.
    (b"null", "wrong-type"),
    (b"true", "wrong-type"),
    (b"0", "wrong-type"),
    (b'"runtimes"', "wrong-type"),
    (b"[]", "wrong-type"),
    (b'[{"runtimes": {}}]', "wrong-type"),
    # No JSON.
    (b"{", "not-json"),
    (b"}", "not-json"),
    (b'{"debug": true', "not-json"),
    (b'{"debug"}', "not-json"),
    (b'{"debug": }', "not-json"),
    (b'{"debug" true}', "not-json"),
    (b'{"debug": true "tls": true}', "not-json"),
    (b"{debug: true}", "not-json"),
    (b"{'debug': true}", "not-json"),
    (b'{"debug": True}', "not-json"),
    (b'{"debug": yes}', "not-json"),
    (b'{"debug": true,}', "not-json"),
    (b'{"hosts": ["a",]}', "not-json"),
    (b'{,"debug": true}', "not-json"),
    (b'{"mtu": 01}', "not-json"),
    (b'{"mtu": +1}', "not-json"),
    (b'{"mtu": .5}', "not-json"),
    (b'{"mtu": 0x10}', "not-json"),
    (b'{"mtu": NaN}', "not-json"),
    (b'{"mtu": -Infinity}', "not-json"),
    (b'{"label": "a\nb"}', "not-json"),
    (b'{"label": "a\\x"}', "not-json"),
    (b'{"label": "\\u12"}', "not-json"),
    (b'{"label": "open}', "not-json"),
    (b"# managed\n{}", "not-json"),
    (b"// managed\n{}", "not-json"),
    (b'{"debug": true /* why */}', "not-json"),
    (b'{"debug": true} // why', "not-json"),
    (b'{"debug": true} x', "not-json"),
    (b"{}{}", "not-json"),
    (b'{"a": 1}\n{"b": 2}\n', "not-json"),
    (b"debug: true\n", "not-json"),
    (b"[runtimes]\nnvidia = 1\n", "not-json"),
    (b"<json/>", "not-json"),
    (b"{{ docker_config }}", "not-json"),
    (b"\x1f\x8b\x08" + b"\x01" * 20, "not-utf-8"),
    # A key twice, at each level.
    (b'{"debug": true, "debug": true}', "listed-twice"),
    (b'{"runtimes": {}, "runtimes": {}}', "listed-twice"),
    (b'{"runtimes": {"a": {}, "a": {}}}', "listed-twice"),
    (b'{"runtimes": {"a": {"path": "x", "path": "y"}}}', "listed-twice"),
    (b'{"log-opts": {"x": "1", "x": "2"}}', "listed-twice"),
    (b'{"a": [[{"b": 1, "b": 1}]]}', "listed-twice"),
    (b'{"debug": true, "\\u0064ebug": false}', "listed-twice"),
    # Of another type than dockerd knows.
    (b'{"runtimes": null}', "wrong-type"),
    (b'{"runtimes": []}', "wrong-type"),
    (b'{"runtimes": "nvidia"}', "wrong-type"),
    (b'{"runtimes": {"nvidia": null}}', "wrong-type"),
    (b'{"runtimes": {"kata": "/opt/kata"}}', "wrong-type"),
    (b'{"features": null}', "wrong-type"),
    (b'{"features": ["cdi"]}', "wrong-type"),
    (b'{"features": {"cdi": "true"}}', "wrong-type"),
    (b'{"features": {"buildkit": 1}}', "wrong-type"),
    (b'{"default-runtime": null}', "wrong-type"),
    (b'{"default-runtime": ""}', "wrong-type"),
    (b'{"default-runtime": 7}', "wrong-type"),
    (b'{"default-runtime": ["nvidia"]}', "wrong-type"),
    # Of another encoding.
    (b"\xef\xbb\xbf{}", "byte-order-mark"),
    (b"\xef\xbb\xbf", "byte-order-mark"),
    ('{"debug": true}'.encode("utf-16"), "not-utf-8"),
    ('{"debug": true}'.encode("utf-16-be"), "not-utf-8"),
    ('{"debug": true}'.encode("utf-32"), "not-utf-8"),
    ('{"label": "grün"}'.encode("latin-1"), "not-utf-8"),
    (b'{"label": "\xc0\xaf"}', "not-utf-8"),
    (b'{"label": "\xed\xa0\x80"}', "not-utf-8"),
    (b'{"a": 1}\0', "not-utf-8"),
    (b"\0" * 64, "not-utf-8"),
    # Without end.
    (b"[" * 100000, "nested-too-deep"),
    (b'{"a":' * 100000, "nested-too-deep"),
    (b'{"a": ' + b"[" * 100000 + b"]" * 100000 + b"}", "nested-too-deep"),
]
NO_FILES: list[tuple[t.Callable[[pathlib.Path], object], str]] = [
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


@pytest.fixture(name="file")
def _file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "docker" / "daemon.json"
    path.parent.mkdir()
    return path


def shown(content: t.Any) -> str:
    return ascii(content)[:40]


@pytest.mark.parametrize(("content", "code"), REFUSED, ids=shown)
def test_what_is_no_document_is_refused_and_stays(tmp_path: pathlib.Path, file: pathlib.Path, content: bytes, code: str) -> None:
    file.write_bytes(content)
    before = listing(tmp_path)
    with refuses(code) as caught:
        reconciled(tmp_path, file, "present")
    assert str(file) in caught.value.message
    assert listing(tmp_path) == before


@pytest.mark.parametrize(("make", "words"), NO_FILES, ids=shown)
def test_what_is_no_file_is_refused_and_stays(
    tmp_path: pathlib.Path, file: pathlib.Path, make: t.Callable[[pathlib.Path], object], words: str
) -> None:
    make(file)
    before = listing(tmp_path)
    with pytest.raises(TenancyError, match=f"(?s){words}") as caught:
        reconciled(tmp_path, file, "present")
    assert str(file) in caught.value.message
    assert listing(tmp_path) == before


@pytest.mark.parametrize("content", ACCEPTED, ids=shown)
def test_what_dockerd_takes_is_changed_and_restored(tmp_path: pathlib.Path, file: pathlib.Path, content: bytes) -> None:
    file.write_bytes(content)
    before = listing(tmp_path)
    assert reconciled(tmp_path, file, "present")["changed"]
    assert reconciled(tmp_path, file, "absent")["outcome"] == "restored"
    assert listing(tmp_path) == before
