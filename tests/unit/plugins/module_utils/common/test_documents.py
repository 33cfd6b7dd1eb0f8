# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import load_document, load_documents

TEXT = "a: 1\n---\n---\nb: [x, 2026-11-25]\n"
UNSAFE = "!!python/object/apply:os.getcwd []"


@pytest.fixture(params=["in C", "in Python"], autouse=True)
def parser(request, monkeypatch):
    if request.param == "in Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.fail("PyYAML has no parser in C here")


def test_documents_are_plain_data():
    assert load_documents(TEXT) == list(yaml.safe_load_all(TEXT))
    assert load_document(TEXT) == {"a": 1}
    assert load_document(b"") is None


def test_nothing_but_plain_data_is_made():
    with pytest.raises(yaml.YAMLError):
        load_document(UNSAFE)
