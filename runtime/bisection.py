"""Find the first operation whose recomputation is not what its first run was.

A planned step that trains otherwise than the unplanned one recomputed something that
does not repeat: an operator that is not a function of its arguments, or an argument
that was overwritten. The planned graphs are run node by node; digests of what each
operation read and made at its first run are kept for the step and compared with those
of every later run. Each digest reads a tensor once; no tensor is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from encamp.graph import Op

from .parity import bits
from .rewrite import OP

_UNFILLED = ("aten.empty", "aten.new_empty")
"""Operators whose results have no values yet: their bits mean nothing."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """The first run of an operation that did not repeat an earlier one.

    `step` and `run` count from 1. `same_inputs` is whether it read what its first run
    read: then the operator is not a function of its arguments, else one of them was
    overwritten.
    """

    op: str
    target: str
    module: str | None
    source: str | None
    step: int
    run: int
    same_inputs: bool

    def __str__(self) -> str:
        """Say what is wrong with the operation and how to pin it."""
        place = f" in module {self.module}" if self.module else ""
        place += f" at {self.source}" if self.source else ""
        why = (
            "from the same inputs, so it is no function of its arguments"
            if self.same_inputs
            else "but one of its inputs had been overwritten since its first run"
        )
        return (
            f"{self.target} ({self.op}){place} is the first operation whose recomputed"
            f" output differs from its first run's (step {self.step}, run {self.run}),"
            f" {why}. Pin it and plan again: encamp plan ... --keep '{self.target}', or"
            f" keep=['{self.target}'] in encamp.apply"
        )


@dataclass(frozen=True, slots=True)
class _Run:
    """Digests of what one run of an operation read and made."""

    read: tuple[bytes, ...]
    made: tuple[bytes, ...]


@dataclass(slots=True)
class Bisection:
    """Runs planned graphs and compares every run of an operation with its first.

    `compile_graph` is for AOTAutograd, in the place of what runs graphs otherwise.
    """

    step: int = 0
    found: tuple[int, int, int, bool] | None = None
    _first: dict[int, _Run] = field(default_factory=dict)
    _runs: dict[int, int] = field(default_factory=dict)

    def compile_graph(
        self, module: fx.GraphModule, _: Sequence[Any]
    ) -> Callable[[list[Any]], Any]:
        """Return a boxed callable that runs a planned graph and compares."""
        backward = any(n.meta.get("autograd_backward") for n in module.graph.nodes)

        def run(args: list[Any]) -> Any:  # noqa: ANN401 -- as the graph's
            if not backward:
                self._begin_step()
            return _Comparing(module, self.note).boxed_run(args)

        run._boxed_call = True  # type: ignore[attr-defined]  # noqa: SLF001 -- AOT's
        return run

    def note(self, op: int, read: tuple[bytes, ...], made: tuple[bytes, ...]) -> None:
        """Remember a run of an operation, or compare it with its first."""
        self._runs[op] = self._runs.get(op, 0) + 1
        first = self._first.setdefault(op, _Run(read, made))
        if self.found is None and first.made != made:
            self.found = (op, self.step, self._runs[op], first.read == read)

    def suspect(self, ops: Sequence[Op]) -> Suspect | None:
        """Return what was found, by the ops of the planned graph."""
        if self.found is None:
            return None
        index, step, run, same_inputs = self.found
        op = ops[index]
        return Suspect(op.name, op.target, op.module, op.source, step, run, same_inputs)

    def _begin_step(self) -> None:
        self.step += 1
        self._first.clear()
        self._runs.clear()


class _Comparing(fx.Interpreter):
    """Runs a graph and tells `note` what each operation of a plan read and made."""

    def __init__(self, module: fx.GraphModule, note: Callable[..., None]) -> None:
        super().__init__(module)
        self._note = note

    def run_node(self, n: fx.Node) -> Any:  # noqa: ANN401 -- whatever the node makes
        op = n.meta.get(OP)
        if op is None or str(n.target).startswith(_UNFILLED):
            return super().run_node(n)
        read = tuple(_digests(self.fetch_args_kwargs_from_env(n)))
        result = super().run_node(n)
        self._note(op, read, tuple(_digests(_used(n, result))))
        return result


def _used(node: fx.Node, result: Any) -> Any:  # noqa: ANN401 -- whatever the node makes
    """Return what others read of a result: unread parts of a tuple may be unfilled."""
    if not isinstance(result, (tuple, list)):
        return result
    return [result[user.args[1]] for user in node.users]  # type: ignore[index]


def _digests(values: Any) -> Iterator[bytes]:  # noqa: ANN401 -- nested tensors
    for value in tree_leaves(values):
        if isinstance(value, torch.Tensor):
            layout = f"{value.dtype} {tuple(value.shape)} {value.stride()}"
            digest = hashlib.blake2b(layout.encode(), digest_size=16)
            digest.update(bits(value.detach().cpu()).numpy().data)
            yield digest.digest()
