"""ServedRun: one run behind the server, its answers, and the account of a program's requests. Independent of HTTP libraries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from freezeframe_replay.engine.freeze import exchange_key
from freezeframe_replay.engine.mcp_answers import FUNCTIONS
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_replay.engine.tools_in_requests import tools_in_requests
from freezeframe_replay.process.loopback_http import TO_PREFIX
from freezeframe_replay.process.served_tools import MCP_METHODS, ServedTools, called_by_name
from freezeframe_schemas.divergence import Check, DivergenceKind, Report
from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.exchange import Exchange, Kind
from freezeframe_schemas.fixture import Fixture, Step
from freezeframe_schemas.wire.document import JsonObject, JsonValue
from freezeframe_schemas.wire.registry import NEEDS_ITS_HOST, PROVIDERS, Provider, dialect_named

if TYPE_CHECKING:
    from freezeframe_redaction.keyring.keys import TenantKey

TOOLS_VARIABLE: Final = "FREEZEFRAME_TOOLS_URL"
"""Address at which a served program calls a tool as plain HTTP."""
MCP_VARIABLE: Final = "FREEZEFRAME_MCP_URL"
"""The MCP server of the run's tools."""
HTTP_VARIABLE: Final = "FREEZEFRAME_HTTP_URL"
"""Prefix for the URL of a tool's own HTTP call."""
TOOLS_PATH: Final = "/-/tools"
MCP_PATH: Final = "/-/mcp"
AT_PREFIX: Final = "/-/at/"
"""Followed by a provider's name and the path of its API. Elsewhere, the host shows the provider."""

_STRICT: Final = ReplayPolicy()


class ServedRun:
    """A recorded run that answers a program in another process.

    Model calls are answered from the recording. A tool is, too, if the program calls it here; a tool that it
    never calls here is its own: it runs for real, and is not compared.

    Raises:
        FixtureError: the run holds nothing that a server could answer.
    """

    def __init__(self, fixture: Fixture, *, policy: ReplayPolicy = _STRICT, key: TenantKey | None = None) -> None:
        self.fixture = servable(fixture)
        if not self.fixture.steps:
            raise FixtureError(f"run {fixture.run_id}: found no HTTP exchanges and no tools, so a server has nothing to answer")
        self.session = ReplaySession(self.fixture, policy=policy, key=key)
        self.tools = ServedTools(self.fixture, self.session.respond)
        self.made_up: set[str] = set()
        """Requests answered from other parts of the run, although their own answer was not recorded."""
        self._kinds = {step.number: step.exchange for step in self.fixture.steps}
        self._origins = {
            (asked.method, urlsplit(asked.url).path): _origin(asked.url)
            for asked in (step.exchange.request for step in reversed(self.fixture.steps))
            if asked.method
        }
        self._around = {step.number: step.inside for step in fixture.steps if step.inside is not None}

    def report(self, status: int | None = 0) -> Report:
        """Return the report so far. The program's input and outcome cannot be seen from outside.

        Args:
            status: the program's exit status.
        """
        found = self.session.report()
        own = {number for number in self._kinds if self._is_own(number)} - {item.step for item in found.served}
        return replace(
            found,
            steps=found.steps - len(own),
            divergences=tuple(
                item for item in found.divergences if item.kind is not DivergenceKind.MISSING_CALL or item.step not in own
            ),
            warnings=(*found.warnings, *self._warnings()),
            input_check=Check.NOT_SEEN,
            outcome_check=Check.NOT_SEEN,
            exit_status=status,
        )

    def url_of(self, method: str, target: str) -> str | None:
        """Return the URL for a target on the server: a named provider's, or the recorded one with the same path."""
        if target.startswith(AT_PREFIX):
            name, _, rest = target.removeprefix(AT_PREFIX).partition("/")
            row = next((row for row in PROVIDERS if row.name == name), None)
            return None if row is None else f"{row.origin}/{rest}"
        origin = self._origins.get((method, urlsplit(target).path))
        return None if origin is None or not target.startswith("/") else f"{origin}{target}"

    def models(self) -> list[str]:
        """Return the models that the run used, in order."""
        return list(dict.fromkeys(step.model for step in self.fixture.steps if step.model))

    def models_document(self) -> JsonObject:
        """Return the list of models in the forms of OpenAI, Anthropic, Gemini and Ollama, which have no field in common."""
        names = self.models()
        always: JsonObject = {"object": "model", "created": 0, "owned_by": "freezeframe", "type": "model"}
        rows: list[JsonValue] = [
            {**always, "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"} for name in names
        ]
        listed: list[JsonValue] = [{"name": f"models/{name}", "model": name, "displayName": name} for name in names]
        ends: JsonObject = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
        return {"object": "list", "data": rows, "has_more": False, "models": listed, **ends}

    def environment(self, url: str) -> dict[str, str]:
        """Return the variables that point a program's SDKs to the run's place on the server, with placeholder keys."""
        recorded = dict(base for step in reversed(self.fixture.steps) if (base := _recorded_base(step.exchange)) is not None)
        keys = {name: "replay" for row in PROVIDERS for name in row.credentials}
        bases = {name: f"{url}{_place(row)}{recorded.get(row.name, path)}" for row in PROVIDERS for name, path in row.bases}
        tools = {TOOLS_VARIABLE: f"{url}{TOOLS_PATH}", MCP_VARIABLE: f"{url}{MCP_PATH}", HTTP_VARIABLE: f"{url}{TO_PREFIX}"}
        return {**keys, **bases, **tools, "NO_PROXY": "127.0.0.1,localhost"}

    def _is_own(self, number: int) -> bool:
        """Return whether the program need not request a step: its own tool, or a step inside one that is served."""
        call = self._kinds[number]
        if call.kind in FUNCTIONS:
            return call.name not in self.tools.asked
        if call.kind is Kind.MCP:
            return MCP_METHODS not in self.tools.asked
        outer = self._kinds.get(self._around.get(number, 0))
        return outer is not None and outer.kind in FUNCTIONS and outer.name in self.tools.asked

    def _warnings(self) -> Iterator[str]:
        for asked in sorted(self.made_up):
            yield f"{asked} was answered with the models of the run: the recording holds no answer to it"


def servable(fixture: Fixture) -> Fixture:
    """Return the part of a run that a server can answer: model calls, tools, MCP, and HTTP outside of tools.

    A program in another process runs its own tools unless it calls them here, and their model calls come here, too. Of a
    program that was recorded from outside, the results of its tools are in the requests to the model.
    """
    last = max((step.number for step in fixture.steps), default=0)
    shown = [
        Step(number=number, exchange=exchange, key=exchange_key(exchange).digest, ordinal=0)
        for number, exchange in enumerate(tools_in_requests(fixture.steps), last + 1)
    ]
    steps = [step for step in fixture.steps if step.exchange.kind is Kind.MODEL]
    steps += [step for step in fixture.askable if step.exchange.kind is not Kind.MODEL]
    steps = [*sorted(steps, key=lambda step: step.number), *shown]
    entry = replace(fixture.entry, kind=None, input=None, output=None, error=None)
    made = tuple(replace(step, inside=None, exchange=called_by_name(step.exchange)) for step in steps)
    return replace(fixture, entry=entry, steps=made)


def _place(row: Provider) -> str:
    return f"{AT_PREFIX}{row.name}" if row.name in NEEDS_ITS_HOST else ""


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _recorded_base(exchange: Exchange) -> tuple[str, str] | None:
    """Return the provider of a request's dialect and the path before the call, if SDKs can be configured with it."""
    dialect = dialect_named(exchange.dialect)
    path = urlsplit(exchange.request.url).path
    if dialect is None or not dialect.call_path or not path.endswith(dialect.call_path):
        return None
    return dialect.provider, path.removesuffix(dialect.call_path)
