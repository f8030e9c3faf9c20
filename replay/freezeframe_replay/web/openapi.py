"""An OpenAPI description of a table of routes: schemas are made from the answers' dataclasses. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Union

JSON: Final = "application/json"
_PLAIN: Final[Mapping[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    dt.datetime: {"type": "string", "format": "date-time"},
    dt.timedelta: {"type": "number", "description": "seconds"},
    type(None): {"type": "null"},
    Any: {},
}
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "do": {"type": "string"}},
    "required": ["error"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """Description of one route."""

    method: str
    path: str
    """As aiohttp takes it."""
    summary: str
    answer: Any = None
    """The type of a JSON answer; None if `media` is another."""
    media: str = JSON
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Mapping[str, str] | None = None
    """Fields of a JSON body, all of them texts or numbers."""
    faults: Sequence[int] = (400, 401, 404, 503)


def description(routes: Iterable[Described], *, title: str, version: str, about: str) -> dict[str, Any]:
    """Return the description of the routes, version 3.1."""
    schemas: dict[str, Any] = {"Error": ERROR}
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": about},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"reader": {"type": "http", "scheme": "bearer"}}},
        "security": [{"reader": []}],
    }


def _operation(route: Described, schemas: dict[str, Any]) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _PLAIN[str]} for name in _PARAMETER.findall(route.path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": text, "schema": {"type": "string"}} for name, text in route.query.items()
    ]
    content: dict[str, Any] = {} if route.answer is None else {"schema": schema_of(route.answer, schemas)}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "done", "content": {route.media: content}},
            **{
                str(status): {"description": "an error", "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}}
                for status in route.faults
            },
        },
    }
    if route.body is not None:
        fields = {name: {"description": text} for name, text in route.body.items()}
        operation["requestBody"] = {"content": {JSON: {"schema": {"type": "object", "properties": fields}}}}
    return operation


def schema_of(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a type; those of dataclasses are put into `schemas` and named.

    Raises:
        TypeError: the type has no form in JSON.
    """
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(item, schemas) for item in inner]}
    if origin is tuple and len(inner) == 2 and inner[1] is not Ellipsis:
        return {"type": "array", "prefixItems": [schema_of(item, schemas) for item in inner], "minItems": 2, "maxItems": 2}
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return {"type": "array", "items": schema_of(inner[0], schemas)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(inner[1], schemas)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _of_dataclass(kind, schemas)
    raise TypeError(f"{kind!r} has no form in JSON")


def _of_dataclass(kind: type, schemas: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in schemas:
        schemas[name] = {}  # it may hold itself
        hints = typing.get_type_hints(kind)
        names = [item.name for item in dataclasses.fields(kind)]  # pyright: ignore[reportArgumentType]  # is_dataclass, above
        schemas[name] = {
            "type": "object",
            "properties": {item: schema_of(hints[item], schemas) for item in names},
            "required": names,
        }
    return {"$ref": f"#/components/schemas/{name}"}
