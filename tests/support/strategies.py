"""The one home of hypothesis strategies: graphs, schedules of them, plans."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from encamp.graph import CostGraph, Kind, Op, Phase, Reason, Recompute, Value
from encamp.plan import Certificate, Order, Plan, SolverInfo
from encamp.replay import replay
from graphs import plan_of, renumbered

_SIZES = st.one_of(st.just(0), st.integers(1, 30))
_TARGETS = st.sampled_from(
    [
        "aten.mm.default",
        "aten.native_dropout.default",
        "aten._scaled_dot_product_flash_attention_for_cpu.default",
        "aten.native_batch_norm_backward.default",
    ]
)
_TEXTS = st.text(max_size=4)
_MAYBE_TEXTS = st.none() | _TEXTS
_RECOMPUTE = st.one_of(
    st.just(Recompute()),
    st.builds(Recompute, allowed=st.just(value=False), reason=st.sampled_from(Reason)),
)


@st.composite
def graphs(
    draw: st.DrawFn, *, max_forward: int = 4, max_backward: int = 4
) -> CostGraph:
    """Draw a valid graph.

    Given values may be resident or not, ops have zero to three outputs, sizes may be
    zero, any value may be an output of the step, and values are numbered at random.
    """
    values = draw(st.lists(_given_values(), max_size=3))
    phases = [Phase.FORWARD] * draw(st.integers(1, max_forward))
    phases += [Phase.BACKWARD] * draw(st.integers(0, max_backward))
    ops: list[Op] = []
    for phase in phases:
        known = len(values)
        inputs = draw(_subset(range(known), max_size=3))
        values += draw(st.lists(_made_values(), max_size=3))
        ops.append(draw(_ops(len(ops), phase, inputs, range(known, len(values)))))
    numbers = draw(st.permutations(range(len(values))))
    graph = CostGraph(
        name=draw(_TEXTS),
        values=tuple(replace(v, id=number) for number, v in enumerate(values)),
        ops=tuple(ops),
        outputs=tuple(draw(_subset(range(len(values)), max_size=3))),
        meta=draw(st.dictionaries(_TEXTS, _TEXTS | st.integers(0, 9), max_size=2)),
    )
    return renumbered(graph, numbers)


@st.composite
def schedules(draw: st.DrawFn, graph: CostGraph, *, max_repeats: int = 6) -> list[int]:
    """Draw steps that break no rule: any order that can run, with recomputations."""
    repeats = draw(st.integers(0, max_repeats))
    done: set[int] = set()
    steps: list[int] = []
    while len(done) < len(graph.ops):
        ready = [op.id for op in graph.ops if _may_run(graph, op, done)]
        fresh = [op for op in ready if op not in done]
        again = [op for op in ready if op in done]
        if again and repeats and draw(st.booleans()):
            repeats -= 1
            steps.append(draw(st.sampled_from(again)))
        else:
            steps.append(draw(st.sampled_from(fresh)))
            done.add(steps[-1])
    return steps


def broken_schedules(graph: CostGraph) -> st.SearchStrategy[list[int]]:
    """Draw steps that may break any rule, from slightly to wholly."""
    anything = st.lists(st.integers(-1, len(graph.ops)), max_size=12)
    return st.one_of(anything, _damaged(graph), schedules(graph))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draw a plan whose every figure is true, of a drawn graph and schedule."""
    graph = draw(graphs())
    steps = draw(schedules(graph))
    spare = draw(st.integers(0, 9))
    reserve = draw(st.integers(0, 9))
    timeline = replay(graph, steps)
    bound = draw(st.integers(0, timeline.duration_ns))
    return plan_of(
        graph,
        steps,
        budget_bytes=timeline.peak_bytes + spare + reserve,
        reserve_bytes=reserve,
        certificate=Certificate(bound, draw(_TEXTS), draw(st.sampled_from(Order))),
        solver=draw(_solvers()),
    )


def _solvers() -> st.SearchStrategy[SolverInfo]:
    return st.builds(
        SolverInfo,
        encamp=_TEXTS,
        ortools=_TEXTS,
        seed=st.integers(0, 2**32),
        seconds=st.floats(0, 1e6),
        stages=st.lists(_TEXTS, max_size=3).map(tuple),
    )


@st.composite
def _damaged(draw: st.DrawFn, graph: CostGraph) -> list[int]:
    steps = draw(schedules(graph))
    for _ in range(draw(st.integers(1, 2))):
        position = draw(st.integers(0, len(steps)))
        if draw(st.booleans()):
            steps.insert(position, draw(st.integers(-1, len(graph.ops))))
        else:
            del steps[position : position + 1]
    return steps


def _may_run(graph: CostGraph, op: Op, done: set[int]) -> bool:
    makers = {graph.producer[value] for value in op.inputs} - {None}
    forward = range(graph.num_forward)
    if op.id in done and not op.recompute.allowed:
        return False
    if op.phase is Phase.BACKWARD and not done.issuperset(forward):
        return False
    return done.issuperset(makers)


def _given_values() -> st.SearchStrategy[Value]:
    return st.builds(
        Value,
        id=st.just(0),
        bytes=_SIZES,
        kind=st.sampled_from(Kind),
        resident=st.booleans(),
        name=_MAYBE_TEXTS,
    )


def _made_values() -> st.SearchStrategy[Value]:
    return st.builds(Value, id=st.just(0), bytes=_SIZES, kind=st.sampled_from(Kind))


def _ops(
    index: int, phase: Phase, inputs: Sequence[int], outputs: Sequence[int]
) -> st.SearchStrategy[Op]:
    return st.builds(
        Op,
        id=st.just(index),
        name=_TEXTS,
        target=_TARGETS,
        phase=st.just(phase),
        inputs=st.just(tuple(inputs)),
        outputs=st.just(tuple(outputs)),
        duration_ns=_SIZES,
        workspace_bytes=_SIZES,
        recompute=_RECOMPUTE,
        module=_MAYBE_TEXTS,
        source=_MAYBE_TEXTS,
        spread_ns=_SIZES,
        arguments=_TEXTS,
        layout=_TEXTS,
    )


def _subset(items: Sequence[int], *, max_size: int) -> st.SearchStrategy[list[int]]:
    if not items:
        return st.just([])
    return st.lists(st.sampled_from(items), max_size=max_size, unique=True)
