"""Run -> Fixture. Pure: the content of a run is put in the order and under the keys that a replay needs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.exchange import Exchange, Lane, Request
from freezeframe_schemas.fixture import Fixture, Redaction, Step
from freezeframe_schemas.framework import state_from_span
from freezeframe_schemas.gaps import EFFECTS, NOT_COMPARED, Gap
from freezeframe_schemas.keys import RequestKey, request_key
from freezeframe_schemas.run import Run
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.wire import find_dialect_of

if TYPE_CHECKING:
    from freezeframe_redaction import Policy

ENVIRONMENT: Final = (
    genai.VCS_REVISION,
    genai.VCS_BRANCH,
    genai.VCS_DIRTY,
    genai.VCS_REPOSITORY,
    genai.RUNTIME_NAME,
    genai.RUNTIME_VERSION,
    genai.PACKAGES,
    genai.TIMEZONE,
    genai.LOCK_FILE,
    genai.LIBRARY_VERSION,
    genai.SERVICE_NAME,
)
"""Resource attributes that a fixture keeps."""

Alias = Callable[[str], str]


def freeze(run: Run, *, is_keyed: bool = True) -> Fixture:
    """Return the run as a fixture. Exchanges nested in another are kept, marked with the step that answers for them.

    A run of another instrumentation is reconstructed.

    Args:
        run: the run.
        is_keyed: give each step the key of its request. A replay computes its own keys and does not need these.

    Raises:
        RunError: such a run lacks a request or an answer of its model.
    """
    if not run.exchanges:
        from freezeframe_replay.engine.reconstruct import answerable, can_be_reconstructed, reconstruct

        if can_be_reconstructed(run):
            made = answerable(reconstruct(run, _redaction(run.spans)))
            return replace(made, steps=keyed_anew(made))
    redaction = _redaction(run.spans)
    alias = make_alias(redaction) if is_keyed else None
    numbers = {exchange.span_id: number for number, exchange in enumerate(run.exchanges, 1)}
    by_span = {span.span_id: span for span in run.spans}
    issued: Counter[tuple[Lane, str]] = Counter()
    steps: list[Step] = []
    for exchange in run.exchanges:
        if run.entry.unfinished and _inside_a_call_without_an_end(by_span[exchange.span_id], by_span):
            continue
        key = "" if alias is None else exchange_key(exchange, alias=alias).digest
        outer = run.enclosing.get(exchange.span_id)
        span = by_span[exchange.span_id]
        steps.append(
            Step(
                number=numbers[exchange.span_id],
                exchange=exchange,
                key=key,
                ordinal=issued[exchange.lane, key],
                inside=None if outer is None else numbers[outer],
                provider=span.text(genai.PROVIDER_NAME),
                model=span.text(genai.REQUEST_MODEL),
            )
        )
        if outer is None:
            issued[exchange.lane, key] += 1
    entry_span = by_span.get(run.entry.span_id, run.spans[0])
    resource = entry_span.resource.attributes
    return Fixture(
        run_id=run.trace_id,
        entry=run.entry,
        steps=tuple(steps),
        environment={name: _as_text(resource[name]) for name in ENVIRONMENT if name in resource},
        redaction=redaction,
        gaps=(*map(str, run.gaps), *_effects(run.gaps)),
        states=tuple(sorted(filter(None, map(state_from_span, run.spans)), key=lambda state: state.sequence)),
        created_by=f"freezeframe {resource.get(genai.LIBRARY_VERSION, '')}".strip(),
    )


def _effects(gaps: Iterable[Gap]) -> dict[str, None]:
    """Return the run's effects outside its steps, as gaps that the verdict names."""
    return dict.fromkeys(NOT_COMPARED + EFFECTS[gap.kind] for gap in gaps if gap.kind in EFFECTS)


def _inside_a_call_without_an_end(span: SpanRecord, by_span: Mapping[str, SpanRecord]) -> bool:
    """Return whether the call around this one was in progress when the run ended: a replay never gets inside it."""
    outer = span.text(genai.EXCHANGE_INSIDE)
    return outer is not None and outer not in by_span


def exchange_key(exchange: Exchange, *, alias: Alias = str, ignore: tuple[str, ...] = ()) -> RequestKey:
    """Return the key of a recorded exchange, with the fields that its wire dialect knows to be transient left out."""
    return request_key(
        exchange.kind,
        exchange.name,
        exchange.request,
        transient=transient_fields(exchange.request),
        ignore=ignore,
        alias=alias,
    )


def keyed_anew(fixture: Fixture) -> tuple[Step, ...]:
    """Return the steps with the keys that this version computes for their requests.

    The keys in a fixture are those of the version that wrote it. They also depend on a version's reading of a
    body (an upload, a compressed one), so they are never compared with others.
    """
    alias = make_alias(fixture.redaction)
    return tuple(replace(step, key=exchange_key(step.exchange, alias=alias).digest) for step in fixture.steps)


def transient_fields(request: Request) -> frozenset[str]:
    """Return the body fields that never change the answer, by the wire dialect of the request."""
    match = find_dialect_of(request) if request.method else None
    return match.dialect.transient_fields if match is not None else frozenset()


def make_alias(redaction: Redaction) -> Alias:
    """Return a function that makes texts of different keys comparable: each private value as its class and place."""
    if not redaction.policy:
        return str
    from freezeframe_redaction import Aliaser

    return Aliaser(policy_of(redaction), redaction.surrogates).alias


def policy_of(redaction: Redaction) -> Policy:
    """Return the policy under which a run was redacted; the default if it is one of the collector's own."""
    from freezeframe_redaction import load_policy

    try:
        return load_policy(redaction.policy.partition("@")[0])
    except ConfigError:
        return load_policy()


def _redaction(spans: tuple[SpanRecord, ...]) -> Redaction:
    policy = key_id = ""
    checks: set[str] = set()
    surrogates: dict[str, str] = {}
    for span in spans:
        policy = policy or span.text(genai.REDACTION_POLICY) or ""
        key_id = key_id or span.text(genai.REDACTION_KEY_ID) or ""
        if span.text(genai.REDACTION_POLICY):
            checks.add(span.text(genai.REDACTION_KEY_CHECK) or "")
        surrogates.update(json.loads(span.text(genai.REDACTION_SURROGATES) or "{}"))
    check = checks.pop() if len(checks) == 1 else ""
    return Redaction(
        policy=policy,
        key_id=key_id,
        key_check="" if "," in check else check,
        surrogates=dict(sorted(surrogates.items())),
    )


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
