"""Rules: what a plan must keep and what it must recompute, by operator, module or name.

* `keep`: a matching op runs once, so what the backward needs of it is held until then.
* `recompute`: of a matching forward op nothing is held from the forward to the
  backward. In replay's terms: at the first backward step none of its values is live,
  but for those that this very step reads and those that the step returns. Tokens, of
  zero bytes, are no matter.

A rule narrows the schedules that count. A bound on all schedules holds for those that
obey, too; the bound of a plan with rules may be higher and holds for those only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from fnmatch import fnmatchcase

from encamp.errors import OptionError
from encamp.graph import CostGraph, Op, Phase, Reason, Recompute
from encamp.replay import Timeline

_NEAR = 0.4
_SHOWN = 3


class Action(StrEnum):
    """What becomes of the values of a matching op."""

    KEEP = "keep"
    RECOMPUTE = "recompute"


class Trait(StrEnum):
    """What of an op a pattern is compared with."""

    TARGET = "target"
    MODULE = "module"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Rule:
    """What to do with the ops of which a trait matches a pattern.

    In patterns `*` stands for any text, dots included, `?` for one character and
    `[ab]` for one of those; upper and lower case differ.
    """

    action: Action
    trait: Trait
    pattern: str

    @classmethod
    def parse(cls, action: Action, text: str) -> Rule:
        """Return the rule that `text` spells: "module:h.*.mlp.*" or "aten.mm.*".

        Without a trait in front the pattern is of operators.

        Raises:
            OptionError: there is no pattern.

        """
        trait, colon, pattern = text.partition(":")
        if not colon or trait not in set(Trait):
            trait, pattern = Trait.TARGET, text
        if not pattern:
            msg = f"the rule {text!r} has no pattern; write e.g. 'module:h.*.mlp.*'"
            raise OptionError(msg)
        return cls(action, Trait(trait), pattern)

    def __str__(self) -> str:
        """Return the rule as a plan's certificate names it."""
        return f"{self.action} {self.trait}:{self.pattern}"

    def matches(self, op: Op) -> bool:
        """Return whether the rule is about an op."""
        found = self._of(op)
        return found is not None and fnmatchcase(found, self.pattern)

    def nearest(self, ops: Iterable[Op]) -> list[str]:
        """Return a few texts of the rule's trait that resemble its pattern."""
        known = sorted({text for op in ops if (text := self._of(op)) is not None})
        return get_close_matches(self.pattern, known, n=_SHOWN, cutoff=_NEAR)

    def _of(self, op: Op) -> str | None:
        if self.trait is Trait.TARGET:
            return op.target
        return op.module if self.trait is Trait.MODULE else op.name


@dataclass(frozen=True, slots=True)
class Obedience:
    """A graph under rules: with more pinned ops, and values barred at the turn.

    A barred value is not live at the first backward step unless that step reads it.
    """

    graph: CostGraph
    barred: frozenset[int] = frozenset()

    def broken_by(self, timeline: Timeline) -> frozenset[int]:
        """Return the barred values that a schedule holds at its first backward step."""
        ops = [self.graph.ops[step] for step in timeline.steps]
        turns = (i for i, op in enumerate(ops) if op.phase is Phase.BACKWARD)
        turn = next(turns, None)
        if turn is None:
            return frozenset()
        return (self.barred & set(timeline.live(turn))) - set(ops[turn].inputs)


def obey(graph: CostGraph, rules: Sequence[Rule]) -> Obedience:
    """Return the graph as its planner has to see it under some rules.

    Raises:
        OptionError: a rule matches nothing, two rules contradict each other, or one
            asks to recompute what cannot run again.

    """
    if not rules:
        return Obedience(graph)
    kept = {op for rule in rules for op in _matching(graph, rule, Action.KEEP)}
    again = {op for rule in rules for op in _matching(graph, rule, Action.RECOMPUTE)}
    for op in sorted(kept & again):
        msg = f"op {_named(graph.ops[op])} is to be kept and to be recomputed: choose"
        raise OptionError(msg)
    barred = _barred(graph, again)
    pinned = replace(graph, ops=tuple(_pinned(op, kept) for op in graph.ops))
    _require_possible(pinned, barred)
    return Obedience(pinned, barred)


def _matching(graph: CostGraph, rule: Rule, action: Action) -> list[int]:
    """Return the ops a rule of an action is about; of `recompute`, forward ones."""
    if rule.action is not action:
        return []
    found = [op for op in graph.ops if rule.matches(op)]
    if not found:
        near = rule.nearest(graph.ops)
        hint = f"; near misses: {', '.join(near)}" if near else ""
        msg = f"the rule '{rule}' matches no op of {graph.name!r}{hint}"
        raise OptionError(msg)
    if action is Action.RECOMPUTE:
        found = [op for op in found if op.phase is Phase.FORWARD]
        if not found:
            msg = (
                f"the rule '{rule}' matches backward ops only, of which nothing is"
                " held from the forward; match forward ops"
            )
            raise OptionError(msg)
    return [op.id for op in found]


def _pinned(op: Op, kept: set[int]) -> Op:
    if op.id not in kept or not op.recompute.allowed:
        return op
    return replace(op, recompute=Recompute(allowed=False, reason=Reason.USER))


def _barred(graph: CostGraph, ops: set[int]) -> frozenset[int]:
    made = {value for op in ops for value in graph.ops[op].outputs}
    outputs = set(graph.outputs)
    return frozenset(v for v in made - outputs if graph.values[v].bytes)


def _require_possible(graph: CostGraph, barred: frozenset[int]) -> None:
    """Refuse to recompute what needs a run of a pinned op.

    What a backward op reads and is barred must be made again, and with it whatever
    its op reads that is barred too. The first backward op reads what it likes.
    """
    backward = graph.ops[graph.num_forward + 1 :]
    needed = [v for op in backward for v in op.inputs if v in barred]
    needed = sorted(set(needed) - _read_first(graph))
    seen = set(needed)
    while needed:
        maker = graph.producer[needed.pop()]
        assert maker is not None  # noqa: S101 - barred values are made by ops
        op = graph.ops[maker]
        if not op.recompute.allowed:
            msg = (
                f"the rules ask to recompute what op {_named(op)} makes, which may"
                f" not run again ({op.recompute.reason}); exempt it from them"
            )
            raise OptionError(msg)
        fresh = [v for v in op.inputs if v in barred and v not in seen]
        seen.update(fresh)
        needed += fresh


def _read_first(graph: CostGraph) -> set[int]:
    first = graph.num_forward
    return set(graph.ops[first].inputs) if first < len(graph.ops) else set()


def _named(op: Op) -> str:
    return f"{op.name} of {op.module}" if op.module else op.name
