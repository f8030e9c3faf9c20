"""Redact whole spans: name, status, attributes, events, links and resource, and the bodies of exchanges with their chunks.

Protocol values stay as they are, because a replay needs them and the provider checks them. What cannot be read is left out and
named, never passed through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import orjson

from freezeframe_redaction import splice, walk
from freezeframe_redaction.bodies import Plan, plan_body
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import with_plain_bodies
from freezeframe_schemas.span import Attributes, AttributeValue, Event, Link, Resource, Scope, SpanRecord

if TYPE_CHECKING:
    from freezeframe_redaction.redactor import Redactor, Settled

PROTOCOL = frozenset(
    {
        genai.HTTP_REQUEST_METHOD, genai.SERVER_ADDRESS, genai.ERROR_TYPE, genai.EXCEPTION_TYPE, genai.SERVICE_NAME,
        genai.VCS_REVISION, genai.VCS_BRANCH, genai.RUNTIME_NAME, genai.RUNTIME_VERSION, genai.FLAG_KEY, genai.FLAG_VARIANT,
        genai.OPERATION_NAME, genai.PROVIDER_NAME, genai.REQUEST_MODEL, genai.REQUEST_PREVIOUS_RESPONSE_ID,
        genai.RESPONSE_ID, genai.RESPONSE_MODEL, genai.RESPONSE_FINISH_REASONS, genai.TOOL_NAME, genai.TOOL_TYPE,
        genai.TOOL_CALL_ID, genai.AGENT_ID, genai.AGENT_VERSION, genai.DATA_SOURCE_ID, genai.CONVERSATION_ID,
        genai.OPENAI_SYSTEM_FINGERPRINT, genai.MCP_METHOD, genai.MCP_SESSION_ID, genai.RUN_ID, genai.TENANT, genai.ENTRY_KIND,
        genai.ENTRY_TARGET, genai.ENTRY_RANDOM_STATE, genai.CLOCK_READINGS, genai.PACKAGES, genai.TIMEZONE,
        genai.LOCK_FILE,
        genai.LIBRARY_VERSION,
        genai.EXCHANGE_KIND, genai.EXCHANGE_SEAM, genai.EXCHANGE_DIALECT, genai.EXCHANGE_LANE, genai.REQUEST_BODY_OMITTED,
        genai.RESPONSE_BODY_OMITTED, genai.RESPONSE_CHUNK_SIZES, genai.RESPONSE_CHUNK_OFFSETS_NS, genai.RESPONSE_COMPLETION,
        genai.EMBEDDING_VERSION, genai.PROVIDER_REGION, genai.TOOL_DEFINITIONS_HASH, genai.USAGE_DETAILS,
        genai.REDACTION_POLICY, genai.REDACTION_KEY_ID, genai.REDACTION_SURROGATES, genai.NORMALISED_FROM,
    }
)  # fmt: skip
"""Attributes that name things of the protocol and hold nobody's data."""

_BODIES = (
    (genai.REQUEST_BODY, genai.REQUEST_HEADERS, genai.REQUEST_BODY_OMITTED, ""),
    (genai.RESPONSE_BODY, genai.RESPONSE_HEADERS, genai.RESPONSE_BODY_OMITTED, genai.RESPONSE_CHUNK_SIZES),
)


def redact_span(redactor: Redactor, span: SpanRecord) -> SpanRecord:
    """Return the span redacted and stamped (see `Redactor.redact_span`)."""
    span = with_plain_bodies(span)
    stamp: dict[str, AttributeValue] = {
        genai.REDACTION_POLICY: redactor.label,
        genai.REDACTION_KEY_ID: _key_ids(span, redactor.key.id),
    }
    if not redactor.policy.redacts:
        return span.with_attributes(stamp)
    work = _Work(redactor)
    bodies = [body for names in _BODIES if (body := _plan(redactor, span.attributes, *names)) is not None]
    for body in bodies:
        work.nodes.extend(body.plan.nodes)
    name, status = work.text(span.name), work.text(span.status_message)
    own = work.attributes(span.attributes, skip=(genai.REQUEST_BODY, genai.RESPONSE_BODY))
    events = [(event, work.text(event.name), work.attributes(event.attributes)) for event in span.events]
    links = [(link, work.attributes(link.attributes)) for link in span.links]
    resource = redactor.resources.get(span.resource, lambda: _redact_resource(redactor, span.resource))
    scope = work.attributes(span.scope.attributes)
    work.settle()
    made = own()
    for body in bodies:
        body.put(made)
    made.update(stamp)
    # Surrogates of an earlier pass stay listed: the span still holds them.
    made[genai.REDACTION_SURROGATES] = _merge(span, {**resource[1], **work.surrogates})
    return replace(
        span,
        name=name(),
        status_message=status(),
        attributes=made,
        events=tuple(_event(event, text(), pairs()) for event, text, pairs in events),
        links=tuple(_link(link, pairs()) for link, pairs in links),
        resource=resource[0],
        scope=_scope(span.scope, scope()),
    )


def _redact_resource(redactor: Redactor, resource: Resource) -> tuple[Resource, Mapping[str, str]]:
    work = _Work(redactor)
    pairs = work.attributes(resource.attributes)
    work.settle()
    attributes = pairs()
    return (resource if attributes == resource.attributes else replace(resource, attributes=attributes)), work.surrogates


def _event(event: Event, name: str, attributes: Attributes) -> Event:
    return replace(event, name=name, attributes=attributes)


def _link(link: Link, attributes: Attributes) -> Link:
    return replace(link, attributes=attributes) if link.attributes else link


def _scope(scope: Scope, attributes: Attributes) -> Scope:
    return scope if attributes == scope.attributes else replace(scope, attributes=attributes)


def _key_ids(span: SpanRecord, current: str) -> str:
    """Return the ids of the keys whose surrogates the span holds, oldest first, joined by commas."""
    earlier = span.text(genai.REDACTION_KEY_ID)
    return ",".join(dict.fromkeys([*(earlier.split(",") if earlier else ()), current]))


def _merge(span: SpanRecord, surrogates: Mapping[str, str]) -> str:
    merged = dict(surrogates)
    earlier = span.text(genai.REDACTION_SURROGATES)
    if earlier:
        held = orjson.loads(earlier)
        if isinstance(held, dict):
            merged = {str(k): str(v) for k, v in cast("dict[object, object]", held).items()} | merged
    return orjson.dumps(merged, option=orjson.OPT_SORT_KEYS).decode()


class _Work:
    """Everything of one span that goes through the engine together: one pass instead of one for each attribute.

    Texts that were settled before (the same tools, the same history in two spans) are recalled whole.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._texts: list[_Text] = []
        self.nodes: list[walk.Node] = []
        self.surrogates: dict[str, str] = {}

    def settle(self) -> None:
        recalled = [text for text in self._texts if text.recalled is not None]
        names: dict[str, str] = {}
        for text in recalled:
            assert text.recalled is not None
            names.update(text.recalled.names)
        names = self._redactor.settle_nodes(self.nodes, self.surrogates, names=names)
        again: list[walk.Node] = []
        for text in recalled:
            assert text.recalled is not None
            if text.recalled.is_untouched_by(names, text.text):
                self.surrogates.update(text.recalled.surrogates)
            else:
                text.node = self._redactor.plant(text.text, text.key)
                text.recalled = None
                again.append(text.node)
        if again:
            self._redactor.settle_nodes(again, self.surrogates, names=names)
        for text in self._texts:
            if text.recalled is None and text.node is not None:
                text.recalled = self._redactor.remember(text.node, text.key, names)

    def text(self, text: str, key: str = "") -> _Text:
        made = _Text(text, key)
        if len(text) > 2:
            made.recalled = self._redactor.recall(text, key)
            if made.recalled is None:
                made.node = self._redactor.plant(text, key)
                self.nodes.append(made.node)
            self._texts.append(made)
        return made

    def attributes(self, attributes: Attributes, skip: Sequence[str] = ()) -> _Pairs:
        pairs: list[tuple[str, AttributeValue | _Text]] = []
        for name, value in attributes.items():
            if name in PROTOCOL or name in skip:
                pairs.append((name, value))
            elif isinstance(value, str):
                pairs.append((name, self.text(value, name)))
            elif value is None or isinstance(value, bool | int | float):
                pairs.append((name, value))
            else:
                redacted = self._redactor.redact(value, (name,))
                self.surrogates.update(redacted.surrogates)
                pairs.append((name, redacted.value))
        return _Pairs(pairs)


class _Text:
    """A text that is known once the work is settled."""

    __slots__ = ("key", "node", "recalled", "text")

    def __init__(self, text: str, key: str) -> None:
        self.text = text
        self.key = key
        self.node: walk.Node | None = None
        self.recalled: Settled | None = None

    def __call__(self) -> str:
        if self.recalled is not None:
            return self.recalled.text
        return self.text if self.node is None else splice.render(self.node)


class _Pairs:
    __slots__ = ("_pairs",)

    def __init__(self, pairs: list[tuple[str, AttributeValue | _Text]]) -> None:
        self._pairs = pairs

    def __call__(self) -> dict[str, AttributeValue]:
        return {name: value() if isinstance(value, _Text) else value for name, value in self._pairs}


@dataclass(frozen=True, slots=True)
class _PlannedBody:
    """One body of the span, with the attributes that go with it."""

    plan: Plan
    original: str | bytes
    body_name: str
    omitted_name: str
    sizes_name: str

    def put(self, attributes: dict[str, AttributeValue]) -> None:
        """Write the finished body into the attributes."""
        outcome = self.plan.finish()
        if outcome.omitted:
            del attributes[self.body_name]
            attributes[self.omitted_name] = outcome.omitted
            if self.sizes_name in attributes:
                attributes[self.sizes_name] = ()
                attributes.pop(genai.RESPONSE_CHUNK_OFFSETS_NS, None)
        elif outcome.body is not self.original:
            attributes[self.body_name] = outcome.body
            if outcome.sizes:
                attributes[self.sizes_name] = outcome.sizes


def _plan(
    redactor: Redactor, attributes: Attributes, body_name: str, headers_name: str, omitted_name: str, sizes_name: str
) -> _PlannedBody | None:
    body = attributes.get(body_name)
    if not isinstance(body, str | bytes) or not body:
        return None
    sizes = attributes.get(sizes_name) if sizes_name else None
    borders = tuple(size for size in sizes if isinstance(size, int)) if isinstance(sizes, tuple) else ()
    headers = attributes.get(headers_name)
    plan = plan_body(redactor, body, borders, headers if isinstance(headers, str) else "")
    return _PlannedBody(plan, body, body_name, omitted_name, sizes_name)


class Resources:
    """Redacted resources by identity: spans of one batch share theirs. Holds each resource, so that its id stays its own."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[int, tuple[Resource, tuple[Resource, Mapping[str, str]]]] = {}

    def get(
        self, resource: Resource, make: Callable[[], tuple[Resource, Mapping[str, str]]]
    ) -> tuple[Resource, Mapping[str, str]]:
        """Return the redacted resource and its surrogates."""
        if not resource.attributes:
            return resource, {}
        held = self._held.get(id(resource))
        if held is not None and held[0] is resource:
            return held[1]
        made = make()
        if len(self._held) > 256:
            self._held = {}
        self._held[id(resource)] = (resource, made)
        return made
