# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A page of evidence as tests look at it."""

from __future__ import annotations

import html.parser


class Page(html.parser.HTMLParser):
    """A page.

    :ivar open: elements that were opened and not closed; ``found``, all of them with their attributes.
    :ivar texts: each piece of text with the element that it is in; ``said``, all that a reader sees.
    """

    VOID = ("meta", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.texts = [], [], []
        self.feed(text)

    @property
    def said(self):
        return "".join(text for tag, text in self.texts if tag != "style")

    def of(self, tag):
        """Return the attributes of every element with this name."""
        return [attributes for name, attributes in self.found if name == tag]

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))
