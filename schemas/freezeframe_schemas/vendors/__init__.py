"""Vendor dialects: one module per attribute convention. A new one is a module and its place in `DIALECTS`."""

from __future__ import annotations

from typing import Final

from freezeframe_schemas.vendors import (
    adk,
    coding_agents,
    exchange,
    genai_history,
    langfuse,
    langsmith,
    logfire,
    mastra,
    mlflow,
    openinference,
    openllmetry,
    pydantic_ai,
    semantic_kernel,
    strands,
    vercel,
)
from freezeframe_schemas.vendors.dialect import Dialect

DIALECTS: Final[tuple[Dialect, ...]] = (
    exchange.DIALECT,
    openinference.DIALECT,
    openllmetry.DIALECT,
    vercel.DIALECT,
    langsmith.DIALECT,
    langfuse.DIALECT,
    logfire.DIALECT,
    pydantic_ai.DIALECT,
    mlflow.DIALECT,
    strands.DIALECT,
    mastra.DIALECT,
    adk.DIALECT,
    semantic_kernel.DIALECT,
    *coding_agents.DIALECTS,
)
"""A span's dialect is the first that fits it."""

HISTORY: Final = genai_history.DIALECT
"""Applied to every span, after its vendor's."""
