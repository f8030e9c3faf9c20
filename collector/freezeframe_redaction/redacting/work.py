"""All texts of one span, which go through the engine together, with earlier results for them and their run.

Protocol values stay unchanged, because a replay needs them and the provider checks them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from freezeframe_redaction.casts.book import Cast, texts_in
from freezeframe_redaction.casts.casting import Casting
from freezeframe_redaction.deadline import Deadline
from freezeframe_redaction.leaves import splice, tree, walk
from freezeframe_redaction.redacting.histories import MIN_HISTORY_LENGTH, Growth, SettledText
from freezeframe_redaction.redacting.repeats import Repeats
from freezeframe_redaction.redacting.texts import Texts
from freezeframe_schemas import genai
from freezeframe_schemas.span import Attributes, AttributeValue

OWN: Final = frozenset(
    {
        genai.REDACTION_POLICY, genai.REDACTION_KEY_ID, genai.REDACTION_KEY_CHECK, genai.REDACTION_SURROGATES,
        genai.REDACTION_UNREAD,
    }
)  # fmt: skip
PROTOCOL: Final = OWN | frozenset(
    {
        genai.HTTP_REQUEST_METHOD, genai.SERVER_ADDRESS, genai.ERROR_TYPE, genai.EXCEPTION_TYPE, genai.SERVICE_NAME,
        genai.VCS_REVISION, genai.VCS_BRANCH, genai.RUNTIME_NAME, genai.RUNTIME_VERSION, genai.FLAG_KEY, genai.FLAG_VARIANT,
        genai.OPERATION_NAME, genai.PROVIDER_NAME, genai.REQUEST_MODEL, genai.REQUEST_PREVIOUS_RESPONSE_ID,
        genai.RESPONSE_ID, genai.RESPONSE_MODEL, genai.RESPONSE_FINISH_REASONS, genai.TOOL_NAME, genai.TOOL_TYPE,
        genai.TOOL_CALL_ID, genai.AGENT_ID, genai.AGENT_NAME, genai.AGENT_VERSION, genai.DATA_SOURCE_ID, genai.CONVERSATION_ID,
        genai.OPENAI_SYSTEM_FINGERPRINT, genai.MCP_METHOD, genai.MCP_SESSION_ID, genai.RUN_ID, genai.TENANT, genai.ENTRY_KIND,
        genai.ENTRY_TARGET, genai.ENTRY_RANDOM_STATE, genai.CLOCK_READINGS, genai.PACKAGES, genai.TIMEZONE,
        genai.EXCHANGE_KIND, genai.EXCHANGE_SEAM, genai.EXCHANGE_DIALECT, genai.EXCHANGE_LANE, genai.EXCHANGE_INSIDE,
        genai.REQUEST_BODY_OMITTED, genai.CODE_DIGEST, genai.CODE_FILE,
        genai.RESPONSE_BODY_OMITTED, genai.RESPONSE_CHUNK_SIZES, genai.RESPONSE_CHUNK_OFFSETS_NS, genai.RESPONSE_COMPLETION,
        genai.EMBEDDING_VERSION, genai.PROVIDER_REGION, genai.TOOL_DEFINITIONS_HASH, genai.USAGE_DETAILS,
        genai.NORMALISED_FROM, genai.MENDED_TEXTS, genai.LOCK_FILE, genai.LIBRARY_VERSION,
        "agent.name", "agent_name",  # OpenInference's and Pydantic AI's; of an agent that is a program, called "Assistant"
    }
)  # fmt: skip
"""Attributes that name things of the protocol: they stay, except an e-mail, a phone number or a credential put there."""
_SECRETS: Final = frozenset({"SECRET", "URL_CRED"})
_MISPLACED: Final = _SECRETS | {"EMAIL", "PHONE"}
_MAY_BE_MISPLACED: Final = re.compile(r"@|\+[0-9]")
_MAY_BE_SECRET: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+/=.:-]{15}")
_WHOLE_WORD: Final = re.compile(r'"([a-z0-9_]+)(?=["\\])')
"""A word that is a whole value, or a key, of JSON: as it stands, or in a string inside it."""
_NAMES_OF_ERRORS: Final = frozenset({genai.ERROR_TYPE, genai.EXCEPTION_TYPE})


def is_kept(name: str, value: AttributeValue) -> bool:
    """Return whether an attribute stays without being read."""
    return name in OWN or (_is_protocol(name, value) and not _may_be_misplaced(value))


def _is_protocol(name: str, value: AttributeValue) -> bool:
    """Return whether a value belongs to the protocol; some programs put the message in place of an error's type."""
    return name in PROTOCOL and not (name in _NAMES_OF_ERRORS and isinstance(value, str) and " " in value)


def _may_be_misplaced(value: AttributeValue) -> bool:
    return any(_MAY_BE_MISPLACED.search(text) for text in texts_in(value))


class Text:
    """A text of the span; `made` is its result, once the work is settled."""

    __slots__ = ("before", "growth", "history", "key", "made", "nodes", "text")

    def __init__(self, text: str, key: str, history: str) -> None:
        self.text = text
        self.key = key
        self.history = history
        """The name under which its run's texts that it may continue are kept; empty if it cannot continue one."""
        self.made = text
        self.nodes: dict[int, tree.Tree] = {}
        """The nodes to read: the whole text (0), or parts of an earlier text that it continues, and the addition."""
        self.before: SettledText | None = None
        """The text's earlier result."""
        self.growth: Growth | None = None

    @property
    def known(self) -> tuple[SettledText, str] | None:
        """Return the earlier result of the text, or of the one that it continues, and that text."""
        if self.growth is not None:
            return self.growth.before, self.growth.original
        return None if self.before is None else (self.before, self.text)


class Work:
    """Everything of one span that goes through the engine together: one pass instead of one per attribute.

    Texts that were settled before (the same tools, the same history in two spans) are recalled whole; of those that continue
    another text of their run only what is new is read.
    """

    def __init__(self, texts: Texts, deadline: Deadline, run: str = "", casting: Casting | None = None) -> None:
        self._redaction = texts
        self._casting = casting
        self._beside = Repeats(())
        self._before_learning = 0
        """Number of nodes walked before the findings of the span were known."""
        self._deadline = deadline
        self._run = run
        self._remembers = run if casting is not None else ""
        """Results depend on the run, if it has a cast."""
        self.learnt_late = False
        """A text that seemed known at first had new findings, which earlier steps did not consider."""
        self._texts: list[Text] = []
        self._values: list[AttributeValue] = []
        """Those that are not texts, and were read one by one."""
        self._places: list[tuple[dict[str, AttributeValue], str, Text]] = []
        self._numbers: list[tuple[dict[str, AttributeValue], str, tree.Tree]] = []
        self._names: list[tuple[dict[str, AttributeValue], str, Text]] = []
        self.nodes: list[tree.Tree] = []
        self.shared: tree.SharedLeaves = {}
        self.surrogates: dict[str, str] = {}

    def text(self, text: str, key: str = "", history: str = "") -> Text:
        """Add a text, found under the key; `history` names the texts of the run that it may continue."""
        if len(text) <= 2:
            return Text(text, key, "")
        if self._casting is not None and not self._casting.detects:
            made = Text(text, key, "")
            if self._casting.may_contain_form(text):
                self._plant(made, 0, text, key)
                self._texts.append(made)
            return made
        made = Text(text, key, history if len(text) >= MIN_HISTORY_LENGTH and self._run and text[0] in "[{" else "")
        histories = self._redaction.histories
        made.before = self._redaction.recall(text, key, self._remembers)
        if made.before is None and made.history:
            made.before = histories.recall(self._run, history, text)
        if made.before is not None and self._stale(made):
            made.before = None
        if made.before is None and made.history:
            made.growth = histories.grown(self._run, history, text, key)
            if made.growth is not None and self._redaction.keys.is_inside_path(made.growth.key):
                made.growth = None  # an addition is read without the keys around its list
            stale = self._stale(made)
            if made.growth is not None and None in stale:
                made.growth = None
            elif made.growth is not None:
                self._read(made, stale)
        if made.before is None and made.growth is None:
            self._plant(made, 0, text, key)
        self._texts.append(made)
        return made

    def _plant(self, text: Text, at: int, raw: str, key: str) -> None:
        text.nodes[at] = walk.parse_tree(
            raw, self._redaction.keys_for(self._casting), key, deadline=self._deadline, shared=self.shared
        )
        self.nodes.append(text.nodes[at])

    def _read(self, text: Text, stale: Iterable[int | None]) -> None:
        """Read parts of the earlier text that this one continues, and the addition, without reading any part twice."""
        growth = text.growth
        if growth is None:
            return
        for at, (raw, key) in enumerate(growth.texts()):
            if at in stale and at not in text.nodes:
                self._plant(text, at, raw, text.key if key is None else key)
        if growth.added and len(growth.before.parts) not in text.nodes:
            self._plant(text, len(growth.before.parts), growth.added, growth.key)

    def _stale(self, text: Text, since: Cast | None = None) -> list[int | None]:
        """Return the known parts that the present cast changes; ``[None]`` if that is uncertain.

        `since` is the cast of an earlier check: with it, only newer values count.
        """
        known, casting = text.known, self._casting
        if known is None or (casting is None and not known[0].cast):
            return []
        settled, original = known
        if casting is None or (settled.has_edits and not settled.cast):  # that cast has not learnt what is in it
            return [None]
        needles = casting.needles(settled.cast if since is None else since)
        if needles is None:
            return [None]
        if text.growth is None:
            return [None] if needles.occur_in(original) else []
        return [at for at, (raw, _) in enumerate(text.growth.texts()) if needles.occur_in(raw)]

    def attributes(self, attributes: Attributes, planned: Sequence[str] = ()) -> dict[str, AttributeValue]:
        """Add attributes; return a function that gives them once the work is settled.

        Protocol values and `planned` ones stay.
        """
        made = dict(attributes)
        protocol: dict[str, AttributeValue] = {}
        for name, value in attributes.items():
            if not self._redaction.keys[name].plain:
                self._names.append((made, name, self.text(name)))
            if name in planned or value is None or isinstance(value, bool):
                continue
            if _is_protocol(name, value):
                protocol[name] = value
                continue
            if isinstance(value, str):
                self._places.append((made, name, self.text(value, name, name)))
            elif isinstance(value, int | float):
                node = walk.plant_number(value, self._redaction.keys, name)
                if node is not None:
                    self.nodes.append(node)
                    self._numbers.append((made, name, node))
            else:
                self._values.append(value)
                redacted = self._redaction.redact(value, (name,), self._deadline, self._casting)
                self.surrogates.update(redacted.surrogates)
                made[name] = redacted.value
        self._protocol(made, protocol)
        return made

    def _protocol(self, made: dict[str, AttributeValue], values: Attributes) -> None:
        """Add protocol values, most of which contain nothing private."""
        held = {name: list(texts_in(value)) for name, value in values.items() if name != genai.REDACTION_SURROGATES}
        unsure = {text for texts in held.values() for text in texts if _MAY_BE_SECRET.search(text)}
        secret = self._redaction.holding(_SECRETS, unsure, self._deadline)
        for name, texts in held.items():
            if secret.isdisjoint(texts) and (name in OWN or not any(map(_MAY_BE_MISPLACED.search, texts))):
                continue
            redacted = self._redaction.redact(values[name], (name,), self._deadline)
            if any(finding.class_ in _MISPLACED for finding in redacted.findings):
                self.surrogates.update(redacted.surrogates)
                made[name] = redacted.value

    def settle(self) -> None:
        """Compute the result for every text."""
        names: dict[str, str] = {}
        before = None if self._casting is None else self._casting.cast
        for text in self._texts:
            if text.known is not None:
                names.update(text.known[0].names())
        names = self._redaction.settle(self.nodes, self.surrogates, names=names, deadline=self._deadline, casting=self._casting)
        self._beside = Repeats(names)
        self.shared = {}
        casting = self._casting
        cast = None if casting is None else casting.cast
        is_same = cast is before
        first = self._before_learning = len(self.nodes)
        for text in self._texts:
            if text.known is None:
                continue
            settled, original = text.known
            stale = [] if is_same else self._stale(text, before)
            if None in stale or (stale and text.growth is None) or not settled.is_untouched_by(self._beside, original):
                text.before = text.growth = None
                text.nodes = {}
                self._plant(text, 0, text.text, text.key)
            else:
                self._read(text, stale)
                for at, part in enumerate(settled.parts):
                    if at not in text.nodes:
                        self.surrogates.update(part.surrogates)
        if len(self.nodes) > first:
            again = self.nodes[first:]
            self._redaction.settle(again, self.surrogates, names=names, deadline=self._deadline, casting=casting)
        self.learnt_late = casting is not None and casting.cast is not cast

    def missed(self, before: Cast) -> bool:
        """Return whether a form of a later finding in the same span may be in a text read earlier.

        A walk drops words that are whole values, and lists are read before the rest.
        """
        casting = self._casting
        if casting is None or casting.cast is before:
            return False
        needles = casting.needles(before)
        if needles is not None and any(needles.occur_in(text) for value in self._values for text in texts_in(value)):
            return True
        words = casting.plain_since(before)
        raws = [node.raw for node in self.nodes[: self._before_learning]] if words else ()
        return any(not words.isdisjoint(_WHOLE_WORD.findall(raw)) for raw in raws)

    def finish(self) -> None:
        """Put the results into the span, and remember them."""
        casting = self._casting
        for text in self._texts:
            settled = text.before
            if casting is not None and not casting.detects:
                text.made = splice.render(text.nodes[0])
            elif settled is None:
                text.made, settled = self._redaction.finish(text.text, text.nodes, self._beside, text.growth, casting)
                if settled is not None and text.growth is None:  # a grown text is kept only in place of its earlier version
                    self._redaction.remember(text.text, text.key, settled, self._remembers)
            else:
                text.made = settled.text
                if casting is not None and settled.cast is not casting.cast:
                    settled = SettledText(settled.text, settled.parts, casting.cast)
                    self._redaction.remember(text.text, text.key, settled, self._remembers)
            if settled is not None and text.history:
                self._redaction.histories.keep(self._run, text.history, text.text, settled, text.growth)
        for attributes, name, text in self._places:
            attributes[name] = text.made
        for attributes, name, node in self._numbers:
            value = attributes[name]
            if isinstance(value, int | float):
                attributes[name] = splice.as_number(splice.render(node), value, self.surrogates)
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
