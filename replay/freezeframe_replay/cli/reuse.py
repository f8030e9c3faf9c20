"""`freezeframe run --reuse -- CMD`: answer a program's repeated model calls from earlier runs."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Final

from freezeframe_replay.cli import options
from freezeframe_replay.cli.command import Command
from freezeframe_replay.local.target import open_store
from freezeframe_replay.process.cached_answers import CachedAnswers, Saved
from freezeframe_replay.process.program_recorder import ProgramRecorder
from freezeframe_replay.process.programs import collector_settings, record_program
from freezeframe_replay.report.render import counted
from freezeframe_schemas.errors import ConfigError

COMMAND: Final = Command(
    description="For development and evaluation. A model request that is equal to one of an earlier run gets the "
    "recorded answer; any other goes to the provider and is recorded, as with `freezeframe run --proxy`. Answers that "
    "redaction changed are not used. Reused answers are not part of the recorded run, and prove nothing about the "
    "program.",
    examples={"freezeframe run --reuse -- node eval.mjs": "the second time, only new requests go out"},
    exit_codes={0: "as the program", 1: "as the program, or it could not be started, or no store was found"},
    takes_program=True,
    options=(
        options.JSON,
        options.STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Run the program; print the savings to stderr."""
    if not arguments.program:
        raise ConfigError("expected a command after `--`: freezeframe run --reuse -- node eval.mjs")
    cache = CachedAnswers(open_store(options.place_of(arguments)))
    settings = collector_settings({}, arguments.data)
    recorder, status, fate = record_program(arguments.program, settings=settings, known=cache.find)
    if arguments.json:
        summary = {"run": recorder.trace_id, "asked": recorder.counts.get("model", 0), "saved": asdict(cache.saved)}
        print(options.json_text(summary), file=sys.stderr)
    else:
        print(_summary(recorder, cache.saved), file=sys.stderr)
    if cache.fault:
        print(f"  the store could not be read, so calls went to the provider: {cache.fault}", file=sys.stderr)
    if fate.failed:
        print(f"  lost: {counted(fate.failed, 'span')} could not be delivered: {fate.why}", file=sys.stderr)
    return status


def _summary(recorder: ProgramRecorder, saved: Saved) -> str:
    model_calls = recorder.counts.get("model", 0)
    cost = f"${saved.cost_usd:.4f}" + (
        f" and {counted(saved.unpriced, 'call')} without a known price" if saved.unpriced else ""
    )
    return (
        f"answered {saved.calls} of {counted(saved.calls + model_calls, 'model call')} from earlier runs; "
        f"saved {saved.input_tokens:,} tokens in, {saved.output_tokens:,} out, {cost}\n"
        f"  asked and recorded {model_calls}: run {recorder.trace_id}"
    )
