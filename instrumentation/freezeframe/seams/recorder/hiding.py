"""Hide the content that OpenInference's `TraceConfig` and ``OPENINFERENCE_HIDE_*`` hide; each loss is a named gap.

OpenInference hides single attributes. Bytes that hold anything of the hidden content are not kept at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from typing import Final, Protocol, runtime_checkable

from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.gaps import NOT_COMPARED, Gap, GapKind, gaps_to_json
from freezeframe_schemas.span import Attributes, AttributeValue

VARIABLES: Final = "OPENINFERENCE_HIDE_"

_INPUT: Final = "input.value"
_OUTPUT: Final = "output.value"
_PARAMETERS: Final = "llm.invocation_parameters"
_TOOLS: Final = "llm.tools.0.tool.json_schema"
_ASKED: Final = (
    "llm.input_messages.0.message.content",
    "llm.input_messages.0.message.contents.0.message_content.text",
    "llm.input_messages.0.message.contents.0.message_content.image.image.url",
)
_ANSWERED: Final = (
    "llm.output_messages.0.message.content",
    "llm.output_messages.0.message.contents.0.message_content.text",
)
_PROMPTS: Final = ("llm.prompts.0.prompt.text",)
_CHOICES: Final = ("llm.choices.0.completion.text",)
_EMBEDDED: Final = "embedding.embeddings.0.embedding.text"
_VECTOR: Final = "embedding.embeddings.0.embedding.vector"
_DOCUMENTS: Final = "retrieval.documents.0.document.content"

_HOLDS: Final[Mapping[str, tuple[str, ...]]] = {
    genai.ENTRY_INPUT: (_INPUT,),
    genai.TOOL_CALL_ARGUMENTS: (_INPUT,),
    genai.RETRIEVAL_QUERY: (_INPUT,),
    genai.FRAMEWORK_STATE: (_INPUT, _OUTPUT),
    genai.INPUT_MESSAGES: (_INPUT, *_ASKED, *_PROMPTS),
    genai.SYSTEM_INSTRUCTIONS: (_INPUT, *_ASKED),
    genai.TOOL_DEFINITIONS: (_TOOLS,),
    genai.REQUEST_PARAMETERS: (_INPUT, _PARAMETERS),
    genai.ENTRY_OUTPUT: (_OUTPUT,),
    genai.TOOL_CALL_RESULT: (_OUTPUT,),
    genai.RETRIEVAL_DOCUMENTS: (_OUTPUT, _DOCUMENTS),
    genai.OUTPUT_MESSAGES: (_OUTPUT, *_ANSWERED, *_CHOICES),
    genai.RESPONSE_DETAILS: (_OUTPUT,),
    genai.RESPONSE_ERROR: (_OUTPUT,),
    genai.ERROR_CHAIN: (_OUTPUT,),
}
"""Attribute -> OpenInference's names of its content."""
_MODEL_BYTES: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    genai.OP_EMBEDDINGS: ((_EMBEDDED,), (_VECTOR,)),
    genai.OP_TEXT_COMPLETION: (_PROMPTS, _CHOICES),
}
"""Operation of a model call -> the content of its request besides the parameters, and of its answer."""
_MESSAGES: Final = ((*_ASKED, _TOOLS), _ANSWERED)


@runtime_checkable
class MasksValues(Protocol):
    """The part of ``openinference.instrumentation.TraceConfig`` that is used."""

    def mask(self, key: str, value: str) -> object:
        """Return the value as it may be recorded."""
        ...


def load_config(trace_config: object, environ: Mapping[str, str] = os.environ) -> MasksValues | None:
    """Return the configuration of hiding: the one passed in, else that of the variables; None to hide nothing.

    Raises:
        ConfigError: it is not a `TraceConfig`.
    """
    if trace_config is None:
        if not any(name.startswith(VARIABLES) for name in environ):
            return None
        from openinference.instrumentation import TraceConfig  # 0.1 s: only if there is something to hide

        trace_config = TraceConfig()
    if not isinstance(trace_config, MasksValues):
        raise ConfigError(
            f"instrument(trace_config=...): found {type(trace_config).__name__}, "
            "expected openinference.instrumentation.TraceConfig",
            do="see docs/configuration.md",
        )
    return trace_config


class Hiding:
    """Removes hidden content from a span's attributes."""

    def __init__(self, config: MasksValues | None) -> None:
        names_of_content = {name for names in (*_HOLDS.values(), *_MESSAGES) for name in names} | {_EMBEDDED, _VECTOR}
        self._hidden: Collection[str] = (
            frozenset() if config is None else {n for n in names_of_content if config.mask(n, "x") != "x"}
        )

    def __bool__(self) -> bool:
        return bool(self._hidden)

    def of(self, attributes: Attributes) -> Attributes:
        """Return the attributes without hidden content; bodies and the entry point's input and output become named gaps."""
        if not self._hidden:
            return attributes
        kept: dict[str, AttributeValue] = {
            name: value for name, value in attributes.items() if not self._hides(_HOLDS.get(name, ()))
        }
        if _INPUT in self._hidden and isinstance(url := kept.get(genai.URL_FULL), str):
            kept[genai.URL_FULL] = url.partition("?")[0]
        if genai.EXCHANGE_KIND in attributes:
            self._omit_bodies(kept)
        gaps = [*self._entry_gaps(attributes)]
        if gaps:
            known = kept.get(genai.ENTRY_GAPS)
            rows = json.loads(known) if isinstance(known, str) else []
            kept[genai.ENTRY_GAPS] = json.dumps([*rows, *json.loads(gaps_to_json(gaps))], ensure_ascii=False)
        return kept

    def _hides(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if name in self._hidden]

    def _omit_bodies(self, kept: dict[str, AttributeValue]) -> None:
        request, response = self._bytes_hold(kept)
        if hidden := self._hides(request):
            kept.pop(genai.REQUEST_BODY_ENCODING, None)
            kept |= {genai.REQUEST_BODY: "", genai.REQUEST_BODY_OMITTED: _why(hidden)}
        if hidden := self._hides(response):
            kept.pop(genai.RESPONSE_BODY_ENCODING, None)
            kept |= {genai.RESPONSE_BODY: "", genai.RESPONSE_BODY_OMITTED: _why(hidden)}
            kept |= {genai.RESPONSE_CHUNK_SIZES: (), genai.RESPONSE_CHUNK_OFFSETS_NS: ()}

    def _bytes_hold(self, attributes: Attributes) -> tuple[tuple[str, ...], tuple[str, ...]]:
        match attributes.get(genai.EXCHANGE_KIND):
            case Kind.MODEL.value:
                asked, answered = _MODEL_BYTES.get(str(attributes.get(genai.OPERATION_NAME)), _MESSAGES)
                return (_INPUT, _PARAMETERS, *asked), (_OUTPUT, *answered)
            case Kind.RETRIEVAL.value:
                return (_INPUT,), (_OUTPUT, _DOCUMENTS)
            case _:
                return (_INPUT,), (_OUTPUT,)

    def _entry_gaps(self, attributes: Attributes) -> Iterator[Gap]:
        if genai.ENTRY_INPUT in attributes and _INPUT in self._hidden:
            yield Gap(kind=GapKind.INPUT_OPAQUE, text=f"the run's input was not kept, {_why([_INPUT])}")
        if genai.ENTRY_OUTPUT in attributes and _OUTPUT in self._hidden:
            yield Gap(kind=GapKind.OUTCOME_PARTLY, text=f"{NOT_COMPARED}the output, which was not kept, {_why([_OUTPUT])}")


def _why(hidden: list[str]) -> str:
    return f"hidden by {VARIABLES}* or TraceConfig ({hidden[0]})"
