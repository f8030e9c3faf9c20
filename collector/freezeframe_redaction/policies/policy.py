"""Policies: the rules of redaction, under a name and a hash that every span carries.

A policy is a TOML file; three are built in (``strict``, ``minimal``, ``off``). Any change to its meaning changes its hash.

    name = "acme"
    version = 1
    classes = "all"                  # or "minimal" (credentials and payment data), or a list of classes
    except = ["IP"]                  # classes removed again
    allow = ["support@acme.com"]     # values that are never findings
    model_tier = true                # names and addresses that rules do not see; needs `freezeframe[names]`
    allow_patterns = ["[^@]+@acme\\\\.com"]

    [[class]]
    name = "EMPLOYEE_ID"
    pattern = "EMP-[0-9]{6}"         # Vectorscan and Python syntax
    keys = ["employee_no", "staff[].badge.no"]    # the whole value of such a key, or path of keys, is a finding
    example = "EMP-123456"
    before = ["staff no", "badge"]   # one of these must be in front of the match
    check = ["luhn"]                 # its check digits, as in `rules/national.toml`

    [[class]]
    name = "CARD"                    # a built-in class, or one of your own
    action = "mask"                  # surrogate, remove, mask or keep
    services = ["billing*"]          # only there; also environments, tools, attributes, and `under` keys
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import hyperscan
import orjson

from freezeframe_redaction.policies import linear
from freezeframe_redaction.policies.actions import (
    KEEP,
    RULE_KEYS,
    Actions,
    ClassRule,
    SpanPlace,
    actions_at,
    parse_rule,
    without_lists,
)
from freezeframe_redaction.policies.classes import CLASSES
from freezeframe_redaction.policies.plugins import (
    DEFAULT_TIMEOUT_S,
    MAX_TIMEOUT_S,
    ON_ERROR,
    REPLACE,
    fault_of_address,
    is_remote,
)
from freezeframe_redaction.rules import national_checks
from freezeframe_redaction.surrogates.shapes import bare
from freezeframe_redaction.triggers.compiled import fires_in
from freezeframe_schemas.errors import ConfigError

_VERSION = 1
BUILT_IN = ("strict", "minimal", "off")
"""Policies that come with the package, by name."""
_KEYS = frozenset({"name", "version", "classes", "except", "allow", "allow_patterns", "class", "model_tier"})
_REMOTE_KEYS = frozenset({"timeout_s", "on_error"})
_CLASS_KEYS = (
    frozenset({"name", "pattern", "words", "keys", "example", "before", "check", "detector"}) | _REMOTE_KEYS | RULE_KEYS
)
_EXCEPT = re.compile(rf"({'|'.join(BUILT_IN)})-except-([A-Z0-9_]+(?:-[A-Z0-9_]+)*)")
"""A built-in policy without some classes, in one word: ``strict-except-PERSON``."""
_REFUSED = "the trigger engine refuses it"
_CLASS_NAME = re.compile(r"[A-Z][A-Z0-9_]{1,31}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomClass:
    """A class of values that the user defined."""

    name: str
    pattern: str = ""
    keys: tuple[str, ...] = ()
    example: str = ""
    before: tuple[str, ...] = ()
    """Words of which one must precede the match; if empty, no word is needed."""
    check: str = ""
    """Steps of the check of its findings, as JSON (`national_checks.every`)."""
    detector: str = ""
    """Entry point of a detector in another package (`plugins`), or the address of one behind HTTP (`remote`)."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    """Time that a span waits for a detector behind HTTP."""
    on_error: str = REPLACE
    """Fate of texts that it did not read."""

    @property
    def meaning(self) -> list[object]:
        """All parts that determine the findings."""
        more = [sorted(self.before), self.check] if self.before or self.check else []
        return [self.name, self.pattern, sorted(self.keys), *more, *([self._found_by] if self.detector else [])]

    @property
    def _found_by(self) -> dict[str, Any]:
        remote = {"timeout_s": self.timeout_s, "on_error": self.on_error} if is_remote(self.detector) else {}
        return {"detector": self.detector, **remote}

    def settings_of_detector(self) -> dict[str, Any]:
        """Return what a policy file says of its detector."""
        return self._found_by if self.detector else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rules for redaction. Equal content means equal hash."""

    name: str
    classes: frozenset[str]
    """Built-in classes that are on."""
    custom: tuple[CustomClass, ...] = ()
    allow: frozenset[str] = frozenset()
    """Lower-cased values that are never findings."""
    allow_patterns: tuple[str, ...] = ()
    model_tier: bool = False
    """True if prose goes through the model tier before it is stored."""
    rules: tuple[ClassRule, ...] = ()
    """Actions on the values of single classes, each with its scope."""

    @property
    def hash(self) -> str:
        """Twelve hex digits over all parts that determine the redaction."""
        content = {
            "version": _VERSION,
            "classes": sorted(self.classes),
            "custom": [custom.meaning for custom in self.custom],
            "allow": sorted(self.allow),
            "allow_patterns": sorted(self.allow_patterns),
            "model_tier": self.model_tier,
            **({"rules": [rule.meaning for rule in self.rules]} if self.rules else {}),
        }
        return hashlib.sha256(orjson.dumps(content)).hexdigest()[:12]

    @property
    def label(self) -> str:
        """``name@hash``, as stamped on spans."""
        return f"{self.name}@{self.hash}"

    @property
    def text(self) -> str:
        """The policy as a TOML file that loads as the same policy, with every class written out."""
        lines = [
            f"name = {_toml(self.name)}",
            f"version = {_VERSION}",
            f"classes = {_toml(sorted(self.classes))}",
            f"allow = {_toml(sorted(self.allow))}",
            f"allow_patterns = {_toml(sorted(self.allow_patterns))}",
            f"model_tier = {_toml(self.model_tier)}",
        ]
        for custom in self.custom:
            lines += ["", "[[class]]", f"name = {_toml(custom.name)}"]
            lines += [f"pattern = {_toml(custom.pattern)}"] if custom.pattern else []
            lines += [f"keys = {_toml(sorted(custom.keys))}", f"example = {_toml(custom.example)}"]
            lines += [f"before = {_toml(sorted(custom.before))}"] if custom.before else []
            lines += [f"check = {_toml(orjson.loads(custom.check))}"] if custom.check else []
            lines += [f"{name} = {_toml(value)}" for name, value in custom.settings_of_detector().items()]
            lines += [
                f"{name} = {_toml(value)}"
                for rule in self.rules
                if rule.class_ == custom.name
                for name, value in rule.settings().items()
            ]
        for rule in self.rules:
            if rule.class_ in CLASSES:
                lines += ["", "[[class]]", f"name = {_toml(rule.class_)}"]
                lines += [f"{name} = {_toml(value)}" for name, value in rule.settings().items()]
        return "\n".join(lines) + "\n"

    def becomes(self, class_: str, place: SpanPlace) -> str:
        """Return what becomes of the values of a class in a span, for a reader."""
        if class_ not in self.classes and all(entry.name != class_ for entry in self.custom):
            return KEEP
        actions = self.actions_at(place)
        kept = [key for name, key in actions.under if name == class_]
        names = [name for rule in self.rules if rule.class_ == class_ for name in rule.attributes]
        apart = {name: self.actions_at(place._replace(attributes=name)).of(class_) for name in names}
        more = [f"{KEEP} under {', '.join(kept)}"] if kept else []
        more += [f"{action} in {name}" for name, action in apart.items() if action != actions.of(class_)]
        return ", ".join([actions.of(class_), *more])

    def actions_at(self, place: SpanPlace) -> Actions:
        """Return what becomes of values at a place."""
        return actions_at(self.rules, frozenset(entry.name for entry in self.custom), place)

    @property
    def redacts(self) -> bool:
        """True if the policy redacts anything."""
        return bool(self.classes or self.custom)


def load_policy(name_or_path: str | Path = "strict") -> Policy:
    """Return a built-in policy by name, or the one in a TOML file.

    ``off`` must be typed out and warns on standard error each time it is loaded.

    Raises:
        ConfigError: there is no such policy, or the file is not a policy; all faults are named at once.
    """
    text = str(name_or_path)
    if taken := _EXCEPT.fullmatch(text):
        built_in = (files("freezeframe_redaction") / "policies" / f"{taken[1]}.toml").read_text("utf-8")
        dropped = [*tomllib.loads(built_in).get("except", []), *taken[2].split("-")]
        lines = [line for line in built_in.splitlines() if not line.startswith(("name =", "except ="))]
        source = "\n".join([f"name = {_toml(text)}", f"except = {_toml(dropped)}", *lines])
        where = f"policy {text}"
    elif text in BUILT_IN:
        source = (files("freezeframe_redaction") / "policies" / f"{text}.toml").read_text("utf-8")
        where = f"policy {text}"
    else:
        path = Path(name_or_path)
        try:
            source = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"redaction policy {text!r}: neither built in ({', '.join(BUILT_IN)}) nor a readable file"
                f" ({type(error).__name__})",
                do="give one of the names, or the path of a TOML file",
            ) from None
        where = str(path)
    policy = parse_policy(source, where)
    if not policy.redacts:
        print(
            f"freezeframe: WARNING: REDACTION IS OFF (policy {policy.label}):"
            " personal data and credentials are kept as they are",
            file=sys.stderr,
        )
    return policy


def parse_policy(source: str, where: str = "policy") -> Policy:
    """Return the policy that the TOML text describes.

    Raises:
        ConfigError: the text is not a policy; all faults are named at once.
    """
    try:
        raw = cast("Mapping[str, Any]", tomllib.loads(source))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not valid TOML: {error}") from None
    faults = _unknown(raw, _KEYS)
    if raw.get("version") != _VERSION:
        faults.append(f"version: found {raw.get('version')!r}, expected {_VERSION}")
    name = raw.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        faults.append(f"name: found {name!r}, expected letters, digits, dot, dash, underscore")
        name = "invalid"
    classes = _classes(raw, faults)
    if not classes and not raw.get("class") and name != "off":
        faults.append("classes: nothing would be redacted; a policy that redacts nothing must be named 'off'")
    rules: list[ClassRule] = []  # in the end sorted by class, and in the order of the file only those of one class
    entries = enumerate(_tables(raw, faults), 1)
    custom = tuple(made for number, entry in entries if (made := _entry(number, entry, rules, faults)) is not None)
    unused = {rule.class_ for rule in rules} - classes - {entry.name for entry in custom}
    faults.extend(f"class {name}: it is not one of the policy's classes" for name in sorted(unused))
    for rule in [rule for rule in rules if rule.action == KEEP and not rule.is_scoped and rule.class_ in classes]:
        classes.discard(rule.class_)
        rules.remove(rule)
    patterns = _strings(raw, "allow_patterns", faults)
    faults.extend(f"allow_patterns: {pattern!r}: {fault}" for pattern in patterns if (fault := _fault_of_allowed(pattern)))
    policy = Policy(
        name=name,
        classes=frozenset(classes),
        custom=custom,
        allow=frozenset(value.lower() for value in _strings(raw, "allow", faults)),
        allow_patterns=tuple(patterns),
        model_tier=raw.get("model_tier", False) is True,
        rules=tuple(dict.fromkeys(sorted(rules, key=lambda rule: (rule.class_ in CLASSES, rule.class_)))),
    )
    if not isinstance(raw.get("model_tier", False), bool):
        faults.append(f"model_tier: found {raw['model_tier']!r}, expected true or false")
    if faults:
        raise ConfigError(f"{where}: " + "; ".join(faults), do="see docs/operate/redaction.md, section Policies")
    return policy


def _toml(value: Any) -> str:
    """Return the value as TOML writes it: as JSON does, except for tables, and one character that JSON need not escape."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_toml(held)}' for name, held in cast('dict[str, Any]', value).items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, cast('list[Any]', value)))}]"
    return orjson.dumps(value).decode().replace("\x7f", "\\u007f")


def _classes(raw: Mapping[str, Any], faults: list[str]) -> set[str]:
    names: Any = raw.get("classes", "all")
    named = {"all": set(CLASSES), "minimal": {name for name, entry in CLASSES.items() if entry.minimal}}
    chosen = named[names] if isinstance(names, str) and names in named else set(_strings(raw, "classes", faults))
    dropped = set(_strings(raw, "except", faults))
    unknown = sorted((chosen | dropped) - set(CLASSES))
    faults.extend(f"unknown class {entry!r}, {_meant(entry, CLASSES)}" for entry in unknown)
    return chosen & set(CLASSES) - dropped


def _tables(raw: Mapping[str, Any], faults: list[str]) -> list[Any]:
    value: Any = raw.get("class", [])
    if isinstance(value, list):
        return cast("list[Any]", value)
    faults.append(f"class: found {type(value).__name__}, expected [[class]] tables")
    return []


def _strings(raw: Mapping[str, Any], key: str, faults: list[str]) -> list[str]:
    value: Any = raw.get(key, [])
    if isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value)):
        return cast("list[str]", value)
    faults.append(f"{key}: expected a list of strings")
    return []


def _entry(number: int, entry: Any, rules: list[ClassRule], faults: list[str]) -> CustomClass | None:
    """Add the rule of an entry; return the class that it defines, None if it is about a built-in one."""
    where = f"class {number}"
    if not isinstance(entry, dict):
        faults.append(f"{where}: expected a table")
        return None
    table = cast("dict[str, Any]", entry)
    faults.extend(f"{where}: {fault}" for fault in _unknown(table, _CLASS_KEYS))
    name, wrong = str(table.get("name", "")), list[str]()
    rule = parse_rule(name, table, wrong, is_own=name not in CLASSES)
    rules.extend([rule] if rule is not None else [])
    if name in CLASSES:
        wrong += [f"{key}: the class is built in" for key in sorted(table.keys() - RULE_KEYS - {"name"}) if key in _CLASS_KEYS]
        wrong += ["name: the class is built in, and nothing is said about it"] if rule is None else []
    faults.extend(f"{where}: {fault}" for fault in wrong)
    return None if name in CLASSES else _custom(where, table, faults)


def _custom(where: str, table: Mapping[str, Any], faults: list[str]) -> CustomClass:
    name, pattern = str(table.get("name", "")), str(table.get("pattern", ""))
    words = [word for word in _strings(table, "words", faults) if word.strip()]
    if words and pattern:
        faults.append(f"{where}: words and pattern: expected one of them")
    pattern = pattern or _pattern_of(words)
    if not _CLASS_NAME.fullmatch(name):
        faults.append(f"{where}: name: found {name!r}, expected capitals and underscores")
    keys = tuple(map(without_lists, _strings(table, "keys", faults)))
    if not all(key.strip() for key in keys):
        faults.append(f"{where}: keys: found an empty one")
    detector = str(table.get("detector", ""))
    timeout_s, on_error = table.get("timeout_s", DEFAULT_TIMEOUT_S), str(table.get("on_error", REPLACE))
    if is_remote(detector) and (fault := fault_of_address(detector)):
        faults.append(f"{where}: detector: {fault}")
    elif not is_remote(detector) and _REMOTE_KEYS & table.keys():
        faults.append(f"{where}: timeout_s and on_error require a detector with an address")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= MAX_TIMEOUT_S:
        faults.append(f"{where}: timeout_s: found {timeout_s!r}, expected seconds, at most {MAX_TIMEOUT_S:g}")
        timeout_s = DEFAULT_TIMEOUT_S
    if on_error not in ON_ERROR:
        faults.append(f"{where}: on_error: found {on_error!r}, expected one of {', '.join(ON_ERROR)}")
    if not (pattern or keys or detector):
        faults.append(f"{where}: requires a pattern, words, keys or a detector")
    example = str(table.get("example", words[0] if words else ""))
    before, check = tuple(_strings(table, "before", faults)), table.get("check", [])
    if (before or check) and not pattern:
        faults.append(f"{where}: before and check require a pattern")
    if check and (fault := _fault_of_check(check, example)):
        faults.append(f"{where}: check: {fault}")
    if pattern and (fault := _fault_of(pattern, example)):
        faults.append(f"{where}: {fault}")
    checked = orjson.dumps(check, option=orjson.OPT_SORT_KEYS).decode() if check else ""
    return CustomClass(
        name=name,
        pattern=pattern,
        keys=keys,
        example=example,
        before=before,
        check=checked,
        detector=detector,
        timeout_s=float(timeout_s),
        on_error=on_error,
    )


def _pattern_of(words: Sequence[str]) -> str:
    """Return the pattern of a list of words or names, in any case, each as a whole word; longer ones first."""
    if not words:
        return ""
    ordered = sorted(set(words), key=lambda word: (-len(word), word))
    return f"(?i)(?:{'|'.join(f'{_border(one[0])}{re.escape(one)}{_border(one[-1])}' for one in ordered)})"


def _border(char: str) -> str:
    """Return the border pattern next to the last character of a word: other scripts have none, and punctuation needs none."""
    return r"\b" if char.isascii() and char.isalnum() else ""


def _fault_of_check(steps: Any, example: str) -> str:
    """Return the fault in the steps of a check, if any."""
    if not isinstance(steps, list) or not all(map(_is_step, cast("list[Any]", steps))):
        return "expected a list of steps as in rules/national.toml"
    holds = national_checks.passes(national_checks.every(cast("list[Any]", steps)), bare(example).upper())
    return "" if holds else "the example does not pass it"


def _is_step(step: Any) -> bool:
    """Return whether `national_checks` can go through the step, whatever the value."""
    if not isinstance(step, dict):
        return isinstance(step, str) and step in national_checks.NAMED
    table = cast("dict[str, Any]", step)
    known = all(name in _STEP_PARTS and _STEP_PARTS[name](value) for name, value in table.items())
    decides = len(table.keys() & {"sum", "born", "of", "between", "begins", "not"}) == 1
    return known and decides and ("sum" not in table or "gives" in table) and ("of" not in table or "at" in table)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) and one for one in cast("list[Any]", value))


_STEP_PARTS: dict[str, Callable[[Any], bool]] = {
    "sum": lambda value: isinstance(value, list) and bool(value) and all(type(one) is int for one in cast("list[Any]", value)),
    "gives": lambda value: isinstance(value, str) and bool(value),
    "at": lambda value: type(value) is int and value >= 0,
    "letters": lambda value: _are_texts(value) and len(value) == 2 and len(value[0]) == len(value[1]),
    "otherwise": _is_step,
    "born": lambda value: isinstance(value, str) and "m" in value and "d" in value,
    "months": lambda value: type(value) is int and value > 0,
    "days": lambda value: type(value) is int and value > 0,
    "of": lambda value: isinstance(value, str) and bool(value),
    "between": lambda value: _are_texts(value) and len(value) == 2,
    "begins": _are_texts,
    "not": _are_texts,
}


def _fault_of(pattern: str, example: str) -> str:
    """Return the fault of a pattern to search inside texts, if any."""
    if fault := _fault_of_allowed(pattern):
        return f"pattern: {fault}"
    if linear.Whole([pattern]).match(""):
        return "pattern matches the empty text"
    try:
        found = fires_in(pattern, example)
    except hyperscan.error as error:
        return f"pattern: {_REFUSED}: {str(error).rstrip('.')}"
    return "" if found else "example: expected a text that the pattern finds, even inside a longer text (no ^ and $)"


def _fault_of_allowed(pattern: str) -> str:
    """Return the fault of a pattern for whole values, if any."""
    try:
        re.compile(pattern)
        linear.Whole([pattern])
    except re.error as error:
        return str(error)
    except linear.PatternRefused as refusal:
        return f"{_REFUSED}: {refusal}"
    return ""


def _unknown(table: Mapping[str, Any], known: frozenset[str]) -> list[str]:
    """Return a fault for each unknown key."""
    return [f"unknown key {key!r}, {_meant(key, known)}" for key in table if key not in known]


def _meant(name: str, known: Iterable[str]) -> str:
    """Return the name that is probably meant, or all of them."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(names)}"
