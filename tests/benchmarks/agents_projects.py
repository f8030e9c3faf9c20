"""Traffic of agents in public projects: recorded exchanges of tests, notebooks with outputs, logs of runs.

A folder has one folder for each project, named as here, its repository at the commit that `tests/data/pii/README.md` names.
The projects in `LEARNED` may be learned from and read for repairs. Those in `HELD_OUT` are for counting only.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import yaml
from name_documents import Document, texts_of

from freezeframe_redaction.leaves import tree, walk
from freezeframe_redaction.scanner import Scanner

LEARNED: Final = {
    "aider": ("tests/fixtures/chat-history.md", "aider/website/assets", "aider/website/_posts"),
    "autogen": ("python/docs/src/user-guide",),
    "crewai": ("lib/crewai/tests", "lib/crewai-tools/tests"),
    "mirascope": ("python/tests",),
    "open-deep-research": ("tests/expt_results", "src/legacy"),
    "prism": ("tests/Fixtures",),
    "promptflow": ("src/promptflow-recording/recordings", "src/promptflow-evals/tests"),
    "pydantic-ai": ("tests/cassettes", "tests/models/cassettes"),
    "ruby-openai": ("spec/fixtures/cassettes",),
    "travel-planner": ("finetuning_data", "database/train_ref_info.jsonl", "postprocess"),
    "tree-of-thought": ("logs",),
}
"""Project -> the parts of it that are traffic."""
HELD_OUT: Final = {
    "camel": ("docs/cookbooks",),
    "ellmer": ("tests/testthat/_vcr", "vignettes/_vcr"),
    "gpt-researcher": ("deep_agents/benchmark_results", "evals/hallucination_eval/results"),
    "react": ("FEVER.ipynb", "WebShop.ipynb", "alfworld.ipynb", "hotpotqa.ipynb"),
    "reflexion": ("hotpotqa_runs/root", "alfworld_runs/root", "webshop_runs"),
    "ruby-llm": ("spec/fixtures/vcr_cassettes",),
}
READ: Final = Path(__file__).parents[1] / "data" / "pii" / "findings_read.jsonl"
MAX_PROJECT_BYTES: Final = 1_000_000
"""Bytes of different leaves."""
_MAX_FILE_BYTES: Final = 4_200_000
_MAX_LEAF_CHARS: Final = 200_000
_TEXTS: Final = frozenset([".json", ".jsonl", ".ipynb", ".txt", ".md", ".csv", ".traj", ".yaml", ".yml"])


def digest(project: str, context: tuple[str, str, str]) -> str:
    """Return what identifies a finding in its place without showing it; `context` has 25 characters before and behind it."""
    return blake2b("\x1f".join((project, *context)).encode("utf-8", "replace"), digest_size=8).hexdigest()


def traffic(folder: Path, parts: tuple[str, ...]) -> Iterator[Document]:
    """Yield the documents of one project, in an order that is the same each time."""
    roots = [folder / part for part in parts]
    paths = [path for root in roots for path in ([root] if root.is_file() else sorted(root.rglob("*")))]
    paths = [path for path in paths if path.suffix in _TEXTS and path.is_file() and path.stat().st_size <= _MAX_FILE_BYTES]
    random.Random(3).shuffle(paths)
    for path in paths:
        text = path.read_bytes().decode("utf-8", "replace")
        for one in _bodies(text) if path.suffix in (".yaml", ".yml") else texts_of(path.name, text):
            yield Document(project=folder.name, text=one)


def _bodies(text: str) -> Iterator[str]:
    """Yield the bodies of a cassette's requests and responses, in the spellings of VCR in Python, Ruby and R."""
    try:
        held: Any = yaml.load(text, yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError):  # settings with tags of a program, a date that is none
        return
    calls = (held.get("interactions") or held.get("http_interactions") or ()) if isinstance(held, dict) else ()
    for call in (one for one in calls if isinstance(one, dict)):
        for side in (call.get("request") or {}, call.get("response") or {}):
            body: Any = side.get("parsed_body") or side.get("body") or side.get("content")
            if isinstance(body, dict) and "string" in body:
                body = body["string"]
            if isinstance(body, bytes):
                body = body.decode("utf-8", "replace")
            if body:
                yield body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str)


def leaves(folder: Path, parts: tuple[str, ...], scanner: Scanner, seen: set[str]) -> Iterator[tuple[str, str]]:
    """Yield different leaves of a project with their prefixes, and remember them."""
    size = 0
    for document in traffic(folder, parts):
        for leaf in tree.leaves_of(walk.parse_tree(document.text, scanner.keys)):
            text = leaf.text
            if leaf.channel is not None or leaf.is_number or not 3 <= len(text) <= _MAX_LEAF_CHARS or text in seen:
                continue
            if len(text) > 2000 and " " not in text[:1000]:
                continue
            seen.add(text)
            size += len(text.encode("utf-8", "replace"))
            if size > MAX_PROJECT_BYTES:
                return
            yield text, leaf.prefix
