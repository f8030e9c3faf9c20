"""Refuse to pass on runs that were never redacted, unless the user insists."""

from __future__ import annotations

from collections.abc import Iterable

from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.span import SpanRecord


def is_bare(fixture: Fixture) -> bool:
    """Return whether the run is unredacted."""
    return not fixture.redaction.policy


def policies_of(spans: Iterable[SpanRecord]) -> set[str]:
    """Return the policies that the spans went through; empty stands for none."""
    return {span.text(genai.REDACTION_POLICY) or "" for span in spans}


def refuse_bare(run_id: str, policies: Iterable[str], *, made: str, anyway: str) -> None:
    """Refuse to pass on a run with parts that went through no policy, or through one that redacts nothing.

    Args:
        run_id: the run's id.
        policies: the policies that its parts went through.
        made: the intended output.
        anyway: the option that allows it all the same.

    Raises:
        ConfigError: it is such a run.
    """
    if any(policy.partition("@")[0] in ("", "off") for policy in policies):
        raise ConfigError(
            f"run {run_id}: it was never redacted, and {made} is meant to be passed on",
            do=f"freezeframe store redact-file FILE > redacted.jsonl, and name that one; or {anyway}",
        )
