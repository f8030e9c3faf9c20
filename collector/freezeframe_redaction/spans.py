"""Redact whole spans: name, status, attributes, events, links and resource, and the bodies of exchanges with their chunks.

Protocol values stay unchanged, because a replay needs them and the provider checks them. What cannot be read is left out and
named, never passed through.

It is long because all parts of a span go through the engine in one pass (`_Work`), with what is remembered of its texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import orjson

from freezeframe_redaction import splice, walk
from freezeframe_redaction.bodies import Plan, plan_body
from freezeframe_redaction.cast import texts_of
from freezeframe_redaction.casting import Casting
from freezeframe_redaction.deadline import NEVER, UNBOUNDED, Allowance, Deadline, OutOfTimeError
from freezeframe_redaction.histories import LEAST, Growth, Settled
from freezeframe_redaction.key_context import KeyContexts
from freezeframe_redaction.keys import TenantKey
from freezeframe_redaction.listed import surrogates_of
from freezeframe_redaction.repeats import Repeats
from freezeframe_redaction.shared import Shared
from freezeframe_redaction.texts import Texts
from freezeframe_redaction.unread import CLASS as UNREAD
from freezeframe_redaction.unread import REQUEST_TOO_SLOW, shorten, why_unread
from freezeframe_schemas import genai
from freezeframe_schemas.errors import FreezeframeError
from freezeframe_schemas.exchange import with_plain_bodies
from freezeframe_schemas.span import Attributes, AttributeValue, Resource, Scope, SpanRecord

_Item = TypeVar("_Item", SpanRecord, Resource, Scope)
_Made = tuple[_Item, Mapping[str, str]]
"""What became of something, and the surrogates in it."""

PROTOCOL: Final = frozenset(
    {
        genai.HTTP_REQUEST_METHOD, genai.SERVER_ADDRESS, genai.ERROR_TYPE, genai.EXCEPTION_TYPE, genai.SERVICE_NAME,
        genai.VCS_REVISION, genai.VCS_BRANCH, genai.RUNTIME_NAME, genai.RUNTIME_VERSION, genai.FLAG_KEY, genai.FLAG_VARIANT,
        genai.OPERATION_NAME, genai.PROVIDER_NAME, genai.REQUEST_MODEL, genai.REQUEST_PREVIOUS_RESPONSE_ID,
        genai.RESPONSE_ID, genai.RESPONSE_MODEL, genai.RESPONSE_FINISH_REASONS, genai.TOOL_NAME, genai.TOOL_TYPE,
        genai.TOOL_CALL_ID, genai.AGENT_ID, genai.AGENT_NAME, genai.AGENT_VERSION, genai.DATA_SOURCE_ID, genai.CONVERSATION_ID,
        genai.OPENAI_SYSTEM_FINGERPRINT, genai.MCP_METHOD, genai.MCP_SESSION_ID, genai.RUN_ID, genai.TENANT, genai.ENTRY_KIND,
        genai.ENTRY_TARGET, genai.ENTRY_RANDOM_STATE, genai.CLOCK_READINGS, genai.PACKAGES, genai.TIMEZONE,
        genai.LOCK_FILE,
        genai.LIBRARY_VERSION,
        genai.EXCHANGE_KIND, genai.EXCHANGE_SEAM, genai.EXCHANGE_DIALECT, genai.EXCHANGE_LANE, genai.EXCHANGE_INSIDE,
        genai.REQUEST_BODY_OMITTED,
        genai.RESPONSE_BODY_OMITTED, genai.RESPONSE_CHUNK_SIZES, genai.RESPONSE_CHUNK_OFFSETS_NS, genai.RESPONSE_COMPLETION,
        genai.EMBEDDING_VERSION, genai.PROVIDER_REGION, genai.TOOL_DEFINITIONS_HASH, genai.USAGE_DETAILS,
        genai.REDACTION_POLICY, genai.REDACTION_KEY_ID, genai.REDACTION_KEY_CHECK, genai.REDACTION_SURROGATES,
        genai.REDACTION_UNREAD, genai.NORMALISED_FROM, genai.MENDED_TEXTS,
        "agent.name", "agent_name",  # OpenInference's and Pydantic AI's; of an agent that is a program, called "Assistant"
    }
)  # fmt: skip
"""Attributes that name things of the protocol: they stay, except an e-mail, a phone number or a credential put there."""
_OWN: Final = frozenset(
    {
        genai.REDACTION_POLICY,
        genai.REDACTION_KEY_ID,
        genai.REDACTION_KEY_CHECK,
        genai.REDACTION_SURROGATES,
        genai.REDACTION_UNREAD,
    }
)
_MISPLACED: Final = frozenset({"EMAIL", "PHONE", "SECRET", "URL_CRED"})
_MAY_BE_MISPLACED: Final = re.compile(r"@|\+[0-9]")

_BODIES: Final = (
    (genai.REQUEST_BODY, genai.REQUEST_HEADERS, genai.REQUEST_BODY_OMITTED, ""),
    (genai.RESPONSE_BODY, genai.RESPONSE_HEADERS, genai.RESPONSE_BODY_OMITTED, genai.RESPONSE_CHUNK_SIZES),
)
"""Body, headers, why there is no body, sizes of its chunks."""
_LEFT_TO_READ: Final = (64 << 10, 0)
"""Characters that are still read of what took too long as a whole: two seconds' worth of the densest private data, or none."""


class SpanRedaction:
    """Redacts spans under one policy and key."""

    def __init__(self, texts: Texts, *, policy_label: str, key: TenantKey, deadline: Callable[[], Deadline]) -> None:
        """`deadline` makes a new one, for a span or for what spans share."""
        self._texts = texts
        self._deadline = deadline
        self._policy_label = policy_label
        self._key = key
        self._resources = Shared(
            lambda resource, allowance: self._in_time(resource, self._redact_resource, allowance),
            lambda resource: resource.attributes or resource.schema_url,
        )
        self._scopes = Shared(
            lambda scope, allowance: self._in_time(scope, self._redact_scope, allowance),
            lambda scope: scope.name or scope.version or scope.attributes or scope.schema_url,
        )

    def over(self, texts: Texts) -> SpanRedaction:
        """Return the same over other texts."""
        return SpanRedaction(texts, policy_label=self._policy_label, key=self._key, deadline=self._deadline)

    def stamp(self, span: SpanRecord) -> SpanRecord:
        """Return the span unchanged, with policy and key."""
        return with_plain_bodies(span).with_attributes(self._stamp(span))

    def redact(self, span: SpanRecord, allowance: Allowance = UNBOUNDED, casting: Casting | None = None) -> SpanRecord:
        """Return the span redacted and stamped (see `Redactor.redact_span`), with what the cast knows replaced."""
        reason = why_unread(allowance)
        resource, of_resource = self._resources.get(span.resource, allowance)
        scope, of_scope = self._scopes.get(span.scope, allowance)

        def redact(item: SpanRecord, deadline: Deadline) -> _Made[SpanRecord]:
            return self._redact(item, deadline, casting)

        made, surrogates = self._in_time(with_plain_bodies(span), redact, allowance)
        surrogates = {**surrogates, **of_resource, **of_scope}
        stamp = self._stamp(made)
        # Surrogates of an earlier pass stay listed: the span still holds them.
        listed = surrogates_of([made]) | surrogates
        stamp[genai.REDACTION_SURROGATES] = orjson.dumps(listed, option=orjson.OPT_SORT_KEYS).decode()
        if UNREAD in surrogates.values():
            stamp[genai.REDACTION_UNREAD] = reason
        return replace(made, attributes={**made.attributes, **stamp}, resource=resource, scope=scope)

    def _in_time(self, item: _Item, redact: Callable[[_Item, Deadline], _Made[_Item]], allowance: Allowance) -> _Made[_Item]:
        """Return the item redacted; of one that takes too long the longest texts are hashed, then all of them.

        Raises:
            FreezeframeError: even that took too long.
        """
        reason = why_unread(allowance)
        is_over = reason == REQUEST_TOO_SLOW
        if not is_over:
            with suppress(OutOfTimeError):
                return redact(item, self._deadline())
        for most in _LEFT_TO_READ[is_over:]:
            if allowance.to_hash.has_passed():
                break
            shorter, hashes = shorten(item, most, self._texts.maker.prf, _is_kept)
            with suppress(OutOfTimeError):
                made, surrogates = redact(_without_hashed_bodies(item, shorter, reason), self._deadline())
                return made, {**surrogates, **hashes}
        raise FreezeframeError(reason)

    def rewrite(self, span: SpanRecord, casting: Casting) -> SpanRecord:
        """Return a redacted span with what the cast knows replaced; the same object if that is nothing."""
        made, surrogates = self._redact(span, NEVER, casting)
        if not surrogates:
            return span
        listed = orjson.dumps({**surrogates_of([span]), **surrogates}, option=orjson.OPT_SORT_KEYS).decode()
        return made.with_attributes({genai.REDACTION_SURROGATES: listed})

    def _redact(self, span: SpanRecord, deadline: Deadline, casting: Casting | None = None) -> _Made[SpanRecord]:
        work = _Work(self._texts, deadline, span.trace_id, casting)
        keys = self._texts.keys_for(casting)
        bodies = [body for names in _BODIES if (body := _plan(keys, span.attributes, deadline, *names)) is not None]
        for body in bodies:
            work.nodes.extend(body.plan.nodes)
        texts = [work.text(body.plan.text, "", body.body_name) for body in bodies]
        name, status, state = work.text(span.name), work.text(span.status_message), work.text(span.trace_state)
        attributes = work.attributes(span.attributes, planned=[body.body_name for body in bodies])
        events = [(event, work.text(event.name), work.attributes(event.attributes)) for event in span.events]
        links = [(link, work.text(link.trace_state), work.attributes(link.attributes)) for link in span.links]
        work.settle()
        if casting is not None and _dropped(keys, self._texts.keys_for(casting), work.nodes, span):
            return self._redact(span, deadline, casting)
        work.finish()
        for body, text in zip(bodies, texts, strict=True):
            body.put(attributes, text.made)
        made = replace(
            span,
            name=name.made,
            status_message=status.made,
            attributes=attributes,
            events=tuple(replace(event, name=text.made, attributes=made) for event, text, made in events),
            trace_state=state.made,
            links=tuple(
                replace(link, trace_state=text.made, attributes=made) if made or text.made else link
                for link, text, made in links
            ),
        )
        return made, work.surrogates

    def _stamp(self, span: SpanRecord) -> dict[str, AttributeValue]:
        """Return the policy, and the ids of the keys whose surrogates the span may hold, this one last, joined by commas."""
        return {
            genai.REDACTION_POLICY: self._policy_label,
            genai.REDACTION_KEY_ID: _with_last(span.text(genai.REDACTION_KEY_ID), self._key.id),
            genai.REDACTION_KEY_CHECK: _with_last(span.text(genai.REDACTION_KEY_CHECK), self._key.check),
        }

    def _redact_resource(self, resource: Resource, deadline: Deadline) -> _Made[Resource]:
        work = _Work(self._texts, deadline)
        schema_url, attributes = work.text(resource.schema_url), work.attributes(resource.attributes)
        work.settle()
        work.finish()
        return replace(resource, attributes=attributes, schema_url=schema_url.made), work.surrogates

    def _redact_scope(self, scope: Scope, deadline: Deadline) -> _Made[Scope]:
        work = _Work(self._texts, deadline)
        name, version, url = work.text(scope.name), work.text(scope.version), work.text(scope.schema_url)
        attributes = work.attributes(scope.attributes)
        work.settle()
        work.finish()
        return replace(scope, name=name.made, version=version.made, attributes=attributes, schema_url=url.made), work.surrogates


def _dropped(before: KeyContexts, after: KeyContexts, nodes: Sequence[walk.Node], span: SpanRecord) -> bool:
    """Whether the walk may have dropped a word that is a form of what was found only later in the same span."""
    words = after.wanted - before.wanted
    raws = [*(node.raw for node in nodes), *texts_of(span)] if words else ()
    return any(f'{word}"' in raw or f"{word}\\" in raw for word in words for raw in raws)


def _is_kept(name: str, value: AttributeValue) -> bool:
    """Whether an attribute stays without being read."""
    return name in _OWN or (name in PROTOCOL and not _may_be_misplaced(value))


def _may_be_misplaced(value: AttributeValue) -> bool:
    parts = value if isinstance(value, tuple) else (value,)
    return any(isinstance(part, str) and _MAY_BE_MISPLACED.search(part) for part in parts)


def _without_hashed_bodies(item: _Item, shorter: _Item, reason: str) -> _Item:
    """Return the item with a reason in place of each body of which there is only the hash."""
    if not isinstance(item, SpanRecord):
        return shorter
    attributes = dict(shorter.attributes)
    for body, _, omitted, sizes in _BODIES:
        if attributes.get(body) != item.attributes.get(body):
            _omit(attributes, body, omitted, sizes, f"{reason}: {attributes[body]}")
    return replace(shorter, attributes=attributes)


def _omit(attributes: dict[str, AttributeValue], body: str, omitted: str, sizes: str, reason: str) -> None:
    """Put the reason in place of a body, which then has no chunks."""
    del attributes[body]
    attributes[omitted] = reason
    if sizes in attributes:
        attributes[sizes] = ()
        attributes.pop(genai.RESPONSE_CHUNK_OFFSETS_NS, None)


def _with_last(earlier: str | None, last: str) -> str:
    return ",".join([*(item for item in (earlier or "").split(",") if item and item != last), last])


class _Text:
    """A text of the span; `made` is what it becomes, once the work is settled."""

    __slots__ = ("before", "growth", "history", "key", "made", "node", "original", "text")

    def __init__(self, text: str, key: str, history: str) -> None:
        self.text = text
        self.key = key
        self.history = history
        """The name under which its run's texts that it may continue are kept; empty if it cannot continue one."""
        self.made = text
        self.node: walk.Node | None = None
        self.before: Settled | None = None
        """What the text, or the one that it continues, became earlier."""
        self.original = text
        """The text of `before`."""
        self.growth: Growth | None = None


class _Work:
    """Everything of one span that goes through the engine together: one pass instead of one per attribute.

    Texts that were settled before (the same tools, the same history in two spans) are recalled whole; of those that continue
    another text of their run only what is new is read.
    """

    def __init__(self, texts: Texts, deadline: Deadline, run: str = "", casting: Casting | None = None) -> None:
        self._redaction = texts
        self._casting = casting
        self._cast = None if casting is None else casting.cast
        self._memory = "" if casting is None or not casting.detects else casting.key
        """What texts become depends on the cast: they are remembered together with it."""
        self._keys = texts.keys_for(casting)
        self._beside: dict[str, str] = {}
        self._deadline = deadline
        self._run = run
        self._texts: list[_Text] = []
        self._places: list[tuple[dict[str, AttributeValue], str, _Text]] = []
        self._numbers: list[tuple[dict[str, AttributeValue], str, walk.Node]] = []
        self._names: list[tuple[dict[str, AttributeValue], str, _Text]] = []
        self.nodes: list[walk.Node] = []
        self.surrogates: dict[str, str] = {}

    def text(self, text: str, key: str = "", history: str = "") -> _Text:
        """Add a text, found under the key; `history` names the texts of the run that it may continue."""
        if len(text) <= 2:
            return _Text(text, key, "")
        if self._casting is not None and not self._casting.detects:
            made = _Text(text, key, "")
            made.node = walk.plant(text, self._keys, key, deadline=self._deadline)
            self.nodes.append(made.node)
            self._texts.append(made)
            return made
        made = _Text(text, key, history if len(text) >= LEAST and self._run and text[0] in "[{" else "")
        histories = self._redaction.histories
        run = self._run + self._memory
        made.before = self._redaction.recall(text, key, self._memory)
        if made.before is None and made.history:
            made.before = histories.recall(run, history, text)
        if made.before is None:
            if made.history:
                made.growth = histories.grown(run, history, text, key)
            if made.growth is None:
                made.node = walk.plant(text, self._keys, key, deadline=self._deadline)
            else:
                made.before, made.original = made.growth.before, made.growth.original
                made.node = walk.plant(made.growth.added, self._keys, made.growth.key, deadline=self._deadline)
            self.nodes.append(made.node)
        self._texts.append(made)
        return made

    def attributes(self, attributes: Attributes, planned: Sequence[str] = ()) -> dict[str, AttributeValue]:
        """Add attributes; return what they are once the work is settled. Protocol values and what is `planned` stay."""
        made = dict(attributes)
        for name, value in attributes.items():
            if not self._redaction.keys[name].plain:
                self._names.append((made, name, self.text(name)))
            if name in planned or value is None or isinstance(value, bool | float):
                continue
            if name in PROTOCOL:
                self._protocol(made, name, value)
                continue
            if isinstance(value, str):
                self._places.append((made, name, self.text(value, name, name)))
            elif isinstance(value, int):
                node = walk.plant_number(value, self._redaction.keys, name)
                if node is not None:
                    self.nodes.append(node)
                    self._numbers.append((made, name, node))
            else:
                redacted = self._redaction.redact(value, (name,), self._deadline, self._casting)
                self.surrogates.update(redacted.surrogates)
                made[name] = redacted.value
        return made

    def _protocol(self, made: dict[str, AttributeValue], name: str, value: AttributeValue) -> None:
        """Add a protocol value; most hold nothing that does not belong there."""
        if name in _OWN or not _may_be_misplaced(value):
            return
        redacted = self._redaction.redact(value, (name,), self._deadline)
        if any(finding.class_ in _MISPLACED for finding in redacted.findings):
            self.surrogates.update(redacted.surrogates)
            made[name] = redacted.value

    def settle(self) -> None:
        """Work out what every text becomes."""
        names: dict[str, str] = {}
        for text in self._texts:
            if text.before is not None:
                names.update(text.before.names)
        names = self._redaction.settle(self.nodes, self.surrogates, names=names, deadline=self._deadline, casting=self._casting)
        self._beside = names
        beside = Repeats(names)
        again: list[walk.Node] = []
        casting = self._casting
        fresh = None if casting is None or self._cast is None else casting.cast.beyond(self._cast)
        for text in self._texts:
            if text.before is None:
                continue
            knows = fresh is None or not fresh.occurs_in((text.original,))  # what is remembered knows less of the cast
            if knows and text.before.is_untouched_by(beside, text.original):
                self.surrogates.update(text.before.surrogates)
            else:
                text.before = text.growth = None
                text.node = walk.plant(text.text, self._redaction.keys_for(casting), text.key, deadline=self._deadline)
                again.append(text.node)
        if again:
            self._redaction.settle(again, self.surrogates, names=names, deadline=self._deadline, casting=casting)

    def finish(self) -> None:
        """Put what was worked out in the places of the span, and remember it."""
        casting = self._casting
        beside = Repeats(self._beside)
        memory = casting.key if casting is not None and casting.cast is not self._cast else self._memory
        for text in self._texts:
            settled = text.before
            if text.node is not None and casting is not None and not casting.detects:
                text.made = splice.render(text.node)
            elif text.node is not None:
                text.made, settled = self._redaction.finish(
                    text.node, text.text, text.key, beside, text.growth, casting=casting, memory=memory
                )
            elif settled is not None:
                text.made = settled.text
            if settled is not None and text.history:
                self._redaction.histories.keep(self._run + memory, text.history, text.text, settled, text.growth)
        for attributes, name, text in self._places:
            attributes[name] = text.made
        for attributes, name, node in self._numbers:
            attributes[name] = int(splice.render(node))
        self._rename()

    def _rename(self) -> None:
        """Put the new names of attributes in the places of the old ones, in one pass over each set of attributes."""
        renamed: dict[int, tuple[dict[str, AttributeValue], dict[str, str]]] = {}
        for attributes, name, text in self._names:
            if text.made != name:
                renamed.setdefault(id(attributes), (attributes, {}))[1][name] = text.made
        for attributes, names in renamed.values():
            held = [(names.get(name, name), value) for name, value in attributes.items()]
            attributes.clear()
            attributes.update(held)


@dataclass(frozen=True, slots=True)
class _PlannedBody:
    """One body of the span, with the attributes that go with it."""

    plan: Plan
    original: str | bytes
    body_name: str
    omitted_name: str
    sizes_name: str

    def put(self, attributes: dict[str, AttributeValue], made: str) -> None:
        """Write the finished body into the attributes; `made` is what the plan's text became."""
        outcome = self.plan.finish(made)
        if outcome.omitted:
            _omit(attributes, self.body_name, self.omitted_name, self.sizes_name, outcome.omitted)
        elif outcome.body is not self.original:
            attributes[self.body_name] = outcome.body
            if outcome.sizes:
                attributes[self.sizes_name] = outcome.sizes


def _plan(
    keys: KeyContexts,
    attributes: Attributes,
    deadline: Deadline,
    body_name: str,
    headers_name: str,
    omitted_name: str,
    sizes_name: str,
) -> _PlannedBody | None:
    body = attributes.get(body_name)
    if not isinstance(body, str | bytes) or not body:
        return None
    sizes = attributes.get(sizes_name) if sizes_name else None
    borders = tuple(size for size in sizes if isinstance(size, int)) if isinstance(sizes, tuple) else ()
    headers = attributes.get(headers_name)
    plan = plan_body(keys, body, borders, headers if isinstance(headers, str) else "", deadline)
    return _PlannedBody(plan, body, body_name, omitted_name, sizes_name)
