"""What adds each field of the replay kit to the next run: a line to write, or a command to start."""

from __future__ import annotations

from typing import Final

_INSTRUMENT: Final = "freezeframe.instrument()  # before the client is made"
_AT_START: Final = "freezeframe.instrument()  # at the start of the program"
_ENTRY: Final = "@freezeframe.run  # or: freezeframe run -- CMD"
_COMMIT: Final = "GIT_COMMIT=$(git rev-parse HEAD)  # or record inside a git checkout"

ADDS: Final = {
    **dict.fromkeys(("tool_request", "tool_response"), "@freezeframe.tool"),
    **dict.fromkeys(("retrieval_request", "retrieval_response"), "@freezeframe.retriever"),
    **dict.fromkeys(("model_request", "model_response", "model_chunks", "model_completion"), _INSTRUMENT),
    **dict.fromkeys(("model_requested", "provider", "endpoint"), _INSTRUMENT),
    **dict.fromkeys(("entry_point", "entry_input"), _ENTRY),
    **dict.fromkeys(("commit", "commit_dirty"), _COMMIT),
    **dict.fromkeys(("python_version", "package_versions", "time_zone", "random_state"), _AT_START),
    **dict.fromkeys(("environment", "flags"), _ENTRY),
    **dict.fromkeys(
        ("tool_span_request", "tool_span_response", "retrieval_span_request", "retrieval_span_response"),
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true",
    ),
}
"""Name of the field -> what adds it."""
