"""Strict reading of JSON: each mistake is one error with file, path and expectation.

A `Node` is a JSON value together with where it stands. Reading a document is asking
its nodes for what must be there; a node that holds something else raises.

```
 step.json: $.ops[3].inputs[1]: expected an integer from 0 to 41, found 'x'
```
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from encamp.errors import WireError

_Choice = TypeVar("_Choice", bound=StrEnum)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_NUMBER = 40
_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a reader takes before it refuses.

    `edges` counts the inputs of all ops, `steps` those of a plan and `bytes` those of
    the JSON text, decompressed.
    """

    ops: int = 200_000
    edges: int = 2_000_000
    values: int = 2_000_000
    steps: int = 2_000_000
    bytes: int = 2**30


class _Repeated(dict[str, Any]):
    """An object of the document that names `key` twice."""

    key = ""


class _LongNumber(str):
    """An integer of more digits than any field can take, as it is written."""

    __slots__ = ()


class Node:
    """A JSON value of a document, and the path to it."""

    __slots__ = ("_key", "_parent", "source", "value")

    def __init__(
        self,
        value: object,
        source: str,
        parent: Node | None = None,
        key: str | int = "",
    ) -> None:
        """Place `value` at `key` of its parent; the root has none."""
        self.value = value
        self.source = source
        self._parent = parent
        self._key = key

    @property
    def path(self) -> str:
        """Return where the node stands, such as "$.ops[3].inputs[1]"."""
        keys: list[str] = []
        node = self
        while node._parent is not None:
            keys.append(_segment(node._key))
            node = node._parent
        return "$" + "".join(reversed(keys))

    def fail(self, message: str, at: str = "") -> NoReturn:
        """Raise the one error of this document, at this node or at `at` below it."""
        place = f"{self.path}{at}"
        msg = f"{self.source}: {place}: {message}"
        raise WireError(msg, at=place)

    def unexpected(self, expected: str) -> NoReturn:
        """Raise that something else was expected here."""
        self.fail(f"expected {expected}, found {_shown(self.value)}")

    def fields(self, required: Collection[str], optional: Collection[str]) -> None:
        """Require an object with these fields and no others."""
        found = self.mapping()
        for name in found:
            if name not in required and name not in optional:
                self.fail(
                    f"unknown field {_shown(name)}{_hint(name, required, optional)}"
                )
        for name in required:
            if name not in found:
                self.fail(f"missing field {_shown(name)}")

    def mapping(self) -> dict[str, Any]:
        """Require an object whose keys differ and return it."""
        if not isinstance(self.value, dict):
            self.unexpected("an object")
        if isinstance(self.value, _Repeated):
            self.fail(f"the field {_shown(self.value.key)} occurs twice")
        return self.value

    def child(self, name: str) -> Node:
        """Return a field that is there."""
        return Node(self.mapping()[name], self.source, self, name)

    def optional(self, name: str) -> Node | None:
        """Return a field, or None where it is left out."""
        return self.child(name) if name in self.mapping() else None

    def children(self) -> Iterator[tuple[str, Node]]:
        """Return the fields of an object that may have any."""
        for name in self.mapping():
            Node(name, self.source, self, name).text()
            yield name, self.child(name)

    def items(self, limit: int) -> Iterator[Node]:
        """Require an array of at most `limit` items and return them."""
        for index, item in enumerate(self._array(limit)):
            yield Node(item, self.source, self, index)

    def integers(self, high: int, limit: int) -> tuple[int, ...]:
        """Require an array of at most `limit` integers from 0 to `high`."""
        found = self._array(limit)
        for index, item in enumerate(found):
            if type(item) is not int or not 0 <= item <= high:
                Node(item, self.source, self, index).integer(high=high)
        return tuple(found)

    def integer(self, *, low: int = 0, high: int) -> int:
        """Require an integer from `low` to `high`; true and 1.0 are none."""
        if type(self.value) is not int or not low <= self.value <= high:
            self.unexpected(f"an integer from {low} to {high}")
        return self.value

    def number(self) -> float:
        """Require a finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self.unexpected("a number")
        if not math.isfinite(self.value):
            self.unexpected("a finite number")
        return float(self.value)

    def flag(self) -> bool:
        """Require true or false."""
        if not isinstance(self.value, bool):
            self.unexpected("true or false")
        return self.value

    def text(self) -> str:
        """Require a string of Unicode characters."""
        if not isinstance(self.value, str) or isinstance(self.value, _LongNumber):
            self.unexpected("a string")
        if not self.value.isascii() and not _is_unicode(self.value):
            self.unexpected("a string of whole characters (it has half a surrogate)")
        return self.value

    def choice(self, choices: type[_Choice]) -> _Choice:
        """Require one of the texts of an enumeration."""
        named = {choice.value: choice for choice in choices}
        if not isinstance(self.value, str) or self.value not in named:
            self.unexpected("one of " + ", ".join(_shown(name) for name in named))
        return named[self.value]

    def _array(self, limit: int) -> list[Any]:
        if not isinstance(self.value, list):
            self.unexpected("an array")
        if len(self.value) > limit:
            self.fail(
                f"{len(self.value)} items, more than the limit of {limit};"
                " raise it with `limits` if the document is meant to be this large"
            )
        return self.value


def one_line(item: object) -> str:
    """Return JSON on one line.

    Raises:
        WireError: the item holds what JSON has no word for, such as NaN.

    """
    try:
        return json.dumps(item, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        msg = f"cannot be written as JSON: {error}"
        raise WireError(msg) from None


def parse(text: str | bytes, source: str) -> Node:
    """Return the root of a JSON document; `source` names it in errors.

    Raises:
        WireError: the text is not one JSON document in UTF-8.

    """
    decoded = _decode(text, source) if isinstance(text, bytes) else text
    if not decoded.strip():
        Node(None, source).fail("the document is empty, expected JSON")
    try:
        value = json.loads(
            decoded,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_constant=float,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        end = "" if error.pos < len(decoded.rstrip()) else ", where the text ends"
        Node(None, source).fail(f"not JSON: {error.msg} at {where}{end}")
    except RecursionError:
        Node(None, source).fail("the document is nested too deeply to be a graph")
    return Node(value, source)


def _decode(text: bytes, source: str) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        Node(None, source).fail(f"not UTF-8 text: {error.reason} at byte {error.start}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    repeated = _Repeated(found)
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            repeated.key = key
            break
        seen.add(key)
    return repeated


def _integer(digits: str) -> int | _LongNumber:
    # Python refuses to convert thousands of digits, without saying where they stood.
    return int(digits) if len(digits) <= _LONGEST_NUMBER else _LongNumber(digits)


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _segment(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{_shown(key)}]"


def _shown(value: object) -> str:
    """Return a short text for what was found."""
    if isinstance(value, _LongNumber):
        return f"a number of {len(value)} digits"
    if isinstance(value, dict | list):
        noun = "an object" if isinstance(value, dict) else "an array"
        return f"{noun} of {len(value)}" if value else f"{noun} of nothing"
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _hint(name: str, required: Collection[str], optional: Collection[str]) -> str:
    known = [*required, *optional]
    near = difflib.get_close_matches(name[:_SHOWN], known, n=1)
    if near:
        return f"; did you mean {_shown(near[0])}?"
    return "; expected only " + ", ".join(_shown(field) for field in known)
