"""Lay a joint graph out in the order of a plan: one forward and one backward graph.

Steps before the first backward op go into the forward graph, the others into the
backward. What the backward reads of the forward's last runs becomes saved tensors:
always the tensor that owns its storage, so that two views of one storage are saved
once. Views are made again where they are used, `getitem`s right after their op, so
that the generated code frees every storage after its last use, as `replay` says.
"""

from __future__ import annotations

import copy
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import SavedForBackwardsAOTOutput
from torch._guards import detect_fake_mode
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch.fx._lazy_graph_module import _make_graph_module

from encamp.graph import Phase
from encamp.tracer.drafts import Call, CallKind
from encamp.tracer.joint import nodes_of
from encamp.tracer.lower import Lowered
from encamp.tracer.randomness import first_draw, random_device, random_state, redraw

OP = "encamp_op"
"""Where a node of a planned graph carries the op that it runs."""

_UNCHECKED = "saved_tensor_with_no_vc_check"


@dataclass(frozen=True, slots=True)
class Saved:
    """What the forward keeps for the backward: tensors' nodes, and random states."""

    nodes: tuple[fx.Node, ...]
    states: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The two graphs of a planned step, ready for AOTAutograd."""

    forward: fx.GraphModule
    backward: fx.GraphModule


def rewrite(
    lowered: Lowered, steps: Sequence[int], *, operators_only: bool = False
) -> Rewritten:
    """Return the forward and backward graphs that run `steps`.

    `steps` has passed `check` against the lowered graph. With `operators_only` random
    draws run again by PyTorch's higher-order operators, which compilers know, else by
    functions of ours, which take less memory. Linear in the steps and their views.
    """
    first_backward = _first_backward(lowered, steps)
    before, after = steps[:first_backward], steps[first_backward:]
    saved = _saved(lowered, after)
    dialect = _Dialect.of(steps) if operators_only else None
    forward = _Emitter(lowered, dialect=dialect)
    backward = _Emitter(lowered, done=set(before), dialect=dialect)
    return Rewritten(
        _forward_module(forward, before, saved),
        _backward_module(backward, after, saved),
    )


def _first_backward(lowered: Lowered, steps: Sequence[int]) -> int:
    phases = (lowered.graph.ops[op].phase for op in steps)
    backward = (i for i, phase in enumerate(phases) if phase is Phase.BACKWARD)
    return next(backward, len(steps))


def _saved(lowered: Lowered, after: Sequence[int]) -> Saved:
    """Walk the backward's steps and collect what they take from the forward."""
    demand = _Demand(lowered, here=set(lowered.joint.tangents))
    for op in after:
        demand.run(lowered.calls[op])
    for node in nodes_of(lowered.joint.backward_outputs):
        demand.need(node)
    ordered = sorted(demand.nodes, key=lambda n: bool(n.meta.get(_UNCHECKED)))
    return Saved(tuple(ordered), tuple(demand.states))


@dataclass(slots=True)
class _Demand:
    """What the backward needs and does not make itself before it needs it."""

    lowered: Lowered
    here: set[fx.Node]
    states_here: set[int | None] = field(default_factory=lambda: {None})
    nodes: dict[fx.Node, None] = field(default_factory=dict)
    states: dict[int, None] = field(default_factory=dict)

    def run(self, call: Call) -> None:
        """Count what one call reads, then what it makes."""
        if call.kind is CallKind.TAKE_STATE:
            self.states_here.add(call.state)
        elif call.kind is CallKind.OPERATOR:
            if call.state not in self.states_here:
                self.states[_state(call)] = None
            for source in call.node.all_input_nodes:
                self.need(source)
            self.here.update(_made_by(call.node))

    def need(self, node: fx.Node) -> None:
        """Count a node, or what its view is of."""
        if node in self.here or node in self.nodes or node.op == "get_attr":
            return
        if node in self.lowered.owners:
            self.nodes[node] = None
            return
        for source in node.all_input_nodes:
            self.need(source)


def _made_by(node: fx.Node) -> list[fx.Node]:
    """Return the nodes that stand for the outputs of a call."""
    parts = [user for user in node.users if user.target is operator.getitem]
    return [node, *parts]


def _state(call: Call) -> int:
    if call.state is None:
        msg = f"{call.node.name} takes a random state that no value stands for"
        raise AssertionError(msg)
    return call.state


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How random draws are written as operators; `again` are the ops that run again."""

    again: frozenset[int]

    @classmethod
    def of(cls, steps: Sequence[int]) -> _Dialect:
        runs = Counter(steps)
        return cls(frozenset(op for op, count in runs.items() if count > 1))


@dataclass(slots=True)
class _Emitter:
    """Copies calls of the joint graph into a new graph, newest run last."""

    lowered: Lowered
    done: set[int] = field(default_factory=set)
    dialect: _Dialect | None = None
    graph: fx.Graph = field(default_factory=fx.Graph)
    newest: dict[fx.Node, fx.Node] = field(default_factory=dict)
    states: dict[int, fx.Node] = field(default_factory=dict)
    views: dict[tuple[fx.Node, ...], fx.Node] = field(default_factory=dict)

    def placeholder(self, node: fx.Node) -> None:
        self.newest[node] = self._given(_safe_name(node, self.lowered), node.meta)

    def state_placeholder(self, state: int) -> None:
        self.states[state] = self._given(
            f"random_state_{state}", {"val": _fake_state(self.lowered)}
        )

    def _given(self, name: str, meta: dict[str, object]) -> fx.Node:
        made = self.graph.placeholder(name)
        made.meta = copy.copy(meta)
        return made

    def emit(self, op: int) -> None:
        """Add one run of an op, and the `getitem`s of its outputs."""
        call = self.lowered.calls[op]
        if call.kind is CallKind.TAKE_STATE:
            self._take_state(call)
        elif call.kind is CallKind.OPERATOR:
            self.newest[call.node] = made = self._call(op, call)
            made.meta[OP] = op
            for part in _made_by(call.node)[1:]:
                self.newest[part] = self._copy(part)
        self.done.add(op)

    def resolve(self, node: fx.Node) -> fx.Node:
        """Return the newest run of a node, making its views again if need be."""
        if node in self.newest:
            return self.newest[node]
        key = (node, *(self.resolve(source) for source in node.all_input_nodes))
        if key not in self.views:
            self.views[key] = self._copy(node)
        return self.views[key]

    def output(self, items: Iterable[object], descriptors: list[object]) -> None:
        resolved = [self.resolve(i) if isinstance(i, fx.Node) else i for i in items]
        made = self.graph.output(tuple(resolved))  # type: ignore[arg-type]
        made.meta["desc"] = descriptors

    def _copy(self, node: fx.Node) -> fx.Node:
        made = self.graph.node_copy(node, self.resolve)
        made.meta = copy.copy(node.meta)
        return made

    def _take_state(self, call: Call) -> None:
        if self.dialect is not None:  # the operator that draws takes it, too
            return
        made = self.graph.call_function(random_state, (random_device(call.node),))
        made.meta["val"] = _fake_state(self.lowered)
        self.states[_state(call)] = made

    def _call(self, op: int, call: Call) -> fx.Node:
        if call.state is None:
            return self._copy(call.node)
        if self.dialect is None:
            return self._drawn(op, call)
        if op in self.done:
            return self._drawn_from(self.states[call.state], call.node)
        if op in self.dialect.again:
            return self._drawn_and_kept(call.state, call.node)
        return self._copy(call.node)

    def _drawn(self, op: int, call: Call) -> fx.Node:
        node = call.node
        # FX types its arguments without callables, though it takes them.
        drawn: Any = (node.target, *fx.map_arg(node.args, self.resolve))
        kwargs = fx.map_arg(dict(node.kwargs), self.resolve)
        draw: Callable[..., Any] = first_draw
        if op in self.done:
            draw, drawn = redraw, (random_device(node), *drawn)
        drawn = (self.states[_state(call)], *drawn)
        made = self.graph.call_function(draw, drawn, kwargs)
        made.meta = copy.copy(node.meta)
        return made

    def _drawn_from(self, state: fx.Node, node: fx.Node) -> fx.Node:
        args: Any = (state, node.target, *fx.map_arg(node.args, self.resolve))
        kwargs = fx.map_arg(dict(node.kwargs), self.resolve)
        made = self.graph.call_function(run_with_rng_state, args, kwargs)
        made.meta = copy.copy(node.meta)
        return made

    def _drawn_and_kept(self, state: int, node: fx.Node) -> fx.Node:
        args: Any = (node.target, *fx.map_arg(node.args, self.resolve))
        kwargs = fx.map_arg(dict(node.kwargs), self.resolve)
        both = self.graph.call_function(run_and_save_rng_state, args, kwargs)
        fake = _fake_state(self.lowered)
        both.meta = {**node.meta, "val": (fake, node.meta["val"])}
        kept = self.graph.call_function(operator.getitem, (both, 0))
        kept.meta["val"] = fake
        self.states[state] = kept
        made = self.graph.call_function(operator.getitem, (both, 1))
        made.meta = copy.copy(node.meta)
        return made


def _forward_module(
    emitter: _Emitter, before: Sequence[int], saved: Saved
) -> fx.GraphModule:
    lowered, joint = emitter.lowered, emitter.lowered.joint
    for node in joint.primals:
        emitter.placeholder(node)
    for op in before:
        emitter.emit(op)
    outputs = joint.forward_outputs
    kept = [
        *(emitter.resolve(n) for n in saved.nodes),
        *(emitter.states[s] for s in saved.states),
    ]
    descriptors = [
        *_descriptors(lowered)[: len(outputs)],
        *(SavedForBackwardsAOTOutput(i) for i in range(len(kept))),
    ]
    resolved = [emitter.resolve(o) if isinstance(o, fx.Node) else o for o in outputs]
    made = emitter.graph.output((*resolved, *kept))  # type: ignore[arg-type]
    made.meta["desc"] = descriptors
    return _module(lowered, emitter.graph)


def _backward_module(
    emitter: _Emitter, after: Sequence[int], saved: Saved
) -> fx.GraphModule:
    lowered, joint = emitter.lowered, emitter.lowered.joint
    for node in saved.nodes:
        emitter.placeholder(node)
    for state in saved.states:
        emitter.state_placeholder(state)
    for node in joint.tangents:
        emitter.placeholder(node)
    for op in after:
        emitter.emit(op)
    emitter.output(
        joint.backward_outputs, _descriptors(lowered)[joint.num_forward_outputs :]
    )
    for node in emitter.graph.nodes:
        node.meta["autograd_backward"] = True
    return _module(lowered, emitter.graph)


def _descriptors(lowered: Lowered) -> list[object]:
    joint = lowered.joint
    count = len(joint.forward_outputs) + len(joint.backward_outputs)
    return list(joint.output.meta.get("desc") or [None] * count)


def _module(lowered: Lowered, graph: fx.Graph) -> fx.GraphModule:
    graph.lint()
    return _make_graph_module(lowered.joint.module, graph)


def _safe_name(node: fx.Node, lowered: Lowered) -> str:
    """AOTAutograd tells tangents by their name, so no other may carry the word."""
    if node in lowered.joint.tangents:
        return str(node.target)
    return node.name.replace("tangents", "gradients")


def _fake_state(lowered: Lowered) -> torch.Tensor:
    mode = detect_fake_mode([n.meta.get("val") for n in lowered.joint.primals])
    state = torch.get_rng_state()
    return state if mode is None else mode.from_tensor(state)
