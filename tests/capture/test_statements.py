"""A hook is written once for a library's plain and awaited calls; a plain call is as without it."""

from __future__ import annotations

from typing import Any

import pytest

from freezeframe.seams.databases import statements


@pytest.mark.parametrize(
    "error", [StopIteration("end"), StopAsyncIteration(), RuntimeError("no"), KeyError("k"), GeneratorExit()]
)
def test_what_a_library_raises_reaches_the_program(error: BaseException) -> None:
    def execute() -> None:
        raise error

    async def hook(run: Any, original: Any) -> Any:
        del run
        return await original()

    with pytest.raises(type(error)) as raised:
        statements.both(hook)[0](execute)
    assert raised.value is error
