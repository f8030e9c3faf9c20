"""A stand-in for a framework's tool object, for one call of one of its methods.

Some frameworks put validation, usage limits and formatting around the function that a tool holds, in one method. The stand-in
lets that method run unchanged, in a recording and in a replay alike, with the seam around just the function: the rest is
the tool's own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from freezeframe.seams.functions import calls
from freezeframe.seams.functions.marked import Binder, Describe
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind


class StandIn:
    """Looks like `tool`, except for the attributes that are named."""

    __slots__ = ("_instead", "_tool")

    def __init__(self, tool: Any, **instead: Any) -> None:
        object.__setattr__(self, "_tool", tool)
        object.__setattr__(self, "_instead", instead)

    def __getattr__(self, name: str) -> Any:
        instead: dict[str, Any] = object.__getattribute__(self, "_instead")
        return instead[name] if name in instead else getattr(object.__getattribute__(self, "_tool"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_tool"), name, value)


def describe_tool(function: Any, *, name: str, seam: str, call_id: str | None = None, hidden: Collection[str] = ()) -> Describe:
    """Return a function that describes a call of a tool's function.

    Args:
        function: the function that does the work.
        name: the tool's name, as the model knows it.
        seam: the seam's name.
        call_id: the model's id of the call, if the framework gives it.
        hidden: parameters that the framework, not the model, fills with objects of the process.
    """
    bind = Binder(function)

    def describe(args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
        arguments = {key: value for key, value in kwargs.items() if key not in hidden}
        body = values.encode({"args": list(args), "kwargs": arguments}) if len(arguments) < len(kwargs) else bind(args, kwargs)
        return calls.FunctionCall(kind=Kind.TOOL, name=name, seam=seam, body=body, call_id=call_id).by(
            None, functions=(function,)
        )

    return describe
