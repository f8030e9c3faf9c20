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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from freezeframe_schemas.errors import FixtureError, WireError
from freezeframe_schemas.exchange import RECONSTRUCTED, Exchange, format_lane, parse_lane
from freezeframe_schemas.fixture_bodies import BODY_FORMS, body_from_json, body_to_json, chunks_from_json, chunks_to_json
from freezeframe_schemas.framework import FrameworkState
from freezeframe_schemas.keys import KEY_VERSION, canonical_json
from freezeframe_schemas.records import from_json
from freezeframe_schemas.run import Entry
from freezeframe_schemas.whole_file import replace_file

FORMAT: Final = "freezeframe-fixture"
VERSION: Final = 1
MAX_JSON_BYTES: Final = 1 << 28
MAX_JSON_VALUES: Final = 10_000_000
"""In one file of a fixture. A run of 2,000 long calls has 130 MB and a twentieth of these values."""
_OF_THE_FILES: Final = ("format", "version", "key_version", "run", "steps", "digest")
"""Keys of a manifest besides the fields of a fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """Redaction of the run. `surrogates` maps each surrogate in the run to its class; originals are not stored."""

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
    """Number of equal requests that its lane had issued before it."""
    inside: int | None = None
    """Number of the step around it. A step inside another is answered by the outer one and never requested in a replay."""
    provider: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A row of the ledger: something that the spans of another instrumentation do not hold, or hold elsewhere."""

    field: str
    source: str
    """Source of the value: ``log records``, ``next request``, ``made up``; or ``absent``."""
    step: int | None = None
    """None if it concerns the run as a whole."""


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
    """Changes made in the fork, one line each."""
    ignore: tuple[str, ...] = ()
    """Key components that vary anyway and are ignored, for example ``body.temperature``."""
    states: tuple[FrameworkState, ...] = ()
    """A framework's state at its node borders, in the order of the run; empty if it was not recorded."""
    begin: tuple[FrameworkState, ...] = ()
    """The states that a replay begins with, one for each execution of a graph; empty if it begins at the start of the run."""

    ledger: tuple[Loss, ...] = ()
    """For a reconstructed run: each value that its spans lack, and its other source."""

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
        replace_file(directory / "blobs" / name, body)
    _remove_stale_blobs(directory, blobs)
    replace_file(directory / "steps.json", _pretty(steps))
    replace_file(directory / "manifest.json", _pretty(manifest))


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
    try:
        found = _digest({key: item for key, item in manifest.items() if key != "digest"}, steps)
    except (RecursionError, TypeError, ValueError) as error:
        raise FixtureError(f"{directory}: not readable, {type(error).__name__}: {error}") from None
    if found != manifest.get("digest"):
        raise FixtureError(
            f"{directory}: digest {found[:16]}..., the manifest says {str(manifest.get('digest'))[:16]}...: edited or damaged",
            do="restore the files, or write the fixture again with `freezeframe fixture`",
        )
    try:
        blobs: dict[str, bytes] = {}
        read = {name: item for name, item in manifest.items() if name not in _OF_THE_FILES}
        read |= {name: _states_from_json(read[name], directory, blobs) for name in ("states", "begin") if name in read}
        read |= {"run_id": manifest["run"], "entry": _entry_from_json(manifest["entry"])}
        return from_json(Fixture, read | {"steps": tuple(_step_from_json(item, directory, blobs) for item in steps)}, "fixture")
    except (WireError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FixtureError(f"{directory}: not readable, {type(error).__name__}: {error}") from error


# -- files --------------------------------------------------------------------------------------------------------------


def _remove_stale_blobs(directory: Path, blobs: Mapping[str, bytes]) -> None:
    for path in (directory / "blobs").glob("*"):
        if path.name not in blobs:
            path.unlink()


def _read_json(path: Path) -> Any:
    try:
        body = _read_bounded(path)
        return json.loads(body)
    except FileNotFoundError:
        raise FixtureError(
            f"{path}: not found, expected a fixture's file there",
            do="name the directory that `freezeframe fixture` wrote; runs of the store by id, files of spans as FILE.jsonl",
        ) from None
    except (ValueError, RecursionError) as error:
        raise FixtureError(f"{path}: not valid JSON: {error}") from None


def _read_bounded(path: Path) -> bytes:
    """Return the content of a file, if it fits into memory as JSON: a value of two bytes takes fifty.

    Raises:
        FixtureError: it would not.
    """
    size = path.stat().st_size
    if size <= MAX_JSON_BYTES:
        body = path.read_bytes()
        if sum(map(body.count, (b",", b"[", b"{"))) <= MAX_JSON_VALUES:
            return body
    raise FixtureError(
        f"{path}: {size:,} bytes, or more values than the steps of one run have; found too much to be read",
        do=f"expected at most {MAX_JSON_BYTES:,} bytes and {MAX_JSON_VALUES:,} values",
    )


def _pretty(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "backslashreplace")


def _digest(manifest: Mapping[str, Any], steps: list[dict[str, Any]]) -> str:
    """Return a hash chain: each step's hash covers the one before it, the first covers the manifest."""
    link = hashlib.sha256(canonical_json(manifest).encode()).hexdigest()
    for step in steps:
        link = hashlib.sha256(f"{link}{canonical_json(step)}".encode()).hexdigest()
    return link


# -- values -------------------------------------------------------------------------------------------------------------


_ENTRY_TEXTS: Final = ("input", "output", "error", "random_state", "clock_readings", "flags", "environment", "argv")


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


def _entry_from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    return {**data, **{name: body_from_json(data[name], None).decode() for name in _ENTRY_TEXTS if name in data}}


def _states_from_json(items: Iterable[Mapping[str, Any]], directory: Path, blobs: dict[str, bytes]) -> list[dict[str, Any]]:
    return [{**item, "state": body_from_json(item["state"], directory, blobs).decode()} for item in items]


_STEP_FIELDS: Final = (
    "step", "kind", "name", "inside", "seam", "dialect", "provider", "model", "lane", "key", "ordinal", "sequence", "span_id",
    "parent_span_id", "call_id", "code", "start_time_unix_nano", "end_time_unix_nano", "request", "response", "error",
)  # fmt: skip
_OF_THE_STEP: Final = ("inside", "provider", "model", "key", "ordinal")
"""All other fields belong to its exchange."""


def step_to_json(step: Step, blobs: dict[str, bytes]) -> dict[str, Any]:
    """Return a step as a fixture's file holds it; large bodies are put into `blobs`."""
    exchange = step.exchange
    request, response = exchange.request, exchange.response
    sent = {name: getattr(request, name) or None for name in ("method", "url", "headers")}
    sent |= {"omitted": request.omitted, "timeouts": None if exchange.error is None else request.timeouts}
    came: dict[str, Any] = {name: getattr(response, name) for name in ("status", "reason", "version")}
    came |= {"headers": response.headers or None, "completion": response.completion, "omitted": response.omitted}
    fields = {
        "step": step.number,
        "lane": format_lane(exchange.lane),
        "request": _without_absent(sent | {"body": body_to_json(request.body, blobs)}),
        "response": _without_absent(came | chunks_to_json(response.chunks, blobs)),
        "error": None if exchange.error is None else body_to_json(exchange.error.encode()),
        "code": None if exchange.code is None else dataclasses.asdict(exchange.code),
    }
    fields |= {name: getattr(step, name) for name in _OF_THE_STEP}
    return _without_absent({name: fields[name] if name in fields else getattr(exchange, name) for name in _STEP_FIELDS})


def _step_from_json(data: Mapping[str, Any], directory: Path, blobs: dict[str, bytes]) -> dict[str, Any]:
    exchange = {name: item for name, item in data.items() if name not in ("step", *_OF_THE_STEP)}
    for part in ("request", "response"):
        exchange[part] = {name: item for name, item in data[part].items() if name not in BODY_FORMS}
    exchange["lane"] = parse_lane(data["lane"])
    exchange["request"]["body"] = body_from_json(data["request"]["body"], directory, blobs)
    exchange["response"]["chunks"] = chunks_from_json(data["response"], directory, blobs)
    if "error" in data:
        exchange["error"] = body_from_json(data["error"], directory).decode()
    return {"number": data["step"], "exchange": exchange, **{name: data[name] for name in _OF_THE_STEP if name in data}}
