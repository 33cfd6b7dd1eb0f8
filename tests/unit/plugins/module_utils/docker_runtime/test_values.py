# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the edit of Docker's daemon.json and of its inverse."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._docker_runtime.values import Undone, Wanted, edit, undo
from hypothesis import assume, given, settings
from hypothesis import strategies as st

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
        owned = {"cdi", wanted.name}
        assert {k: v for k, v in after.get(key, {}).items() if k not in owned} == {
            k: v for k, v in before.get(key, {}).items() if k not in owned
        }
    # Keys keep their order, owned ones come last.
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


OURS = b'{"default-runtime": "nvidia", "runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}'


@pytest.mark.parametrize(
    ("original", "theirs", "content", "kept"),
    [
        # Every owned setting is still there, and no edit: as it was.
        (None, OURS, None, []),
        # A person wrote the same in fewer words.
        (None, OURS.replace(b'"args": [], ', b""), None, []),
        # A user took the default away already: as it was, too.
        (None, b'{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}', None, []),
        # A user chose another default, or none.
        (None, OURS.replace(b': "nvidia"', b': "runc"'), b'{"default-runtime": "runc"}', ["default-runtime"]),
        (b'{"default-runtime": "runc"}', b'{"debug": true}', b'{"debug": true}', ["default-runtime"]),
        # A user took over the entry, and decided about the default.
        (
            None,
            b'{"default-runtime": "runc", "runtimes": {"nvidia": {"path": "/own"}}}',
            b'{"default-runtime": "runc", "runtimes": {"nvidia": {"path": "/own"}}}',
            ["default-runtime", "runtimes.nvidia"],
        ),
        # A user took the runtime away, and its default: nothing is left to do.
        (None, b'{"debug": true}', b'{"debug": true}', []),
    ],
)
def test_undo_keeps_what_somebody_decided(original: bytes | None, theirs: bytes, content: bytes | None, kept: list[str]) -> None:
    assert undo(theirs, edit(original, NVIDIA), original) == Undone(content, kept, [])


@pytest.mark.parametrize(
    ("wanted", "original", "theirs", "setting"),
    [
        # Did they want to keep the entry, or only to tune it?
        (NVIDIA, None, OURS.replace(b"nvidia-container-runtime", b"/own"), "runtimes.nvidia"),
        # Their default names our runtime.
        (
            Wanted("nvidia", "nvidia-container-runtime", default=False),
            None,
            OURS,
            "runtimes.nvidia",
        ),
        # The former default has lost its runtime.
        (
            NVIDIA,
            b'{"default-runtime": "kata", "runtimes": {"kata": {"path": "/opt/kata"}}}',
            OURS,
            "runtimes.kata",
        ),
    ],
)
def test_undo_does_not_guess(wanted: Wanted, original: bytes | None, theirs: bytes, setting: str) -> None:
    undone = undo(theirs, edit(original, wanted), original)
    assert [conflict["setting"] for conflict in undone.conflicts] == [setting]
    [conflict] = undone.conflicts
    name = setting.partition(".")[2]
    assert conflict["now"] == json.loads(theirs)["runtimes"].get(name)
    assert conflict["before"] == json.loads(original or b"{}").get("runtimes", {}).get(name)
    assert conflict["written"] == json.loads(edit(original, wanted))["runtimes"].get(name)


def test_undo_puts_the_former_default_back_as_it_was_spelled() -> None:
    original = b'{"default-runtime":"k\\u0061ta","runtimes":{"nvidia":{"path":"/old","n":1.50}}}'
    left = edit(original, NVIDIA)
    assert undo(left[:-1] + b', "debug": true}', left, original).content == original[:-1] + b', "debug": true}'


# --- properties, over any document ---

SPACES = st.sampled_from(["", " ", "\n", "\t", "\r\n    ", "  \n\n"])
NUMBERS = st.sampled_from(["0", "-0", "1.0", "1.50", "1e5", "1E+400", "-2.5e-7", "12345678901234567890", "9" * 5000])
WORDS = st.sampled_from(["debug", "hosts", "log-opts", "grün", "a b", "x\\y", '"', "\u2028", "\U0001f600", "\ud800"]) | st.text(
    max_size=5
)
OWN = {"default-runtime", "features", "runtimes"}


@st.composite
def spelled(draw: st.DrawFn, text: str) -> str:
    """A string as JSON, each character in one of the ways that JSON has for it."""
    return '"' + "".join(_character(draw, character) for character in text) + '"'


def _character(draw: st.DrawFn, character: str) -> str:
    plain = json.dumps(character)[1:-1]
    escaped = "".join(f"\\u{int.from_bytes(pair, 'big'):04x}" for pair in _units(character))
    raw = character if character >= " " and character not in '"\\' and not "\ud800" <= character <= "\udfff" else plain
    return draw(st.sampled_from([raw, plain, escaped, escaped.upper().replace("\\U", "\\u")]))


def _units(character: str) -> list[bytes]:
    encoded = character.encode("utf-16-be", "surrogatepass")
    return [encoded[at : at + 2] for at in range(0, len(encoded), 2)]


@st.composite
def joined(draw: st.DrawFn, parts: list[str], brackets: str) -> str:
    def space() -> str:
        return draw(SPACES)

    return brackets[0] + space() + f"{space()},{space()}".join(parts) + space() + brackets[1]


@st.composite
def objects(draw: st.DrawFn, members: dict[str, str]) -> str:
    order = draw(st.permutations(list(members)))
    parts = [f"{draw(spelled(key))}{draw(SPACES)}:{draw(SPACES)}{members[key]}" for key in order]
    return draw(joined(parts, "{}"))


@st.composite
def values(draw: st.DrawFn, depth: int = 2) -> str:
    kinds = ["word", "number", "constant"] + (["array", "object"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "word":
        return draw(spelled(draw(WORDS)))
    if kind == "number":
        return draw(NUMBERS)
    if kind == "constant":
        return draw(st.sampled_from(["true", "false", "null"]))
    if kind == "array":
        return draw(joined(draw(st.lists(values(depth - 1), max_size=3)), "[]"))
    return draw(objects(draw(st.dictionaries(WORDS, values(depth - 1), max_size=3))))


@st.composite
def documents(draw: st.DrawFn) -> bytes | None:
    """Any daemon.json, or none."""
    if draw(st.integers(0, 9)) == 0:
        return None
    members = {key: value for key, value in draw(st.dictionaries(WORDS, values(), max_size=4)).items() if key not in OWN}
    names = st.sampled_from(["nvidia", "kata", "grün"])
    entry = st.dictionaries(st.sampled_from(["path", "runtimeArgs", "args", "n"]), values(1), max_size=3).flatmap(objects)
    if draw(st.booleans()):
        members["runtimes"] = draw(objects(draw(st.dictionaries(names, entry, max_size=3))))
    if draw(st.booleans()):
        flags = st.sampled_from(["true", "false"])
        members["features"] = draw(objects(draw(st.dictionaries(st.sampled_from(["cdi", "buildkit", "x"]), flags, max_size=3))))
    if draw(st.booleans()):
        members["default-runtime"] = draw(spelled(draw(st.sampled_from(["nvidia", "kata", "runc"]))))
    return (draw(SPACES) + draw(objects(members)) + draw(SPACES)).encode("utf-8")


WANTED = st.builds(
    Wanted,
    st.sampled_from(["nvidia", "gpu"]),
    st.sampled_from(["nvidia-container-runtime", "/usr/bin/ü"]),
    st.booleans(),
    st.sampled_from([None, True, False]),
)


def load(content: bytes | None) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", json.loads(content or b"{}", parse_int=str, parse_float=str))


@settings(max_examples=100)
@given(documents(), WANTED)
def test_whatever_is_there_comes_back_byte_for_byte(original: bytes | None, wanted: Wanted) -> None:
    left = edit(original, wanted)
    assert edit(left, wanted) == left
    assert undo(left, left, original) == Undone(original, [], [])
    before, after = load(original), load(left)
    assert after["runtimes"][wanted.name] in ({"args": [], "path": wanted.path}, {"path": wanted.path})
    assert {key: value for key, value in after.items() if key not in OWN} == {k: v for k, v in before.items() if k not in OWN}
    assert list(after)[: len(before)] == list(before)


@settings(max_examples=100)
@given(documents(), WANTED, st.data())
def test_what_a_person_adds_in_between_is_all_that_remains(original: bytes | None, wanted: Wanted, data: st.DataObject) -> None:
    """They write a new setting at the end of the file, and touch no other byte."""
    assume(original is not None and load(original).keys() - OWN)
    assert original is not None
    left = edit(original, wanted)
    assume(left != original)
    addition = b',"of mine": ' + data.draw(values(1)).encode()
    at = left.rindex(b"}")
    undone = undo(left[:at] + addition + left[at:], left, original)
    at = original.rindex(b"}")
    expected = original[:at] + addition + original[at:]
    assert load(undone.content) == load(expected)
    # What stood between the last member and the brace stands before the addition in the one, and behind it in the other.
    assert undone.content is not None
    assert b"".join(undone.content.split()) == b"".join(expected.split())


@settings(max_examples=100)
@given(documents(), WANTED, st.data())
def test_a_file_that_a_person_wrote_anew_loses_only_our_settings(
    original: bytes | None, wanted: Wanted, data: st.DataObject
) -> None:
    """They change the order and the formatting, add a setting and a runtime, and take out what is not owned."""
    left = edit(original, wanted)
    document = load(left)
    gone = data.draw(st.sets(st.sampled_from(sorted(document.keys() - OWN) or ["-"])))
    theirs = {key: document[key] for key in data.draw(st.permutations(list(document))) if key not in gone}
    theirs["runtimes"] = {"own": {"path": "/own"}} | theirs["runtimes"]
    theirs["of mine"] = ["x"]
    written = json.dumps(theirs, indent=data.draw(st.sampled_from([None, 0, 1, "\t"])), ensure_ascii=data.draw(st.booleans()))
    # Half a character cannot be written but as an escape.
    present = written.encode("utf-8", "backslashreplace")
    undone = undo(present, left, original)

    before = load(original)
    expected = {key: value for key, value in before.items() if key not in gone}
    expected["runtimes"] = {"own": {"path": "/own"}} | expected.get("runtimes", {})
    expected["of mine"] = ["x"]
    if undone.conflicts:
        assert before.get("default-runtime") not in (None, "runc")
        return
    assert load(undone.content) == expected
    assert undone.kept == []
