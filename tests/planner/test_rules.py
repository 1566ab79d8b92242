"""Rules: what they match, what they refuse, and that plans obey them."""

from functools import cache

import pytest

from encamp.check import check
from encamp.errors import InfeasibleError, OptionError
from encamp.graph import Phase, Reason, Recompute
from encamp.plan import Order, Status
from encamp.planner import Action, Options, Rule, Trait, min_budget, solve
from encamp.planner.reduce import reduce
from encamp.planner.replay_fast import FORBIDDEN, memory
from encamp.planner.rules import obey
from encamp.planner.start import unplanned
from encamp.replay import replay
from graphs import CHAIN_DURATION, CHAIN_PEAK, CHAIN_RECOMPUTED, chain, with_op
from oracle import least_duration
from small_steps import small_step

step = cache(small_step)


def keep(text):
    """Return the rule that keeps what a text names."""
    return Rule.parse(Action.KEEP, text)


def recompute(text):
    """Return the rule that recomputes what a text names."""
    return Rule.parse(Action.RECOMPUTE, text)


def solved(graph, budget, *rules):
    """Return the plan of a graph under rules."""
    return solve(graph, budget, options=Options(rules=rules))


class TestParse:
    @pytest.mark.parametrize(
        ("text", "trait", "pattern"),
        [
            ("aten.mm.*", Trait.TARGET, "aten.mm.*"),
            ("target:aten.mm.*", Trait.TARGET, "aten.mm.*"),
            ("module:h.*.mlp.*", Trait.MODULE, "h.*.mlp.*"),
            ("name:mm_1", Trait.NAME, "mm_1"),
            ("my::op", Trait.TARGET, "my::op"),
        ],
    )
    def test_reads_the_trait_in_front(self, text, trait, pattern):
        """Without a trait it is an operator's name, which may hold colons."""
        assert keep(text) == Rule(Action.KEEP, trait, pattern)

    @pytest.mark.parametrize("text", ["", "module:"])
    def test_needs_a_pattern(self, text):
        """A rule about nothing is refused."""
        with pytest.raises(OptionError, match="no pattern"):
            keep(text)

    def test_is_told_as_the_certificate_has_it(self):
        """Action, trait, pattern."""
        assert str(recompute("aten.mm.*")) == "recompute target:aten.mm.*"


class TestRefusals:
    def test_of_what_matches_nothing_lists_near_misses(self):
        """One letter is missing."""
        with pytest.raises(OptionError, match=r"near misses: aten\.mm\.default"):
            solved(chain(), CHAIN_PEAK, keep("aten.m.default"))

    def test_of_a_contradiction_names_the_op(self):
        """Op 0 is called first and is of module net.0."""
        with pytest.raises(OptionError, match=r"first of net\.0 .* choose"):
            solved(chain(), CHAIN_PEAK, keep("name:first"), recompute("module:net.*"))

    def test_of_backward_ops_to_recompute(self):
        """Nothing that a backward op makes exists when the backward begins."""
        with pytest.raises(OptionError, match="backward ops only"):
            solved(chain(), CHAIN_PEAK, recompute("name:*_back"))

    def test_of_a_pinned_op_to_recompute(self):
        """Op 4 reads what op 0 makes, which a random op may not make again."""
        pinned = Recompute(allowed=False, reason=Reason.RANDOM)
        graph = with_op(chain(), 0, recompute=pinned)

        with pytest.raises(OptionError, match=r"may not run again \(random\)"):
            solved(graph, CHAIN_PEAK, recompute("name:first"))

    def test_of_a_pinned_op_behind_a_barred_value(self):
        """Recomputing b takes a, which may neither be held nor be made again."""
        pinned = Recompute(allowed=False, reason=Reason.RANDOM)
        graph = with_op(with_op(chain(), 0, recompute=pinned), 4, inputs=(5, 2))

        with pytest.raises(OptionError, match="op first"):
            obey(
                with_op(graph, 3, inputs=(4,)),
                (recompute("name:*t"), recompute("name:second")),
            )


class TestKeep:
    def test_pins_the_op(self):
        """Without a second run of op 0 nothing under 53 bytes is feasible."""
        with pytest.raises(InfeasibleError, match="under its rules") as refusal:
            solved(chain(), CHAIN_PEAK - 1, keep("name:first"))

        assert refusal.value.bound_bytes == CHAIN_PEAK

    def test_of_other_ops_changes_nothing(self):
        """Op 1 runs once in the best plan anyway."""
        plan = solved(chain(), 43, keep("name:second"))

        assert plan.steps == CHAIN_RECOMPUTED
        assert plan.certificate.rules == ("keep name:second",)


class TestRecompute:
    def test_runs_again_even_where_memory_is_plenty(self):
        """Op 4 reads a, which may not be held at op 3: op 0 runs again, 100 ns."""
        plan = solved(chain(), 10**6, recompute("name:first"))

        assert plan.steps == CHAIN_RECOMPUTED
        assert plan.status is Status.OPTIMAL
        assert plan.certificate.lower_bound_ns == CHAIN_DURATION + 100
        assert plan.certificate.proved_by == "rules-cut"
        assert plan.certificate.order is Order.FREE

    def test_spares_what_the_first_backward_step_reads(self):
        """Op 3 reads b, so b may be live there: nothing runs again."""
        plan = solved(chain(), CHAIN_PEAK, recompute("name:second"))

        assert plan.steps == tuple(range(6))
        assert plan.status is Status.OPTIMAL

    def test_is_what_the_replay_counts_as_over_any_budget(self):
        """The unplanned step holds one barred value at op 3."""
        obedience = obey(chain(), (recompute("name:first"),))
        problem = reduce(obedience.graph, obedience.barred)
        held = memory(problem, unplanned(problem))

        assert held.tolist()[3] == FORBIDDEN + 1 + CHAIN_PEAK
        assert max(held.tolist()[:3]) < CHAIN_PEAK

    def test_holds_for_the_smallest_budget_too(self):
        """43 bytes take the second run of op 0 that the rule asks for."""
        rules = (recompute("name:first"),)
        found = min_budget(chain(), options=Options(rules=rules))

        assert (found.budget_bytes, found.plan.steps) == (43, CHAIN_RECOMPUTED)


def held_at_the_turn(graph, steps):
    """Return what is live at the first backward step, beside what that reads."""
    turn = next(
        i for i, op in enumerate(steps) if graph.ops[op].phase is Phase.BACKWARD
    )
    live = {i.value for i in replay(graph, steps).instances if i.born <= turn <= i.dies}
    return live - set(graph.ops[steps[turn]].inputs)


@pytest.mark.parametrize("block", range(10))
def test_against_the_oracle(block):
    """Plans obey, bounds hold for all that obey, and optima are those."""
    planned = 0
    for seed in range(block * 12, block * 12 + 12):
        graph = step(seed)
        rule = recompute(f"name:op{seed % graph.num_forward}")
        try:
            barred = obey(graph, (rule,)).barred
        except OptionError:  # of a pinned op
            continue
        for budget in {replay(graph).peak_bytes, replay(graph).peak_bytes - 1}:
            best = least_duration(graph, budget, barred=barred)
            in_order = least_duration(graph, budget, barred=barred, in_order=True)
            try:
                plan = solved(graph, budget, rule)
            except InfeasibleError as error:
                refuted = error.bound_bytes > budget
                assert not refuted or best is None, f"seed {seed}"
                continue
            free = plan.certificate.order is Order.FREE
            planned += 1

            assert check(graph, plan) == ()
            assert not held_at_the_turn(graph, plan.steps) & barred
            assert plan.certificate.lower_bound_ns <= (best if free else in_order)
            assert plan.duration_ns >= in_order
            if plan.status is Status.OPTIMAL:
                assert plan.duration_ns == (best if free else in_order)

    assert planned >= 5
