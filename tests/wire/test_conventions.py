"""Names, types and members of attributes, checked against the registry of the GenAI conventions."""

from __future__ import annotations

import gzip
import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import opentelemetry.semconv._incubating.attributes as incubating
import opentelemetry.semconv.attributes as stable
import pytest
from recorded_exchanges import Recorded

from freezeframe_schemas import genai
from freezeframe_schemas.otlp.decode import decode_traces
from freezeframe_schemas.wire import find_dialect, generic

DATA: Final = Path(__file__).parents[1] / "data"
RUNS: Final = DATA / "demo_runs" / "streamed.traces.pb.gz"
REGISTRY: Final[Mapping[str, Any]] = json.loads((DATA / "semconv_genai" / "attributes.json").read_text())
TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "int": int,
    "double": float,
    "string[]": (tuple, list),
    "any": str,
}
NEWER: Final = frozenset(
    {
        genai.REQUEST_PREVIOUS_RESPONSE_ID,
        genai.REQUEST_REASONING_LEVEL,
        genai.USAGE_CACHE_WRITE_TOKENS,
        genai.PROMPT_VERSION,
    }
)
"""Names that only the conventions' own repository has; the package and the copied registry are older."""


def _registered(*packages: ModuleType) -> Iterator[str]:
    for package in packages:
        for module in pkgutil.iter_modules(package.__path__):
            names = vars(importlib.import_module(f"{package.__name__}.{module.name}"))
            yield from (value for name, value in names.items() if name.isupper() and isinstance(value, str))


@pytest.mark.long
def test_each_standard_name_that_is_written_is_registered(exchanges: Sequence[Recorded]) -> None:
    """Of the attributes of recorded exchanges and of two recorded runs; those of freezeframe are its own."""
    registered = {*_registered(incubating, stable), *NEWER}
    written = {name for _, name, _ in _written(exchanges) if not name.startswith("freezeframe.")}
    assert len(written) > 30
    assert written - registered == set()


@pytest.mark.long
def test_each_value_has_the_registered_type_and_is_a_registered_member(exchanges: Sequence[Recorded]) -> None:
    """But for the operation of a request that is none of the conventions' operations, and for that of a run."""
    seen: set[str] = set()
    for source, name, value in _written(exchanges):
        expected = REGISTRY.get(name)
        if expected is None:
            continue
        seen.add(name)
        if isinstance(expected, list):
            assert value in {*expected, generic.OPERATION, genai.OP_INVOKE_WORKFLOW}, (source, name, value)
        else:
            assert isinstance(value, TYPES[expected]) and not isinstance(value, bool), (source, name, value)
    assert len(seen) > 20


def _written(exchanges: Sequence[Recorded]) -> Iterator[tuple[str, str, Any]]:
    """Yield where an attribute was written, its name and its value."""
    for row in exchanges:
        match = find_dialect(row.method, row.url)
        assert match is not None
        answer = match.dialect.response_attributes(row.response, content_type=row.content_type, status=row.status)
        for name, value in {**match.dialect.request_attributes(row.request), **answer}.items():
            yield row.id, name, value
    for span in decode_traces(gzip.decompress(RUNS.read_bytes())).spans:
        for name, value in span.attributes.items():
            yield span.name, name, value
