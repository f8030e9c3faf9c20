"""``docs/dialects.md``, made from the registry: ``python tests/support/dialects_page.py > docs/dialects.md``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from freezeframe_schemas.wire import generic
from freezeframe_schemas.wire.dialect import WireDialect
from freezeframe_schemas.wire.registry import PROVIDERS, ROUTES

_HEAD: Final = """\
# Wire dialects

A dialect reads the bytes of a provider's requests and answers into the attributes of the OpenTelemetry GenAI conventions.
Made by `python tests/support/dialects_page.py`; a test keeps it current.

* A stream is assembled into the synchronous answer, so both give the same attributes. A cut one gives what arrived.
* `gen_ai.response.finish_reasons` keeps the provider's word (`end_turn`); messages have the conventions' (`stop`).
* Token totals are the conventions': input includes cached tokens, output includes thinking. The provider's usage object is in
  `freezeframe.usage`.
* What has no attribute is kept in `freezeframe.request.parameters`, `freezeframe.response.details` and
  `freezeframe.response.error`. The exact bytes are on the exchange span in any case.
* A stream is whole when its protocol's last event came (`[DONE]`, `message_stop`, ...), or, if there is none (Gemini, some
  OpenAI-compatible servers), with a reason to finish and the end of the HTTP body.
* Transient fields never decide the answer, so they are not part of a replay key.

## Dialects

"""

_MIDDLE: Final = """
Paths are matched at their end, on any host unless a provider is named; `POST` only. *By its body*: other services also have the
path, so the JSON body must have the fields of the API (`freezeframe_schemas.wire.shapes`); *by its form*: a multipart form. Any
other request to a provider below is `generic`: recorded and replayed like the rest.

## Providers

The host identifies the provider. On an unknown host (a proxy, a local server) a known path is recognised, and the provider is
the dialect's own, as a guess.

"""

_TAIL: Final = """
## A new provider

One module with the functions that read and write its format, and rows in `freezeframe_schemas.wire.registry`:
[extending/provider.md](extending/provider.md). If it uses a format that is already listed, its host's row is enough.
"""


def dialects_page() -> str:
    """Return the page."""
    return _HEAD + _dialects() + _MIDDLE + _providers() + _TAIL


def _dialects() -> str:
    by_name: dict[str, WireDialect] = {}
    paths: dict[str, list[str]] = {}
    for route in ROUTES:
        by_name.setdefault(route.dialect.name, route.dialect)
        where = f" ({', '.join(sorted(route.providers))})" if route.providers else ""
        where += " by its body" if route.shape else " by its form" if route.form else ""
        paths.setdefault(route.dialect.name, []).extend(f"`{path}`{where}" for path in _readable(route.path).split("|"))
    by_name[generic.DIALECT.name] = generic.DIALECT
    paths.setdefault(generic.DIALECT.name, []).append("any other, on the hosts below")
    rows = [
        (
            f"`{name}`",
            f"`{dialect.operation}`",
            "<br>".join(paths.get(name, [])),
            ", ".join(f"`{field}`" for field in sorted(dialect.transient_fields)),
        )
        for name, dialect in sorted(by_name.items())
    ]
    return _table(("dialect", "operation", "paths", "transient fields"), rows)


def _providers() -> str:
    rows = [
        (f"`{row.name}`", ", ".join(f"`{host}`" for host in _readable(row.hosts).split("|")))
        for row in sorted(PROVIDERS, key=lambda row: row.name)
    ]
    return _table(("provider", "hosts"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _readable(pattern: str) -> str:
    """Return a regular expression of the registry in readable form: ``/models/{model}:generateContent``."""
    pattern = re.sub(r"\(\?P<region>([^()]*)\)", r"\1", pattern)
    text = re.sub(r"\(\?P<model>(endpoints/)?(?:\[\^[^]]*\][*+])?(\w*)[^()]*\)", _model, pattern)
    text = re.sub(r"\(\?:((?:[^()]|\([^()]*\))*)\)(\??)", _group, text)
    text = re.sub(r"\(\?:((?:[^()]|\([^()]*\))*)\)(\??)", _group, text)
    for regular, plain in ((r"\.+", "*"), (r"[a-z0-9-]+", "*"), (r"[a-z-]+", "*"), (r"\d+", "*"), (r"[12]", "{1,2}")):
        text = text.replace(regular, plain)
    text = re.sub(r"(?<!\\)\.[+*]", "*", text)
    return text.replace("\\", "").replace("$", "").replace("[rR]", "r")


def _model(match: re.Match[str]) -> str:
    return f"{match[1] or ''}{{*{match[2]}*}}" if match[2] else f"{match[1] or ''}{{model}}"


def _group(match: re.Match[str]) -> str:
    """Return ``(?:a|b)`` as ``{a,b}`` and ``(?:a)?`` as ``[a]``."""
    inner = match[1].replace("|", ",")
    if match[2]:
        return f"[{inner}]"
    return f"{{{inner}}}" if "," in inner else inner


if __name__ == "__main__":
    print(dialects_page(), end="")
