# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""JUnit's XML, the form in which pipelines read evidence."""

from __future__ import annotations

import dataclasses
import re
import typing as t
import xml.etree.ElementTree as ET

# What XML 1.0 has no way to write, such as the colours of a program's output.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

FAILURE, ERROR, SKIPPED = KINDS = ("failure", "error", "skipped")


@dataclasses.dataclass(frozen=True)
class Case:
    """One test.

    :ivar wrong: why it did not pass; empty where it did. ``kind``, one of KINDS, says what that counts as.
    :ivar seen: what was observed, whether or not it passed.
    :ivar seconds: that it took; None where they were not measured.
    """

    group: str
    name: str
    wrong: str = ""
    kind: str = FAILURE
    seen: str = ""
    seconds: float | None = None


def suite(name: str, cases: t.Iterable[Case], properties: t.Iterable[tuple[str, str]] = ()) -> ET.Element:
    """Return a suite of tests.

    :arg properties: names, which may come several times, and values.
    """
    found = ET.Element("testsuite", name=_text(name))
    if listed := [ET.Element("property", name=key, value=_text(value)) for key, value in properties]:
        ET.SubElement(found, "properties").extend(listed)
    for case in cases:
        item = ET.SubElement(found, "testcase", classname=_text(case.group), name=_text(case.name))
        if case.seconds is not None:
            item.set("time", f"{case.seconds:g}")
        if case.wrong:
            ET.SubElement(item, case.kind, message=_text(case.wrong))
        if case.seen:
            ET.SubElement(item, "system-out").text = _text(case.seen)
    found.set("tests", str(len(found.findall("testcase"))))
    for kind, counted in zip(KINDS, ("failures", "errors", "skipped"), strict=True):
        found.set(counted, str(len(found.findall(f"testcase/{kind}"))))
    return found


def document(suites: t.Sequence[ET.Element]) -> str:
    """Return a whole file with these suites."""
    root = suites[0] if len(suites) == 1 else ET.Element("testsuites")
    if root.tag == "testsuites":
        root.extend(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _text(text: str) -> str:
    return _UNWRITABLE.sub("", text)
