"""The cases of public reports, planned on measured costs and run on their plans.

Anchors in bytes are of what a step makes beside what is resident, the gradients of
its parameters counted: `beside` turns one into a budget. The reports and their
figures stand in `cases`.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cache

import pytest
import torch

from cases import CASES as OF_STEPS
from cases import InPlace
from encamp.errors import InfeasibleError, NoPlanError
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.planner import MinBudget, Options, min_budget, solve
from encamp.replay import replay
from encamp.runtime import verify
from encamp.tracer.profile import MeasuredCosts
from encamp.tracer.tracing import trace
from stepping import Stepper, ops_of, random_schedule
from training_cases import TRAINING_CASES

QUICK = Options(time_limit_s=None, work_limit=300, target_gap=0.005)
THOROUGH = Options(time_limit_s=None, work_limit=3000, target_gap=0.005)
"""Near the best plan, whatever the machine; the planner's own tests go to the limit."""
CASES = {**OF_STEPS, **TRAINING_CASES}
SHARES = (1.0, 0.75, 0.5, 0.25)
LARGE = {"S07", "S08", "S10"}
STEPS = {"S01": 3, "S02": 3}
"""Cases whose buffers or random streams move run several steps in a row."""
MEGABYTE = 1_000_000

SLOW = [
    *((case, share) for case in sorted(LARGE) for share in (1.0, 0.75)),
    *(("S07", share) for share in (0.5, 0.25)),
    ("S08", 0.25),
]
BUDGETS = [
    pytest.param(case, share, marks=pytest.mark.slow if (case, share) in SLOW else ())
    for case in CASES
    for share in SHARES
]


@dataclass(frozen=True)
class Measured:
    """Measured costs for all tests of this module, each call measured once."""

    costs: MeasuredCosts
    graphs: dict[str, CostGraph]
    smallest: dict[str, MinBudget]

    def graph(self, case: str) -> CostGraph:
        """Return a case's graph on measured costs."""
        if case not in self.graphs:
            self.graphs[case] = trace(*CASES[case](), costs=self.costs)
        return self.graphs[case]

    def minimum(self, case: str) -> MinBudget:
        """Return the smallest budget of a case, workspaces included."""
        if case not in self.smallest:
            self.smallest[case] = min_budget(self.graph(case), options=QUICK)
        return self.smallest[case]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return measured costs, kept beside the tests' other files."""
    return Measured(MeasuredCosts("cpu", tmp_path_factory.mktemp("costs")), {}, {})


@cache
def estimated(case: str) -> CostGraph:
    """Return a case's graph on the costs of a table: the same on every machine."""
    return trace(*CASES[case](), costs="roofline:cpu")


def beside(graph: CostGraph, size: float) -> int:
    """Return the budget that leaves `size` bytes beside what is resident."""
    return graph.resident_bytes + int(size)


def reruns(graph: CostGraph, plan: Plan, *targets: str) -> int:
    """Return how often operators run again."""
    runs = Counter(plan.steps)
    return sum(runs[op.id] - 1 for target in targets for op in ops_of(graph, target))


def products(graph: CostGraph, plan: Plan) -> int:
    """Return how many matrix products run again."""
    return reruns(graph, plan, "aten.mm.", "aten.addmm.", "aten.bmm.")


def agrees(case, plan, costs):
    """Run a case on a plan and return the report, once it agrees in all things."""
    report = verify(CASES[case], plan, costs=costs, steps=STEPS.get(case, 1), rounds=1)
    assert report.findings == ()
    for figures in (report.planned, report.unplanned):
        assert figures.storages.measured == figures.storages.predicted
        assert abs(figures.peak.difference) <= 0.01
    assert report.planned.peak.measured <= plan.budget_bytes
    return report


@pytest.mark.parametrize(("case", "share"), BUDGETS)
def test_a_case_trains_the_same_within_its_budget(case, share, measured):
    """At a share of its unplanned peak it agrees in all things, or is refused.

    In all things: bit for bit the unplanned step; storages peak as predicted to the
    byte; the allocator within 1 % of the prediction and within the budget.
    """
    graph, smallest = measured.graph(case), measured.minimum(case)
    budget = int(replay(graph).peak_bytes * share)
    if budget < smallest.budget_bytes:
        with pytest.raises((InfeasibleError, NoPlanError)):
            solve(graph, budget, options=QUICK)
        return

    report = agrees(case, solve(graph, budget, options=QUICK), measured.costs)
    assert (report.recomputed_ops == 0) == (share == 1.0)


@pytest.mark.parametrize("case", CASES)
def test_a_case_trains_the_same_at_its_smallest_budget(case, measured):
    """At the smallest budget a plan is known for, it agrees in all things."""
    smallest = measured.minimum(case)

    agrees(case, smallest.plan, measured.costs)
    assert smallest.bound_bytes <= smallest.budget_bytes == smallest.plan.peak_bytes


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=[pytest.mark.slow] if c == "S07" else []) for c in CASES],
)
def test_a_case_below_its_bound_is_refused_with_the_figures(case, measured):
    """A byte below what is proven, the refusal says what would fit and where."""
    graph, smallest = measured.graph(case), measured.minimum(case)
    with pytest.raises(InfeasibleError) as caught:
        solve(graph, smallest.bound_bytes - 1, options=THOROUGH)

    error = caught.value
    assert smallest.bound_bytes <= error.bound_bytes <= error.smallest_bytes
    assert str(error.smallest_bytes) in str(error)
    assert error.site.op in str(error)


def test_in_place_output_keeps_its_strides():
    """S03: the output is a transposed view, planned as unplanned."""
    torch.manual_seed(0)
    model, x = InPlace(), torch.randn(16, 32)
    stepper = Stepper(model, (x,), lambda graph: random_schedule(graph, 1))
    expected, actual = model(x), stepper.call(x)

    assert actual.stride() == expected.stride() == (1, 32)
    assert torch.equal(actual, expected)


def test_a_shared_weight_counts_once():
    """S05: the embedding is also the head, and one resident value."""
    graph = estimated("S05")
    tied = [v.bytes for v in graph.values if "embedding" in (v.name or "")]

    assert tied == [50 * 32 * 4]
    assert not [v for v in graph.values if "head" in (v.name or "")]


def test_a_frozen_prefix_runs_once():
    """S06: at 1.454 MB its twelve products still run once, nothing of it twice."""
    graph = estimated("S06")
    plan = solve(graph, beside(graph, 1.454 * MEGABYTE), options=QUICK)
    runs = Counter(plan.steps)
    prefix = [op for op in graph.ops if (op.module or "").startswith("model.prefix")]

    assert len(ops_of(graph, "aten.addmm.")) == 18
    assert sum("addmm" in op.target for op in prefix) == 12
    assert {runs[op.id] for op in prefix} == {1}
    assert plan.duration_ns > graph.duration_ns


@pytest.mark.parametrize("share", [0.55, 0.7, 0.9])
def test_nothing_of_a_frozen_prefix_runs_again_at_any_budget(share):
    """S06: neither the embedding nor the prefix, whatever else must."""
    graph = estimated("S06")
    budget = int(replay(graph).peak_bytes * share)
    runs = Counter(solve(graph, budget, options=QUICK).steps)
    frozen = ("model.prefix", "model.embedding")
    prefix = [op for op in graph.ops if (op.module or "").startswith(frozen)]

    assert max(runs.values()) > 1
    assert {runs[op.id] for op in prefix} == {1}


@pytest.mark.slow
def test_the_budget_of_a_llama_stack_is_met_and_monotone():
    """S07: from 90 to 11 MB each budget is met, each at a higher cost.

    At 11 MB, all gradients counted, at most 64 products run again (checkpointing each
    block takes 64); at 90 MB nothing does.
    """
    graph = estimated("S07")
    plans = [
        solve(graph, beside(graph, size * MEGABYTE), options=QUICK)
        for size in (90, 60, 36, 20, 15, 11)
    ]
    peaks = [plan.peak_bytes for plan in plans]
    durations = [plan.duration_ns for plan in plans]

    assert peaks == sorted(peaks, reverse=True)
    assert durations == sorted(durations)
    assert len(plans[0].steps) == len(graph.ops)
    assert 0 < products(graph, plans[-1]) <= 64


def test_blocks_traversed_twice_fit_8_megabytes():
    """S08: 8 MB is enough, gradients counted, with at most 24 products run again."""
    graph = estimated("S08")
    plan = solve(graph, beside(graph, 8 * MEGABYTE), options=QUICK)

    assert products(graph, plan) <= 24


def test_recomputation_of_a_block_runs_right_before_its_backward():
    """S08: nothing is hoisted: what is made again is used within its own stretch.

    In the backward of one traversal, no op of the other traversal's block is made
    again and kept: each recomputed value dies within a tenth of the step.
    """
    graph = estimated("S08")
    plan = solve(graph, beside(graph, 8 * MEGABYTE), options=QUICK)
    timeline = replay(graph, plan.steps)
    seen, again = set(), set()
    for position, op in enumerate(plan.steps):
        if op in seen:
            again.add(position)
        seen.add(op)
    lives = [i.dies - i.born for i in timeline.instances if i.born in again]

    assert lives
    assert max(lives) < len(plan.steps) / 10


def test_a_wide_layer_sets_the_smallest_budget():
    """S09: the wide tanh, its tangent and its gradient are the floor: 3 x 4 MiB.

    Loss and tangent are 8 bytes beside. The smallest budget is just that, and one
    byte less is refused with that number and the op.
    """
    graph = estimated("S09")
    smallest = min_budget(graph, options=QUICK)
    floor = beside(graph, 3 * 2048 * 512 * 4 + 8)

    assert smallest.budget_bytes == smallest.bound_bytes == floor
    with pytest.raises(InfeasibleError, match=str(floor)) as caught:
        solve(graph, floor - 1, options=QUICK)
    assert caught.value.smallest_bytes == caught.value.bound_bytes == floor
    assert caught.value.site.op.startswith("tanh_backward")
    assert caught.value.site.module == "model.27"


def test_nearly_all_the_memory_needs_no_product_again():
    """S10: at 99 % of the peak no matmul runs again; at 1.114 MB at most 12 do."""
    graph = estimated("S10")
    unplanned = replay(graph).peak_bytes - graph.resident_bytes
    nearly = solve(graph, beside(graph, 0.99 * unplanned), options=QUICK)
    little = solve(graph, beside(graph, 1.114 * MEGABYTE), options=QUICK)

    assert products(graph, nearly) == 0
    assert 0 < products(graph, little) <= 12


@pytest.mark.parametrize(("megabytes", "most"), [(13.1, 0), (9.4, 0), (7.6, 14)])
def test_a_u_net_fits_where_its_skips_wait(megabytes, most):
    """S12: 13.1 MB recomputes nothing; 7.6 MB at most 14 convolutions."""
    graph = estimated("S12")
    plan = solve(graph, beside(graph, megabytes * MEGABYTE), options=QUICK)

    assert reruns(graph, plan, "aten.convolution.") <= most
    assert (plan.duration_ns == graph.duration_ns) == (megabytes == 13.1)


def test_a_large_head_is_refused_by_its_logits():
    """S15: three tensors of the logits' size are the floor, at log_softmax's backward.

    4 x 128 words by 8,000 by 4 bytes are 16,384,000; loss and tangent are 8 beside.
    """
    graph = estimated("S15")
    floor = beside(graph, 3 * 16_384_000 + 8)
    with pytest.raises(InfeasibleError) as caught:
        solve(graph, beside(graph, 40 * MEGABYTE), options=QUICK)

    error = caught.value
    assert error.smallest_bytes == error.bound_bytes == floor
    assert error.site.op == "_log_softmax_backward_data"
    assert str(floor) in str(error)
    assert solve(graph, beside(graph, 49.5 * MEGABYTE), options=QUICK).steps
