"""Stubs of WireMock: a mapping for each recorded HTTP call, for ``mappings/`` or ``POST /__admin/mappings/import``. Pure.

Equal requests get the recorded answers one after the other, as the states of a scenario. Bodies are compared as JSON if they
are JSON, else byte for byte; headers are not compared.

Source: https://wiremock.org/docs/stubbing, https://wiremock.org/docs/request-matching, https://wiremock.org/docs/stateful-behaviour
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

from freezeframe_schemas.exchange import Exchange
from freezeframe_schemas.wire.document import JsonObject, JsonValue, dump, parse
from freezeframe_schemas.wire.encoding import decode_body

_STARTED: Final = "Started"
_OF_THE_TRANSFER: Final = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection"})


def write_stubs(exchanges: Iterable[Exchange]) -> Iterator[str]:
    """Yield the pieces of a file of mappings. Each exchange is an HTTP call that was answered."""
    seen: dict[str, int] = {}
    mappings: list[JsonObject] = []
    for exchange in exchanges:
        request = _request(exchange)
        scenario = dump(request)
        seen[scenario] = place = seen.get(scenario, 0) + 1
        # the last answer stays: a client that asks more often than the recording gets it again
        mappings.append({"name": exchange.name, "request": request, "response": _response(exchange), "place": place})
    yield '{"mappings": ['
    numbers = {scenario: number for number, scenario in enumerate(seen, 1)}
    for count, mapping in enumerate(mappings):
        place, scenario = mapping.pop("place"), dump(mapping["request"])
        if (last := seen[scenario]) > 1 and isinstance(place, int):
            mapping["scenarioName"] = f"{mapping['name']}, {numbers[scenario]}"
            mapping["requiredScenarioState"] = _STARTED if place == 1 else f"{place}"
            if place < last:
                mapping["newScenarioState"] = f"{place + 1}"
        yield f"{',' if count else ''}\n{dump(mapping)}"
    yield "\n]}\n"


def _request(exchange: Exchange) -> JsonObject:
    parts = urlsplit(exchange.request.url)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    request: JsonObject = {"method": exchange.request.method, "url": path}
    if exchange.request.body:
        request["bodyPatterns"] = [_pattern(decode_body(exchange.request.body, exchange.request.headers))]
    return request


def _pattern(body: bytes) -> JsonObject:
    found = parse(body)
    if isinstance(found, dict | list):
        return {"equalToJson": dump(found)}
    return {"binaryEqualTo": base64.b64encode(body).decode()}


def _response(exchange: Exchange) -> JsonObject:
    response = exchange.response
    headers: dict[str, JsonValue] = {}
    for name, value in response.headers:
        if name.lower() not in _OF_THE_TRANSFER:
            earlier = headers.get(name)
            several: list[JsonValue] = earlier if isinstance(earlier, list) else [earlier]
            headers[name] = value if earlier is None else [*several, value]
    body = decode_body(response.body, response.headers)
    written: JsonObject = {"status": response.status, "headers": headers}
    try:
        return {**written, "body": body.decode()}
    except UnicodeDecodeError:
        return {**written, "base64Body": base64.b64encode(body).decode()}
