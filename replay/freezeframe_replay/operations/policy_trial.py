"""Try a policy on stored runs: what it would replace that is in clear, and what becomes of the values replaced today.

Nothing is written: not to the store, and not to the folder of keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from freezeframe_replay.report.render import counted, table_text
from freezeframe_replay.sources.store import RunStore
from freezeframe_schemas import genai
from freezeframe_schemas.errors import RunError

if TYPE_CHECKING:
    from freezeframe_redaction import Policy
    from freezeframe_redaction.trial import Change

MAX_RUNS: Final = 100
_MAX_SAMPLES: Final = 3
"""Samples of one class under one key."""
_MAX_ROWS: Final = 40
_MAX_VALUE: Final = 44
"""Characters of a sample that are shown."""


@dataclass(slots=True, kw_only=True)
class PolicyTrial:
    """Changes that a policy would make in some runs."""

    policy: str
    runs: int = 0
    spans: int = 0
    left_out: int = 0
    """Runs that were asked for beyond the limit."""
    replaced: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Class and key -> values in clear today that the policy replaces."""
    changed_runs: set[str] = field(default_factory=set[str])
    today: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Class, and the fate of such values in new spans like theirs -> values replaced today, each once per span."""
    samples: dict[tuple[str, str], list[Change]] = field(default_factory=dict[tuple[str, str], "list[Change]"])

    def to_json(self) -> dict[str, Any]:
        """Return the counts; no value is among them."""
        by_class: Counter[str] = Counter()
        for (class_, _), count in self.replaced.items():
            by_class[class_] += count
        return {
            "policy": self.policy,
            "runs": self.runs,
            "spans": self.spans,
            "left_out": self.left_out,
            "changed_runs": sorted(self.changed_runs),
            "classes": dict(by_class.most_common()),
            "keys": [{"class": class_, "key": key, "count": count} for (class_, key), count in self.replaced.most_common()],
            "today": [{"class": class_, "count": count, "then": then} for (class_, then), count in self.today.most_common()],
        }

    def to_text(self, width: int, *, with_samples: bool) -> str:
        """Return the counts, and with `with_samples` values before and after, side by side."""
        lines = [f"{self.policy} on {counted(self.runs, 'run')}, {counted(self.spans, 'span')}; nothing was written"]
        if self.left_out:
            lines.append(f"{counted(self.left_out, 'more run')} left out (--limit)")
        total = self.replaced.total()
        lines += ["", f"in clear today, replaced by it: {counted(total, 'value')} in {counted(len(self.changed_runs), 'run')}"]
        rows = [[class_, key, f"{count:,}"] for (class_, key), count in self.replaced.most_common(_MAX_ROWS)]
        if rows:
            lines.append(table_text(["class", "key", "values"], rows, right=[2], cut=[1], width=width))
        if len(self.replaced) > _MAX_ROWS:
            lines.append(f"and {len(self.replaced) - _MAX_ROWS} more keys (--json lists all)")
        if self.today:
            lines += ["", "replaced today, and what it does with such values in new runs:"]
            today = [[class_, f"{count:,}", then] for (class_, then), count in self.today.most_common()]
            lines.append(table_text(["class", "values", "then"], today, right=[1]))
        if with_samples and self.samples:
            lines += ["", "samples:"]
            samples = [
                [one.class_, key, *(" ".join(text.split()) for text in (one.before, one.after, one.context))]
                for (_, key), found in sorted(self.samples.items())
                for one in found
            ]
            header = ["class", "key", "before", "after", "in"]
            lines.append(table_text(header, samples[:_MAX_ROWS], cell_width=_MAX_VALUE, cut=[4, 1], width=width))
        return "\n".join(lines)


def try_policy(
    store: RunStore,
    policy: Policy,
    names: Sequence[str],
    *,
    keys: Path,
    limit: int = MAX_RUNS,
    on_run: Callable[[int, int, str], None] = lambda done, total, run: None,
) -> PolicyTrial:
    """Redact stored runs under the policy and count what changes.

    Surrogates are made with the runs' own key if `keys` (a directory that may not exist) holds it, else with a temporary one.

    Raises:
        FreezeframeError: a run cannot be read or redacted.
    """
    from freezeframe_redaction import TenantKey, find_key, redact_run
    from freezeframe_redaction.redactor import place_of
    from freezeframe_redaction.surrogates.known import surrogates_of
    from freezeframe_redaction.trial import changes

    made = PolicyTrial(policy=policy.label, left_out=max(0, len(names) - limit))
    temporary = TenantKey.generate()
    for done, name in enumerate(names[:limit], 1):
        on_run(done, min(len(names), limit), name)
        spans = store.load_spans(name)
        key_id, check = (spans[0].text(one) or "" for one in (genai.REDACTION_KEY_ID, genai.REDACTION_KEY_CHECK))
        key = find_key(keys, key_id.rpartition(",")[2], check.rpartition(",")[2]) or temporary
        for before, after in zip(spans, redact_run(spans, policy, key), strict=True):
            for change in changes(before, after):
                kind = change.class_, change.key
                made.replaced[kind] += 1
                made.changed_runs.add(before.trace_id)
                held = made.samples.setdefault(kind, [])
                if len(held) < _MAX_SAMPLES and all(change.before != one.before for one in held):
                    held.append(change)
            place = place_of(before)
            made.today.update((class_, policy.becomes(class_, place)) for class_ in surrogates_of([before]).values())
        made.runs += 1
        made.spans += len(spans)
    return made


def chosen_runs(store: RunStore, over: str, limit: int) -> list[str]:
    """Return the ids that a question chooses: a condition on the view `runs`, or a SELECT with the ids in its first column.

    Raises:
        RunError: it chooses none.
        StoreError: the store refuses it.
    """
    if over.lstrip(" \t\n(").lower().startswith(("select ", "select\n", "with ")):
        found = [str(row[0]) for row in store.sql(over.rstrip("; \n"))[1]]
    else:
        found = [row.trace_id for row in store.list_runs(limit, where=over)]
    if not found:
        raise RunError(f"no run is chosen by {over}", do="list runs with `freezeframe runs`")
    return list(dict.fromkeys(found))
