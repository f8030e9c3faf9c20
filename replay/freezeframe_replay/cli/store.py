"""`freezeframe store ACTION`: content of the store, retention, deletion.

The store is the collector's: a command goes to the running one, to a server with --store, or, if nothing runs, to a collector
process that opens the files. Reading runs never needs this.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.cli.command import Command, flag, one_of, option, repeatable
from freezeframe_replay.cli.options import JSON, STORE, home_of, place_of, positive, print_json, terminal_width, text_or_file
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.local.administration import Answer, Order, administration
from freezeframe_replay.local.collector import flush
from freezeframe_replay.local.home import STORE_VARIABLE
from freezeframe_replay.local.target import open_store
from freezeframe_replay.operations.policy_trial import MAX_RUNS, chosen_runs, try_policy
from freezeframe_replay.report.render import counted, size_text, table_text
from freezeframe_replay.service.history import History
from freezeframe_schemas import genai
from freezeframe_schemas.data_directory import KEYS, VAULT, make_private
from freezeframe_schemas.errors import ConfigError, PermanentStoreError
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json

DAMAGED: Final = 3


_RUN_HELP: Final = "id of a run, its first digits, `last` or `last-failed`"
_RUN: Final = option("run", metavar="RUN", help=_RUN_HELP)
_NOTE: Final = option("--note", default="", help="why; kept in the table audit")
_YES: Final = flag("--yes", "do not ask")
_DIRECTORY: Final = option("directory", type=Path, metavar="DIR", help="directory of the backup")
COMMAND: Final = Command(
    description="Actions go to the running collector, to a ClickHouse server with --store, or to the files if no collector is "
    "running. `freezeframe store ACTION --help` shows an action's options.",
    examples={
        "freezeframe store stats": "size by kind and table, compression, dedup",
        "freezeframe store pin 4bf92f35 --note INC-17": "keep a run until it is unpinned",
        "freezeframe store delete --user 'anna#3f' --yes": "delete a user's runs and verify it",
        "freezeframe store delete --person anna@corp.io 'Anna Keller' --who Officer --note T-71": "forget a person",
        "freezeframe store redact 4bf92f35 --policy acme.toml": "redact under another policy; the run still replays",
        """freezeframe store redact --try acme.toml --over "service = 'support'\"""": "what a policy would change; no write",
        "freezeframe store backup /backup/monday": "all rows, while the store runs; `restore` reads them back",
        "freezeframe store check": "find damage, and the runs that it touches",
    },
    exit_codes={3: "found damage"},
    options=(STORE, JSON),
    actions={
        "stats": ("Size by kind and table, compression, and what storing each text once saved.", ()),
        "pin": ("Keep a run until it is unpinned.", (_RUN, _NOTE)),
        "unpin": ("Unpin a run, so that it expires normally.", (_RUN, _NOTE)),
        "delete": (
            "Delete a run, a user's runs or a tenant's, or all that mentions a person, and verify that it is gone.",
            (
                one_of(
                    option("run", nargs="?", metavar="RUN", help=_RUN_HELP),
                    option("--user", metavar="NAME", help="every run of this user, given by surrogate, as in the store"),
                    option("--tenant", metavar="NAME", help="everything of this tenant"),
                    option(
                        "--person",
                        nargs="+",
                        metavar="VALUE",
                        help="all that mentions a person: name, mail, ... or @FILE of lines",
                    ),
                ),
                _YES,
                _NOTE,
                option("--who", default="", metavar="NAME", help="with --person: who asks; in the report, with --note"),
                flag("--blank", "with --person: keep the runs, with other surrogates that cannot be made again"),
                flag("--apart", "with --person: also runs that have only the words of the name, apart"),
                option("--report", type=Path, metavar="DIR", help="with --person: folder of the signed report"),
                repeatable(
                    "--look-in", type=Path, metavar="DIR", help="with --person: list files that mention the person (repeatable)"
                ),
            ),
        ),
        "redact": (
            "Redact a stored run again under another policy; it still replays. Or try a policy on runs.",
            (
                one_of(
                    option("run", nargs="?", metavar="RUN", help=_RUN_HELP),
                    option("--over", metavar="SQL", help="with --try: a condition on `runs`, or a SELECT of run ids"),
                ),
                option("--policy", default="strict", help="strict (default), minimal, or the path of a TOML file"),
                option("--try", dest="tried", metavar="POLICY", help="show what a policy would change, and write nothing"),
                option(
                    "--limit",
                    type=positive,
                    default=MAX_RUNS,
                    metavar="N",
                    help=f"with --over: at most N (default: {MAX_RUNS})",
                ),
                option("--keys", type=Path, metavar="DIR", help="directory of the keys (default: the data directory's)"),
                _YES,
                _NOTE,
            ),
        ),
        "backup": ("Write all rows to a new directory, while the store runs.", (_DIRECTORY,)),
        "restore": (
            "Insert a backup's rows; rows that exist already count once.",
            (_DIRECTORY, flag("--with-deleted", "also bring back users and tenants that were deleted since")),
        ),
        "expire": (
            "Delete expired days, except failed and pinned runs.",
            (
                option("--days", type=positive, default=14, metavar="N", help="days to keep all runs (default: 14)"),
                option("--failed-days", type=positive, default=90, metavar="N", help="days to keep failed runs (default: 90)"),
                option("--tenants", default="", metavar="LIST", help="days for single tenants: acme=30,beta=7"),
                flag("--dry-run", "report what would be deleted, and delete nothing"),
            ),
        ),
        "optimize": ("Merge the files of each day into one: smaller, and quicker to read.", ()),
        "check": ("Compare every part with its checksums, and every text with its name.", ()),
        "search-index": ("Build the full-text index, which makes searches faster and payloads larger.", ()),
    },
)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command and print the result."""
    if getattr(arguments, "tried", None) is not None:
        return _try(arguments)
    if getattr(arguments, "over", None) is not None:
        raise ConfigError("--over chooses runs to try a policy on", do="name the policy with --try POLICY")
    order = _order(arguments)
    named: str = arguments.store or os.environ.get(STORE_VARIABLE, "").strip()
    give = administration(home_of(arguments), named, may_create=order["action"] == "restore")
    if order["action"] == "redact":
        return _redact(arguments, order, give)
    if getattr(arguments, "person", None) is not None:
        return _forget_person(arguments, give)
    if order["action"] == "delete" and not arguments.yes and not _confirmed(order, give({**order, "dry_run": True})):
        print("nothing was deleted", file=sys.stderr)
        return 1
    sealed = _runs_of(arguments, order) if order["action"] == "delete" else set[tuple[str, str]]()
    with Progress(f"store {order['action']}", quiet=arguments.json):
        answer = give(order)
    if order["action"] == "delete":
        _forget_originals(arguments, sealed)
        answer["mentioned"] = _mentioned(arguments, order["user"]) if "user" in order else []
    if order["action"] in ("delete", "expire") and not order.get("dry_run"):
        _forget_replays(arguments)
    if arguments.json:
        print_json(answer)
    else:
        print(_TEXTS[order["action"]](answer))
    return DAMAGED if answer.get("damaged") else 0


def _order(arguments: argparse.Namespace) -> Order:
    order: Order = {"action": arguments.action}
    for name in ("user", "tenant", "note", "days", "failed_days", "tenants", "dry_run"):
        if getattr(arguments, name, None) is not None:
            order[name] = getattr(arguments, name)
    if getattr(arguments, "with_deleted", False):
        order["with_deleted"] = True
    if getattr(arguments, "directory", None) is not None:
        order["directory"] = str(arguments.directory.resolve())
    if getattr(arguments, "run", None) is not None:
        order["run"] = _named(arguments)
    return order


def _named(arguments: argparse.Namespace) -> str:
    """Return the requested run: its trace id, if a store answers; a stopped one's files are searched for it later."""
    if not (arguments.store or os.environ.get(STORE_VARIABLE, "").strip() or flush(home_of(arguments))):
        return str(arguments.run)
    return open_store(place_of(arguments)).find(arguments.run)


def _confirmed(order: Mapping[str, Any], found: Answer) -> bool:
    """Ask on the terminal.

    Raises:
        ConfigError: no terminal is available for the question.
    """
    subject = next(f"{name} {order[name]}" for name in ("run", "user", "tenant") if name in order)
    if not sys.stdin.isatty():
        raise ConfigError(
            f"{subject}: {found['runs']} runs, {found['spans']} spans would be deleted for good", do="give --yes to delete them"
        )
    reply = input(f"delete {subject}: {found['runs']} runs, {found['spans']} spans, for good? [y/N] ")
    return reply.strip().lower() in {"y", "yes"}


def _forget_replays(arguments: argparse.Namespace, *changed: str) -> None:
    """Remove kept replays of runs that are gone or changed."""
    history = History(home_of(arguments).directory)
    if history.noted():
        history.forget_gone(open_store(place_of(arguments)), changed)


def _runs_of(arguments: argparse.Namespace, order: Order) -> set[tuple[str, str]]:
    """Return tenant and run of what is to be deleted, if there is a vault that may hold their originals."""
    if not (home_of(arguments).directory / f"{VAULT}.db").is_file():
        return set()
    name = next(one for one in ("run", "user", "tenant") if one in order)
    column = {"run": "trace_id", "user": "user_id"}.get(name, name)
    question = f"SELECT DISTINCT tenant, trace_id FROM span_rows WHERE {column} = {{name:String}}"
    return {
        (str(tenant) or "default", str(run))
        for tenant, run in open_store(place_of(arguments)).sql(question, {"name": order[name]})[1]
    }


def _forget_originals(arguments: argparse.Namespace, runs: set[tuple[str, str]]) -> None:
    """Destroy what the vault sealed of deleted runs; without the vault's keys, say that it stays."""
    from freezeframe_replay.operations.forgetting import forget_originals

    try:
        forget_originals(home_of(arguments), runs)
    except PermanentStoreError as error:
        print(f"freezeframe store: {error.message}; forget each run: freezeframe store vault forget RUN", file=sys.stderr)


def _mentioned(arguments: argparse.Namespace, user: str) -> list[str]:
    """Return the runs of others that still mention a user by the name that was given."""
    from freezeframe_redaction import Redactor, TenantKey, load_policy
    from freezeframe_redaction.person import Person
    from freezeframe_replay.operations.forgetting import find_runs

    person = Person([user], [Redactor(load_policy("minimal"), TenantKey.generate())])
    return [run.run for run in find_runs(open_store(place_of(arguments)), person)]


# -- a person -----------------------------------------------------------------------------------------------------------


def _forget_person(arguments: argparse.Namespace, give: Callable[[Order], Answer]) -> int:
    """Show what mentions a person; with consent delete or blank it, and print where the signed report is."""
    from freezeframe_replay.operations.forgetting import Forgetting

    values = [line for value in arguments.person for line in text_or_file(value, "--person").splitlines() if line.strip()]
    with Progress("searching", quiet=arguments.json) as progress:
        forgetting = Forgetting(
            home=home_of(arguments),
            store=open_store(place_of(arguments)),
            give=give,
            values=values,
            who=arguments.who,
            why=arguments.note,
            blank=arguments.blank,
            with_apart=arguments.apart,
            look_in=arguments.look_in,
            on_run=progress.step,
        )
        found = forgetting.find()
    if not arguments.json:
        print(found.to_text(terminal_width()))
    word = "blank" if arguments.blank else "delete"
    if not arguments.yes and not (
        sys.stdin.isatty() and input(f"{word} all of it, for good? [y/N] ").strip().lower() in {"y", "yes"}
    ):
        print(f"nothing was changed (--yes {word}s it)", file=sys.stderr)
        return 1
    with Progress("forgetting", quiet=arguments.json):
        report, folder = forgetting.forget(found, arguments.report)
    _forget_replays(arguments, *report.get("blanked", ()))
    if arguments.json:
        print_json(report)
    else:
        left = ", ".join(f"{len(held)} {kind}" for kind, held in report["left"].items())
        print(f"{report['state']}; searched again, left: {left}\nreport {folder} (signed; it holds surrogates, no values)")
        print("not reached:\n" + "\n".join(f"  {line}" for line in report["cannot_reach"]))
    return 0 if report["state"] == "done" else 1


# -- redacting again ----------------------------------------------------------------------------------------------------


def _redact(arguments: argparse.Namespace, order: Order, give: Callable[[Order], Answer]) -> int:
    """Report which stored values of the run the policy would replace; with consent, replace the run by its redacted form.

    The spans are written to a file first, which has the run if this ends midway.
    """
    from freezeframe_redaction import load_or_create_keys, load_policy, redact_run
    from freezeframe_redaction.surrogates.known import surrogates_of

    home = home_of(arguments)
    keys = arguments.keys or home.directory / KEYS
    if not keys.is_dir():
        raise ConfigError(f"{keys}: no key directory", do="name the collector's key directory with --keys DIR")
    policy = load_policy(arguments.policy)
    with Progress(f"redacting run {order['run']}", quiet=arguments.json):
        spans = open_store(place_of(arguments)).load_spans(order["run"])
        tenant = spans[0].text(genai.TENANT) or "default"
        redacted = redact_run(spans, policy, load_or_create_keys(keys).current(tenant))
    fresh = Counter({**surrogates_of(redacted)}.values()) - Counter(surrogates_of(spans).values())
    what = ", ".join(f"{count} {class_}" for class_, count in sorted(fresh.items())) or "nothing"
    print(f"run {order['run']}: {len(spans)} spans; {policy.label} replaces {what} in addition to what is already replaced")
    if not arguments.yes and not (sys.stdin.isatty() and input("rewrite it? [y/N] ").strip().lower() in {"y", "yes"}):
        print("nothing was changed (--yes rewrites it)", file=sys.stderr)
        return 1
    make_private(home.directory)
    file = home.directory / f"redacted-{order['run']}.json"
    file.write_text(json.dumps(spans_to_otlp_json(redacted)), encoding="utf-8")
    file.chmod(0o600)
    with Progress(f"storing run {order['run']}", quiet=arguments.json):
        answer = give({**order, "file": str(file)})
    file.unlink()
    _forget_replays(arguments, spans[0].trace_id)
    if arguments.json:
        print_json(answer)
    else:
        print(_TEXTS["redact"](answer))
    return 0


def _try(arguments: argparse.Namespace) -> int:
    """Show what a policy would change in stored runs; values only on a terminal."""
    from freezeframe_redaction import load_policy

    policy, store, limit = load_policy(arguments.tried), open_store(place_of(arguments)), arguments.limit
    names = [arguments.run] if arguments.run is not None else chosen_runs(store, arguments.over, limit)
    keys = arguments.keys or home_of(arguments).directory / KEYS
    with Progress(f"trying {policy.label}", quiet=arguments.json) as progress:
        trial = try_policy(store, policy, names, keys=keys, limit=limit, on_run=progress.step)
    if arguments.json:
        print_json(trial.to_json())
    else:
        print(trial.to_text(terminal_width(), with_samples=sys.stdout.isatty()))
        if trial.samples and not sys.stdout.isatty():
            print("note: samples are shown on a terminal only, since they are private values", file=sys.stderr)
    return 0


# -- answers as text ----------------------------------------------------------------------------------------------------


def _stats_text(answer: Answer) -> str:
    payload = answer["payload"]
    lines = [
        f"runs      {answer['runs']:,} on {answer['days']} days, {answer['kept_runs']:,} of them kept beyond their days",
        f"spans     {answer['spans']:,}, {answer['disk_bytes_per_span']:,} bytes each on disk",
        f"disk      {size_text(answer['disk_bytes'])}, of that payloads {size_text(payload['disk_bytes'])}"
        + "".join(f", on disk {disk} {size_text(size)}" for disk, size in answer["disks"].items() if disk != "default"),
        f"payloads  {size_text(payload['referenced_bytes'])} in spans, {size_text(payload['stored_bytes'])} where each text is"
        f" stored once ({payload['dedup_ratio']} : 1)",
        "",
    ]
    kinds = [[kind, f"{one['spans']:,}", size_text(one["payload_bytes"])] for kind, one in answer["by_kind"].items()]
    lines += [table_text(["kind", "spans", "payloads"], kinds, right=[1, 2]), ""]
    tables = [
        [
            name,
            f"{one['rows']:,}",
            size_text(one["disk_bytes"]),
            size_text(one["raw_bytes"]),
            f"{one['compression']}",
            str(one["parts"]),
        ]
        for name, one in answer["tables"].items()
    ]
    lines.append(table_text(["table", "rows", "disk", "raw", "raw : disk", "parts"], tables, right=[1, 2, 3, 4, 5]))
    return "\n".join(lines)


def _check_text(answer: Answer) -> str:
    if not answer["damaged"]:
        return "no damage: every part matches its checksums, and every text its name"
    lines: list[str] = []
    for one in answer["damaged"]:
        part = f"part {one['part']}: " if one["part"] else ""
        lines.append(f"damaged: {one['table']}, {part}{one['fault']}")
        lines += [f"  touches run {run}" for run in one.get("runs", ())]
    return "\n".join([*lines, "do: see 'When things go wrong' in docs/operate/store.md"])


def _rows_text(answer: Answer) -> str:
    text = f"{answer['directory']}: " + ", ".join(f"{rows:,} {table}" for table, rows in answer["rows"].items())
    if again := answer.get("deleted_again"):
        text += f"\nleft out: {again:,} runs of users and tenants who were deleted (--with-deleted brings them back)"
    return text


def _deleted_text(answer: Answer) -> str:
    text = f"deleted {answer['runs']:,} runs, {answer['spans']:,} spans; {answer['left']} left"
    if others := answer.get("mentioned"):
        text += f"\n{counted(len(others), 'run')} of others mention this user (--person deletes all that mentions a person):"
        text += "".join(f"\n  {run}" for run in others)
    return (
        text
        if answer["runs"]
        else f"{text}\n(users are stored under their surrogates: freezeframe sql 'SELECT DISTINCT user_id FROM runs')"
    )


def _days_text(answer: Answer) -> str:
    did = "would be deleted" if answer["dry_run"] else "deleted"
    lines = [f"{day['day']}: {day['dropped_runs']:,} runs {did}, {day['kept_runs']:,} kept" for day in answer["days"]]
    return "\n".join(lines) or "no day has expired"


_TEXTS: Final[Mapping[str, Callable[[Answer], str]]] = {
    "stats": _stats_text,
    "pin": lambda answer: f"run {answer['run']}: kept until it is unpinned",
    "unpin": lambda answer: f"run {answer['run']}: expires normally",
    "delete": _deleted_text,
    "redact": lambda answer: f"run {answer['run']}: {answer['spans']:,} spans are stored under {answer['policy']}",
    "backup": _rows_text,
    "restore": _rows_text,
    "optimize": lambda answer: f"{size_text(answer['disk_bytes_before'])} before, {size_text(answer['disk_bytes'])} now",
    "check": _check_text,
    "expire": _days_text,
    "search-index": lambda _: "the index is built; new data is indexed as it is stored",
}
