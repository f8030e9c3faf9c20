"""Fork: a recorded run with one thing changed, as its own fixture. Pure.

A replay of the fork answers as recorded up to the changed step, and returns the changed answer there. The
code's first call after that which is not in the recording is the first divergence: the effect of the change.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from freezeframe_schemas import genai
from freezeframe_schemas.errors import FixtureError, WireError
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Kind, Response
from freezeframe_schemas.fixture import Fixture, Step
from freezeframe_schemas.keys import canonical_json, digest
from freezeframe_schemas.wire import decode_body
from freezeframe_schemas.wire.answer import Answer
from freezeframe_schemas.wire.frames import Form, read_body
from freezeframe_schemas.wire.registry import dialect_of

_PART: Final = re.compile(r'\.?([^.\[\]|"]+)|\[(\d+)\]|\["([^"]+)"\]')
_INSIDE: Final = "|json"
_FIRST_ERROR_STATUS: Final = 400


class Target(StrEnum):
    INPUT = "input"
    """The entry point's arguments, at a path."""
    RESULT = "result"
    """The result of a tool or retriever: all of it, or at a path."""
    RESPONSE = "response"
    """A model's answer, as text; for other HTTP the body."""
    BODY = "body"
    """The JSON of an answer, at a path."""
    FLAG = "flag"
    """A feature flag, named by the path."""
    CLOCK = "clock"
    """The start of the run, as a time in ISO 8601 (UTC if no zone is named): the whole run moves."""
    COMMIT = "commit"
    """The commit of the code; ``freezeframe replay --at-commit`` checks it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change. `value` is a JSON value, for `RESPONSE` a text."""

    target: Target
    value: Any
    step: int | None = None
    path: str = ""

    def __str__(self) -> str:
        place = self.target.value if self.step is None else f"step {self.step} {self.target.value}"
        return f"{place} {self.path}".rstrip() + f" = {json.dumps(self.value, ensure_ascii=False)}"


def fork(fixture: Fixture, edits: Sequence[Edit]) -> Fixture:
    """Return the fixture with the edits, under a new id.

    Raises:
        FixtureError: no such step, a step inside another one, or a value that does not fit there; or a reconstructed run.
    """
    if fixture.reconstructed:
        raise FixtureError(
            f"run {fixture.run_id}: another instrumentation recorded it, without bytes to change",
            do="keep a replay of it, `freezeframe replay RUN -o DIR -- CMD`, and fork that",
        )
    changed = fixture
    for edit in edits:
        changed = _change_run(changed, edit) if edit.step is None else _change_step(changed, edit, edit.step)
    changes = tuple(str(edit) for edit in edits)
    return replace(
        changed,
        run_id=digest(canonical_json([fixture.run_id, *changes])),
        forked_from=fixture.run_id,
        edits=(*fixture.edits, *changes),
    )


def set_at(value: Any, path: str, new: Any) -> Any:
    """Return the JSON value with `new` at the path, ``choices[0].message.content``; ``|json`` enters JSON held in a text.

    Raises:
        FixtureError: the path leads nowhere. A new field of an object may be set; an item of a list must be there.
    """
    outer, inside, inner = path.partition(_INSIDE)
    parts = _parts(outer)
    if inside:
        new = json.dumps(set_at(json.loads(_get(value, parts, path)), inner, new), ensure_ascii=False)
    return _set(value, parts, new, path)


def _parts(path: str) -> list[str | int]:
    text = path.removeprefix("$")
    found = list(_PART.finditer(text))
    if "".join(match[0] for match in found) != text:
        raise FixtureError(f"path {path!r}: not readable, expected the form orders[0].id")
    return [int(match[2]) if match[2] else match[1] or match[3] for match in found]


def _get(value: Any, parts: Sequence[str | int], path: str) -> Any:
    for part in parts:
        value = _item(value, part, path)
    return value


def _set(value: Any, parts: Sequence[str | int], new: Any, path: str) -> Any:
    if not parts:
        return new
    first, *rest = parts
    if isinstance(value, dict) and isinstance(first, str) and not rest:
        return {**value, first: new}
    inner = _set(_item(value, first, path), rest, new, path)
    if isinstance(value, dict):
        return {**value, first: inner}
    return [inner if index == first else item for index, item in enumerate(value)]


def _item(value: Any, part: str | int, path: str) -> Any:
    if isinstance(value, dict) and part in value:
        return value[part]
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    has = f"fields {', '.join(map(str, value))}" if isinstance(value, dict) else f"{len(value)} items"
    here = has if isinstance(value, dict | list) else json.dumps(value, ensure_ascii=False)[:80]
    raise FixtureError(f"path {path!r}: {part!r} does not exist, found {here}")


# -- the places -----------------------------------------------------------------------------------------------------------


def _change_run(fixture: Fixture, edit: Edit) -> Fixture:
    match edit.target:
        case Target.FLAG:
            flags = {**json.loads(fixture.entry.flags or "{}"), edit.path: edit.value}
            return replace(fixture, entry=replace(fixture.entry, flags=_dump(flags)))
        case Target.CLOCK:
            return _move(fixture, _nanoseconds(str(edit.value)) - fixture.entry.start_time_unix_nano)
        case Target.COMMIT:
            changes = {genai.VCS_REVISION: str(edit.value), genai.VCS_DIRTY: "false"}
            return replace(fixture, environment={**fixture.environment, **changes})
        case _:
            return _change_input(fixture, edit)


def _nanoseconds(text: str) -> int:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise FixtureError(f"clock: found {text!r}, expected a time in ISO 8601, for example 2026-12-24T18:00:00Z") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()) * 10**9


def _move(fixture: Fixture, by_ns: int) -> Fixture:
    """Return the run moved in time by this difference."""

    def moved(step: Step) -> Step:
        exchange = step.exchange
        start_ns, end_ns = exchange.start_time_unix_nano + by_ns, exchange.end_time_unix_nano + by_ns
        return replace(step, exchange=replace(exchange, start_time_unix_nano=start_ns, end_time_unix_nano=end_ns))

    entry = fixture.entry
    start_ns, end_ns = entry.start_time_unix_nano + by_ns, entry.end_time_unix_nano + by_ns
    return replace(
        fixture,
        entry=replace(entry, start_time_unix_nano=start_ns, end_time_unix_nano=end_ns),
        steps=tuple(moved(step) for step in fixture.steps),
    )


def _change_input(fixture: Fixture, edit: Edit) -> Fixture:
    if fixture.entry.input is None:
        raise FixtureError(f"run {fixture.run_id}: the input of its entry point was not recorded")
    changed = set_at(json.loads(fixture.entry.input), edit.path, edit.value)
    return replace(fixture, entry=replace(fixture.entry, input=_dump(changed)))


def _change_step(fixture: Fixture, edit: Edit, number: int) -> Fixture:
    step = next((step for step in fixture.steps if step.number == number), None)
    if step is None:
        raise FixtureError(f"step {number}: no such step; run {fixture.run_id} has steps 1 to {len(fixture.steps)}")
    if step.inside is not None:
        raise FixtureError(
            f"step {number} ({step.exchange.name}) is inside step {step.inside}, which answers for it in a replay",
            do=f"change step {step.inside}",
        )
    exchange = _change_exchange(step, edit)
    return replace(
        fixture,
        steps=tuple(replace(item, exchange=exchange) if item.number == number else item for item in fixture.steps),
    )


def _change_exchange(step: Step, edit: Edit) -> Exchange:
    exchange = step.exchange
    of_function = not exchange.request.method
    match edit.target:
        case Target.RESULT | Target.BODY if of_function:
            return _answered(exchange, _result(exchange, edit))
        case Target.BODY:
            return _answered(exchange, _body(step, edit))
        case Target.RESPONSE if exchange.kind is Kind.MODEL:
            return _answered(exchange, _response_with_text(exchange, str(edit.value)))
        case Target.RESPONSE if not of_function:
            return _answered(
                exchange, replace(exchange.response, chunks=_chunks(exchange, str(edit.value)), headers=_plain(exchange))
            )
        case _:
            takes = "--result JSON or --set PATH=JSON" if of_function else "--response TEXT or --set PATH=JSON"
            raise FixtureError(
                f"step {step.number} is a {exchange.kind.value} call of {exchange.name}: its answer is changed with {takes}"
            )


def _answered(exchange: Exchange, response: Response) -> Exchange:
    """Return the exchange with an answer in place of any failure."""
    return replace(exchange, response=replace(response, completion=Completion.COMPLETE, omitted=None), error=None)


def _result(exchange: Exchange, edit: Edit) -> Response:
    value = edit.value
    recorded = exchange.response.body.decode()
    if edit.path:
        value = set_at(json.loads(recorded or "null"), edit.path, value)
    elif recorded.startswith('{"yields": ['):
        value = {"yields": value if isinstance(value, list) else [value], "return": None}
    return replace(exchange.response, chunks=_chunks(exchange, _dump(value)))


def _body(step: Step, edit: Edit) -> Response:
    response = step.exchange.response
    try:
        document = json.loads(decode_body(response.body, response.headers))
    except ValueError:
        raise FixtureError(
            f"step {step.number} ({step.exchange.name}): its answer is not a JSON document, so nothing in it can be set",
            do="give all of it with --response TEXT",
        ) from None
    changed = json.dumps(set_at(document, edit.path, edit.value), ensure_ascii=False, separators=(",", ":"))
    return replace(response, chunks=_chunks(step.exchange, changed), headers=_plain(step.exchange))


def _response_with_text(exchange: Exchange, text: str) -> Response:
    """Return the model's answer with another text, in the wire format and the mode (whole or streamed) of the recorded one."""
    recorded = exchange.response
    dialect = dialect_of(exchange.request, exchange.dialect)
    if dialect is None:
        raise FixtureError(
            f"{exchange.name}: found no known wire format to write its answer in", do="change it with --set PATH=JSON"
        )
    answer, form = Answer(pieces=(text,), id="forked", model="forked"), None
    failed = (recorded.status or 200) >= _FIRST_ERROR_STATUS
    if not failed:
        content_type = next((value for name, value in recorded.headers if name.lower() == "content-type"), Form.DOCUMENT.value)
        body = decode_body(recorded.body, recorded.headers)
        form = read_body(body, content_type).form
        attributes = dialect.response_attributes(body, content_type=content_type, status=recorded.status or 200)
        names = {"id": attributes.get(genai.RESPONSE_ID), "model": attributes.get(genai.RESPONSE_MODEL)}
        answer = replace(answer, **{name: str(value) for name, value in names.items() if value})
    try:
        written = dialect.write_answer(answer, exchange.request, form=form)
    except WireError as error:
        raise FixtureError(f"{exchange.name}: {error.message}", do="change it with --set PATH=JSON") from None
    return written if failed else replace(written, headers=_plain(exchange))


def _plain(exchange: Exchange) -> tuple[tuple[str, str], ...]:
    """Return the response's headers without the coding, which the new bytes do not have."""
    return tuple(pair for pair in exchange.response.headers if pair[0].lower() != "content-encoding")


def _chunks(exchange: Exchange, text: str) -> tuple[Chunk, ...]:
    chunks = exchange.response.chunks
    return (Chunk(data=text.encode(), offset_ns=chunks[0].offset_ns if chunks else 0),)


def _dump(value: Any) -> str:
    """Write tagged JSON as `values` does."""
    return json.dumps(value, ensure_ascii=False)
