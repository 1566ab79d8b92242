"""The priced cut alone, on the chain of `graphs` and on a knapsack."""

import numpy as np
import pytest

from encamp.graph import CostGraph
from encamp.plan import Order
from encamp.planner.bounds import Cuts, best_bound, bound
from encamp.planner.clock import Clock
from encamp.planner.cut import Cut, Price, _floor_product, moment
from encamp.planner.reduce import reduce
from graphs import chain
from steps import knapsack


def cut_at(graph: CostGraph, op: int, order: Order = Order.FREE) -> Cut:
    """Return the cut at the first run of an op."""
    problem = reduce(graph)
    return Cut(problem, moment(problem, op, order))


class TestMoment:
    def test_is_certain_of_ancestors_and_descendants(self):
        """At op 4 of the chain all but op 5 have run: it needs 4, which needs all."""
        at = moment(reduce(chain()), 4, Order.FREE)

        assert np.flatnonzero(at.before).tolist() == [0, 1, 2, 3]
        assert np.flatnonzero(at.after).tolist() == [5]

    def test_fixes_inputs_outputs_loss_and_residents(self):
        """Op 4 reads gb (20) and a (10), makes ga (10); loss (1) and x (1) stand."""
        assert moment(reduce(chain()), 4, Order.FREE).fixed_bytes == 42

    def test_knows_less_where_the_order_is_free(self):
        """In the knapsack nothing orders ops 0, 1 and 2 among themselves."""
        problem = reduce(knapsack())

        assert not moment(problem, 1, Order.FREE).before.any()
        assert moment(problem, 1, Order.GIVEN).before.tolist() == [True] + [False] * 5


class TestChoices:
    def test_without_a_price_everything_needed_is_held(self):
        """At op 3: b, gb, t, loss and x are fixed (43); a (10) is held for op 4."""
        choice = cut_at(chain(), 3).most_bytes()

        assert (choice.added_ns, choice.held_bytes) == (0, 53)

    def test_the_fewest_bytes_leave_out_what_can_be_made_again(self):
        """Op 0 makes a again from x, which is resident: 43 bytes are left."""
        least, choice = cut_at(chain(), 3).least_bytes()

        assert least == 43
        assert choice.again.tolist() == [True] + [False] * 5

    @pytest.mark.parametrize(("price", "again"), [(9, False), (11, True)])
    def test_a_price_decides(self, price, again):
        """Value a is 10 bytes and 100 ns: made again where a byte costs over 10 ns."""
        cut = cut_at(chain(), 3)
        _, choice = cut.priced(Price.of(price * cut.unit, 1))

        assert bool(choice.again[0]) is again

    def test_a_pinned_op_does_not_run_again(self):
        """With op 0 pinned its value must be held."""
        problem = reduce(chain())
        problem.pinned[0] = True
        cut = Cut(problem, moment(problem, 3, Order.FREE))

        assert cut.least_bytes()[0] == 53


class TestBound:
    def test_is_exact_on_the_chain(self):
        """Under 53 bytes op 0 runs again, 100 ns; the dual proves 10 of 10 bytes."""
        assert bound(cut_at(chain(), 3), 43).added_ns == 100
        assert bound(cut_at(chain(), 3), 53).added_ns == 0

    def test_is_a_lower_bound_between(self):
        """At 48 bytes half the bytes are over: at least 50 ns, of truly 100."""
        assert 49 <= bound(cut_at(chain(), 3), 48).added_ns <= 100

    def test_proves_infeasibility_and_names_the_op(self):
        """Op 3 alone holds 43 bytes."""
        cuts, clock = Cuts(reduce(chain())), Clock()
        *_, last = best_bound(cuts, Order.FREE, 42, pay=clock.pay, stop=clock.is_over)

        assert (last.added_ns, last.op, last.least_bytes) == (None, 3, 43)

    def test_of_the_knapsack_is_fractional(self):
        """At op 3 two of three bytes are held beside it; with one less, 10 ns."""
        assert bound(cut_at(knapsack(), 3), 2).added_ns == 10


class TestExactness:
    @pytest.mark.parametrize("size", [0, 1, 3, 2**27 - 1, 2**27, 2**40 + 1, 2**53])
    @pytest.mark.parametrize("shift", [0, 5, 26, 27, 28, 60, 100])
    @pytest.mark.parametrize("mantissa", [1, 2**20, 2**21 - 1, 2**30])
    def test_capacities_are_exact_floors(self, size, shift, mantissa):
        """floor(price * size) up to the limit, as Python's integers have it."""
        price = Price(mantissa, shift)
        limit = 2**50
        product = _floor_product(np.array([size]), price, limit)

        assert product.tolist() == [min(mantissa * size >> shift, limit)]

    @pytest.mark.parametrize(("up", "down"), [(1, 3), (10**18, 7), (7, 10**18)])
    def test_a_price_is_never_above_its_ratio(self, up, down):
        """Prices keep at least 20 bits and round down."""
        price = Price.of(up, down)

        assert price.mantissa * down <= up << price.shift
        assert price.mantissa * down * (2**19 + 1) > (up << price.shift) * 2**19 - down
