"""Find and replace values in trees of texts: the core that `redactor`, whole spans and bodies share.

Detection looks at one leaf and its key, and names found in one leaf are looked for in the others of the same value or span: the
result does not depend on order, batch, process or machine. Results are remembered per leaf and per text,
because agents send their whole history with every turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self, cast

from freezeframe_redaction.casts import spreading
from freezeframe_redaction.casts.book import MAX_VALUE_LENGTH, NOTHING, Cast, Member
from freezeframe_redaction.casts.casting import Casting, merged
from freezeframe_redaction.casts.halves import halves
from freezeframe_redaction.deadline import EVERY, NEVER, Deadline
from freezeframe_redaction.detectors import encoded, line_breaks
from freezeframe_redaction.detectors.people import evidence
from freezeframe_redaction.leaves import splice, tree, walk
from freezeframe_redaction.leaves.key_context import KeyContexts
from freezeframe_redaction.leaves.streams import Stream, gather, spelled
from freezeframe_redaction.maker import Maker
from freezeframe_redaction.memory import Memory
from freezeframe_redaction.model import Candidate, Finding, Redacted
from freezeframe_redaction.policies.plugins import DetectorFailedError
from freezeframe_redaction.redacting import columns, repeats
from freezeframe_redaction.redacting.histories import Growth, Histories, HistoryPart, SettledText
from freezeframe_redaction.scanner import Scanner, parts_of
from freezeframe_redaction.surrogates.make import MIN_LISTED_DIGITS
from freezeframe_redaction.triggers.view import View, spell_like, view_of
from freezeframe_schemas.span import AttributeValue


@dataclass(frozen=True, slots=True)
class LeafOutcome:
    """Replacements in a leaf's text. Offsets are those of the leaf."""

    edits: tuple[tree.Span, ...]
    findings: tuple[tuple[int, int, str, str], ...]
    """Start, end, class, detector."""
    surrogates: tuple[tuple[str, str], ...]
    """Surrogate and class, per edit."""
    names: tuple[tuple[str, str], ...]
    """Words of names that can be searched on their own, with their surrogates."""
    found: Cast = NOTHING
    """The values, for the cast of the run."""


_Place = tuple[str, str]
"""A leaf's text, and its key as context or the class of its column."""
_IN_COLUMN: Final = "\0"
_OF_THINGS: Final = "\1"
"""Prefix of the key of a column that does not name people."""
CLEAN: Final = LeafOutcome((), (), (), ())


@dataclass(slots=True)
class _Found:
    """Findings in one value so far, and the deadline."""

    deadline: Deadline
    casting: Casting | None
    findings: list[Finding] = field(default_factory=list[Finding])
    surrogates: dict[str, str] = field(default_factory=dict[str, str])


class Texts:
    """Replaces every finding in texts by its surrogate. Safe to share between threads."""

    def __init__(self, scanner: Scanner, maker: Maker, cache_characters: int) -> None:
        """`cache_characters` bounds the remembered leaves, and also the texts and the histories."""
        self._scanner, self.keys = scanner, scanner.keys
        self.maker = maker
        self._cache_characters = cache_characters
        self._leaves = Memory[_Place, LeafOutcome](cache_characters)
        self._texts = Memory[tuple[str, str], SettledText](cache_characters)
        self.histories = Histories(cache_characters)

    def with_known_surrogates(self, surrogates: Mapping[str, str]) -> Self:
        """Return a `Texts` that leaves these surrogates alone as well: this one if it knows them, else an empty one."""
        scanner = self._scanner.with_known_surrogates(surrogates)
        return self if scanner is self._scanner else type(self)(scanner, self.maker, self._cache_characters)

    def without(self, failed: DetectorFailedError) -> Self:
        """Return a `Texts` that leaves out a detector that failed (`Scanner.without`), and remembers nothing."""
        return type(self)(self._scanner.without(failed), self.maker, 0)

    @property
    def known(self) -> Mapping[str, str]:
        """Surrogates that it leaves alone, with their classes."""
        return self._scanner.known

    def keys_for(self, casting: Casting | None) -> KeyContexts:
        """Return the meaning of keys for a walk, and the words that it should see for the cast."""
        return casting.index.keys(self.keys) if casting is not None and casting.cast else self.keys

    # -- one value -----------------------------------------------------------------------------------------------------

    def redact(
        self, value: AttributeValue, path: tuple[str, ...] = (), deadline: Deadline = NEVER, casting: Casting | None = None
    ) -> Redacted:
        """Return the value with every finding replaced (see `Redactor.redact`), and the grown cast.

        Raises:
            OutOfTimeError: the deadline has passed.
        """
        found = _Found(deadline, casting)
        made = self._value(value, path, found)
        return Redacted(value=made, findings=tuple(found.findings), surrogates=found.surrogates)

    def name_judgements(self, text: str) -> Iterator[tuple[str, evidence.NameJudgement]]:
        """Yield the names that the rules accept and the learned evidence judges (see `Redactor.name_judgements`)."""
        leaves = [(leaf.text, leaf.prefix) for leaf in tree.leaves_of(walk.parse_tree(text, self.keys))]
        for (_, prefix), (view, kept) in zip(leaves, self._scanner.before_evidence(leaves), strict=False):
            for one in self._scanner.judged(view, kept, prefix, 0, len(view)):
                yield view[one.item[0].start : one.item[0].end], one

    def _value(self, value: AttributeValue, path: tuple[str, ...], found: _Found) -> AttributeValue:
        if isinstance(value, str):
            return self._text(value, path, found)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return self._number(value, path, found)
        if isinstance(value, bytes):
            return _redact_bytes(value, lambda text: self._text(text, path, found))
        if isinstance(value, Mapping):
            return {
                self._text(name, (), found): self._value(item, (*path, name), found)
                for name, item in cast("Mapping[str, AttributeValue]", value).items()
            }
        return tuple(self._value(item, path, found) for item in value)

    def _text(self, text: str, path: tuple[str, ...], found: _Found) -> str:
        keys = self.keys_for(found.casting)
        return self._whole(walk.parse_tree(text, keys, *_names(path, keys), deadline=found.deadline), found)

    def _number(self, value: float, path: tuple[str, ...], found: _Found) -> float:
        node = walk.plant_number(value, self.keys, *_names(path, self.keys))
        return value if node is None else splice.as_number(self._whole(node, found), value, found.surrogates)

    def _whole(self, node: tree.Tree, found: _Found) -> str:
        self.settle([node], found.surrogates, with_findings=True, deadline=found.deadline, casting=found.casting)
        for start, end, note in splice.findings_of(node):
            class_, _, detector = note.partition("\x1f")
            found.findings.append(Finding(class_=class_, start=start, end=end, detector=detector))
        return splice.render(node)

    # -- trees ---------------------------------------------------------------------------------------------------------

    def settle(
        self,
        nodes: Sequence[tree.Tree],
        surrogates: dict[str, str],
        *,
        names: Mapping[str, str] = {},
        with_findings: bool = False,
        deadline: Deadline = NEVER,
        casting: Casting | None = None,
    ) -> dict[str, str]:
        """Fill in the edits of every leaf below the nodes, in one pass of the engine, and collect the surrogates.

        `names` are words of names found outside the nodes, with their surrogates; returned with those found in the nodes.
        `casting` learns the findings, and replaces the forms of known values.

        Raises:
            OutOfTimeError: the deadline has passed.
        """
        leaves, streams = gather(nodes, self.keys_for(casting), deadline)
        all_names = dict(names)
        found: list[Cast] = []
        texts: list[Stream] = []
        if casting is None or casting.detects:
            alone = self._read(leaves, deadline, with_findings=with_findings)
            texts = spelled(leaves, self._scanner.known_in)
            together = self._read([text.node.leaves[0] for text in texts], deadline, with_findings=with_findings)
            crossing = {text.node.leaves[0] for text in texts if text.cross(self._scanner.known_in(text.node.raw))}
            for leaf, outcome in [*alone, *(one for one in together if one[0] in crossing)]:
                if leaf.piece_of is None or leaf.edits == outcome.edits:
                    found.append(outcome.found)
                    all_names.update(outcome.names)
                    surrogates.update(outcome.surrogates)
                else:  # parts of what several pieces spell are not values
                    left = {new for _, _, new in leaf.edits}
                    surrogates.update(one for one in outcome.surrogates if one[0] in left)
        deadline.check()
        if casting is not None:
            casting.learn([*found, *halves(leaves)] if found else ())
            all_names = casting.index.without_forms(all_names) if casting.cast else all_names
        leaves += [text.node.leaves[0] for text in texts]
        if all_names or (casting is not None and casting.cast):
            forms = casting.index if casting is not None and casting.cast else ()
            columns.keep_things(leaves, lambda text: text in all_names or text in forms)
        if all_names:
            self._repeat(all_names, leaves, with_findings=with_findings)
        if casting is not None and casting.cast:
            self._replace_forms(casting, leaves, surrogates)
        for stream in streams:
            stream.distribute()
        for text in texts:
            text.cross()
        return all_names

    def _read(
        self, leaves: Sequence[tree.Leaf], deadline: Deadline, *, with_findings: bool
    ) -> list[tuple[tree.Leaf, LeafOutcome]]:
        """Fill in the edits of leaves; return those with findings."""
        read: list[tuple[tree.Leaf, LeafOutcome]] = []
        for leaf, outcome in self._outcomes(leaves, deadline):
            if leaf.is_number:
                outcome = self._as_number(leaf.text, outcome)
            leaf.edits = outcome.edits
            if with_findings:
                leaf.findings = [(start, end, f"{class_}\x1f{name}") for start, end, class_, name in outcome.findings]
            read.append((leaf, outcome))
        return read

    def _replace_forms(self, casting: Casting, leaves: Sequence[tree.Leaf], surrogates: dict[str, str]) -> None:
        """Replace values of the cast in the leaves, but leave surrogates alone."""
        for number, hits in casting.index.find([leaf.text for leaf in leaves], self._scanner.known_in):
            leaf = leaves[number]
            if leaf.is_number:
                hits = [hit for hit in hits if hit.made.isdigit() and hit.made[0] != "0"]
            hits = [hit for hit in hits if hit.class_ != repeats.CLASS or not self._is_of_things(leaf, hit.start, hit.end)]
            if hits:
                leaf.edits = merged(leaf.edits, hits)
                leaf.forms = [(hit.made, hit.class_) for hit in hits]
                surrogates.update(leaf.forms)

    def _repeat(self, names: Mapping[str, str], leaves: Sequence[tree.Leaf], *, with_findings: bool) -> None:
        """Replace the names wherever else they occur in the leaves."""
        search = repeats.Repeats(names)
        for leaf in leaves:
            found = [] if leaf.is_number or leaf.is_nobodys else search.find(leaf.text, leaf.edits)
            if spans := [span for span in found if not self._is_of_things(leaf, *span)]:
                leaf.edits = sorted([*leaf.edits, *((start, end, names[leaf.text[start:end]]) for start, end in spans)])
                if with_findings:
                    notes = [(start, end, f"{repeats.CLASS}\x1fname found beside") for start, end in spans]
                    leaf.findings = sorted([*leaf.findings, *notes])

    def _is_of_things(self, leaf: tree.Leaf, start: int, end: int) -> bool:
        """Return whether a key shows that what is like a name is none."""
        return leaf.is_nobodys or self.keys.is_field_of_things(leaf.text, start, end)

    def holding(self, classes: frozenset[str], texts: Iterable[str], deadline: Deadline) -> set[str]:
        """Return the texts with a value of these classes, under any key."""
        outcomes = self._outcomes([tree.Leaf(text, "", 0) for text in texts], deadline)
        return {leaf.text for leaf, outcome in outcomes if not classes.isdisjoint(found[2] for found in outcome.findings)}

    def recall(self, text: str, key: str, run: str = "") -> SettledText | None:
        """Return the earlier result for a whole text: of the run, or of any."""
        return (self._texts.get((text, f"{key}\0{run}")) if run else None) or self._texts.get((text, key))

    def remember(self, text: str, key: str, settled: SettledText, run: str = "") -> None:
        """Remember the result for a whole text."""
        places = {(text, f"{key}\0{run}" if run else key): settled}
        if run and not settled.has_edits:
            places[text, key] = SettledText(settled.text, settled.parts)
        self._texts.put(places, 2 * len(text))

    def finish(
        self, text: str, nodes: Mapping[int, tree.Tree], names: repeats.Repeats, growth: Growth | None, casting: Casting | None
    ) -> tuple[str, SettledText | None]:
        """Return the redacted text, from its settled node or from those of the parts that were read.

        Returned as `SettledText` too, unless something outside the text affected it (a name, a stream).
        """
        cast = NOTHING if casting is None else casting.cast
        parts = {at: self._part(node, casting) for at, node in nodes.items()}
        if growth is not None:
            made = growth.after(text, {at: part for at, (part, _) in parts.items()}, cast)
        else:
            part = parts[0][0]
            made = SettledText(splice.apply(text, part.edits), (part,), cast)
        knows = all(known for _, known in parts.values()) and made.is_untouched_by(names, text)
        return made.text, made if knows else None

    def _part(self, node: tree.Tree, casting: Casting | None) -> tuple[HistoryPart, bool]:
        """Return the findings in a node, and False if they are incomplete: for a stream, or a forgotten one.

        Also, with a cast, for a number, which may differ from its outcome.
        """
        surrogates: dict[str, str] = {}
        own: dict[str, str] = {}
        knows = True
        for leaf in tree.leaves_of(node):
            if leaf.channel is not None or leaf.piece_of is not None:
                knows = False
            elif leaf.edits:
                outcome = self._leaves.get(self._place(leaf))
                if outcome is None or (casting is not None and leaf.is_number):
                    knows = False
                    break
                surrogates.update(leaf.forms)
                surrogates.update(outcome.surrogates)
                own.update(outcome.names)
        return HistoryPart(splice.edits_of(node), surrogates, own), knows

    # -- leaves --------------------------------------------------------------------------------------------------------

    def _outcomes(self, leaves: Sequence[tree.Leaf], deadline: Deadline) -> list[tuple[tree.Leaf, LeafOutcome]]:
        """Return the leaves with findings, with their results."""
        columns.judge(leaves, lambda sample: self._wholes(sample, deadline))
        found: list[tuple[tree.Leaf, LeafOutcome]] = []
        unknown: list[tuple[_Place, tree.Leaf]] = []
        recall = self._leaves.get
        for leaf in leaves:
            wanted = (leaf.text, leaf.prefix) if leaf.column is None else self._place(leaf)
            outcome = recall(wanted)
            if outcome is None:
                unknown.append((wanted, leaf))
            elif outcome is not CLEAN:
                found.append((leaf, outcome))
        if unknown:
            made = dict.fromkeys([wanted for wanted, _ in unknown], CLEAN)
            by_column = {wanted: leaf for wanted, leaf in unknown if wanted[1][:1] == _IN_COLUMN}
            texts = [wanted for wanted in made if wanted not in by_column]
            queries = [(text, prefix.removeprefix(_OF_THINGS)) for text, prefix in texts]
            for index, (view, candidates) in self._scanner.scan(queries, deadline=deadline).items():
                if texts[index][1][:1] == _OF_THINGS:
                    candidates = [one for one in candidates if one[0].class_ != repeats.CLASS]
                made[texts[index]] = self._outcome(texts[index][0], view, candidates, deadline)
            for count, (wanted, leaf) in enumerate(by_column.items()):
                if not count % EVERY:
                    deadline.check()
                view = view_of(leaf.text)
                candidate = columns.candidate_of(leaf.column, view.text)
                made[wanted] = (
                    CLEAN if candidate is None else self._outcome(leaf.text, view, [(candidate, columns.NAME)], NEVER)
                )
            # Only now: what another thread finds here has been looked at.
            self._leaves.put(made, sum([len(text) for text, _ in made]))
            found.extend((leaf, outcome) for wanted, leaf in unknown if (outcome := made[wanted]) is not CLEAN)
        return found

    def _place(self, leaf: tree.Leaf) -> _Place:
        """Return the place under which the outcome of a leaf is remembered: its key, or its column."""
        column = leaf.column
        if column is None or leaf.is_number:
            return leaf.text, leaf.prefix
        if column.holds_things:
            return leaf.text, f"{_OF_THINGS}{leaf.prefix}"
        if not column.class_:
            return leaf.text, leaf.prefix
        if columns.candidate_of(column, leaf.text) is None or not self._scanner.lets_columns_decide(leaf.text):
            return leaf.text, leaf.prefix
        return leaf.text, f"{_IN_COLUMN}{column.class_}"

    def _wholes(self, leaves: Sequence[tree.Leaf], deadline: Deadline) -> Iterator[str]:
        """Yield the class of each leaf that is one value and nothing else."""
        for leaf, outcome in self._outcomes(leaves, deadline):
            if len(outcome.findings) == 1:
                start, end, class_, _ = outcome.findings[0]
                if end - start == len(leaf.text.strip()):
                    yield class_

    def _outcome(self, text: str, view: View, found: list[tuple[Candidate, str]], deadline: Deadline) -> LeafOutcome:
        edits: list[tree.Span] = []
        findings: list[tuple[int, int, str, str]] = []
        surrogates: list[tuple[str, str]] = []
        names: list[tuple[str, str]] = []
        members: list[Member] = []
        pairs: list[tuple[str, ...]] = []
        unsure: list[tuple[str, ...]] = []
        for count, (candidate, name) in enumerate(found):
            if not count % EVERY:
                deadline.check()
            if candidate.class_ == encoded.CLASS:
                self._inside(text, view, candidate, edits, findings, surrogates, deadline)
                continue
            unchanged = len(edits)
            parts = parts_of(candidate, view.text)
            is_name = candidate.class_ == repeats.CLASS
            words = tuple(view.text[start:end] for start, end in parts)
            spreads = not is_name or spreading.spreads_at_once(words, candidate.kind)
            is_kept = spreads or spreading.may_spread(words, candidate.kind)
            for (start, end), value in zip(parts, words, strict=True):
                value, written = line_breaks.joined(view.text, candidate) if candidate.joint else (value, str)
                if (made := self.maker.make(candidate.class_, candidate.kind, value)) == value:
                    continue
                left, right = view.to_original(start, end)
                new = written(made)
                edits.append((left, right, new if view.origin is None else spell_like(text[left:right], new)))
                surrogates.append((made, candidate.class_))
                if is_kept and len(value) <= MAX_VALUE_LENGTH and not (is_name and spreading.is_ordinary(value)):
                    members.append(Member(class_=candidate.class_, spelling=value, kind=candidate.kind, spreads=spreads))
                if is_name and repeats.is_telling(text[left:right]):
                    names.append((text[left:right], made))
            if len(parts) > 1:
                (pairs if spreads else unsure).append(words)
            if len(edits) > unchanged:
                shown = candidate.shown or (candidate.start, candidate.end)
                findings.append((*view.to_original(*shown), candidate.class_, name))
        if not edits:
            return CLEAN
        found_here = Cast(members=tuple(members), pairs=tuple(pairs), unsure=tuple(unsure))
        return LeafOutcome(tuple(edits), tuple(findings), tuple(surrogates), tuple(names), found_here)

    def _as_number(self, text: str, outcome: LeafOutcome) -> LeafOutcome:
        """Return the outcome with a number for each non-numeric surrogate: a code or a password may be a number in JSON."""
        if all(new.isdigit() for _, _, new in outcome.edits):
            return outcome
        edits: list[tree.Span] = []
        surrogates: list[tuple[str, str]] = []
        for (start, end, new), (_, class_) in zip(outcome.edits, outcome.surrogates, strict=True):
            if not new.isdigit():
                new = self.maker.make_number(class_, new, text[start:end])
            if new == text[start:end]:
                continue
            edits.append((start, end, new))
            if end - start >= MIN_LISTED_DIGITS:
                surrogates.append((new, class_))
        return replace(outcome, edits=tuple(edits), surrogates=tuple(surrogates)) if edits else CLEAN

    def _inside(
        self,
        text: str,
        view: View,
        candidate: Candidate,
        edits: list[tree.Span],
        findings: list[tuple[int, int, str, str]],
        surrogates: list[tuple[str, str]],
        deadline: Deadline,
    ) -> None:
        """Redact the content of a base64 blob; its findings are reported over the whole blob."""
        blob = view.text[candidate.start : candidate.end]
        inner = self.redact(encoded.decode(blob) or "", deadline=deadline)
        if not inner.findings:
            return
        span = view.to_original(candidate.start, candidate.end)
        made = encoded.encode(str(inner.value), blob)
        edits.append((*span, made if view.origin is None else spell_like(text[slice(*span)], made)))
        findings.extend((*span, finding.class_, finding.detector) for finding in inner.findings)
        surrogates.extend(inner.surrogates.items())


def _names(path: tuple[str, ...], keys: KeyContexts) -> tuple[str, ...]:
    """Return the key of a value and the key around it; only the path if the policy names it."""
    if keys.paths and (named := keys.path_of(".".join(path))):
        return (named,)
    return ("", "", *path)[:-3:-1]


def _redact_bytes(value: bytes, redact_text: Callable[[str], str]) -> bytes:
    """Redact bytes as UTF-8 text; if they are not, as Latin-1, in which every byte is a character."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return redact_text(value.decode("latin-1")).encode("latin-1")
    made = redact_text(text)
    return value if made is text else made.encode("utf-8", "surrogatepass")
