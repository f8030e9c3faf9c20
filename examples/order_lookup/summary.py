"""The note for the support log: one sentence, streamed from Anthropic."""

from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import MessageParam

MODEL = "claude-haiku-4-5"
MAX_TOKENS = 200
SYSTEM_PROMPT = "Summarise our reply for the support log in one sentence."


def summarise(message: str, reply: str) -> str:
    """Return the note about a reply."""
    with Anthropic().messages.stream(
        model=MODEL, max_tokens=MAX_TOKENS, system=SYSTEM_PROMPT, messages=_messages(message, reply)
    ) as stream:
        return "".join(stream.text_stream)


async def summarise_async(message: str, reply: str) -> str:
    """Return the note about a reply."""
    async with AsyncAnthropic().messages.stream(
        model=MODEL, max_tokens=MAX_TOKENS, system=SYSTEM_PROMPT, messages=_messages(message, reply)
    ) as stream:
        return "".join([text async for text in stream.text_stream])


def _messages(message: str, reply: str) -> list[MessageParam]:
    return [{"role": "user", "content": f"Customer: {message}\n\nOur reply: {reply}"}]
