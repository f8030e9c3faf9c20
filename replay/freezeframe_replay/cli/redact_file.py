"""`freezeframe store redact-file`: redact files and pipes, show what would be redacted, and explain findings."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TextIO, cast

import orjson

from freezeframe_redaction import detectors
from freezeframe_redaction.detectors.people.evidence import NameJudgement
from freezeframe_redaction.keyring.keys import TenantKey, load_or_create_keys
from freezeframe_redaction.model import Finding
from freezeframe_redaction.policies.policy import Policy, load_policy
from freezeframe_redaction.redactor import Redactor
from freezeframe_redaction.surrogates.known import surrogates_of
from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.report.render import counted
from freezeframe_schemas.data_directory import KEYS, find_data_directory
from freezeframe_schemas.errors import ConfigError, WireError
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json, spans_to_otlp_json
from freezeframe_schemas.span import SpanRecord

_SPANS = "resourceSpans"
_REMEMBERED = 8_000_000
"""Limit of remembered leaves in characters: it bounds the memory for inputs of any length."""


COMMAND: Final = Command(
    description='A line of input is {"id": ..., "text": "..."}, {"id": ..., "value": any JSON} or OTLP/JSON, which stays '
    'OTLP/JSON. For the others, a line of output is {"id": ..., "value": ..., "findings": [{"class": "EMAIL", "start": 5, '
    '"end": 17}], "surrogates": {"u7k...": "EMAIL"}}, in the same order. Offsets are characters of the text or, in another '
    "value, of the leaf that held the finding. If a line lists its surrogates, they stay as they are.",
    examples={
        "freezeframe store redact-file < lines.jsonl": '{"id","text"} in, {"id","value","findings"} out',
        "freezeframe store redact-file --policy minimal a.jsonl b.jsonl": "several files, under another policy",
        "freezeframe store redact-file --text notes.txt": "one text instead of JSON lines",
        "freezeframe store redact-file --dry-run --json lines.jsonl": "counts only, for a script; no value shown",
        "echo 'mail jane@corp.io' | freezeframe store redact-file --text --explain": "what was found, where, by which detector",
        "freezeframe store redact-file --rotate-key --tenant acme": "the next key of a tenant",
        "freezeframe store redact-file spans.jsonl > redacted.jsonl": "what `freezeframe run --file` wrote; it still replays",
    },
    exit_codes={
        1: "a line could not be read (named on stderr; the others are done)",
        2: "wrong usage, or a file, policy or key that cannot be read",
    },
    config_error=2,
    options=(
        option("files", nargs="*", metavar="FILE", help="files to read (default, and for -: standard input)"),
        option("--policy", default="strict", help="strict (default), minimal, off, or the path of a TOML file"),
        option("--tenant", default="default", help="whose key to use (default: default)"),
        option(
            "--keys",
            type=Path,
            default=None,
            metavar="DIR",
            help="directory of the keys (default: that of the local data directory, if there is one)",
        ),
        flag("--text", "read each file as one text, and write the redacted text"),
        flag("--dry-run", "write only counts of findings by class and detector, no text"),
        flag(
            "--explain",
            "show for each finding which detector and row of rules found it, and for names what the learned evidence says",
        ),
        flag("--json", "with --dry-run or --list-keys: write JSON, for a script"),
        flag("--list-keys", "list the keys, without their secrets"),
        flag("--rotate-key", "start the tenant's next key; existing surrogates stay as they are"),
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Redact the files, or show or rotate the keys."""
    if arguments.list_keys or arguments.rotate_key:
        return _keys(arguments)
    policy = load_policy(arguments.policy)
    return _run(arguments, Redactor(policy, _key(arguments.keys, arguments.tenant), cache_characters=_REMEMBERED))


def _key(directory: Path | None, tenant: str) -> TenantKey:
    if directory is None:
        local = find_data_directory() / KEYS
        if not local.is_dir():
            print(
                "freezeframe store redact-file: no key found, using an ephemeral one: surrogates will differ in the next run"
                " (--keys DIR keeps one)",
                file=sys.stderr,
            )
            return TenantKey.generate()
        directory = local
    key = load_or_create_keys(directory).current(tenant)
    print(f"freezeframe store redact-file: using key {key.id} of {directory}", file=sys.stderr)
    return key


def _keys(arguments: argparse.Namespace) -> int:
    directory, tenant = arguments.keys or find_data_directory() / KEYS, arguments.tenant
    if not directory.is_dir() and not (arguments.rotate_key and arguments.keys):
        raise ConfigError(f"{directory}: no key directory", do="name it with --keys DIR, or start the collector once")
    ring = load_or_create_keys(directory)
    if arguments.rotate_key:
        was = ring.current(tenant)
        ring = ring.rotate(tenant)
        print(
            f"freezeframe store redact-file: {ring.current(tenant).id} takes over from {was.id}; restart the collector",
            file=sys.stderr,
        )
    current = {ring.current(key.id.rpartition("/")[0]).id for key in ring.keys}
    if arguments.json:
        print(json.dumps([{"id": key.id, "current": key.id in current} for key in ring.keys]))
        return 0
    for key in ring.keys:
        print(f"{key.id}  {'current' if key.id in current else 'kept for existing surrogates'}")
    return 0


def _run(arguments: argparse.Namespace, redactor: Redactor) -> int:
    tally = _Tally()
    files = cast("list[str]", arguments.files) or ["-"]
    status = 0
    with Progress("redacting", quiet=sys.stdout.isatty() and not arguments.dry_run) as progress:
        for name in files:
            with _open(name) as stream:
                if arguments.text:
                    _text(stream.read(), redactor, arguments, tally)
                    continue
                for number, line in enumerate(stream, 1):
                    if line.strip() and (fault := _fault(line, redactor, arguments, tally)):
                        progress.note(f"freezeframe store redact-file: {name}:{number}: {fault}")
                        status = 1
                    progress.say(f"{counted(tally.inputs, 'line')}, {tally.characters / 1e6:,.1f} million characters")
    if arguments.dry_run:
        tally.print(redactor.policy, as_json=arguments.json)
    if redactor.collisions:
        print(
            f"freezeframe store redact-file: {redactor.collisions} values share a surrogate with others: short codes have few",
            file=sys.stderr,
        )
    return status


def _open(name: str) -> TextIO:
    if name == "-":
        # The caller's `with` does not close the descriptor, which does not matter: the process ends then.
        return open(sys.stdin.fileno(), encoding="utf-8", errors="surrogateescape", closefd=False)
    try:
        return open(name, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read ({error.strerror})") from None


def _text(text: str, redactor: Redactor, arguments: argparse.Namespace, tally: _Tally) -> None:
    result = redactor.redact(text)
    tally.add(result.findings, len(text))
    if arguments.explain:
        for line in (*_explain(text, result.findings), *_opinions(redactor, text)):
            print(line)
    elif not arguments.dry_run:
        sys.stdout.write(str(result.value).encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _fault(line: str, redactor: Redactor, arguments: argparse.Namespace, tally: _Tally) -> str:
    """Redact one line; return why it could not be read, or nothing."""
    try:
        _redact(line, redactor, arguments, tally)
    except RecursionError:
        return "the JSON is nested too deeply\n  do: redact it as plain text with --text"
    except WireError as error:
        return str(error)
    return ""


def _redact(line: str, redactor: Redactor, arguments: argparse.Namespace, tally: _Tally) -> None:
    record = _record(line)
    if _SPANS in record:
        spans = [redactor.redact_span(span) for span in spans_from_otlp_json(record)]
        tally.add_spans(spans, len(line))
        if not arguments.dry_run:
            sys.stdout.write(_dump(spans_to_otlp_json(spans)) + "\n")
        return
    value = record["text"] if "text" in record else record["value"]
    listed = record.get("surrogates") or {}
    if not isinstance(listed, dict):
        raise WireError("surrogates: expected a JSON object")
    known = {str(surrogate): str(class_) for surrogate, class_ in cast("dict[str, Any]", listed).items()}
    result = (redactor.with_known_surrogates(known) if known else redactor).redact(value)
    tally.add(result.findings, len(line))
    if arguments.dry_run:
        return
    findings: list[dict[str, Any]] = [{"class": f.class_, "start": f.start, "end": f.end} for f in result.findings]
    if arguments.explain:
        for shown, finding in zip(findings, result.findings, strict=True):
            shown["detector"] = finding.detector
            shown["looks_for"] = _looks_for(finding.detector)
            shown["row"] = _row(finding.detector)
    made = {
        "id": record.get("id"),
        "value": result.value,
        "findings": findings,
        "surrogates": {**known, **result.surrogates},
    }
    if arguments.explain and isinstance(value, str):
        made["names"] = [_opinion(name, one) for name, one in redactor.name_judgements(value)]
    sys.stdout.write(_dump(made) + "\n")


def _record(line: str) -> dict[str, Any]:
    try:
        record: Any = orjson.loads(line.encode("utf-8", "surrogateescape"))
    except orjson.JSONDecodeError:
        # The standard parser accepts lone surrogates and huge numbers, which orjson refuses.
        try:
            record = json.loads(line)
        except ValueError:
            raise WireError("not valid JSON", do="give one JSON object per line, or --text for plain text") from None
    if not isinstance(record, dict) or not record.keys() & {"text", "value", _SPANS}:
        raise WireError("expected one of the keys `text`, `value` and `resourceSpans`", do='write {"id": 1, "text": "..."}')
    return cast("dict[str, Any]", record)


def _dump(made: dict[str, Any]) -> str:
    try:
        return orjson.dumps(made).decode()
    except TypeError:
        # Lone surrogates, and numbers beyond 64 bits.
        return json.dumps(made)


def _explain(text: str, findings: Iterable[Finding]) -> Iterator[str]:
    """Yield one line for each finding in the user's text: place, class, and reason."""
    for finding in findings:
        line = text.count("\n", 0, finding.start) + 1
        column = finding.start - (text.rfind("\n", 0, finding.start) + 1) + 1
        value = text[finding.start : finding.end]
        yield f"{line}:{column}  {finding.class_}  {value!r}  by {finding.detector}: {_looks_for(finding.detector)}"
        if row := _row(finding.detector):
            yield f"  {row}"


def _opinions(redactor: Redactor, text: str) -> Iterator[str]:
    """Yield, for each name that the learned evidence judges, its judgement, and each feature with its weight below."""
    for name, one in redactor.name_judgements(text):
        says = "a name" if one.is_name else "not a name, kept as it is"
        yield f"{name!r}  {says}: evidence {one.score:+.2f}, a name from {one.least:+.2f} on, by {one.item[1]}"
        yield f"  {one.bias:+.2f}  every name"
        for feature, weight in _by_weight(one):
            yield f"  {weight:+.2f}  {feature}"


def _opinion(name: str, one: NameJudgement) -> dict[str, Any]:
    decided = [["every name", round(one.bias, 2)], *([feature, round(weight, 2)] for feature, weight in _by_weight(one))]
    score = {"score": round(one.score, 2), "least": one.least, "is_name": one.is_name}
    return {"text": name, "detector": one.item[1], **score, "evidence": decided}


def _by_weight(one: NameJudgement) -> list[tuple[str, float]]:
    return sorted(one.features.items(), key=lambda item: (-abs(item[1]), item[0]))


def _row(detector: str) -> str:
    return next((entry.row for entry in detectors.ALL if entry.name == detector), "")


def _looks_for(detector: str) -> str:
    found = next((entry for entry in detectors.ALL if entry.name == detector), None)
    if found is None:
        return "a class of the policy"
    example = found.examples[0]
    return f"like {example.value!r} in {example.text!r}"


class _Tally:
    def __init__(self) -> None:
        self.classes: Counter[tuple[str, str]] = Counter()
        self.inputs = 0
        self.characters = 0

    def add(self, findings: Sequence[Finding], characters: int) -> None:
        self.inputs += 1
        self.characters += characters
        self.classes.update((finding.class_, finding.detector) for finding in findings)

    def add_spans(self, spans: Iterable[SpanRecord], characters: int) -> None:
        """Count the replaced values of each class, each once per span, whichever detector found it."""
        self.inputs += 1
        self.characters += characters
        for span in spans:
            self.classes.update((class_, "in spans") for class_ in surrogates_of([span]).values())

    def print(self, policy: Policy, *, as_json: bool) -> None:
        if as_json:
            found = [
                {"class": class_, "detector": name, "count": count} for (class_, name), count in sorted(self.classes.items())
            ]
            counts = {"inputs": self.inputs, "characters": self.characters, "findings": found}
            print(json.dumps({"policy": policy.label, **counts}))
            return
        print(f"policy {policy.label}: {self.inputs} inputs, {self.characters} characters, {self.classes.total()} findings")
        for (class_, detector), count in sorted(self.classes.items(), key=lambda item: (-item[1], item[0])):
            print(f"  {count:8d}  {class_:16s} {detector}")
