"""The one door: every value that is stored or matched goes through `Redactor`, a pure function of value, key path, policy, key.

Detection looks at one leaf and its key, and names found in one leaf are looked for in the others of the same value or span: the
result does not depend on order, batch, process or machine. The redactor never logs and its errors never hold a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from freezeframe_redaction import encoded, repeats, splice, walk
from freezeframe_redaction.custom import custom_replacement
from freezeframe_redaction.keys import TenantKey
from freezeframe_redaction.memory import Memory
from freezeframe_redaction.model import Candidate, Finding, Redacted
from freezeframe_redaction.policy import Policy
from freezeframe_redaction.prf import Prf
from freezeframe_redaction.scanner import Scanner, parts_of
from freezeframe_redaction.spans import Resources, redact_span
from freezeframe_redaction.streams import gather
from freezeframe_redaction.surrogates import CLASSES
from freezeframe_redaction.view import View
from freezeframe_schemas.span import AttributeValue, SpanRecord


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a leaf's text becomes. Offsets are those of the leaf."""

    edits: tuple[walk.Span, ...]
    findings: tuple[tuple[int, int, str, str], ...]
    """Start, end, class, detector."""
    surrogates: tuple[tuple[str, str], ...]
    """Surrogate and class, per edit."""
    names: tuple[tuple[str, str], ...]
    """Words of names that can be looked for by themselves, with their surrogates."""


CLEAN = Outcome((), (), (), ())


@dataclass(frozen=True, slots=True)
class Settled:
    """What a whole text became, where nothing but itself had a part in it."""

    text: str
    surrogates: Mapping[str, str]
    names: Mapping[str, str]

    def is_untouched_by(self, names: Mapping[str, str], original: str) -> bool:
        """Whether none of the names that were found beside it stands in the original text."""
        return not any(
            word in original or (not word.isascii() and "\\u" in original) for word in names if word not in self.names
        )


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
    ) -> None:
        """Build the redactor.

        `hot` leaves out the model tier that the policy may ask for: for a path that must be fast, and whose spans go through a
        redactor with it before they are stored.

        `surrogates` are known ones (from a fixture): they are taken as such wherever they stand and left alone.
        `cache_characters` bounds the leaves that are remembered (agents send their whole history with every turn).
        """
        self.policy = policy
        self.key = key
        self.label = policy.label
        self.resources = Resources()
        self._scanner = Scanner(policy, surrogates, hot=hot)
        self._prf = Prf(key.secret)
        self._leaves = Memory[tuple[str, str], Outcome](cache_characters)
        self._texts = Memory[tuple[str, str], Settled](cache_characters)
        self._made: dict[tuple[str, str, str], str] = {}

    # -- text ----------------------------------------------------------------------------------------------------------

    def redact(self, value: AttributeValue, key_path: tuple[str, ...] = ()) -> Redacted:
        """Return the value with every finding replaced; findings carry offsets into the text given.

        Shape: text, bytes (UTF-8, else byte by byte), numbers, tuples and dicts at any depth; JSON in text at any depth.
        """
        if not self.policy.redacts:
            return Redacted(value=value)
        findings: list[Finding] = []
        surrogates: dict[str, str] = {}
        made = self._value(value, key_path, findings, surrogates)
        return Redacted(value=made, findings=tuple(findings), surrogates=surrogates)

    def _value(
        self, value: AttributeValue, path: tuple[str, ...], findings: list[Finding], surrogates: dict[str, str]
    ) -> AttributeValue:
        if isinstance(value, str):
            return self._text(value, path, findings, surrogates)
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            made = self._text(str(value), path, findings, surrogates) if abs(value) > 9999 else str(value)
            return int(made) if made.isdigit() else value
        if isinstance(value, bytes):
            return redact_bytes(value, lambda text: self._text(text, path, findings, surrogates))
        if isinstance(value, Mapping):
            return {
                self._text(name, (), findings, surrogates): self._value(item, (*path, name), findings, surrogates)
                for name, item in cast("Mapping[str, AttributeValue]", value).items()
            }
        return tuple(self._value(item, path, findings, surrogates) for item in value)

    def _text(self, text: str, path: tuple[str, ...], findings: list[Finding], surrogates: dict[str, str]) -> str:
        node = self.plant(text, *_key_and_parent(path))
        self.settle_nodes([node], surrogates, with_findings=True)
        for start, end, note in splice.findings_of(node):
            class_, _, detector = note.partition("\x1f")
            findings.append(Finding(class_=class_, start=start, end=end, detector=detector))
        return splice.render(node)

    def plant(self, text: str, key: str = "", parent: str = "", *, stream: bool = False) -> walk.Node:
        """Return the tree of a text, as this policy reads it."""
        return walk.plant(text, self._scanner.keys, key, parent, stream=stream)

    def settle_nodes(
        self,
        nodes: Sequence[walk.Node],
        surrogates: dict[str, str],
        *,
        names: Mapping[str, str] = {},
        with_findings: bool = False,
    ) -> dict[str, str]:
        """Fill in the edits of every leaf below the nodes, in one pass of the engine, and collect the surrogates.

        `names` are words of names found beside the nodes, with their surrogates; returned with those found in the nodes.
        """
        leaves, streams = gather(nodes, self._scanner.keys)
        outcomes = self._outcomes([(leaf.text, leaf.prefix) for leaf in leaves])
        all_names = dict(names)
        for leaf, outcome in zip(leaves, outcomes, strict=True):
            if outcome is not CLEAN:
                leaf.edits = outcome.edits
                if with_findings:
                    leaf.findings = [(start, end, f"{class_}\x1f{name}") for start, end, class_, name in outcome.findings]
                surrogates.update(outcome.surrogates)
                all_names.update(outcome.names)
        if all_names:
            _repeat(all_names, leaves, with_findings=with_findings)
        for stream in streams:
            stream.distribute()
        return all_names

    def recall(self, text: str, key: str) -> Settled | None:
        """Return what a whole text became earlier, or None."""
        return self._texts.get((text, key))

    def remember(self, node: walk.Node, key: str, names: Mapping[str, str]) -> Settled | None:
        """Keep what the node's text became, unless something beside it had a part in that: a name, or the rest of a stream."""
        surrogates: dict[str, str] = {}
        own: dict[str, str] = {}
        for leaf in walk.leaves_of(node):
            if leaf.channel is not None:
                return None
            if leaf.edits:
                outcome = self._leaves.get((leaf.text, leaf.prefix))
                if outcome is None:
                    return None
                surrogates.update(outcome.surrogates)
                own.update(outcome.names)
        settled = Settled(splice.render(node), surrogates, own)
        if not settled.is_untouched_by(names, node.raw):
            return None
        self._texts.put((node.raw, key), settled, 2 * len(node.raw))
        return settled

    def _outcomes(self, leaves: Sequence[tuple[str, str]]) -> list[Outcome]:
        out: list[Outcome | None] = []
        missing: dict[tuple[str, str], list[int]] = {}
        recall = self._leaves.get
        for index, leaf in enumerate(leaves):
            held = recall(leaf)
            out.append(held)
            if held is None:
                missing.setdefault(leaf, []).append(index)
        if missing:
            keys = list(missing)
            scanned = self._scanner.scan(keys)
            for at, leaf in enumerate(keys):
                hit = scanned.get(at)
                outcome = CLEAN if hit is None else self._outcome(leaf[0], *hit)
                for index in missing[leaf]:
                    out[index] = outcome
                self._leaves.put(leaf, outcome, len(leaf[0]))
        return cast("list[Outcome]", out)

    def _outcome(self, text: str, view: View, found: list[tuple[Candidate, str]]) -> Outcome:
        edits: list[walk.Span] = []
        findings: list[tuple[int, int, str, str]] = []
        surrogates: list[tuple[str, str]] = []
        names: list[tuple[str, str]] = []
        for candidate, name in found:
            if candidate.class_ == encoded.CLASS:
                self._inside(view, candidate, edits, findings, surrogates)
                continue
            changed = False
            for start, end in parts_of(candidate, view.text):
                value = view.text[start:end]
                made = self._surrogate(candidate.class_, candidate.kind, value)
                if made == value:
                    continue
                left, right = view.to_original(start, end)
                edits.append((left, right, made))
                surrogates.append((made, candidate.class_))
                if candidate.class_ == repeats.CLASS and repeats.is_telling(text[left:right]):
                    names.append((text[left:right], made))
                changed = True
            if changed:
                shown = candidate.shown or (candidate.start, candidate.end)
                findings.append((*view.to_original(*shown), candidate.class_, name))
        return Outcome(tuple(edits), tuple(findings), tuple(surrogates), tuple(names)) if edits else CLEAN

    def _inside(
        self,
        view: View,
        candidate: Candidate,
        edits: list[walk.Span],
        findings: list[tuple[int, int, str, str]],
        surrogates: list[tuple[str, str]],
    ) -> None:
        """Redact what a blob of base64 spells; its findings are reported over the whole blob."""
        blob = view.text[candidate.start : candidate.end]
        inner = self.redact(encoded.decode(blob) or "")
        if not inner.findings:
            return
        span = view.to_original(candidate.start, candidate.end)
        edits.append((*span, encoded.encode(str(inner.value), blob)))
        findings.extend((*span, finding.class_, finding.detector) for finding in inner.findings)
        surrogates.extend(inner.surrogates.items())

    def _surrogate(self, class_: str, kind: str, value: str) -> str:
        wanted = (class_, kind, value)
        made = self._made.get(wanted)
        if made is None:
            entry = CLASSES.get(class_)
            made = entry.replace(self._prf, value, kind) if entry else custom_replacement(self._prf, class_, value)
            if len(self._made) > 100_000:
                self._made = {}
            self._made[wanted] = made
        return made

    # -- spans ---------------------------------------------------------------------------------------------------------

    def redact_span(self, span: SpanRecord) -> SpanRecord:
        """Return the span with every text in it redacted, stamped with policy, key id and surrogates.

        Protocol values (ids, model names, signatures) stay. Streamed bodies are redacted as the text that they spell and keep
        their chunks. A compressed body that cannot be read is left out, and the span says why.
        """
        return redact_span(self, span)


_FEW_NAMES = 16


def _holds_more(leaf: walk.Leaf, names: Mapping[str, str]) -> bool:
    """Whether one of the names stands in the leaf more often than it was replaced."""
    text = leaf.text
    for name in names:
        count = text.count(name)
        if count and count > sum(text[start:end] == name for start, end, _ in leaf.edits):
            return True
    return False


def _repeat(names: Mapping[str, str], leaves: Sequence[walk.Leaf], *, with_findings: bool) -> None:
    """Replace the names wherever else they stand in the leaves."""
    # Most names stand nowhere else: counting them costs a fraction of searching a pattern, and of compiling it for each span.
    more_in = leaves if len(names) > _FEW_NAMES else [leaf for leaf in leaves if _holds_more(leaf, names)]
    pattern = repeats.pattern_of(names) if more_in else None
    if pattern is None:
        return
    for leaf in more_in:
        more = list(repeats.repeats(pattern, leaf, leaf.edits))
        if more:
            edits = [(start, end, names[leaf.text[start:end]]) for start, end in more]
            leaf.edits = sorted([*leaf.edits, *edits])
            if with_findings:
                found = [(start, end, f"{repeats.CLASS}\x1fname found beside") for start, end in more]
                leaf.findings = sorted([*leaf.findings, *found])


def _key_and_parent(path: tuple[str, ...]) -> tuple[str, str]:
    return (path[-1] if path else "", path[-2] if len(path) > 1 else "")


def redact_bytes(value: bytes, redact_text: Callable[[str], str]) -> bytes:
    """Redact bytes as UTF-8 text; where they are none, byte by byte as Latin-1, in which every byte is a character."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return redact_text(value.decode("latin-1")).encode("latin-1")
    made = redact_text(text)
    return value if made is text else made.encode("utf-8", "surrogatepass")


def redact(value: AttributeValue, key_path: tuple[str, ...], policy: Policy, key: TenantKey) -> Redacted:
    """Redact one value: the pure function behind `Redactor.redact` (which is the one to use for many values)."""
    return Redactor(policy, key).redact(value, key_path)
