"""Forget a person: find every run and file that mentions them, delete or blank them, search again, write a signed report.

Each step can be repeated: what a crash leaves is found again. The report is begun before anything is deleted.
"""

from __future__ import annotations

import datetime as dt
import gzip
import hashlib
import json
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from freezeframe_replay.local.administration import Answer, Order
from freezeframe_replay.local.home import Home
from freezeframe_replay.report.audit import public_pem
from freezeframe_replay.report.render import counted, table_text
from freezeframe_replay.sources.store import RunStore
from freezeframe_schemas import genai
from freezeframe_schemas.data_directory import KEYS, REPLAYS, VAULT, VAULT_KEYS, make_private, state_directory
from freezeframe_schemas.errors import ConfigError, FreezeframeError, PermanentStoreError
from freezeframe_schemas.keys import canonical_json
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json

if TYPE_CHECKING:
    from freezeframe_redaction.person import Person

FOLDER: Final = "forgotten"
"""The data directory's folder of reports."""
_FORMAT: Final = "freezeframe-forgotten"
_VERSION: Final = 1
_NEEDLES: Final = 200
"""Texts searched for at once."""
_MIN_VALUE: Final = 4
_MAX_FILE: Final = 256 << 20
_NOT_SEARCHED: Final = frozenset({"store", "wal", "processes", KEYS, VAULT_KEYS, FOLDER, f"{VAULT}.db"})
"""Parts of the data directory that hold nothing of the person outside the store and the vault, or only what is sealed."""
_PURPOSE: Final = b"freezeframe report"
_LISTED: Final = (
    f"lower(concat(attributes['{genai.REDACTION_SURROGATES}'],"
    f" if(mapContains(refs, '{genai.REDACTION_SURROGATES}'), templates, '')))"
)
_OF_SPAN: Final = (
    "lowerUTF8(concat(name, '\\n', user_id, '\\n', rest, '\\n', origin, '\\n', templates, '\\n',"
    " arrayStringConcat(mapValues(attributes), '\\n'), '\\n', arrayStringConcat(mapKeys(attributes), '\\n')))"
)
_IN_CLEAR: Final = (
    "SELECT DISTINCT trace_id FROM piece_rows WHERE toDate(run_hour) = {day:Date}"
    " AND multiSearchAny(lowerUTF8(body), {texts:Array(String)}) UNION DISTINCT"
    " SELECT trace_id FROM span_rows WHERE toDate(run_hour) = {day:Date}"
    f" AND multiSearchAny({_OF_SPAN}, {{texts:Array(String)}})"
)
_AS_SURROGATES: Final = (
    "SELECT DISTINCT trace_id FROM span_rows WHERE toDate(run_hour) = {day:Date}"
    f" AND multiSearchAny(replaceRegexpAll({_LISTED}, '[^a-z0-9]+', ''), {{texts:Array(String)}})"
)
_CANNOT_REACH: Final = (
    "fixtures, datasets and packs outside the data directory, as in git",
    "exports, and copies that other systems took from the store",
    "backups of the store (a restore leaves out the deleted runs), of the data directory, and of the vault",
    "spools of agents, and files of spans that agents write themselves (--file)",
    "spans that arrive after this report",
    "surrogates made with keys that are not in the folder of keys",
    "text inside images, archives and other files that are not read as text",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """A run that mentions the person."""

    run: str
    tenant: str
    started: str
    service: str
    spans: int
    mentions: dict[str, list[str]]
    """Number of the value -> its classes, or how it is mentioned."""
    is_apart: bool
    """Only the words of the name are in it, each by itself: they may be two persons'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mentions:
    """Everything that mentions the person."""

    runs: list[FoundRun]
    files: list[Path]
    """Files and folders below the data directory."""
    sealed: list[tuple[str, str]]
    """Tenant and run of the vault's originals."""
    elsewhere: list[Path]
    """Files in other folders that were to be looked at."""
    closed: str = ""
    """Reason why the vault was not opened."""

    def certain(self) -> list[FoundRun]:
        """Return the runs that mention more than the words of a name apart."""
        return [run for run in self.runs if not run.is_apart]

    def to_text(self, width: int) -> str:
        """Return what was found, one line for each run and file."""
        kinds = {"run": self.runs, "file": self.files, "sealed run": self.sealed}
        lines = [", ".join(counted(len(held), kind) for kind, held in kinds.items())]
        rows = [
            [
                run.run,
                run.started[:19],
                run.service,
                ", ".join(f"{name}: {'/'.join(how)}" for name, how in run.mentions.items()),
            ]
            for run in self.runs
        ]
        lines += [table_text(["run", "started", "service", "value: found as"], rows, cut=[3, 2], width=width)] if rows else []
        lines += [f"file  {path}" for path in self.files]
        lines += [f"elsewhere, not touched  {path}" for path in self.elsewhere]
        lines += [f"the vault was not opened: {self.closed}"] if self.closed else []
        return "\n".join(lines)


@dataclass(slots=True, kw_only=True)
class Forgetting:
    """One request to be forgotten."""

    home: Home
    store: RunStore
    give: Callable[[Order], Answer]
    values: Sequence[str]
    who: str
    why: str
    blank: bool = False
    """Runs stay, with surrogates that cannot be made again in place of hers."""
    with_apart: bool = False
    look_in: Sequence[Path] = ()
    on_run: Callable[[int, int, str], None] = lambda done, total, run: None
    person: Person = field(init=False)
    _signing_key: bytes = field(init=False)

    def __post_init__(self) -> None:
        if not self.who.strip() or not self.why.strip():
            raise ConfigError("who asks, and why, is part of the report", do="give --who NAME and --note REASON")
        if short := [value for value in self.values if len(value.strip()) < _MIN_VALUE]:
            raise ConfigError(f"{len(short)} values have fewer than {_MIN_VALUE} characters, which are in any run")
        self.person, self._signing_key = person_of(self.home, self.store, self.values)

    def find(self) -> Mentions:
        """Search the store, the vault, the data directory and the other folders; nothing is changed."""
        sealed, closed = self._sealed()
        return Mentions(
            runs=find_runs(self.store, self.person, self.on_run),
            files=sorted(set(map(self._unit, _files_with(self.person, self.home.directory, _NOT_SEARCHED)))),
            sealed=sealed,
            elsewhere=[path for folder in self.look_in for path in _files_with(self.person, folder, frozenset({".git"}))],
            closed=closed,
        )

    def forget(self, found: Mentions, directory: Path | None = None) -> tuple[dict[str, Any], Path]:
        """Delete or blank what was found, search again, and return the report and the folder with the signed files.

        Raises:
            FreezeframeError: a step failed. Repeat the order: it finds what is left.
        """
        began = dt.datetime.now(dt.UTC)
        number = uuid.uuid4().hex[:8]
        folder = directory or self.home.directory / FOLDER / f"{began:%Y%m%dT%H%M%SZ}-{number}"
        runs = found.runs if self.with_apart else found.certain()
        kept = set[str]() if self.with_apart else {run.run for run in found.runs if run.is_apart}
        sealed = [one for one in found.sealed if one[1] not in kept]
        report: dict[str, Any] = {
            "format": _FORMAT,
            "version": _VERSION,
            "id": number,
            "state": "begun",
            "who": self.who,
            "why": self.why,
            "began": began.isoformat(timespec="seconds"),
            "values": [{"number": n, "surrogates": made} for n, made in enumerate(self.person.surrogates, 1)],
            "blanked" if self.blank else "deleted": [_as_json(run) for run in runs],
            "kept_words_apart": sorted(kept),
            "vault": [list(one) for one in sealed],
            "files": [str(path.relative_to(self.home.directory)) for path in found.files],
            "elsewhere": [str(path) for path in found.elsewhere],
            "cannot_reach": [*_CANNOT_REACH, *([f"the vault: {found.closed}"] if found.closed else []), *_spools()],
        }
        self._write(report, folder)
        if not found.closed:
            forget_originals(self.home, {*sealed, *((run.tenant, run.run) for run in runs)})
        for path in found.files:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        note = f"report {number}, by {self.who}: {self.why}"
        if self.blank:
            for run in runs:
                self._blank(run.run, note)
        elif runs:
            self.give({"action": "delete", "runs": [run.run for run in runs], "note": note})
        left = self.find()
        remains = {
            "runs": [run.run for run in (left.runs if self.with_apart else left.certain())],
            "files": [str(path) for path in left.files],
            "vault": [list(one) for one in left.sealed if one[1] not in kept],
        }
        report |= {"left": remains, "state": "incomplete" if any(remains.values()) else "done"}
        report["ended"] = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        self._write(report, folder)
        return report, folder

    def _blank(self, run: str, note: str) -> None:
        spans = self.person.blanked(self.store.load_spans(run))
        make_private(self.home.directory)
        file = self.home.directory / f"blanked-{run}.json"  # if this ends midway, the run is in it
        file.touch(mode=0o600)
        file.write_text(json.dumps(spans_to_otlp_json(spans)), encoding="utf-8")
        self.give({"action": "redact", "run": run, "file": str(file), "note": note})
        file.unlink()

    def _sealed(self) -> tuple[list[tuple[str, str]], str]:
        """Return tenant and run of the originals that the vault holds of the person, and why it was not opened."""
        from freezeframe_redaction.keyring.vault_keys import vault_of

        place = vault_of(self.home.directory)
        if not place.file.is_file():
            return [], ""
        try:
            vault = place.open()
        except (FreezeframeError, OSError) as error:
            return [], str(error).splitlines()[0]
        groups = list(self.person.vault_forms())
        return sorted(
            {(tenant, run) for tenant in vault.tenants() for group in groups for run in vault.subjects_with(tenant, group)}
        ), ""

    def _unit(self, path: Path) -> Path:
        """Return what is removed with a file: its replay, its fixture, or the file alone."""
        directory = self.home.directory
        for folder in path.parents:
            if folder == directory:
                break
            if folder.parent == directory / REPLAYS or (folder / "manifest.json").exists():
                return folder
        return path

    def _write(self, report: dict[str, Any], folder: Path) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        signer = Ed25519PrivateKey.from_private_bytes(self._signing_key)
        body = canonical_json(report).encode()
        try:
            make_private(folder)
            for name, content in {
                "report.json": body,
                "report.sig": signer.sign(body),
                "public_key.pem": public_pem(signer),
            }.items():
                (folder / name).write_bytes(content)
        except OSError as error:
            raise ConfigError(f"{folder}: the report cannot be written: {error.strerror}", do="name another folder") from error


def person_of(home: Home, store: RunStore, values: Sequence[str]) -> tuple[Person, bytes]:
    """Return the person with these values, and a key to sign with.

    Her surrogates are those of every key of the data directory and of every policy of the store.

    Raises:
        ConfigError: the keys are missing, or one cannot be read.
    """
    from freezeframe_redaction import Redactor, load_or_create_keys, load_policy
    from freezeframe_redaction.person import Person
    from freezeframe_redaction.policies.policy import parse_policy

    keys = home.directory / KEYS
    if not keys.is_dir():
        raise ConfigError(
            f"{keys}: no key directory, so the person's surrogates cannot be made", do="name the data directory with --data"
        )
    ring = load_or_create_keys(keys)
    _, rows = store.sql("SELECT DISTINCT tenant, text FROM policies WHERE text != ''")
    texts = [(str(tenant), parse_policy(str(text))) for tenant, text in rows]
    redactors = [
        Redactor(policy, key, hot=True, cache_characters=0)
        for key in ring.keys
        for policy in {
            policy.hash: policy
            for policy in (load_policy(), *(one for tenant, one in texts if (tenant or "default") == key.id.rpartition("/")[0]))
            if policy.redacts
        }.values()
    ]
    secret = hashlib.blake2b(_PURPOSE, key=ring.current().secret, digest_size=32).digest()
    return Person(values, redactors), secret


def find_runs(
    store: RunStore, person: Person, on_run: Callable[[int, int, str], None] = lambda done, total, run: None
) -> list[FoundRun]:
    """Return the stored runs that mention the person, the oldest first."""
    runs = list(_candidates(store, person))
    found: list[FoundRun] = []
    for done, run in enumerate(runs, 1):
        on_run(done, len(runs), run)
        spans = store.load_spans(run)
        mentions = person.mentions(spans)
        if mentions:
            from freezeframe_redaction.person import APART

            first = min(spans, key=lambda span: span.start_time_unix_nano)
            started = dt.datetime.fromtimestamp(first.start_time_unix_nano // 10**9, dt.UTC).isoformat()
            found.append(
                FoundRun(
                    run=first.trace_id,
                    tenant=first.text(genai.TENANT) or "default",
                    started=started,
                    service=str(first.resource.attributes.get(genai.SERVICE_NAME, "")),
                    spans=len(spans),
                    mentions={str(number): sorted(how) for number, how in mentions.items()},
                    is_apart=all(how == {APART} for how in mentions.values()),
                )
            )
    return sorted(found, key=lambda run: run.started)


def _candidates(store: RunStore, person: Person) -> Iterator[str]:
    """Yield the runs that may mention the person, day by day: no statement reads more than one."""
    questions = [(_IN_CLEAR, person.forms()), (_AS_SURROGATES, person.listed())]
    _, days = store.sql("SELECT DISTINCT toDate(run_hour) AS day FROM span_rows ORDER BY day")
    for (day,) in days:
        found: set[str] = set()
        for question, texts in questions:
            for at in range(0, len(texts), _NEEDLES):
                _, rows = store.sql(question, {"day": day, "texts": texts[at : at + _NEEDLES]})
                found.update(str(row[0]) for row in rows)
        yield from sorted(found)
    _, notes = store.sql("SELECT DISTINCT trace_id, note FROM labels FINAL WHERE note != ''")
    yield from sorted({str(run) for run, note in notes if person.is_in(str(note))})


def forget_originals(home: Home, runs: set[tuple[str, str]]) -> None:
    """Destroy what the vault sealed of these runs (tenant, run), if there is a vault.

    Raises:
        PermanentStoreError: it cannot be opened.
    """
    from freezeframe_redaction.keyring.vault_keys import vault_of

    place = vault_of(home.directory)
    if not place.file.is_file() or not runs:
        return
    try:
        vault = place.open()
    except ConfigError as error:
        raise PermanentStoreError(f"the vault keeps the originals of {len(runs)} runs: {error}") from error
    for tenant, run in sorted(runs):
        vault.forget(tenant, run)


def _files_with(person: Person, directory: Path, skipped: frozenset[str]) -> Iterator[Path]:
    """Yield the files below a directory that mention the person. Compressed ones are read, links are not followed."""
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if path.name in skipped or path.is_symlink():
            continue
        if path.is_dir():
            yield from _files_with(person, path, skipped)
        elif path.stat().st_size <= _MAX_FILE and person.is_in(_text_of(path)):
            yield path


def _text_of(path: Path) -> str:
    body = path.read_bytes()
    if body[:2] == b"\x1f\x8b":
        with suppress(OSError, EOFError, zlib.error):
            body = gzip.decompress(body)
    return body.decode("utf-8", "replace")


def _as_json(run: FoundRun) -> dict[str, Any]:
    return {
        "run": run.run,
        "tenant": run.tenant,
        "started": run.started,
        "service": run.service,
        "spans": run.spans,
        "mentions": run.mentions,
    }


def _spools() -> list[str]:
    """Return that agents on this machine have spooled spans, if they have."""
    state = state_directory()
    spool = None if state is None else state / "spool"
    held = [] if spool is None or not spool.is_dir() else [path for path in spool.rglob("*") if path.is_file()]
    return [f"{counted(len(held), 'spool file')} in {spool}: send them first (freezeframe run drain)"] if held else []
