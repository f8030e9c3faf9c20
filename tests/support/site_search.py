"""Rank the site's search: guides first, generated reference last, records of decisions not at all (a hook of mkdocs.yml)."""

from __future__ import annotations

from typing import Any

_BOOST = {"guides/": 4, "internals/": 0.5, "extending/": 0.5, "cli": 0.5, "tables": 0.5}
_FIRST = ("start.md", "troubleshooting.md", "faq.md", "replay.md", "verdicts.md")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Set the rank of a page before its text is indexed."""
    path: str = page.file.src_uri
    if path.startswith("decisions/"):
        page.meta["search"] = {"exclude": True}
    else:
        boost = 4 if path in _FIRST else next((rank for start, rank in _BOOST.items() if path.startswith(start)), 1)
        page.meta["search"] = {"boost": boost}
    return markdown
