"""Read the values of OpenInference's context managers (``using_session``, ``using_user``, ...) for the code inside them.

They keep it in the OTel context under OpenInference's attribute names, so it is read without importing the package.

Source: ``openinference.instrumentation.context_attributes`` (``CONTEXT_ATTRIBUTES``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import get_current

from freezeframe_schemas import genai

if TYPE_CHECKING:
    from opentelemetry.context import Context

_SAID: Final[Mapping[str, tuple[str, ...]]] = {
    "session.id": (genai.SESSION_ID, genai.CONVERSATION_ID),
    "user.id": (genai.USER_ID,),
    "llm.prompt_template.version": ("llm.prompt_template.version", genai.PROMPT_VERSION),
    **{name: (name,) for name in ("metadata", "tag.tags", "llm.prompt_template.template", "llm.prompt_template.variables")},
}
"""Name in the context -> our attributes; OpenInference's own name if the conventions have none."""


def attributes_around(context: Context | None) -> dict[str, Any]:
    """Return the attributes that a span which begins in this context (None: the current one) takes from it."""
    around = get_current() if context is None else context
    return {ours: around[name] for name in around.keys() & _SAID.keys() for ours in _SAID[name]}
