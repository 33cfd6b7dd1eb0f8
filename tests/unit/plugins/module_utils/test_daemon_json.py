# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the edit of Docker's daemon.json and of its inverse."""

from __future__ import annotations

import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._daemon_json import Wanted, edit, undo
from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError

NVIDIA = Wanted("nvidia", "nvidia-container-runtime", default=True)
WITH_CDI = Wanted("nvidia", "nvidia-container-runtime", default=True, cdi=True)
ENTRY = {"args": [], "path": "nvidia-container-runtime"}

# What `nvidia-ctk runtime configure --set-as-default --cdi.enabled` makes of no file.
FRESH = b"""{
    "default-runtime": "nvidia",
    "features": {
        "cdi": true
    },
    "runtimes": {
        "nvidia": {
            "args": [],
            "path": "nvidia-container-runtime"
        }
    }
}"""

DOCUMENTS = [
    None,
    b"{}",
    b"{ }\n",
    b"{\n}\n",
    b'{"log-driver": "journald"}',
    b'{"features":{"buildkit":true,"containerd-snapshotter":true}}',
    b'{\n  "max-concurrent-downloads": 12345678901234567890,\n  "x": 1.0e-7,\n  "b": ["a", "b"]\n}\n',
    b'{\n\t"default-runtime": "kata",\n\t"runtimes": {"kata": {"path": "/opt/kata"}}\n}\n',
    b'{\n  "runtimes": {},\n  "features": {\n    "cdi": false\n  }\n}',
    b'{"runtimes": {"nvidia": {"path": "/old", "runtimeArgs": ["--x"], "n": 1.50}}, "z": "\\u00e4 \\"} {"}',
    '{\r\n  "label": "grün"\r\n}\r\n'.encode(),
    FRESH,
]


@pytest.mark.parametrize("content", DOCUMENTS)
@pytest.mark.parametrize("wanted", [NVIDIA, WITH_CDI, Wanted("nvidia", "/usr/bin/n", default=False, cdi=False)])
def test_edit_adds_the_settings_and_nothing_else(content: bytes | None, wanted: Wanted) -> None:
    before = json.loads(content or b"{}", parse_int=str, parse_float=str)
    edited = edit(content, wanted)
    after = json.loads(edited, parse_int=str, parse_float=str)

    assert after["runtimes"][wanted.name]["path"] == wanted.path
    assert after.get("default-runtime") == (wanted.name if wanted.default else before.get("default-runtime"))
    if wanted.cdi is not None:
        assert after["features"]["cdi"] is wanted.cdi
    for key, value in before.items():
        if key not in ("default-runtime", "features", "runtimes"):
            assert after[key] == value
    for key in ("features", "runtimes"):
        ours = {"cdi", wanted.name}
        assert {k: v for k, v in after.get(key, {}).items() if k not in ours} == {
            k: v for k, v in before.get(key, {}).items() if k not in ours
        }
    # Keys keep their order, ours come last.
    assert list(after)[: len(before)] == list(before)
    assert edit(edited, wanted) == edited


def test_edit_of_no_file_is_what_nvidia_ctk_writes() -> None:
    assert edit(None, WITH_CDI) == FRESH


def test_edit_keeps_the_text_around() -> None:
    content = b'{\n  "hosts": ["a",  "b"],\n  "n": 1.50\n}\n'
    assert edit(content, Wanted("nvidia", "n", default=True)) == (
        b'{\n  "hosts": ["a",  "b"],\n  "n": 1.50,\n  "default-runtime": "nvidia",\n  "runtimes": {\n    "nvidia": {\n'
        b'      "args": [],\n      "path": "n"\n    }\n  }\n}\n'
    )


def test_a_runtime_without_args_is_left_alone() -> None:
    content = b'{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}, "default-runtime": "nvidia"}'
    assert edit(content, NVIDIA) == content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not valid JSON"),
        (b" \n", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"a": 1,}', "not valid JSON"),
        (b'{"a": 1} x', "not valid JSON"),
        (b'{"a": 1} {"b": 2}', "not valid JSON"),
        (b'{"a": 1} // text', "not valid JSON"),
        (b'{"a": NaN}', "NaN"),
        (b"\xef\xbb\xbf{}", "byte-order mark"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b"null", "object"),
        (b"[]", "object"),
        (b'"x"', "object"),
        (b'{"a": 1, "a": 2}', "twice: a"),
        (b'{"b": [{"c": 1, "c": 1}]}', "twice: c"),
        (b'{"runtimes": null}', "runtimes in"),
        (b'{"runtimes": []}', "runtimes in"),
        (b'{"runtimes": {"x": 1}}', "runtimes.x"),
        (b'{"features": "cdi"}', "features in"),
        (b'{"features": {"cdi": "yes"}}', "features.cdi"),
        (b'{"default-runtime": null}', "default-runtime"),
        (b'{"default-runtime": ["x"]}', "default-runtime"),
        (b'{"default-runtime": ""}', "default-runtime"),
        (b"[" * 100000, "nested|not valid"),
    ],
)
def test_odd_files_are_refused(content: bytes, words: str) -> None:
    with pytest.raises(TenancyError, match=words):
        edit(content, NVIDIA)


@pytest.mark.parametrize("original", DOCUMENTS)
def test_undo_takes_out_only_our_settings(original: bytes | None) -> None:
    left = edit(original, WITH_CDI)
    theirs = edit(left, Wanted("other", "/other", default=False))
    undone = undo(theirs, left, original)

    assert undone.content is not None
    expected = json.loads(original or b"{}")
    expected.setdefault("runtimes", {})["other"] = {"args": [], "path": "/other"}
    assert json.loads(undone.content) == expected
    assert undone.kept == []


@pytest.mark.parametrize(
    ("theirs", "content", "kept"),
    [
        # Everything of ours still there, nothing of theirs: as it was.
        (b'{"default-runtime": "nvidia", "runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}', None, []),
        # Somebody took the default away already.
        (b'{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}', None, ["default-runtime"]),
        # Somebody changed the path: it is theirs now.
        (
            b'{"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "/own"}}}',
            b'{"runtimes": {"nvidia": {"path": "/own"}}}',
            ["runtimes.nvidia"],
        ),
    ],
)
def test_undo_keeps_what_somebody_changed(theirs: bytes, content: bytes | None, kept: list[str]) -> None:
    undone = undo(theirs, edit(None, NVIDIA), None)
    assert (undone.content, undone.kept) == (content, kept)


def test_undo_puts_the_former_default_back_as_it_was_spelled() -> None:
    original = b'{"default-runtime":"k\\u0061ta","runtimes":{"nvidia":{"path":"/old","n":1.50}}}'
    left = edit(original, NVIDIA)
    assert undo(left[:-1] + b', "debug": true}', left, original).content == original[:-1] + b', "debug": true}'
