"""Canary: ask recorded questions again, live, and report drift: of the model, its fingerprint, its words.

The recorded request goes out again, byte for byte, with a key from the caller's environment. A key is sent only to a host that
is known to be that provider's, or that the caller names: a foreign fixture cannot send it elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit, urlunsplit
from urllib.request import Request as HttpRequest
from urllib.request import build_opener

from freezeframe_replay.engine.compare import shorten
from freezeframe_replay.sources.http_door import NoRedirect
from freezeframe_schemas import genai
from freezeframe_schemas.address import shown_address
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.exchange import SECRET_REMOVED, Headers, Kind, Request
from freezeframe_schemas.fixture import Fixture, Step
from freezeframe_schemas.wire import decode_body, find_dialect_of
from freezeframe_schemas.wire.registry import PROVIDERS, Provider, find_provider

_NOT_SENT: Final = frozenset({"host", "content-length", "connection", "accept-encoding", "transfer-encoding", "traceparent"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFacts:
    """Facts about a model's answer."""

    status: int
    model: str = ""
    fingerprint: str = ""
    finish: str = ""
    calls: str = ""
    """Tools that it calls, with their arguments."""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference from the recording."""

    what: str
    """A field of `AnswerFacts`."""
    recorded: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedCall:
    """One question that was asked again."""

    run_id: str
    step: int
    url: str
    """Its address, without a query."""
    drifts: tuple[Drift, ...] = ()
    error: str = ""
    """Reason for a missing answer, if so."""
    text_decides: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """Settings for repeating calls."""

    environment: Mapping[str, str]
    """Source of keys (``OPENAI_API_KEY``, ...) and base URLs (``OPENAI_BASE_URL``, ...)."""
    base_url: str = ""
    """Wins over the environment's."""
    ignore: frozenset[str] = field(default_factory=frozenset[str])
    """Fields of `AnswerFacts` that do not count."""
    timeout_s: float = 60.0


def pinned_questions(fixture: Fixture, steps: frozenset[int] = frozenset()) -> Iterator[Step]:
    """Yield the model calls of a run that were answered, all or those named."""
    for step in fixture.steps:
        exchange = step.exchange
        wanted = step.number in steps if steps else exchange.kind is Kind.MODEL
        is_kept = not exchange.request.omitted and not exchange.response.omitted
        if wanted and exchange.request.method and (exchange.response.status or 0) == 200 and is_kept:
            yield step


def ask_again(fixture: Fixture, step: Step, canary: Canary) -> RepeatedCall:
    """Ask a recorded question for real and return the drift.

    Raises:
        ConfigError: the key for it is not in the environment, or the host is not known to be the provider's.
    """
    request = step.exchange.request
    url, headers = _address(step, canary)
    outgoing = HttpRequest(url, data=request.body, headers=headers, method=request.method)  # noqa: S310 - http(s) only, see _address
    shown = shown_address(url)
    try:
        with build_opener(NoRedirect).open(outgoing, timeout=canary.timeout_s) as response:
            now = _facts_of_answer(step, response.status, tuple(response.headers.items()), response.read())
    except HTTPError as error:
        with error:
            reason = error.read(300).decode(errors="replace")
        return RepeatedCall(run_id=fixture.run_id, step=step.number, url=shown, error=f"HTTP {error.code}: {reason}")
    except (URLError, TimeoutError, OSError) as error:
        return RepeatedCall(run_id=fixture.run_id, step=step.number, url=shown, error=str(getattr(error, "reason", error)))
    recorded = step.exchange.response
    before = _facts_of_answer(step, recorded.status or 0, recorded.headers, recorded.body)
    if not _says_anything(before):
        reason = "nothing to compare: the recorded answer has no model, words, calls or finish reason"
        return RepeatedCall(run_id=fixture.run_id, step=step.number, url=shown, error=reason)
    decides = _is_steady(request) and "text" not in canary.ignore
    return RepeatedCall(
        run_id=fixture.run_id,
        step=step.number,
        url=shown,
        drifts=tuple(drift for drift in _drifts(before, now) if drift.what not in canary.ignore),
        text_decides=decides,
    )


def has_drifted(asked: RepeatedCall) -> bool:
    """Return whether the answer has drifted: a text counts only if the request asks for a stable one."""
    return any(drift.what != "text" or asked.text_decides for drift in asked.drifts)


def _says_anything(said: AnswerFacts) -> bool:
    return any((said.model, said.fingerprint, said.finish, said.calls, said.text))


def _drifts(before: AnswerFacts, now: AnswerFacts) -> Iterator[Drift]:
    for name in AnswerFacts.__dataclass_fields__:
        was, is_now = str(getattr(before, name)), str(getattr(now, name))
        if was != is_now:
            yield Drift(what=name, recorded=shorten(was), now=shorten(is_now))


def _is_steady(request: Request) -> bool:
    """Return whether a request asks for the same words each time: temperature 0, or a seed."""
    match = find_dialect_of(request)
    attributes = {} if match is None else match.dialect.request_attributes(request.body)
    return attributes.get(genai.REQUEST_TEMPERATURE) == 0 or genai.REQUEST_SEED in attributes


# -- the request ---------------------------------------------------------------------------------------------------------


def _address(step: Step, canary: Canary) -> tuple[str, dict[str, str]]:
    request = step.exchange.request
    provider = _provider(step)
    bases = [variable for variable, _ in provider.bases]
    base = canary.base_url or next((found for name in bases if (found := canary.environment.get(name))), "")
    url = _rebased(request.url, base) if base else request.url
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"step {step.number}: found {shown_address(url)}, expected an http or https URL")
    if not base and _owner(parts.hostname) != provider.name:
        raise ConfigError(
            f"step {step.number}: {parts.hostname} is not known as a host of {provider.name or 'a provider'}: "
            "no key is sent there",
            do=f"name the base URL: --base-url URL, or ${next(iter(bases), 'PROVIDER_BASE_URL')}",
        )
    headers = {name: text for name, text in request.headers if name.lower() not in _NOT_SENT}
    secrets = [name for name, text in headers.items() if text == SECRET_REMOVED]
    if secrets or SECRET_REMOVED in url:
        key = _key(provider, canary, required=not base)
        for name in secrets:
            headers[name] = f"Bearer {key}" if name.lower() == "authorization" else key
        url = url.replace(SECRET_REMOVED, quote(key))
    return url, headers


def _key(provider: Provider, canary: Canary, *, required: bool) -> str:
    found = canary.environment.get(provider.key_variable, "")
    if not found and required:
        raise ConfigError(f"${provider.key_variable}: not set, expected the key to ask {provider.name} with")
    return found or "none"


def _provider(step: Step) -> Provider:
    match = find_dialect_of(step.exchange.request)
    return find_provider(step.provider or (match.provider if match is not None else ""))


def _owner(host: str) -> str:
    """Return the provider to which a host is known to belong."""
    return next((row.name for row in PROVIDERS if re.fullmatch(row.hosts, host)), "")


def _rebased(url: str, base: str) -> str:
    """Return the URL at another base: ``/v1`` at the end of the base is the ``/v1`` at the start of the path."""
    parts, root = urlsplit(url), urlsplit(base if "://" in base else f"http://{base}")  # OLLAMA_HOST has no scheme
    prefix = root.path.rstrip("/")
    path = parts.path if parts.path.startswith(f"{prefix}/") else prefix + parts.path
    return urlunsplit(parts._replace(scheme=root.scheme, netloc=root.netloc, path=path))


# -- the answer ---------------------------------------------------------------------------------------------------------


def _facts_of_answer(step: Step, status: int, headers: Headers, body: bytes) -> AnswerFacts:
    match = find_dialect_of(step.exchange.request)
    if match is None:
        return AnswerFacts(status=status, text=body.decode(errors="replace"))
    content_type = next((text for name, text in headers if name.lower() == "content-type"), "")
    found = match.dialect.response_attributes(
        decode_body(body, headers), content_type=content_type, status=status, headers=headers
    )
    parts = [
        part for message in json.loads(str(found.get(genai.OUTPUT_MESSAGES) or "[]")) for part in message.get("parts") or ()
    ]
    reasons = found.get(genai.RESPONSE_FINISH_REASONS)
    return AnswerFacts(
        status=status,
        model=str(found.get(genai.RESPONSE_MODEL) or ""),
        fingerprint=str(found.get(genai.OPENAI_SYSTEM_FINGERPRINT) or ""),
        finish=", ".join(map(str, reasons)) if isinstance(reasons, list | tuple) else "",
        calls=", ".join(
            f"{part.get('name')}({json.dumps(part.get('arguments'), sort_keys=True, ensure_ascii=False)})"
            for part in parts
            if part.get("type") == "tool_call"
        ),
        text=" ".join(str(part.get("content") or "") for part in parts if part.get("type") != "tool_call").strip(),
    )
