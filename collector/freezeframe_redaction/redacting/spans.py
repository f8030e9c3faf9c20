"""Redact whole spans: name, status, attributes, events, links and resource, and the bodies of exchanges with their chunks.

Protocol values stay unchanged, because a replay needs them and the provider checks them. Content that cannot be
read is left out and named, never passed through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import orjson

from freezeframe_redaction.casts.book import NOTHING
from freezeframe_redaction.casts.casting import Casting
from freezeframe_redaction.deadline import NEVER, UNBOUNDED, Allowance, Deadline, OutOfTimeError
from freezeframe_redaction.keyring.keys import TenantKey
from freezeframe_redaction.leaves import tree
from freezeframe_redaction.leaves.bodies import Plan, plan_body
from freezeframe_redaction.leaves.key_context import KeyContexts
from freezeframe_redaction.leaves.unread import CLASS as UNREAD
from freezeframe_redaction.leaves.unread import REQUEST_TOO_SLOW, shorten, why_unread
from freezeframe_redaction.policies.plugins import DetectorFailedError
from freezeframe_redaction.redacting.texts import Texts
from freezeframe_redaction.redacting.work import Work, is_kept
from freezeframe_redaction.surrogates.known import surrogates_of
from freezeframe_schemas import genai
from freezeframe_schemas.errors import FreezeframeError
from freezeframe_schemas.exchange import with_plain_bodies
from freezeframe_schemas.span import Attributes, AttributeValue, Resource, Scope, SpanRecord

_Item = TypeVar("_Item", SpanRecord, Resource, Scope)
_Shared = TypeVar("_Shared", Resource, Scope)
_Made = tuple[_Item, Mapping[str, str]]
"""A redacted item, and the surrogates in it."""

_BODIES: Final = (
    (genai.REQUEST_BODY, genai.REQUEST_HEADERS, genai.REQUEST_BODY_OMITTED, ""),
    (genai.RESPONSE_BODY, genai.RESPONSE_HEADERS, genai.RESPONSE_BODY_OMITTED, genai.RESPONSE_CHUNK_SIZES),
)
"""Body, headers, reason for a missing body, sizes of its chunks."""
_OF_SHARED: Final = ("name", "version", "schema_url")
"""The texts of a scope besides its attributes; a resource has only the last one."""
_MAX_SHARED: Final = 256
_LEFT_TO_READ: Final = (64 << 10, 0)
"""Characters still read of an item that took too long as a whole: two seconds' worth of the densest private data, or none."""


class SpanRedaction:
    """Redacts spans under one policy and key."""

    def __init__(
        self,
        texts: Texts,
        *,
        policy_label: str,
        key: TenantKey,
        deadline: Callable[[], Deadline],
        on_failure: Callable[[DetectorFailedError], None],
    ) -> None:
        """`deadline` makes a new one, for a span or for items that spans share.

        `on_failure` is called for each span that a detector behind HTTP did not read.
        """
        self._on_failure = on_failure
        self._texts = texts
        self._deadline = deadline
        self._policy_label = policy_label
        self._key = key
        self._resources: dict[int, tuple[Resource, _Made[Resource]]] = {}
        self._scopes: dict[int, tuple[Scope, _Made[Scope]]] = {}

    def over(self, texts: Texts) -> SpanRedaction:
        """Return the same redaction with these texts."""
        if texts is self._texts:
            return self
        return SpanRedaction(
            texts, policy_label=self._policy_label, key=self._key, deadline=self._deadline, on_failure=self._on_failure
        )

    def stamp(self, span: SpanRecord) -> SpanRecord:
        """Return the span unchanged, with policy and key."""
        return with_plain_bodies(span.with_attributes(self._stamp(span)))

    def redact(self, span: SpanRecord, allowance: Allowance = UNBOUNDED, casting: Casting | None = None) -> SpanRecord:
        """Return the span redacted and stamped (see `Redactor.redact_span`), with the values of the cast replaced."""
        try:
            return self._read(span, allowance, casting)
        except DetectorFailedError as failed:
            self._on_failure(failed)
            without = self.over(self._texts.without(failed))
            return without.redact(span, allowance, casting) if failed.keeps else without._unread(span, allowance, failed)

    def _unread(self, span: SpanRecord, allowance: Allowance, failed: DetectorFailedError) -> SpanRecord:
        """Return the span with a keyed hash in place of each text."""
        prf = self._texts.maker.prf
        resource, of_resource = shorten(span.resource, 0, prf, is_kept)
        scope, of_scope = shorten(span.scope, 0, prf, is_kept)
        plain = with_plain_bodies(span)
        shorter, hashes = shorten(plain, 0, prf, is_kept)
        hashed = replace(_without_hashed_bodies(plain, shorter, failed.message), resource=resource, scope=scope)
        made = self._read(hashed, allowance, None)  # hashes hold no forms
        listed = surrogates_of([made]) | hashes | of_resource | of_scope
        text = orjson.dumps(listed, option=orjson.OPT_SORT_KEYS).decode()
        return made.with_attributes({genai.REDACTION_SURROGATES: text, genai.REDACTION_UNREAD: failed.message})

    def _read(self, span: SpanRecord, allowance: Allowance, casting: Casting | None) -> SpanRecord:
        listed = surrogates_of([span])  # of an earlier pass: the span still holds them
        if (with_known_surrogates := self.over(self._texts.with_known_surrogates(listed))) is not self:
            return with_known_surrogates._read(span, allowance, casting)
        reason = why_unread(allowance)
        resource, of_resource = self._once(span.resource, self._resources, allowance)
        scope, of_scope = self._once(span.scope, self._scopes, allowance)

        def redact(item: SpanRecord, deadline: Deadline) -> _Made[SpanRecord]:
            item = item if resource is span.resource and scope is span.scope else replace(item, resource=resource, scope=scope)
            return self._redact(item, deadline, None if reason == REQUEST_TOO_SLOW else casting)  # hashes hold no forms

        made, surrogates = self._in_time(with_plain_bodies(span), redact, allowance)
        surrogates = {**surrogates, **of_resource, **of_scope}
        stamp = self._stamp(made)
        stamp[genai.REDACTION_SURROGATES] = orjson.dumps(listed | surrogates, option=orjson.OPT_SORT_KEYS).decode()
        if UNREAD in surrogates.values():
            stamp[genai.REDACTION_UNREAD] = reason
        return made.with_attributes(stamp)

    def _in_time(self, item: _Item, redact: Callable[[_Item, Deadline], _Made[_Item]], allowance: Allowance) -> _Made[_Item]:
        """Return the redacted item; if it takes too long, its longest texts are hashed, then all of them.

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
            shorter, hashes = shorten(item, most, self._texts.maker.prf, is_kept)
            with suppress(OutOfTimeError):
                made, surrogates = redact(_without_hashed_bodies(item, shorter, reason), self._deadline())
                return made, {**surrogates, **hashes}
        raise FreezeframeError(reason)

    def rewrite(self, span: SpanRecord, casting: Casting) -> SpanRecord:
        """Return a redacted span with the values of the cast replaced; the same object without replacements."""
        listed = surrogates_of([span])
        reader = self.over(self._texts.with_known_surrogates(listed))
        try:
            made, surrogates = reader._redact(span, NEVER, casting)
        except DetectorFailedError as failed:
            return self.over(self._texts.without(failed)).rewrite(span, casting)
        if not surrogates:
            return span
        text = orjson.dumps({**listed, **surrogates}, option=orjson.OPT_SORT_KEYS).decode()
        return made.with_attributes({genai.REDACTION_SURROGATES: text})

    def _redact(self, span: SpanRecord, deadline: Deadline, casting: Casting | None = None) -> _Made[SpanRecord]:
        work = Work(self._texts, deadline, span.trace_id, casting)
        cast = NOTHING if casting is None else casting.cast
        keys = self._texts.keys_for(casting)
        bodies = [body for names in _BODIES if (body := _plan(keys, span.attributes, deadline, work.shared, *names))]
        for body in bodies:
            work.nodes.extend(body.plan.nodes)
        texts = [work.text(body.plan.text, "", body.body_name) for body in bodies]
        name, status, state = work.text(span.name), work.text(span.status_message), work.text(span.trace_state)
        attributes = work.attributes(span.attributes, planned=[body.body_name for body in bodies])
        events = [(event, work.text(event.name), work.attributes(event.attributes)) for event in span.events]
        links = [(link, work.text(link.trace_state), work.attributes(link.attributes)) for link in span.links]
        work.settle()
        if casting is not None and (work.learnt_late or work.missed(cast)):
            return self._redact(span, deadline, casting)
        work.finish()
        for body, text in zip(bodies, texts, strict=True):
            body.put(attributes, text.made)
        is_as_named = attributes.keys() == span.attributes.keys() and all(one.made == one.text for one in (name, status, state))
        if is_as_named and not (events or links):
            return span.with_attributes(attributes), work.surrogates  # most spans: no other field is made again
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

    def _once(self, item: _Shared, held: dict[int, tuple[_Shared, _Made[_Shared]]], allowance: Allowance) -> _Made[_Shared]:
        """Return an object that spans share, redacted once. The original is held, too, so that its id is not reused."""
        if not (item.attributes or any(getattr(item, name, "") for name in _OF_SHARED)):
            return item, {}
        known = held.get(id(item))
        if known is not None and known[0] is item:
            return known[1]
        is_unread = allowance.to_read.has_passed()
        made = self._in_time(item, self._redact_shared, allowance)
        if not is_unread:  # what is unread is not for other requests
            if len(held) > _MAX_SHARED:
                held.clear()
            held[id(item)] = item, made
        return made

    def _redact_shared(self, item: _Shared, deadline: Deadline) -> _Made[_Shared]:
        work = Work(self._texts, deadline)
        texts = {name: work.text(getattr(item, name)) for name in _OF_SHARED if hasattr(item, name)}
        attributes = work.attributes(item.attributes)
        work.settle()
        work.finish()
        changed: dict[str, Any] = {name: text.made for name, text in texts.items()}
        made = replace(item, attributes=attributes, **changed)
        return item if made == item else made, work.surrogates


def _without_hashed_bodies(item: _Item, shorter: _Item, reason: str) -> _Item:
    """Return the item with a reason in place of each body that was hashed."""
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


@dataclass(frozen=True, slots=True)
class _PlannedBody:
    """One body of the span, with the attributes that go with it."""

    plan: Plan
    original: str | bytes
    body_name: str
    omitted_name: str
    sizes_name: str

    def put(self, attributes: dict[str, AttributeValue], made: str) -> None:
        """Write the finished body into the attributes; `made` is the redacted text of the plan."""
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
    shared: tree.SharedLeaves,
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
    plan = plan_body(keys, body, borders, headers if isinstance(headers, str) else "", deadline, shared)
    return _PlannedBody(plan, body, body_name, omitted_name, sizes_name)
