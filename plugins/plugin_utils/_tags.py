# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""Which parts of a playbook ansible-playbook's --tags and --skip-tags leave in a run."""

from __future__ import annotations

import typing as t

from ..module_utils._common.errors import did_you_mean
from ..module_utils._common.text import shown

# What Ansible itself takes as tags (ansible-core, playbook/taggable.py).
_ALL = ("all", "tagged")
_SPECIAL = (*_ALL, "always", "never", "untagged")


def parts_of(parts: t.Sequence[str], run: t.Collection[str], skip: t.Collection[str], own: t.Collection[str]) -> list[str]:
    """Return the parts of a playbook that run.

    :arg parts: the tags that the playbook has.
    :arg run: of --tags; ``skip``, of --skip-tags.
    :arg own: tags of the playbook that imports this one, which stand for all of it.
    """
    # What always runs, Ansible does not skip by either.
    if set(skip) & {*_ALL, *own}:
        return []
    whole = bool(set(run) & {*_ALL, *own})
    return [part for part in parts if (whole or part in run) and part not in skip]


def refused_tags(parts: t.Sequence[str], run: t.Collection[str], skip: t.Collection[str], own: t.Collection[str]) -> str:
    """Return why a run with these tags would not do what they ask for; empty where it does. The arguments are those of ``parts_of``.

    A playbook that imports this one may have tags for other things. They are refused where no part of this one runs, and where they look
    like one of its parts.
    """
    known = {*parts, *own, *_SPECIAL}
    unknown = [tag for tag in dict.fromkeys((*run, *skip)) if tag not in known]
    slips = [tag for tag in unknown if did_you_mean(tag, parts)]
    runs = parts_of(parts or _ALL, run, skip, own)
    if runs and not slips:
        return ""
    has = f"It has {', '.join(parts)}." if parts else "It has none: run it without --tags and --skip-tags."
    if wrong := slips or unknown:
        return f"{', '.join(map(shown, wrong))}: no tag of this playbook.{did_you_mean(wrong[0], parts)} {has}"
    return f"--tags and --skip-tags leave nothing of this playbook. {has}"
