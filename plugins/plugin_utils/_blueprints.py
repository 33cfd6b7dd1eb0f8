# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The blueprints that come with the collection, and those of the user's own, as files on the controller."""

from __future__ import annotations

import pathlib
import typing as t

from ..module_utils._blueprint.validation import check_name, parse, unknown
from ..module_utils._common.documents import Unreadable, load_document
from ..module_utils._common.errors import TenancyError
from ..module_utils._common.schema import plain
from ..module_utils._common.variables import BLUEPRINT

if t.TYPE_CHECKING:
    from ..module_utils._blueprint.values import Blueprint

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "blueprints"


def names() -> list[str]:
    """Return the names of the blueprints that come with the collection."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def load(given: t.Any) -> Blueprint | None:
    """Return the blueprint that an inventory names; None where it names none.

    :arg given: its name, or, with a slash in it, the path of a file.
    :raises TenancyError: for a name without a date, and for a file that is not there or no blueprint.
    """
    # What is no text is refused with all other variables.
    if not given or not isinstance(given, str):
        return None
    path = pathlib.Path(given).expanduser() if "/" in given else FOLDER / f"{given}.yml"
    name = path.name.removesuffix(".yml")
    check_name(name, names())
    try:
        content = load_document(path.read_text("utf-8"))
    except FileNotFoundError as exc:
        raise unknown(given, names()) from exc
    except (OSError, UnicodeDecodeError, Unreadable) as exc:
        raise TenancyError(f"{BLUEPRINT}: {path} cannot be read: {exc}") from exc
    return parse(name, plain(content, root=f"blueprint {name}"))
