"""The one door: every value that is stored or matched goes through `Redactor`, a pure function of value, key path, policy, key.

The redactor never logs, and its errors never hold a value.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

import orjson

from freezeframe_redaction.casts.book import NOTHING, Cast, Member, texts_of
from freezeframe_redaction.casts.casting import Casting, Indexes
from freezeframe_redaction.deadline import UNBOUNDED, Allowance, Deadline
from freezeframe_redaction.detectors.people.evidence import NameJudgement
from freezeframe_redaction.keyring.keys import TenantKey
from freezeframe_redaction.maker import Maker
from freezeframe_redaction.model import Redacted
from freezeframe_redaction.policies.actions import SURROGATE, Actions, SpanPlace
from freezeframe_redaction.policies.plugins import DetectorFailedError
from freezeframe_redaction.policies.policy import Policy
from freezeframe_redaction.prf import Prf
from freezeframe_redaction.redacting import histories
from freezeframe_redaction.redacting.spans import SpanRedaction
from freezeframe_redaction.redacting.texts import Texts
from freezeframe_redaction.redacting.work import OWN
from freezeframe_redaction.scanner import Scanner
from freezeframe_redaction.surrogates.known import surrogates_of
from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, SpanRecord

_WITH_BODY: Final[Mapping[str, Sequence[str]]] = {
    genai.REQUEST_BODY: (genai.REQUEST_HEADERS,),
    genai.RESPONSE_BODY: (genai.RESPONSE_HEADERS, genai.RESPONSE_CHUNK_SIZES, genai.RESPONSE_CHUNK_OFFSETS_NS),
}
_EMPTY: Final = SpanRecord(trace_id="", span_id="", name="", start_time_unix_nano=0, end_time_unix_nano=0)


class Redactor:
    """Replaces every finding by its surrogate. Immutable after construction, and safe to share between threads."""

    def __init__(
        self,
        policy: Policy,
        key: TenantKey,
        *,
        surrogates: Mapping[str, str] = {},
        cache_characters: int = 32_000_000,
        hot: bool = False,
        keep_originals: bool = False,
        span_cpu_s: float = math.inf,
        cpu_clock: Callable[[], float] = time.thread_time,
        on_failure: Callable[[DetectorFailedError], None] = lambda failed: None,
    ) -> None:
        """Build the redactor.

        `hot` leaves out the model tier that the policy may ask for: for a path that must be fast, and whose spans go through a
        redactor with it before they are stored.

        `surrogates` are known ones (those that a fixture or a span lists): they are recognised wherever they appear and left
        alone. Only this list identifies a number or an identifier as a surrogate.
        `cache_characters` bounds the leaves that are remembered (agents send their whole history with every turn).
        `keep_originals` remembers the originals of surrogates, for `originals_of` and a vault.
        `span_cpu_s` bounds the CPU time for a span, by `cpu_clock`: see `redact_span`.
        `on_failure` is called for each span that a detector behind HTTP did not read.
        """
        self.policy = policy
        self._deadline = lambda: Deadline(span_cpu_s, cpu_clock)
        self._settings = key, hot, keep_originals, cache_characters
        self._on_failure = on_failure
        self._act(policy.actions_at(SpanPlace()), surrogates)

    def _act(self, actions: Actions, surrogates: Mapping[str, str]) -> None:
        key, hot, keep_originals, cache_characters = self._settings
        self._actions = actions
        self._others: dict[Actions, Self] = {}
        """The same for other places, where other rules of the policy hold. They remember texts of their own."""
        self._maker = Maker(Prf(key.secret), keep_originals=keep_originals, actions=actions)
        self._indexes = Indexes(self._maker)
        scanner = Scanner(self.policy, surrogates, hot=hot, actions=actions)
        self._texts = Texts(scanner, self._maker, cache_characters)
        self._spans = SpanRedaction(
            self._texts, policy_label=self.policy.label, key=key, deadline=self._deadline, on_failure=self._on_failure
        )

    def with_known_surrogates(self, surrogates: Mapping[str, str]) -> Self:
        """Return a redactor that leaves these surrogates alone as well, to redact texts with them again.

        It starts with an empty memory, since its results may differ.
        """
        made = copy.copy(self)
        made._others = {actions: other.with_known_surrogates(surrogates) for actions, other in self._others.items()}
        made._texts = self._texts.with_known_surrogates(surrogates)
        made._spans = self._spans.over(made._texts)
        return made

    def _at(self, actions: Actions) -> Self:
        """Return the redactor of the places where these actions hold."""
        if actions == self._actions:
            return self
        other = self._others.get(actions)
        if other is None:
            other = copy.copy(self)
            other._act(actions, self._texts.known)
            other = self._others.setdefault(actions, other)
        return other

    def _by_place(self, span: SpanRecord, redact: Callable[[Self, SpanRecord], SpanRecord]) -> SpanRecord:
        """Return the span redacted by the rules that hold where it is; attributes with rules of their own go by these."""
        if not self.policy.rules:
            return redact(self, span)
        place = place_of(span)
        here = self.policy.actions_at(place)
        apart: dict[Actions, dict[str, AttributeValue]] = {}
        for name, value in span.attributes.items():
            actions = self.policy.actions_at(place._replace(attributes=name))
            if actions != here and name not in OWN:
                apart.setdefault(actions, {})[name] = value
        if not apart:
            return redact(self._at(here), span)
        for held in apart.values():  # a body is read by its headers
            held |= {
                name: span.attributes[name] for body in held for name in _WITH_BODY.get(body, ()) if name in span.attributes
            }
        rest = {name: value for name, value in span.attributes.items() if not any(name in held for held in apart.values())}
        main = replace(span, attributes=rest)
        made = redact(self._at(here), main)
        is_same = made is main
        parts: list[SpanRecord] = [made]
        own = {name: value for name, value in rest.items() if name in OWN}
        for actions, held in apart.items():
            part = replace(_EMPTY, trace_id=span.trace_id, span_id=span.span_id, attributes={**own, **held})
            parts.append(redact(self._at(actions), part))
            is_same &= parts[-1] is part
        return span if is_same else _joined(parts)

    @property
    def collisions(self) -> int:
        """Number of recent values whose surrogate another value has, too."""
        return self._maker.collisions + sum(other.collisions for other in self._others.values())

    def redact(self, value: AttributeValue, key_path: tuple[str, ...] = ()) -> Redacted:
        """Return the value with every finding replaced; findings carry offsets into the text given.

        Shape: text, bytes (UTF-8, else byte by byte), numbers, tuples and dicts at any depth; JSON in text at any depth.
        """
        return self._texts.redact(value, key_path) if self.policy.redacts else Redacted(value=value)

    def name_judgements(self, text: str) -> Iterator[tuple[str, NameJudgement]]:
        """Yield each name in the text that the rules accept and the learned evidence judges, with the judgement.

        For the owner of the text: names, and words around them, are in clear.
        """
        return self._texts.name_judgements(text)

    def redact_span(self, span: SpanRecord, allowance: Allowance = UNBOUNDED) -> SpanRecord:
        """Return the span with every text in it redacted, stamped with policy, key id and surrogates.

        Protocol values (ids, model names, signatures) stay. Streamed bodies are redacted as the text that they spell and keep
        their chunks. An unreadable compressed body is left out, with the reason in the span. If a span takes
        longer than `span_cpu_s`, its longest texts become keyed hashes, bodies are left out, and
        `genai.REDACTION_UNREAD` records that. If the request's `allowance` is used up, all texts of the span
        become hashes.

        A span that was redacted before lists its surrogates, and these stay.

        Raises:
            FreezeframeError: it took too long all the same, or the span's list of surrogates cannot be read.
        """
        if not self.policy.redacts:
            return self._spans.stamp(span)
        return self._by_place(span, lambda redactor, part: redactor._spans.redact(part, allowance))

    def redact_in_run(self, span: SpanRecord, cast: Cast, allowance: Allowance = UNBOUNDED) -> tuple[SpanRecord, Cast]:
        """Return the span redacted as by `redact_span`, and the cast of its run with the findings in the span.

        `cast` has the findings of earlier spans of the run (`Cast()` for the first). Every form of its values
        is replaced by the same form of the value's surrogate, even in places that no detector would report. The
        returned cast is the same object if the span held nothing new; `Cast.joined` combines two of them.
        """
        if not self.policy.redacts:
            return self._spans.stamp(span), cast
        known = cast

        def redact(redactor: Self, part: SpanRecord) -> SpanRecord:
            nonlocal known
            casting = Casting(known, redactor._indexes)
            made = redactor._spans.redact(part, allowance, casting)
            known = casting.cast
            return made

        return self._by_place(span, redact), known

    def rewrite(self, span: SpanRecord, cast: Cast, since: Cast = NOTHING) -> SpanRecord:
        """Return a span redacted with this redactor's key, with the remaining forms replaced.

        For spans stored before a later one of their run revealed a value in them; `cast` is the whole run's,
        weighed (`Cast.weighed`). No detector runs, so it costs a fraction of a redaction. Without replacements
        the same object is returned, so it need not be written. `since` is the cast with which the span was
        redacted, if known: only newer values are searched.
        """
        if not (self.policy.redacts and self.may_hold(span, cast, since)):
            return span
        return self._by_place(
            span, lambda redactor, part: redactor._spans.rewrite(part, Casting(cast, redactor._indexes, since=since))
        )

    def may_hold(self, span: SpanRecord, cast: Cast, since: Cast = NOTHING, searched: Mapping[str, str] = {}) -> bool:
        """Return whether a form of a new value in the cast since then may be in the span; if in doubt, True.

        `searched` are attributes of spans redacted with this cast: text shared with them contains none.
        """
        needles = Casting(cast, self._indexes).needles(since)
        rests = {name: histories.beyond(text, searched[name]) for name in searched if (text := span.text(name))}
        if rests:
            span = span.with_attributes(rests)
        return needles is None or needles.occur_in("\0".join(texts_of(span)))

    @property
    def indexes(self) -> Indexes:
        """Forms of values, and of their surrogates: to look for them."""
        return self._indexes

    def surrogate_of(self, value: Member) -> str:
        """Return the surrogate of a value; the value itself if its class gets none."""
        if self._actions.of(value.class_) != SURROGATE:
            return value.spelling
        return self._maker.make(value.class_, value.kind, value.spelling)

    def originals_of(self, surrogates: Iterable[str]) -> dict[str, tuple[str, str] | None]:
        """Return surrogate -> class and original (see `Maker.originals_of`); none unless `keep_originals`."""
        wanted = tuple(surrogates)
        found = self._maker.originals_of(wanted)
        for other in self._others.values():
            found |= other.originals_of(wanted)
        return found


def place_of(span: SpanRecord) -> SpanPlace:
    """Return what a rule's scope may name of a span."""
    resource = span.resource.attributes
    environment = resource.get(genai.DEPLOYMENT_ENVIRONMENT) or resource.get(genai.DEPLOYMENT_ENVIRONMENT_BEFORE)
    return SpanPlace(
        services=str(resource.get(genai.SERVICE_NAME, "")),
        environments=str(environment or ""),
        tools=span.text(genai.TOOL_NAME) or "",
    )


def _joined(parts: Sequence[SpanRecord]) -> SpanRecord:
    """Return the parts of one span as one, with what each of them lists."""
    attributes = {name: value for part in parts for name, value in part.attributes.items()}
    attributes |= {name: value for name, value in parts[0].attributes.items() if name in OWN}
    if listed := surrogates_of(parts):
        attributes[genai.REDACTION_SURROGATES] = orjson.dumps(listed, option=orjson.OPT_SORT_KEYS).decode()
    if unread := [reason for part in parts if (reason := part.text(genai.REDACTION_UNREAD))]:
        attributes[genai.REDACTION_UNREAD] = unread[0]
    return replace(parts[0], attributes=attributes)


def redact(value: AttributeValue, key_path: tuple[str, ...], policy: Policy, key: TenantKey) -> Redacted:
    """Redact one value: the pure function behind `Redactor.redact` (which is the one to use for many values)."""
    return Redactor(policy, key).redact(value, key_path)


def redact_run(spans: Sequence[SpanRecord], policy: Policy, key: TenantKey) -> tuple[SpanRecord, ...]:
    """Return the stored spans of one run, redacted again, under a newer policy or key, so that they still replay.

    Surrogates stay, so that the run keeps matching itself and the fixtures made from it. Only values that the
    older policy let through are replaced, in the same way everywhere in the run. Pass all spans of the run
    together: surrogates are recognised by the lists of all of them. A run without such values only gets a new
    stamp.
    """
    redactor = Redactor(policy, key, surrogates=surrogates_of(spans))
    return tuple(redactor.redact_span(span) for span in spans)
