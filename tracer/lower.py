"""Lower a captured joint graph to a cost graph over storages.

Three kinds of FX node own nothing and become no op: views (all their storages exist
already), `getitem` of a tuple, and constants. Every other call becomes one op with
all its outputs. What the graph cannot say with data edges is said with zero-byte
ordering tokens: a read of an input that is overwritten later goes before the write,
and random draws keep their order in the stream.

A random op becomes two: one that takes the random state (`STATE_TARGET`), one that
draws with it. Running the second again needs the state, so replaying a mask has its
true price, and the planner weighs it against keeping the mask.

Tangents are outputs of an op of their own, the first of the backward: they exist
from then on. A scalar loss's tangent stays to the end, since `loss.backward()` holds
it; others die after their last use.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import fx

from encamp.errors import UnsupportedError
from encamp.graph import CostGraph, Kind, Op, Phase, Reason, Recompute

from .calls import CostSource, OpCall, OpCost, Progress
from .drafts import Call, CallKind, Draft, DraftList
from .joint import GivenInput, JointStep, nodes_of, tensors_of
from .phases import backward_nodes
from .provenance import module_path, source_line, where
from .randomness import random_device, random_state, state_bytes
from .recomputable import draws_random, reason_against, written_nodes
from .signature import arguments_of, layout_of
from .values import ValueTable, plain_tensors, storage_key

STATE_TARGET = "encamp.random_state"
TANGENTS_TARGET = "encamp.tangents"


@dataclass(frozen=True, slots=True)
class Lowered:
    """A cost graph and the way back from it to the joint graph.

    `calls` has one entry an op. `owners` are the nodes that own their storage or were
    made by an op: every other node is a view, to be made again from its arguments.
    """

    graph: CostGraph
    joint: JointStep
    calls: tuple[Call, ...]
    owners: frozenset[fx.Node]


def lower(
    joint: JointStep,
    costs: CostSource,
    *,
    name: str = "step",
    meta: Mapping[str, str | int] | None = None,
    progress: Progress | None = None,
) -> Lowered:
    """Lower a joint graph and cost its calls; linear in nodes and edges.

    Raises:
        UnsupportedError: the step holds something Encamp refuses to plan; the message
            names the operation, its module and its source line.
        CostError: the cost source cannot cost a call.

    """
    lowering = _Lowering(joint)
    drafts = lowering.run()
    priced = _priced([draft.call for draft in drafts], costs, progress)
    pairs = zip(drafts, priced, strict=True)
    ops = tuple(_costed(draft, cost, lowering.table) for draft, cost in pairs)
    graph = CostGraph(
        name=name,
        values=tuple(lowering.table.values),
        ops=ops,
        outputs=lowering.outputs(),
        meta={"torch": torch.__version__, **costs.meta, **(meta or {})},
    )
    calls = tuple(draft.call for draft in drafts)
    return Lowered(graph, joint, calls, frozenset(lowering.owners))


def _priced(
    calls: Sequence[Call], costs: CostSource, progress: Progress | None
) -> list[OpCost]:
    """Cost all calls; what the caller hands over costs nothing."""
    asked = [c for c in calls if c.kind is not CallKind.RECEIVE_TANGENTS]
    answers = iter(costs.costs([_op_call(call) for call in asked], progress))
    free = OpCost(0)
    return [
        free if c.kind is CallKind.RECEIVE_TANGENTS else next(answers) for c in calls
    ]


def _op_call(call: Call) -> OpCall:
    if call.kind is CallKind.TAKE_STATE:
        return OpCall(random_state, (random_device(call.node),))
    args = fx.map_arg(call.node.args, _fake)
    kwargs = fx.map_arg(dict(call.node.kwargs), _fake)
    return OpCall(call.node.target, tuple(args), kwargs)  # type: ignore[arg-type]


def _fake(node: fx.Node) -> fx.Node:
    """Stand in the fake tensor for a node (typed as FX wants its mapping)."""
    return node.meta.get("val", node)  # type: ignore[no-any-return]


def _costed(draft: Draft, cost: OpCost, table: ValueTable) -> Op:
    """Put a call's cost on its op.

    Before a redraw the stream's own state is read: a tensor for a moment, which
    counts where the outputs made afterwards are smaller.
    """
    workspace = cost.workspace_bytes
    if draft.call.kind is CallKind.OPERATOR and draft.call.state is not None:
        made = sum(table.values[value].bytes for value in draft.op.outputs)
        read = state_bytes(random_device(draft.call.node))
        workspace = max(workspace, read - made)
    return replace(
        draft.op,
        duration_ns=cost.duration_ns,
        workspace_bytes=workspace,
        spread_ns=cost.spread_ns,
    )


@dataclass(slots=True)
class _Lowering:
    """One walk over the nodes, forward ones first."""

    joint: JointStep
    table: ValueTable = field(default_factory=ValueTable)
    owners: set[fx.Node] = field(default_factory=set)
    _backward: set[fx.Node] = field(init=False)
    _ops: DraftList = field(init=False)
    _gradients: set[int] = field(default_factory=set)
    _held: list[int] = field(default_factory=list)
    _last_draw: dict[torch.device, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = list(self.joint.module.graph.nodes)
        self._backward = backward_nodes(self.joint)
        self._ops = DraftList(self.table, {n: i for i, n in enumerate(nodes)})
        for node in nodes_of(self.joint.backward_outputs):
            self._gradients.update(storage_key(t) for t in tensors_of(node))

    def run(self) -> list[Draft]:
        """Lower every node and return the ops."""
        self._add_primals()
        inner = [n for n in self.joint.module.graph.nodes if n.op not in _BOUNDARY]
        for node in (n for n in inner if n not in self._backward):
            self._add(node)
        self._add_tangents()
        for node in (n for n in inner if n in self._backward):
            self._add(node)
        if not self._ops.drafts:
            msg = "the step holds no operation: nothing to plan"
            raise UnsupportedError(msg)
        return self._ops.drafts

    def outputs(self) -> tuple[int, ...]:
        """Return the values alive at the end of the step."""
        items = [*self.joint.forward_outputs, *self.joint.backward_outputs]
        kept = [v for node in nodes_of(items) for v in self.table.of(node)]
        distinct = dict.fromkeys([*kept, *self._held])
        return tuple(v for v in distinct if not self.table.values[v].resident)

    def _add_primals(self) -> None:
        for index, node in enumerate(self.joint.primals):
            self.owners.add(node)
            given = self.joint.inputs.get(index, GivenInput(Kind.INPUT))
            for tensor in plain_tensors(node):
                self.table.add(tensor, given, resident=True)

    def _add_tangents(self) -> None:
        tangents = self.joint.tangents
        if not tangents:
            return
        made: dict[int, None] = {}
        for node in tangents:
            self.owners.add(node)
            for tensor in plain_tensors(node):
                value = self.table.add(tensor, GivenInput(Kind.TANGENT, node.name))
                made[value] = None
                if tensor.numel() == 1:
                    self._held.append(value)
        draft = Op(
            id=len(self._ops.drafts),
            name="tangents",
            target=TANGENTS_TARGET,
            phase=Phase.BACKWARD,
            inputs=(),
            outputs=tuple(made),
            duration_ns=0,
            recompute=Recompute(allowed=False, reason=Reason.GIVEN),
        )
        self._ops.append(draft, Call(tangents[0], CallKind.RECEIVE_TANGENTS))

    def _add(self, node: fx.Node) -> None:
        if node.op == "get_attr":
            self._add_constant(node)
        elif node.op != "call_function":
            msg = f"the step holds a node of kind {node.op}: {where(node)}"
            raise UnsupportedError(msg)
        elif node.target is not operator.getitem and not self._is_view(node):
            self._add_call(node)

    def _add_constant(self, node: fx.Node) -> None:
        self.owners.add(node)
        for tensor in tensors_of(node):
            given = GivenInput(Kind.BUFFER, str(node.target))
            self.table.add(tensor, given, resident=True)

    def _is_view(self, node: fx.Node) -> bool:
        """Whether the call makes no storage and writes into none."""
        tensors = plain_tensors(node)
        known = all(self.table.find(t) is not None for t in tensors)
        return bool(tensors) and known and not written_nodes(node)

    def _add_call(self, node: fx.Node) -> None:
        written = {v for n in written_nodes(node) for v in self.table.of(n)}
        made = self._make_outputs(node, written)
        replayable = draws_random(node) and reason_against(node) is None
        state = self._take_state(node) if replayable else None
        read = [v for source in node.all_input_nodes for v in self.table.of(source)]
        drawn_with = [] if state is None else [state]
        inputs = tuple(dict.fromkeys([*drawn_with, *read]))
        op = self._ops.append(
            self._draft(node, inputs, made), Call(node, state=state), written
        )
        if draws_random(node):
            self._last_draw[random_device(node)] = op
        parts = (user for user in node.users if user.target is operator.getitem)
        self.owners.update((node, *parts))

    def _make_outputs(self, node: fx.Node, written: set[int]) -> tuple[int, ...]:
        made: dict[int, None] = {}
        for tensor in plain_tensors(node):
            known = self.table.find(tensor)
            if known is None:
                is_gradient = storage_key(tensor) in self._gradients
                kind = Kind.GRADIENT if is_gradient else Kind.ACTIVATION
                made[self.table.add_made(node, tensor, GivenInput(kind))] = None
            elif known not in written and known not in made:
                _refuse_alias(node)
        return tuple(made)

    def _draft(
        self, node: fx.Node, inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> Op:
        reason = reason_against(node)
        return Op(
            id=len(self._ops.drafts),
            name=node.name,
            target=str(node.target),
            phase=Phase.BACKWARD if node in self._backward else Phase.FORWARD,
            inputs=inputs,
            outputs=outputs,
            duration_ns=0,
            recompute=Recompute(allowed=reason is None, reason=reason),
            module=module_path(node),
            source=source_line(node),
            arguments=arguments_of(node, lambda n: n not in self.owners),
            layout=layout_of(node),
        )

    def _take_state(self, node: fx.Node) -> int:
        """Add the op that takes the random state `node` draws with."""
        device = random_device(node)
        state = self.table.new(state_bytes(device), GivenInput(Kind.ACTIVATION))
        taken = replace(
            self._draft(node, (), (state,)),
            name=f"{node.name}_state",
            target=STATE_TARGET,
            recompute=Recompute(allowed=False, reason=Reason.RANDOM),
            arguments="",
            layout=device.type,
        )
        call = Call(node, CallKind.TAKE_STATE, state)
        op = self._ops.append(taken, call)
        if device in self._last_draw:
            self._ops.wait(op, self._last_draw[device])
        return state


_BOUNDARY = ("placeholder", "output")


def _refuse_alias(node: fx.Node) -> None:
    msg = (
        f"{where(node)} returns one of its arguments beside new tensors; Encamp cannot"
        " tell its memory apart: return a clone instead"
    )
    raise UnsupportedError(msg)
