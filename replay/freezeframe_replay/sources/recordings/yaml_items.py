"""Read the items of a long YAML list one by one, as plain data: tags make no objects, and references are refused.

PyYAML reads events; it comes with vcrpy, and with this function only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from freezeframe_replay.sources.recordings.json_items import MAX_ITEM_CHARS, Other
from freezeframe_schemas.errors import ConfigError, WireError

_MAX_DEPTH: Final = 100
_TEXT_TAGS: Final = frozenset({"tag:yaml.org,2002:python/unicode", "tag:yaml.org,2002:python/str", "!binary"})
"""What Python 2 and Ruby write for a text and for bytes."""


def yaml_items_of(path: Path, names: frozenset[str], *, other: Other) -> Iterator[Any]:
    """Yield the items of the list under the first of `names` that the document, an object, has.

    Args:
        path: the file.
        names: the fields, one of which holds the list.
        other: called with each other field and its value.

    Raises:
        ConfigError: PyYAML is not installed.
        WireError: the file is cut, is not YAML, or uses what a list of plain data does not need; the message says where.
    """
    try:
        import yaml
    except ImportError:
        raise ConfigError(f"{path}: is YAML, which needs PyYAML to read", do="pip install pyyaml") from None

    with path.open("rb") as file:
        bounded = _Bounded(file)
        try:
            reader = _Reader(path, _loader(yaml, bounded))
            yield from reader.items(names, other, bounded)
        except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
            mark: Any = getattr(error, "problem_mark", None)
            line = "" if mark is None else f", line {mark.line + 1}"
            problem = getattr(error, "problem", None) or error
            raise WireError(f"{path}{line}: {str(problem)[:200]}") from None


def _loader(module: Any, stream: _Bounded) -> Any:
    """Return a source of events: libyaml's if PyYAML was built with it, which is ten times as fast."""
    return getattr(module, "CSafeLoader", module.SafeLoader)(stream)


class _Bounded:
    """A file that is read until one item takes too much of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.read_of_item = 0

    def read(self, size: int = -1, /) -> bytes:
        piece = self._file.read(size)
        self.read_of_item += len(piece)
        if self.read_of_item > 2 * MAX_ITEM_CHARS:
            raise ValueError(f"one item has more than {2 * MAX_ITEM_CHARS:,} bytes")
        return piece


class _Reader:
    """Events as values. Only events are taken from PyYAML's loader, which constructs nothing."""

    def __init__(self, path: Path, loader: Any) -> None:
        import yaml

        self._path = path
        self._yaml: Any = yaml
        self._loader = loader
        self._scalars: Any = yaml.SafeLoader("")

    def items(self, names: frozenset[str], other: Other, bounded: _Bounded) -> Iterator[Any]:
        events = self._yaml.events
        self._expect(events.StreamStartEvent)
        self._expect(events.DocumentStartEvent)
        self._expect(events.MappingStartEvent)
        found = False
        while not isinstance(self._loader.peek_event(), events.MappingEndEvent):
            name = self._name(0)
            if name in names and not found:
                found = True
                self._expect(events.SequenceStartEvent)
                while not isinstance(self._loader.peek_event(), events.SequenceEndEvent):
                    bounded.read_of_item = 0
                    yield self._value(0)
                self._loader.get_event()
            else:
                other(name, self._value(0))
        if not found:
            raise WireError(f"{self._path}: found none of {', '.join(sorted(names))}")

    def _expect(self, kind: type) -> None:
        event = self._loader.get_event()
        if not isinstance(event, kind):
            line = event.start_mark.line + 1 if event is not None else 0
            raise WireError(f"{self._path}, line {line}: found {type(event).__name__[:-5]}, expected {kind.__name__[:-5]}")

    def _name(self, depth: int) -> str:
        """Return the name of a field: a scalar, as text."""
        if not isinstance(self._loader.peek_event(), self._yaml.events.ScalarEvent):
            self._expect(self._yaml.events.ScalarEvent)
        return str(self._value(depth))

    def _value(self, depth: int) -> Any:
        events = self._yaml.events
        event = self._loader.get_event()
        line = event.start_mark.line + 1
        if depth > _MAX_DEPTH:
            raise WireError(f"{self._path}, line {line}: nested deeper than {_MAX_DEPTH} levels")
        if isinstance(event, events.ScalarEvent):
            return self._scalar(event, line)
        if isinstance(event, events.SequenceStartEvent) and not event.tag:
            items: list[Any] = []
            while not isinstance(self._loader.peek_event(), events.SequenceEndEvent):
                items.append(self._value(depth + 1))
            self._loader.get_event()
            return items
        if isinstance(event, events.MappingStartEvent) and not event.tag:
            fields: dict[str, Any] = {}
            while not isinstance(self._loader.peek_event(), events.MappingEndEvent):
                name = self._name(depth + 1)
                fields[name] = self._value(depth + 1)
            self._loader.get_event()
            return fields
        what = getattr(event, "tag", None) or getattr(event, "anchor", None) or type(event).__name__
        raise WireError(f"{self._path}, line {line}: found {str(what)[:80]!r}, which is not plain data: it is not read")

    def _scalar(self, event: Any, line: int) -> Any:
        node, resolver = self._yaml.ScalarNode, self._scalars
        tag = event.tag
        if tag is None or tag == "!":
            tag = resolver.resolve(node, event.value, event.implicit)
        elif tag in _TEXT_TAGS:
            tag = f"tag:yaml.org,2002:{'binary' if tag == '!binary' else 'str'}"
        elif not tag.startswith("tag:yaml.org,2002:") or "/" in tag:
            raise WireError(f"{self._path}, line {line}: found tag {tag[:80]!r}, which is not plain data: it is not read")
        if tag == "tag:yaml.org,2002:timestamp":
            return event.value
        value = resolver.construct_object(node(tag, event.value, event.start_mark, event.end_mark))
        resolver.constructed_objects.clear()  # it keeps what it made, for references
        return value
