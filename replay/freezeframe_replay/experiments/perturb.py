"""Perturb: small changes of a recorded run, each its own fixture. Pure, and the same for the same seed.

The changes are those that the world may make by itself: another spelling of the question, another result of a
tool, other cuts of a stream, another order of two concurrent answers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import zip_longest
from typing import Any, Final, TypeVar

from freezeframe_replay.experiments.fork import Edit, Target, fork
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Chunk, Completion, Exchange
from freezeframe_schemas.fixture import Fixture, Step
from freezeframe_schemas.keys import canonical_json, digest

_T = TypeVar("_T")

_MIN_WORD_LENGTH: Final = 4
_MAX_STREAM: Final = 400
"""The largest number of pieces that a stream is cut into."""


class Aim(StrEnum):
    PROMPT = "prompt"
    """A text of the entry point's input."""
    RESULT = "result"
    """The result of a tool or retriever, or a failure in its place."""
    CHUNKS = "chunks"
    """The borders of a response's chunks; the bytes stay."""
    ORDER = "order"
    """The order of two concurrent answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation:
    """One changed run."""

    aim: Aim
    text: str
    """The change, in one line."""
    fixture: Fixture
    step: int | None = None


_Make = Callable[[], Perturbation]


def perturbations(fixture: Fixture, *, seed: int, aims: Sequence[Aim] = tuple(Aim)) -> Iterator[Perturbation]:
    """Yield changed runs, all distinct, one of each aim in turn, in an order that the seed decides."""
    rng = random.Random(f"{fixture.run_id}:{seed}")  # noqa: S311 - reproducible on purpose
    makers = {Aim.PROMPT: _prompts, Aim.RESULT: _results, Aim.CHUNKS: _chunks, Aim.ORDER: _orders}
    queues: list[list[_Make]] = []
    for aim in aims:
        queue = list(makers[aim](fixture, rng))
        rng.shuffle(queue)
        queues.append(queue)
    for made in zip_longest(*queues):
        yield from (make() for make in made if make is not None)


def _distinct(recorded: _T, changes: Iterable[tuple[str, _T]]) -> Iterator[tuple[str, _T]]:
    """Yield the changes that change something, each once: lower-casing small letters changes nothing."""
    seen = [recorded]
    for said, changed in changes:
        if changed not in seen:
            seen.append(changed)
            yield said, changed


# -- prompts --------------------------------------------------------------------------------------------------------------


def _prompts(fixture: Fixture, rng: random.Random) -> Iterator[_Make]:
    if fixture.entry.input is None:
        return
    recorded = json.loads(fixture.entry.input)
    for path, text in _texts(recorded, ""):
        if any(map(str.isspace, text)):  # a name or an id is not a prompt
            for said, changed in _distinct(text, _typed_otherwise(text, rng)):
                edit = Edit(target=Target.INPUT, path=path, value=changed)
                yield _forked(fixture, edit, Aim.PROMPT, f"{path}: {said}")


def _typed_otherwise(text: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "a space before it", f" {text}"
    yield "all in lower case", text.lower()
    yield "without its last character", text[:-1]
    yield "with 'Please.' after it", f"{text} Please."
    words = text.split(" ")
    long_words = [index for index, word in enumerate(words) if len(word) >= _MIN_WORD_LENGTH and word.isalpha()]
    if long_words:
        index = rng.choice(long_words)
        word = words[index]
        at = rng.randrange(1, len(word) - 1)
        typo = word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]
        yield f"{word!r} typed {typo!r}", " ".join([*words[:index], typo, *words[index + 1 :]])


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of a JSON value with their paths; tagged values are left alone."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")
    elif isinstance(value, dict) and values.TAG not in value:
        for key, item in value.items():
            yield from _texts(item, f"{path}.{key}" if path else key)


# -- results --------------------------------------------------------------------------------------------------------------


def _results(fixture: Fixture, rng: random.Random) -> Iterator[_Make]:
    for step in fixture.askable:
        exchange = step.exchange
        if exchange.request.method or exchange.response.completion is not Completion.COMPLETE:
            continue
        result = json.loads(exchange.response.body or b"null")
        for said, changed in _distinct(result, _changed_arguments(result, rng)):
            edit = Edit(target=Target.RESULT, step=step.number, value=changed)
            yield _forked(fixture, edit, Aim.RESULT, f"{exchange.name}: {said}")
        yield _failing(fixture, step)


def _changed_arguments(result: Any, rng: random.Random) -> Iterator[tuple[str, Any]]:
    if isinstance(result, list) and result:
        yield "an empty list", []
        if len(result) > 1:
            yield "the list in reverse", result[::-1]
            at = rng.randrange(len(result))
            yield f"the list without item {at}", [item for index, item in enumerate(result) if index != at]
    elif isinstance(result, dict) and values.TAG not in result and "yields" not in result and result:
        name = rng.choice(sorted(result))
        yield f"the object without {name!r}", {key: item for key, item in result.items() if key != name}
        yield f"null for {name!r}", {**result, name: None}
    elif isinstance(result, str) and result:
        yield "an empty text", ""
        yield "the text cut in the middle", result[: len(result) // 2]
    elif isinstance(result, int | float) and not isinstance(result, bool):
        yield "one more", result + 1
        yield "zero", 0
    if result is not None:
        yield "nothing (null)", None


def _failing(fixture: Fixture, step: Step) -> _Make:
    def make() -> Perturbation:
        error = values.encode_exception(TimeoutError("no answer in time"))
        response = replace(step.exchange.response, chunks=(), completion=Completion.NONE)
        text = f"{step.exchange.name}: fails with TimeoutError"
        exchange = replace(step.exchange, response=response, error=error)
        changed = _with_exchanges(fixture, {step.number: exchange}, f"step {step.number} {text}")
        return Perturbation(aim=Aim.RESULT, step=step.number, text=text, fixture=changed)

    return make


# -- chunks and order -----------------------------------------------------------------------------------------------------


def _chunks(fixture: Fixture, rng: random.Random) -> Iterator[_Make]:
    for step in fixture.askable:
        response, body = step.exchange.response, step.exchange.response.body
        if not step.exchange.request.method or len(response.chunks) < 2:
            continue  # a body that arrived whole is read whole
        size = max(1, len(body) // _MAX_STREAM)
        borders = sorted(rng.sample(range(1, len(body)), min(len(response.chunks), len(body) - 1)))
        otherwise = (
            ("all in one", [body]),
            (f"cut every {size} bytes", [body[at : at + size] for at in range(0, len(body), size)]),
            ("cut elsewhere", [body[i:j] for i, j in zip([0, *borders], [*borders, len(body)], strict=True)]),
        )
        for said, pieces in _distinct([chunk.data for chunk in response.chunks], otherwise):
            yield _rechunked(fixture, step, pieces, said)


def _rechunked(fixture: Fixture, step: Step, pieces: Sequence[bytes], said: str) -> _Make:
    def make() -> Perturbation:
        offset_ns = step.exchange.response.chunks[0].offset_ns
        chunks = tuple(Chunk(data=piece, offset_ns=offset_ns) for piece in pieces)
        exchange = replace(step.exchange, response=replace(step.exchange.response, chunks=chunks))
        text = f"step {step.number} chunks: {said}"
        return Perturbation(
            aim=Aim.CHUNKS,
            step=step.number,
            text=f"{step.exchange.name}: {said}",
            fixture=_with_exchanges(fixture, {step.number: exchange}, text),
        )

    return make


def _orders(fixture: Fixture, rng: random.Random) -> Iterator[_Make]:
    del rng
    steps = fixture.askable
    for index, one in enumerate(steps):
        for other in steps[index + 1 :]:
            if one.exchange.lane != other.exchange.lane and _overlap(one.exchange, other.exchange):
                yield _swapped(fixture, one, other)


def _overlap(one: Exchange, other: Exchange) -> bool:
    latest_start = max(one.start_time_unix_nano, other.start_time_unix_nano)
    return latest_start < min(one.end_time_unix_nano, other.end_time_unix_nano)


def _swapped(fixture: Fixture, one: Step, other: Step) -> _Make:
    """Swap the arrival times of two concurrent answers."""

    def make() -> Perturbation:
        text = f"the answers of steps {one.number} and {other.number} come in the opposite order"
        changed = {step.number: _come_as(step.exchange, twin.exchange) for step, twin in ((one, other), (other, one))}
        return Perturbation(aim=Aim.ORDER, step=one.number, text=text, fixture=_with_exchanges(fixture, changed, text))

    return make


def _come_as(exchange: Exchange, twin: Exchange) -> Exchange:
    end_ns = twin.end_time_unix_nano
    offset_ns = max(0, end_ns - exchange.start_time_unix_nano)
    chunks = tuple(replace(chunk, offset_ns=offset_ns) for chunk in exchange.response.chunks)
    return replace(exchange, end_time_unix_nano=end_ns, response=replace(exchange.response, chunks=chunks))


# -- fixtures -------------------------------------------------------------------------------------------------------------


def _forked(fixture: Fixture, edit: Edit, aim: Aim, text: str) -> _Make:
    return lambda: Perturbation(aim=aim, step=edit.step, text=text, fixture=fork(fixture, [edit]))


def _with_exchanges(fixture: Fixture, changed: dict[int, Exchange], text: str) -> Fixture:
    return replace(
        fixture,
        run_id=digest(canonical_json([fixture.run_id, text])),
        forked_from=fixture.run_id,
        edits=(*fixture.edits, text),
        steps=tuple(replace(step, exchange=changed[step.number]) if step.number in changed else step for step in fixture.steps),
    )
