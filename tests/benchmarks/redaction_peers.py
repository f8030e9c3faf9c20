"""One peer of the redaction benchmark, run in a virtual environment of its own: reads texts, prints its speed as JSON.

python redaction_peers.py presidio|scrubadub|detect-secrets < texts.json
"""

# The peers carry no types, and this file runs where freezeframe is not installed.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable


def presidio() -> Callable[[str], int]:
    """Presidio's pattern recognisers, without a language model."""
    from presidio_analyzer import RecognizerRegistry
    from presidio_analyzer.nlp_engine import NlpArtifacts

    registry = RecognizerRegistry()
    registry.load_predefined_recognizers(languages=["en"])
    patterns = [one for one in registry.recognizers if hasattr(one, "patterns")]
    nothing = NlpArtifacts(entities=[], tokens=[], tokens_indices=[], lemmas=[], nlp_engine=None, language="en")  # type: ignore[arg-type]
    return lambda text: sum(len(one.analyze(text, one.supported_entities, nothing) or ()) for one in patterns)


def scrubadub() -> Callable[[str], int]:
    """scrubadub with its default detectors."""
    import scrubadub as tool

    scrubber = tool.Scrubber()
    return lambda text: sum(1 for _ in scrubber.iter_filth(text))


def detect_secrets() -> Callable[[str], int]:
    """detect-secrets with all its plugins, over one file."""
    from detect_secrets import SecretsCollection
    from detect_secrets.settings import default_settings

    def scan(text: str) -> int:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file, default_settings():
            file.write(text)
            file.flush()
            found = SecretsCollection()
            found.scan_file(file.name)
            return sum(len(entries) for entries in found.data.values())

    return scan


PEERS = {"presidio": presidio, "scrubadub": scrubadub, "detect-secrets": detect_secrets}


def main() -> None:
    """Time the peer over the texts."""
    logging.disable(logging.CRITICAL)
    texts: list[str] = json.load(sys.stdin)
    run = PEERS[sys.argv[1]]()
    run(texts[0])
    started = time.process_time()
    found, done = 0, 0
    for text in texts:
        found += run(text)
        done += len(text.encode())
        if time.process_time() - started > 20:
            break
    seconds = time.process_time() - started
    print(json.dumps({"mb_per_s": done / 1e6 / seconds, "findings": found, "bytes": done}))


if __name__ == "__main__":
    main()
