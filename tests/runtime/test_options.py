"""What may be asked of a planned step, and how a slip is answered."""

import pytest

from encamp.errors import OptionError, UnsupportedError
from encamp.runtime.options import OnStale, StepOptions, read_options


def test_a_budget_alone_is_enough():
    """Everything but what to plan for has a default."""
    options = read_options({"budget": "16GiB"})

    assert options == StepOptions(budget="16GiB")
    assert (options.plan, options.reserve, options.compiler) == (None, 0, "eager")
    assert (options.costs, options.on_stale) == ("measured", OnStale.ERROR)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("budgte", "did you mean 'budget'?"),
        ("plann", "did you mean 'plan'?"),
        ("on_stale_plan", "did you mean 'on_stale'?"),
        ("zzz", "known are ['budget', 'plan', "),
    ],
)
def test_an_unknown_option_is_answered_with_the_nearest(name, hint):
    """A near miss is named; where nothing is near, all are."""
    with pytest.raises(OptionError) as caught:
        read_options({name: 1})

    assert str(caught.value).startswith(f"unknown option '{name}' for backend 'encamp'")
    assert hint in str(caught.value)


@pytest.mark.parametrize("options", [None, {}, {"reserve": "1GiB"}])
def test_one_of_budget_and_plan_is_needed(options):
    """Without either there is nothing to plan for."""
    with pytest.raises(OptionError, match=r"give a budget, e\.g\. .*, or a plan"):
        read_options(options)


def test_what_to_do_with_a_stale_plan_is_one_of_two():
    """Another word is refused with the two that are known."""
    with pytest.raises(OptionError, match="it is 'error' or 'replan'"):
        StepOptions(budget=1, on_stale="ignore")


def test_what_to_do_with_a_new_shape_is_one_of_two():
    """Another word is refused with the two that are known."""
    with pytest.raises(OptionError, match="it is 'replan' or 'error'"):
        StepOptions(budget=1, on_new_shape="pad")


def test_an_unknown_compiler_is_refused():
    """Only what steps can be planned for is accepted."""
    with pytest.raises(UnsupportedError, match="unknown compiler 'nvfuser'"):
        StepOptions(budget=1, compiler="nvfuser")
