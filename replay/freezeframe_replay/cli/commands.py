"""The table of commands. `freezeframe --help`, each command's help and ``docs/cli.md`` are made from it."""

from __future__ import annotations

from typing import Final

from freezeframe_replay.cli.change_commands import CHANGE_COMMANDS
from freezeframe_replay.cli.command import Command, Example
from freezeframe_replay.cli.experiment_commands import EXPERIMENT_COMMANDS

OF_THE_BASE_INSTALL: Final = (
    ("run", "Start a program with capture enabled, without changing its code: freezeframe run -- CMD."),
    ("drain", "Send the spans that were spooled while the collector was down: freezeframe drain --spool DIR."),
)
"""The instrumentation's own commands, so that the base install has them; they appear only in the list."""

COMMANDS: Final[tuple[Command, ...]] = (
    Command(
        name="up",
        summary="Start the collector, its store and the replay service on this machine.",
        description="They run in the background on the loopback interface until `freezeframe down`. A second run starts what "
        "is not running and leaves the rest alone.",
        examples=(
            Example(line="freezeframe up", means="usual ports, data in ./.freezeframe"),
            Example(line="freezeframe up --data /srv/freezeframe", means="data elsewhere"),
            Example(line="freezeframe up --clickhouse-port 9123", means="another port (0: any free one)"),
            Example(line="freezeframe up --foreground", means="run until Ctrl-C, for a container or a supervisor"),
        ),
    ),
    Command(
        name="down",
        summary="Stop what `freezeframe up` started.",
        description="No acknowledged span is lost: all are on disk.",
        examples=(
            Example(line="freezeframe down", means="stop the collector and the replay service"),
            Example(line="freezeframe down --data /srv/freezeframe", means="the services of another data directory"),
        ),
    ),
    Command(
        name="status",
        summary="Show what is running, where, and whether it is keeping up.",
        examples=(
            Example(line="freezeframe status", means="addresses, rates, lag, log size, rejected spans"),
            Example(line="freezeframe status --json", means="the same for a script"),
        ),
        exit_codes={0: "everything is running", 1: "something is not", 2: "wrong usage"},
    ),
    Command(
        name="doctor",
        summary="Check this machine, and report what is wrong and how to fix it.",
        examples=(
            Example(line="freezeframe doctor", means="each check: ok, warn or fail, and how to fix it"),
            Example(line="freezeframe doctor --json", means="the same for a script"),
        ),
        exit_codes={0: "no check failed", 1: "at least one failed", 2: "wrong usage"},
    ),
    Command(
        name="runs",
        summary="List the recorded runs, newest first.",
        examples=(
            Example(line="freezeframe runs", means="the last 20"),
            Example(line="freezeframe runs --failed --since 1h", means="runs of the last hour that failed or never finished"),
            Example(line="freezeframe runs --limit 200 --json", means="one JSON array"),
        ),
    ),
    Command(
        name="show",
        summary="Show one run: its tree, what it carries, and how far it can be re-enacted.",
        description="RUN is a run's id, the first digits of it, the id that the program assigned, `last` or `last-failed`.",
        examples=(
            Example(line="freezeframe show last", means="the newest run"),
            Example(line="freezeframe show 4bf92f35", means="the run whose id starts with these digits"),
            Example(line="freezeframe show 4bf92f35 --full", means="with every exchange's request and response"),
            Example(line="freezeframe show tests/regressions/late-order", means="a fixture"),
            Example(line="freezeframe show spans.jsonl", means="the newest run of a file that `freezeframe run --file` wrote"),
        ),
    ),
    Command(
        name="sql",
        summary="Query the store in SQL (ClickHouse, read-only).",
        description="`-` reads the query from stdin. `{name:Type}` in the query is a parameter.",
        examples=(
            Example(line='freezeframe sql "SELECT count() FROM spans"', means="a table on the terminal"),
            Example(line="freezeframe sql - --format csv < query.sql", means="a query from a file, as CSV"),
            Example(
                line='freezeframe sql "SELECT * FROM runs WHERE trace_id = {run:String}" -p run=4bf92f35',
                means="with a parameter",
            ),
        ),
    ),
    Command(
        name="store",
        summary="Show what the store holds; pin, delete, redact again, back up, check.",
        description="Actions go to the running collector, to a ClickHouse server with --store, or to the files if no collector "
        "is running. `freezeframe store ACTION --help` shows an action's options.",
        examples=(
            Example(line="freezeframe store stats", means="size by kind and table, compression, dedup"),
            Example(line="freezeframe store pin 4bf92f35 --note INC-17", means="keep a run until it is unpinned"),
            Example(line="freezeframe store delete --user 'anna#3f' --yes", means="delete a user's runs and verify it"),
            Example(
                line="freezeframe store redact 4bf92f35 --policy acme.toml",
                means="redact under another policy; the run still replays",
            ),
            Example(
                line="freezeframe store backup /backup/monday",
                means="all rows, while the store runs; `restore` reads them back",
            ),
            Example(line="freezeframe store check", means="find damaged files"),
        ),
        exit_codes={0: "done", 1: "failed, with the reason on stderr", 2: "wrong usage", 3: "found damage"},
    ),
    Command(
        name="replay",
        summary="Replay a recorded run offline, answered from the recording.",
        description="The recorded entry point is called with the recorded (redacted) input; sockets are fenced, tools are not "
        "called. After `--`, give a program to start instead.",
        examples=(
            Example(line="freezeframe replay 4bf92f35", means="a run in the store"),
            Example(line="freezeframe replay tests/regressions/late-order", means="a fixture: no store needed"),
            Example(line="freezeframe replay fixture-4bf92f35.tar.gz", means="a fixture archive, from the replay service"),
            Example(line="freezeframe replay 4bf92f35 -- python agent.py", means="another program"),
            Example(line="freezeframe replay 4bf92f35 --ignore body.temperature", means="a field that may differ"),
            Example(
                line="freezeframe replay 4bf92f35 --live model", means="ask the real model once fixed code leaves the recording"
            ),
            Example(line="freezeframe replay 4bf92f35 --hermetic", means="also start no processes and write no files"),
            Example(line="git bisect run freezeframe replay FIXTURE", means="the commit that changed the behaviour"),
        ),
        exit_codes={
            0: "identical; what was not compared is named on the line",
            1: "failed: no such run, a damaged fixture, no store",
            2: "wrong usage",
            3: "diverged",
            125: "incomparable: nothing was compared, or the result says nothing about the code (different input, the network, "
            "a fence, code that cannot run); the line says why",
        },
        takes_program=True,
    ),
    Command(
        name="serve",
        summary="Answer a program in any language from a recorded run, over HTTP.",
        description="SDKs reach the server through their base URL. The program after `--` is started with the variables for "
        "that; without a program they are printed. The program's own tools run for real.",
        examples=(
            Example(
                line="freezeframe serve 4bf92f35 -- node agent.mjs",
                means="start the program, then report where it left the run",
            ),
            Example(line="freezeframe serve tests/regressions/late-order --port 8000", means="until Ctrl-C"),
        ),
        exit_codes={
            0: "identical: every recorded request was made, and no other; input and outcome are not observed",
            1: "failed: no such run, nothing to serve, or the program could not be started",
            2: "wrong usage",
            3: "diverged",
            125: "incomparable: the program requested none of the recorded steps",
        },
        takes_program=True,
    ),
    *CHANGE_COMMANDS,
    *EXPERIMENT_COMMANDS,
    Command(
        name="fixture",
        summary="Save a run as a fixture (files), and with --pytest as a regression test.",
        description="The files need no store, no network and no key. The test fails while the code re-enacts the recorded "
        "failure and passes once it behaves otherwise; with `--expect identical` it passes while the code re-enacts the run "
        "exactly. A run that could not be compared fails both.",
        examples=(
            Example(line="freezeframe fixture 4bf92f35 -o tests/regressions/late-order", means="files only"),
            Example(line="freezeframe fixture 4bf92f35 -o tests/regressions/late-order --pytest", means="and a test"),
            Example(line="freezeframe fixture forks/a -o tests/regressions/a --pytest", means="a fixture, as a test"),
            Example(
                line="freezeframe fixture last -o tests/golden/order --pytest --expect identical",
                means="a good run that is to stay as it is",
            ),
        ),
        takes_program=True,
    ),
    Command(
        name="verify",
        summary="Check that a fixture or a stored run is whole and unedited.",
        examples=(
            Example(line="freezeframe verify tests/regressions/late-order", means="version, digest, every blob"),
            Example(line="freezeframe verify tests/regressions/*", means="several"),
            Example(line="freezeframe verify last", means="a run in the store: the hash of every stored piece"),
        ),
        exit_codes={
            0: "all are whole",
            1: "at least one is damaged, or lacks something",
            2: "wrong usage",
            125: "at least one holds nothing to check: no calls, no input, no outcome",
        },
    ),
    Command(
        name="audit",
        summary="Export a run as files that a third party can check without freezeframe.",
        description="Writes canonical JSON lines in a hash chain, a seal, a README, and a script that checks them with the "
        "standard library alone. With --key, the seal is signed and can be checked with OpenSSL.",
        examples=(
            Example(line="freezeframe audit 4bf92f35 -o audit/4bf92f35", means="not signed; keep the seal elsewhere"),
            Example(line="freezeframe audit 4bf92f35 -o audit/4bf92f35 --key key.pem", means="signed (Ed25519)"),
            Example(line="python audit/4bf92f35/check.py", means="what the third party runs"),
        ),
        exit_codes={
            0: "written",
            1: "failed, with the reason on stderr",
            2: "wrong usage",
            125: "nothing to audit: the run recorded no calls, no input and no outcome",
        },
    ),
    Command(
        name="redact",
        summary="Redact JSON lines, or a file of spans, as the collector would.",
        examples=(
            Example(line="freezeframe redact < lines.jsonl", means='{"id","text"} in, {"id","value","findings"} out'),
            Example(line="freezeframe redact --rotate-key --tenant acme", means="the next key of a tenant"),
            Example(
                line="freezeframe redact spans.jsonl > redacted.jsonl",
                means="what `freezeframe run --file` wrote; it still replays",
            ),
        ),
        delegates_to="freezeframe_redaction.cli",
    ),
    Command(
        name="vault",
        summary="Reveal what a surrogate stands for, list who did, forget a run's originals.",
        examples=(
            Example(
                line="freezeframe vault reveal u7k3q9x2mfa@dq2x7kq.example.com --who 'A. Officer' --why T-71",
                means="one value; the reveal is logged first",
            ),
            Example(line="freezeframe vault log", means="every reveal, and what was forgotten"),
            Example(line="freezeframe vault forget 4bf92f3577b34da6a3ce929d0e0e4736", means="a run's originals, for good"),
            Example(line="freezeframe vault rotate", means="the next key, with the collector stopped"),
        ),
        exit_codes={0: "done", 1: "the vault holds nothing for it (or no longer does)", 2: "wrong usage, or no vault"},
        delegates_to="freezeframe_redaction.vault_cli",
    ),
)
