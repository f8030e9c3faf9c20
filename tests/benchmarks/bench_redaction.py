"""Accuracy and speed of the redactor, beside Presidio's patterns, scrubadub and detect-secrets, in one run.

    python tests/benchmarks/bench_redaction.py [--peers DIR] [--no-peers]

Corpora: `$FREEZEFRAME_DATA/pii` where it is set (the whole labelled corpus, the presidio-research sets, a payload of GenAI
spans), else the small sample in `tests/data/pii`. Peers are installed into a virtual environment of their own (`--peers`,
default ``.bench/redaction-peers``). Speeds are CPU seconds of one core; compare the ratios, not the machine. The last line
is one JSON object.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

HERE = Path(__file__).parent
SAMPLE = HERE.parent / "data" / "pii"
KEY = TenantKey(id="bench/1", secret=b"b" * 32)
CONTEXT_CLASSES = frozenset({"DOB", "PASSPORT", "MEDID", "US_SSN"})
PRESIDIO_CLASSES = {
    "PERSON": "PERSON",
    "STREET_ADDRESS": "ADDRESS",
    "ADDRESS": "ADDRESS",
    "CREDIT_CARD": "CARD",
    "PHONE_NUMBER": "PHONE",
    "EMAIL_ADDRESS": "EMAIL",
    "IBAN_CODE": "IBAN",
    "US_SSN": "US_SSN",
    "IP_ADDRESS": "IP",
}

Gold = tuple[int, int, str]
Document = tuple[str, list[Gold]]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure with its goal; `met` is None where there is no goal."""

    name: str
    value: float | None
    unit: str
    goal: str = ""
    met: bool | None = None


def labelled(folder: Path) -> list[Document]:
    """Return the labelled corpus, or its sample."""
    path = folder / "labelled.jsonl.gz"
    path = path if path.exists() else SAMPLE / "labelled_sample.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [(row["text"], [(start, end, class_) for start, end, class_, _ in row["spans"]]) for row in rows]


def presidio_set(path: Path) -> list[Document]:
    """Return one presidio-research set, with the classes that both name."""
    documents: list[Document] = []
    for row in json.loads(path.read_text("utf-8")):
        gold = [
            (span["start_position"], span["end_position"], PRESIDIO_CLASSES[span["entity_type"]])
            for span in row["spans"]
            if span["entity_type"] in PRESIDIO_CLASSES
        ]
        documents.append((row["full_text"], gold))
    return documents


def accuracy(redactor: Redactor, documents: Sequence[Document], name: str, *, goals: bool) -> list[Row]:
    """Return recall (whole value covered), recall by any overlap, and precision of each class."""
    total, whole, touched, found, right = (Counter[str]() for _ in range(5))
    for text, gold in documents:
        findings = redactor.redact(text).findings
        covered = bytearray(len(text))
        for finding in findings:
            covered[finding.start : finding.end] = b"\1" * (finding.end - finding.start)
            found[finding.class_] += 1
            right[finding.class_] += any(finding.start < end and start < finding.end for start, end, _ in gold)
        for start, end, class_ in gold:
            total[class_] += 1
            whole[class_] += all(covered[at] for at in range(start, end) if text[at].isalnum())
            touched[class_] += any(covered[start:end])
    rows: list[Row] = []
    for class_ in sorted(total):
        recall, overlap = whole[class_] / total[class_], touched[class_] / total[class_]
        precision = right[class_] / found[class_] if found[class_] else 1.0
        low, high = _goal(class_) if goals else (0.0, 0.0)
        rows.append(Row(f"{name} {class_} recall", recall, "", f">= {low}" if low else "", recall >= low if low else None))
        rows.append(Row(f"{name} {class_} recall, any overlap", overlap, ""))
        rows.append(
            Row(f"{name} {class_} precision", precision, "", f">= {high}" if high else "", precision >= high if high else None)
        )
    return rows


def _goal(class_: str) -> tuple[float, float]:
    match class_:
        case "PERSON":
            return 0.75, 0.93
        case "ADDRESS":
            return 0.5, 0.0
        case "PHONE":
            return 0.99, 0.0
        case _ if class_ in CONTEXT_CLASSES:
            return 0.95, 0.95
        case _:
            return 0.995, 0.995


def clean_texts(limit_bytes: int = 3_000_000) -> list[str]:
    """Return code and documentation of the Python standard library, which is nobody's data."""
    texts: list[str] = []
    size = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts or "test" in path.parts or "idlelib" in path.parts:
            continue
        text = path.read_text("utf-8", errors="replace")
        texts.append(text)
        size += len(text)
        if size > limit_bytes:
            break
    return texts


def false_findings(redactor: Redactor, texts: Sequence[str]) -> list[Row]:
    """Return findings per MB on clean text; names are counted apart, as sources do name their authors."""
    counts = Counter(finding.class_ for text in texts for finding in redactor.redact(text).findings)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    people = counts.pop("PERSON", 0)
    contacts = counts.pop("EMAIL", 0)
    rest = counts.total() / megabytes
    return [
        Row("false findings, all but names and e-mails", rest, "per MB", "<= 20", rest <= 20),
        Row("findings of names in clean text (authors included)", people / megabytes, "per MB"),
        Row("findings of e-mails in clean text (authors included)", contacts / megabytes, "per MB"),
        Row(
            "false findings, all classes together",
            rest + (people + contacts) / megabytes,
            "per MB",
            "<= 20",
            rest + (people + contacts) / megabytes <= 20,
        ),
    ]


def payload(documents: Sequence[Document], clean: Sequence[str], share: float, size: int = 3_000_000) -> list[SpanRecord]:
    """Return spans of agent messages in which `share` of the bytes are values."""
    rnd = random.Random(1)
    sentences = [text[max(0, start - 30) : end + 10] for text, gold in documents for start, end, _ in gold]
    values = [end - start for _, gold in documents for start, end, _ in gold]
    mean = sum(values) / len(values)
    paragraphs = [part for text in clean for part in text.split("\n\n") if 80 < len(part) < 2000]
    spans: list[SpanRecord] = []
    made = 0
    planted = 0.0
    while made < size:
        parts: list[str] = []
        for _ in range(12):
            part = rnd.choice(paragraphs)
            made += len(part)
            while planted < made * share:
                part += "\n" + rnd.choice(sentences)
                planted += mean
            parts.append(part)
        messages = [
            {"role": rnd.choice(("user", "assistant", "tool")), "parts": [{"type": "text", "content": part}]} for part in parts
        ]
        spans.append(_span({genai.INPUT_MESSAGES: json.dumps(messages)}, len(spans)))
    return spans


def _span(attributes: dict[str, Any], number: int) -> SpanRecord:
    return SpanRecord(
        trace_id=f"{number // 20:032x}",
        span_id=f"{number:016x}",
        name="chat",
        start_time_unix_nano=0,
        end_time_unix_nano=1,
        attributes=attributes,
    )


def megabytes(spans: Iterable[SpanRecord]) -> float:
    """Return how much text the spans hold."""
    return sum(len(str(value).encode()) for span in spans for value in span.attributes.values()) / 1e6


def speed(spans: Sequence[SpanRecord], name: str, *, goals: bool) -> list[Row]:
    """Return MB/s of one core, cold and with the leaf cache warm."""
    size = megabytes(spans)
    Redactor(load_policy(), KEY).redact_span(spans[0])
    redactor = Redactor(load_policy(), KEY)
    speeds: list[float] = []
    for _ in range(2):
        started = time.process_time()
        for span in spans:
            redactor.redact_span(span)
        speeds.append(size / (time.process_time() - started))
    cold, warm = speeds
    return [
        Row(f"speed {name}, cold", cold, "MB/s", ">= 25" if goals else "", cold >= 25 if goals else None),
        Row(f"speed {name}, leaf cache", warm, "MB/s", ">= 40" if goals else "", warm >= 40 if goals else None),
    ]


def peers(folder: Path, texts: Sequence[str]) -> tuple[dict[str, float], str]:
    """Return MB/s of each peer, and why there is none where there is none."""
    python = folder / "bin" / "python"
    if not python.exists():
        uv = Path(sys.executable).with_name("uv")
        wanted = ["presidio-analyzer", "scrubadub", "detect-secrets"]
        try:
            if uv.exists():
                subprocess.run([uv, "venv", "-q", folder, "--python", sys.executable], check=True, timeout=120)
                subprocess.run([uv, "pip", "install", "-q", "--python", python, *wanted], check=True, timeout=600)
            else:
                subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
                subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True, timeout=600)
        except (subprocess.SubprocessError, OSError) as error:
            return {}, f"peers could not be installed ({type(error).__name__})"
    found: dict[str, float] = {}
    for peer in ("presidio", "scrubadub", "detect-secrets"):
        done = subprocess.run(
            [python, HERE / "redaction_peers.py", peer],
            input=json.dumps(list(texts)),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode == 0:
            found[peer] = json.loads(done.stdout.splitlines()[-1])["mb_per_s"]
    return found, "" if len(found) == 3 else "a peer failed"


def main() -> None:
    """Print the table, then the figures as one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers", type=Path, default=Path(".bench/redaction-peers"), help="virtual environment of the peers")
    parser.add_argument("--no-peers", action="store_true", help="leave the peers out")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("FREEZEFRAME_DATA", "")) / "pii" if os.environ.get("FREEZEFRAME_DATA") else SAMPLE
    redactor = Redactor(load_policy(), KEY)
    documents, clean = labelled(folder), clean_texts()
    rows = accuracy(redactor, documents, "labelled", goals=True)
    for name in ("presidio_synth_v2", "presidio_generated_large"):
        if (folder / f"{name}.json").exists():
            rows += accuracy(redactor, presidio_set(folder / f"{name}.json"), name, goals=False)
    rows += false_findings(redactor, clean)
    for share in (0.001, 0.01, 0.04):
        rows += speed(payload(documents, clean, share), f"at {share:.1%} values", goals=share == 0.01)
    if (folder / "payload_mid.jsonl.gz").exists():
        with gzip.open(folder / "payload_mid.jsonl.gz", "rt", encoding="utf-8") as file:
            spans = [_span(json.loads(line)["attrs"], number) for number, line in enumerate(file)]
        rows += speed(spans, "on the agent payload (1% values)", goals=True)
    if not arguments.no_peers:
        # The messages of the payload with 1 % of values, as texts: what a peer would get in the redactor's place.
        texts = [
            message["parts"][0]["content"]
            for span in payload(documents, clean, 0.01, 1_000_000)
            for message in json.loads(str(span.attributes[genai.INPUT_MESSAGES]))
        ]
        fresh = Redactor(load_policy(), KEY)
        started = time.process_time()
        fresh.redact_span(_span({genai.INPUT_MESSAGES: json.dumps(texts)}, 0))
        own = sum(len(text.encode()) for text in texts) / 1e6 / (time.process_time() - started)
        rows.append(Row("same texts: freezeframe", own, "MB/s"))
        measured, why = peers(arguments.peers, texts)
        for peer, value in measured.items():
            rows.append(Row(f"same texts: {peer}", value, "MB/s"))
            goal = peer == "presidio"
            rows.append(
                Row(
                    f"freezeframe against {peer}",
                    own / value,
                    "times",
                    ">= 100" if goal else "",
                    own / value >= 100 if goal else None,
                )
            )
        if why:
            print(why, file=sys.stderr)
    width = max(len(row.name) for row in rows)
    for row in rows:
        verdict = "" if row.met is None else "met" if row.met else "MISSED"
        print(f"{row.name:{width}s}  {'' if row.value is None else f'{row.value:10.3f}'} {row.unit:7s} {row.goal:9s} {verdict}")
    print(
        json.dumps(
            {
                "bench": "redaction",
                "rows": [{"name": r.name, "value": r.value, "unit": r.unit, "goal": r.goal, "met": r.met} for r in rows],
            }
        )
    )


if __name__ == "__main__":
    main()
