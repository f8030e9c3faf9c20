"""Fixture format v1: a run as files that a person can read and diff, with its reader next to its writer.

::

    manifest.json      format, version, run, entry point, environment, redaction, digest over the steps
    steps.json         one object per step, in the order of issue
    blobs/<sha256>     bodies over 64 KiB, raw

The bytes of every body are restored exactly; a body is written as JSON only if dumping it again gives the same bytes.
Loading runs no code, checks the version, every blob and the digest. Described in ``docs/fixture-format.md``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from freezeframe_schemas.errors import FixtureError, WireError
from freezeframe_schemas.exchange import (
    RECONSTRUCTED,
    Completion,
    Exchange,
    Headers,
    Kind,
    Request,
    Response,
    format_lane,
    load_timeouts,
    parse_lane,
)
from freezeframe_schemas.fixture_bodies import (
    body_from_json,
    body_to_json,
    chunks_from_json,
    chunks_to_json,
)
from freezeframe_schemas.framework import FrameworkState
from freezeframe_schemas.keys import KEY_VERSION, canonical_json
from freezeframe_schemas.records import from_json
from freezeframe_schemas.run import Entry

FORMAT: Final = "freezeframe-fixture"
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """How the run was redacted. `surrogates` maps each surrogate in the run to its class; originals are not stored."""

    policy: str = ""
    key_id: str = ""
    key_check: str = ""
    """Distinguishes the key from another one with the same id; empty if unknown, or if several keys were used."""
    surrogates: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One recorded exchange with its place in the run."""

    number: int
    """From 1, in the order of issue."""
    exchange: Exchange
    key: str
    """Digest of the request key (`keys.request_key`)."""
    ordinal: int
    """How many equal requests its lane had issued before it."""
    inside: int | None = None
    """Number of the step around it. A step inside another is answered by the outer one and never requested in a replay."""
    provider: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A row of the ledger: something that the spans of another instrumentation do not hold, or hold elsewhere."""

    field: str
    source: str
    """Where the value comes from: ``log records``, ``next request``, ``made up``; or ``absent``."""
    step: int | None = None
    """None if it is of the run as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """A run, ready to be re-enacted."""

    run_id: str
    entry: Entry
    steps: tuple[Step, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Commit, dirty mark, Python, packages, time zone, SDK version: resource attribute -> text."""
    redaction: Redaction = field(default_factory=Redaction)
    gaps: tuple[str, ...] = ()
    created_by: str = ""
    forked_from: str = ""
    """Id of the run that this one was forked from; empty for a recorded one."""
    edits: tuple[str, ...] = ()
    """What was changed in the fork, one line each."""
    ignore: tuple[str, ...] = ()
    """Key components that vary anyway and do not decide, for example ``body.temperature``."""
    states: tuple[FrameworkState, ...] = ()
    """What a framework held at its node borders, in the order of the run; empty if it was not recorded."""
    begin: tuple[FrameworkState, ...] = ()
    """The states that a replay begins with, one for each execution of a graph; empty if it begins at the start of the run."""

    ledger: tuple[Loss, ...] = ()
    """For a reconstructed run: what its spans do not hold, and where the value was taken from instead."""

    @property
    def reconstructed(self) -> bool:
        """Return whether the steps hold meaning in place of bytes, since another instrumentation recorded them."""
        return any(step.exchange.seam == RECONSTRUCTED for step in self.steps)

    @property
    def askable(self) -> tuple[Step, ...]:
        """Return the steps that a replay asks for: those that are not inside another step."""
        return tuple(step for step in self.steps if step.inside is None)


def write_fixture(fixture: Fixture, directory: Path) -> None:
    """Write the fixture to `directory` (created if needed). An existing fixture is replaced; other files stay.

    The manifest is written last, so a directory holds a whole fixture or none.
    """
    directory.mkdir(parents=True, exist_ok=True)
    blobs: dict[str, bytes] = {}
    steps = [step_to_json(step, blobs) for step in fixture.steps]
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "key_version": KEY_VERSION,
        "created_by": fixture.created_by,
        "run": fixture.run_id,
        "entry": _entry_to_json(fixture.entry),
        "environment": dict(fixture.environment),
        "redaction": {
            "policy": fixture.redaction.policy,
            "key_id": fixture.redaction.key_id,
            **({"key_check": fixture.redaction.key_check} if fixture.redaction.key_check else {}),
            "surrogates": dict(fixture.redaction.surrogates),
        },
        "gaps": list(fixture.gaps),
        "steps": len(steps),
    }
    optional: dict[str, Any] = {
        "forked_from": fixture.forked_from,
        "edits": list(fixture.edits),
        "ignore": list(fixture.ignore),
        "ledger": [_without_absent(dataclasses.asdict(loss)) for loss in fixture.ledger],
    }
    for name, states in (("states", fixture.states), ("begin", fixture.begin)):
        optional[name] = [{**dataclasses.asdict(state), "state": body_to_json(state.state.encode(), blobs)} for state in states]
    manifest.update({name: value for name, value in optional.items() if value})
    manifest["digest"] = _digest(manifest, steps)
    (directory / "manifest.json").unlink(missing_ok=True)
    if blobs:
        (directory / "blobs").mkdir(exist_ok=True)
    for name, body in blobs.items():
        _replace(directory / "blobs" / name, body)
    _remove_stale_blobs(directory, blobs)
    _replace(directory / "steps.json", _pretty(steps))
    _replace(directory / "manifest.json", _pretty(manifest))


def load_fixture(directory: Path) -> Fixture:
    """Return the fixture in `directory`.

    Raises:
        FixtureError: no fixture, an unknown version, a damaged file, or a digest that does not match.
    """
    manifest: Any = _read_json(directory / "manifest.json")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FixtureError(f"{directory / 'manifest.json'}: not a freezeframe fixture")
    if manifest.get("version") != VERSION:
        raise FixtureError(
            f"{directory}: fixture format version {manifest.get('version')}, this library reads version {VERSION}",
            do="install the version of freezeframe that wrote it, or write the fixture again from its run",
        )
    steps: list[dict[str, Any]] = _read_json(directory / "steps.json")
    found = _digest({key: item for key, item in manifest.items() if key != "digest"}, steps)
    if found != manifest.get("digest"):
        raise FixtureError(
            f"{directory}: digest {found[:16]}..., the manifest says {str(manifest.get('digest'))[:16]}...: edited or damaged",
            do="restore the files, or write the fixture again with `freezeframe fixture`",
        )
    try:
        return Fixture(
            run_id=manifest["run"],
            entry=_entry_from_json(manifest["entry"]),
            steps=tuple(_step_from_json(item, directory) for item in steps),
            environment=manifest["environment"],
            redaction=Redaction(**manifest["redaction"]),
            gaps=tuple(manifest["gaps"]),
            created_by=manifest["created_by"],
            forked_from=manifest.get("forked_from", ""),
            edits=tuple(manifest.get("edits", ())),
            ignore=tuple(manifest.get("ignore", ())),
            ledger=tuple(Loss(**row) for row in manifest.get("ledger", ())),
            states=_states_from_json(manifest.get("states", ()), directory),
            begin=_states_from_json(manifest.get("begin", ()), directory),
        )
    except (WireError, KeyError, TypeError, ValueError) as error:
        raise FixtureError(f"{directory}: not readable, {type(error).__name__}: {error}") from error


# -- files --------------------------------------------------------------------------------------------------------------


def _replace(path: Path, body: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(body)
    os.replace(partial, path)


def _remove_stale_blobs(directory: Path, blobs: Mapping[str, bytes]) -> None:
    for path in (directory / "blobs").glob("*"):
        if path.name not in blobs:
            path.unlink()


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FixtureError(
            f"{path}: not found, expected a fixture's file there",
            do="name the directory that `freezeframe fixture` wrote; runs of the store by id, files of spans as FILE.jsonl",
        ) from None
    except ValueError as error:
        raise FixtureError(f"{path}: not valid JSON: {error}") from None


def _pretty(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "backslashreplace")


def _digest(manifest: Mapping[str, Any], steps: list[dict[str, Any]]) -> str:
    """Return a hash chain: each step's hash covers the one before it, the first covers the manifest."""
    link = hashlib.sha256(canonical_json(manifest).encode()).hexdigest()
    for step in steps:
        link = hashlib.sha256(f"{link}{canonical_json(step)}".encode()).hexdigest()
    return link


# -- values -------------------------------------------------------------------------------------------------------------


_ENTRY_TEXTS: Final = ("input", "output", "error", "random_state", "clock_readings", "flags", "environment")


def _without_absent(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in row.items() if item is not None}


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    data = _without_absent(dataclasses.asdict(entry))
    if not entry.unfinished:
        del data["unfinished"]
    for name in _ENTRY_TEXTS:
        if name in data:
            # A random state is about 600 numbers: one line of text, not one line each.
            data[name] = {"text": data[name]} if name == "random_state" else body_to_json(data[name].encode())
    return data


def _entry_from_json(data: Mapping[str, Any]) -> Entry:
    fields = dict(data)
    for name in _ENTRY_TEXTS:
        if name in fields:
            fields[name] = body_from_json(fields[name], None).decode()
    return from_json(Entry, fields, "entry")


def _states_from_json(items: Iterable[Mapping[str, Any]], directory: Path) -> tuple[FrameworkState, ...]:
    return tuple(
        from_json(FrameworkState, {**item, "state": body_from_json(item["state"], directory).decode()}, "state")
        for item in items
    )


def step_to_json(step: Step, blobs: dict[str, bytes]) -> dict[str, Any]:
    """Return a step as a fixture's file holds it; large bodies are put into `blobs`."""
    exchange, request, response = step.exchange, step.exchange.request, step.exchange.response
    data: dict[str, Any] = {
        "step": step.number,
        "kind": exchange.kind.value,
        "name": exchange.name,
        "inside": step.inside,
        "seam": exchange.seam,
        "dialect": exchange.dialect,
        "provider": step.provider,
        "model": step.model,
        "lane": format_lane(exchange.lane),
        "key": step.key,
        "ordinal": step.ordinal,
        "sequence": exchange.sequence,
        "span_id": exchange.span_id,
        "parent_span_id": exchange.parent_span_id,
        "call_id": exchange.call_id,
        "start_time_unix_nano": exchange.start_time_unix_nano,
        "end_time_unix_nano": exchange.end_time_unix_nano,
        "request": {
            "method": request.method or None,
            "url": request.url or None,
            "headers": [list(pair) for pair in request.headers] or None,
            "omitted": request.omitted,
            "timeouts": None
            if exchange.error is None or request.timeouts is None
            else [list(pair) for pair in request.timeouts],
            "body": body_to_json(request.body, blobs),
        },
        "response": {
            "status": response.status,
            "reason": response.reason,
            "version": response.version,
            "headers": [list(pair) for pair in response.headers] or None,
            "completion": response.completion.value,
            "omitted": response.omitted,
            **chunks_to_json(response.chunks, blobs),
        },
        "error": None if exchange.error is None else body_to_json(exchange.error.encode()),
    }
    return _without_none(data)


def _without_none(value: Any) -> Any:
    """Drop absent fields of the step and of its request and response; bodies are left unchanged."""
    kept = {key: item for key, item in value.items() if item is not None}
    for part in ("request", "response"):
        kept[part] = {key: item for key, item in kept[part].items() if item is not None}
    return kept


def _step_from_json(data: Mapping[str, Any], directory: Path) -> Step:
    request, response = data["request"], data["response"]
    error = data.get("error")
    exchange = Exchange(
        kind=Kind(data["kind"]),
        name=data["name"],
        seam=data["seam"],
        dialect=data.get("dialect"),
        lane=parse_lane(data["lane"]),
        sequence=data["sequence"],
        span_id=data["span_id"],
        parent_span_id=data["parent_span_id"],
        call_id=data.get("call_id"),
        start_time_unix_nano=data["start_time_unix_nano"],
        end_time_unix_nano=data["end_time_unix_nano"],
        request=Request(
            method=request.get("method", ""),
            url=request.get("url", ""),
            headers=_headers(request),
            omitted=request.get("omitted"),
            timeouts=load_timeouts(request.get("timeouts")),
            body=body_from_json(request["body"], directory),
        ),
        response=Response(
            status=response.get("status"),
            reason=response.get("reason"),
            version=response.get("version"),
            headers=_headers(response),
            completion=Completion(response["completion"]),
            omitted=response.get("omitted"),
            chunks=chunks_from_json(response, directory),
        ),
        error=None if error is None else body_from_json(error, directory).decode(),
    )
    return Step(
        number=data["step"],
        exchange=exchange,
        key=data["key"],
        ordinal=data["ordinal"],
        inside=data.get("inside"),
        provider=data.get("provider"),
        model=data.get("model"),
    )


def _headers(part: Mapping[str, Any]) -> Headers:
    return tuple((str(name), str(text)) for name, text in part.get("headers") or ())
