"""The second reading of the rules, and that it agrees with the first."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encamp.check import Rule, Violation, check
from encamp.errors import InvalidPlanError
from encamp.graph import CostGraph, Phase
from encamp.plan import Certificate, Figures, GraphRef, Status
from encamp.replay import replay
from graphs import CHAIN_PEAK, CHAIN_RECOMPUTED, chain, noisy, plan_of, unsolved_plan
from strategies import broken_schedules, graphs, schedules

CANNOT_RUN = {Rule.NO_STEPS, Rule.UNKNOWN_OP, Rule.MISSING_INPUT}
DIGEST = "sha256:" + "0" * 64


def kinds(violations):
    """Return the rules that are broken, each once."""
    return {violation.kind for violation in violations}


def test_a_right_schedule_has_no_violations():
    """The unplanned step and one with a recomputation pass."""
    assert check(chain(), range(6), CHAIN_PEAK) == ()
    assert check(chain(), CHAIN_RECOMPUTED, 43) == ()


@pytest.mark.parametrize(
    ("steps", "violation"),
    [
        (
            (0, 1, 6, 2, 3, 4, 5),
            Violation(
                Rule.UNKNOWN_OP,
                "steps[2] is op 6, but the graph 'chain' has only the ops 0 to 5",
                2,
            ),
        ),
        (
            (1, 0, 1, 2, 3, 4, 5),
            Violation(
                Rule.MISSING_INPUT,
                "steps[0] (op 1, second) needs first of net.0, but op 0, first, which"
                " makes it, has not run by then",
                0,
            ),
        ),
        (
            (0, 1, 2, 3, 4),
            Violation(
                Rule.NEVER_RUN,
                "op 5, first_back never runs; every op runs at least once",
            ),
        ),
        (
            (0, 1, 2, 3, 4),
            Violation(
                Rule.LOST_OUTPUT,
                "output first_back is not there at the end: op 5, first_back never"
                " runs",
            ),
        ),
        (
            (0, 1, 3, 2, 4, 5),
            Violation(
                Rule.EARLY_BACKWARD,
                "steps[2] (op 3, third_back) begins the backward pass before 1 forward"
                " ops ran for the first time, such as op 2, third",
                2,
            ),
        ),
    ],
)
def test_each_broken_rule_is_named_with_its_step(steps, violation):
    """A violation says which rule, where and by which op."""
    assert violation in check(chain(), steps)


def test_no_steps_is_a_violation():
    """An empty schedule is told from one that lacks an op."""
    assert check(chain(), ())[0] == Violation(
        Rule.NO_STEPS, "the schedule has no steps"
    )


def test_a_pinned_op_runs_once():
    """Running a pinned op again gives the reason it may not."""
    assert check(noisy(), (0, 0, 1, 2)) == (
        Violation(
            Rule.PINNED_AGAIN,
            "steps[1] runs op 0, drop again, which it may not (random); it ran at"
            " step 0",
            1,
        ),
    )


def test_a_peak_over_the_budget_names_the_step():
    """One byte too few is a violation at the step of the peak."""
    assert check(chain(), range(6), CHAIN_PEAK - 1) == (
        Violation(
            Rule.OVER_BUDGET,
            "the peak is 53 bytes at steps[3] (op 3, third_back), 1 more than the 52"
            " the budget allows",
            3,
        ),
    )


def test_a_true_plan_passes():
    """A plan whose every figure is true has no violations."""
    assert check(chain(), plan_of(chain(), CHAIN_RECOMPUTED)) == ()


def test_the_reserve_is_taken_off_the_budget():
    """A plan is judged by the budget asked about, less its own reserve."""
    plan = plan_of(chain(), budget_bytes=60, reserve_bytes=7)

    assert check(chain(), plan) == ()
    assert check(chain(), plan, 60) == ()
    assert kinds(check(chain(), plan, 59)) == {Rule.OVER_BUDGET}


LIES = {
    Rule.STATED_PEAK: {"peak_bytes": 52, "memory": {"activation": 52}},
    Rule.STATED_DURATION: {"duration_ns": 2101},
    Rule.STATED_MEMORY: {"memory": {"activation": 53}},
    Rule.STATED_UNPLANNED: {"unplanned": Figures(53, 2099)},
    Rule.BOUND_ABOVE_DURATION: {"certificate": Certificate(2101, "a wrong proof")},
    Rule.UNPROVED_OPTIMUM: {
        "status": Status.OPTIMAL,
        "certificate": Certificate(2099, "a weak proof"),
    },
}


@pytest.mark.parametrize("rule", LIES)
def test_what_a_plan_states_is_checked(rule):
    """A plan that says something untrue breaks the rule of that figure."""
    assert rule in kinds(check(chain(), plan_of(chain(), **LIES[rule])))


@pytest.mark.parametrize("rule", sorted(set(LIES) - {Rule.STATED_PEAK}))
def test_one_lie_is_one_violation(rule):
    """Other figures are not blamed (a wrong peak must lie about its memory too)."""
    assert kinds(check(chain(), plan_of(chain(), **LIES[rule]))) == {rule}


def test_a_plan_need_not_itemise_its_peak():
    """Memory by kind is optional; what is not said is not wrong."""
    assert check(chain(), plan_of(chain(), memory={})) == ()


def test_an_optimal_plan_has_no_gap():
    """A bound equal to the duration proves the optimum."""
    plan = plan_of(chain(), status=Status.OPTIMAL)

    assert check(chain(), plan) == ()


def test_a_plan_for_another_graph_is_named():
    """Either fingerprint that differs is a violation of its own."""
    plan = plan_of(chain())
    other = replace(plan, graph=GraphRef("other", DIGEST, DIGEST))

    assert kinds(check(chain(), other)) == {Rule.OTHER_STRUCTURE, Rule.OTHER_EXACT}
    assert kinds(check(chain(), plan_of(noisy()))) > {Rule.OTHER_STRUCTURE}


def test_an_answer_without_a_schedule_is_checked_for_its_graph():
    """An infeasible plan still says which graph and what the unplanned step takes."""
    plan = unsolved_plan(chain(), Status.INFEASIBLE)

    assert check(chain(), plan) == ()
    wrong = replace(plan, unplanned=Figures(1, 1))
    assert kinds(check(chain(), wrong)) == {Rule.STATED_UNPLANNED}


@settings(max_examples=100)
@given(graphs().flatmap(lambda g: st.tuples(st.just(g), schedules(g))))
def test_replay_and_check_agree_on_the_peak(drawn):
    """The peak that replay finds is the smallest budget that passes the check."""
    graph, steps = drawn
    peak = replay(graph, steps).peak_bytes

    assert check(graph, steps, peak) == ()
    assert kinds(check(graph, steps, peak - 1)) == {Rule.OVER_BUDGET}


@settings(max_examples=100)
@given(graphs().flatmap(lambda g: st.tuples(st.just(g), schedules(g))))
def test_replay_and_check_agree_on_every_figure(drawn):
    """A plan that states what replay found passes the check."""
    graph, steps = drawn

    assert check(graph, plan_of(graph, steps)) == ()


@settings(max_examples=100)
@given(graphs().flatmap(lambda g: st.tuples(st.just(g), broken_schedules(g))))
def test_replay_and_check_agree_on_what_can_run(drawn):
    """Replay refuses exactly the schedules in which check finds a step that cannot."""
    graph, steps = drawn
    stopping = kinds(check(graph, steps)) & CANNOT_RUN

    if stopping:
        with pytest.raises(InvalidPlanError):
            replay(graph, steps)
    else:
        assert replay(graph, steps).steps == tuple(steps)


@settings(max_examples=100)
@given(graphs().flatmap(lambda g: st.tuples(st.just(g), broken_schedules(g))))
def test_check_finds_exactly_the_rules_that_are_broken(drawn):
    """Each rule agrees with its own sentence, written out over the whole schedule."""
    graph, steps = drawn

    assert kinds(check(graph, steps)) == rules_broken(graph, steps)


def rules_broken(graph: CostGraph, steps: list[int]) -> set[Rule]:
    """Return the broken rules, each by a sentence and quadratic on purpose."""
    known = [step for step in steps if 0 <= step < len(graph.ops)]
    forward = {op.id for op in graph.ops if op.phase is Phase.FORWARD}
    made = [graph.producer[value] for value in graph.outputs]
    sentences = {
        Rule.NO_STEPS: not steps,
        Rule.UNKNOWN_OP: known != steps,
        Rule.MISSING_INPUT: any(
            graph.producer[value] not in (None, *steps[:position])
            for position, step in enumerate(steps)
            if step in known
            for value in graph.ops[step].inputs
        ),
        Rule.NEVER_RUN: set(known) != set(range(len(graph.ops))),
        Rule.PINNED_AGAIN: any(
            known.count(op.id) > 1 for op in graph.ops if not op.recompute.allowed
        ),
        Rule.EARLY_BACKWARD: any(
            step in known
            and step not in forward
            and not forward <= set(steps[:position])
            for position, step in enumerate(steps)
        ),
        Rule.LOST_OUTPUT: any(maker not in (None, *known) for maker in made),
    }
    return {rule for rule, broken in sentences.items() if broken}
