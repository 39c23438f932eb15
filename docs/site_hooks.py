"""What mkdocs does to the pages: links to files outside of the documentation become their paths."""

from __future__ import annotations

import re

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)\s]+)\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """The page with links out of the folder turned into text: the site holds no source files."""
    return _OUTSIDE.sub(r"\1 (`\2`)", markdown)
