"""Random draws, moved buffers and the ways a compiled step may be called."""

from collections import Counter

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own abbreviation
from torch import nn

from cases import batch_norm, noisy_dropout, tied_and_shared
from encamp.graph import CostGraph
from stepping import Stepper, differences, random_schedule

SEEDS = (1, 2, 3, 4)


class ReadThenMoved(nn.Module):
    """Reads a buffer, uses what it read, and then moves the buffer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(1.0, 5.0))
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        y = self.weight * torch.sin(self.scale * 2) * x
        self.scale.add_(1)
        return y.square().sum()


class PartlyUsed(nn.Module):
    """Has a parameter that the step does not use, and one that is frozen."""

    def __init__(self):
        super().__init__()
        self.used = nn.Linear(8, 8)
        self.unused = nn.Linear(8, 8)
        self.frozen = nn.Linear(8, 8).requires_grad_(requires_grad=False)

    def forward(self, x):
        return torch.tanh(self.frozen(torch.tanh(self.used(x)))).square().sum()


class OneDropout(nn.Module):
    """One dropout whose output is needed often."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4096))

    def forward(self, x):
        dropped = F.dropout(self.weight * x, 0.5)
        return (torch.sin(dropped) * torch.cos(dropped)).sum()


def seeded(seed):
    """Return the random schedules of one seed."""
    return lambda graph: random_schedule(graph, seed)


def as_it_is(graph: CostGraph) -> range:
    """Return the schedule that runs every op once."""
    return range(len(graph.ops))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_buffer_read_before_it_moves_is_read_once(seed):
    """Recomputing never reads the moved buffer, in any schedule, step after step."""
    args = (torch.arange(4.0),)
    expected = Stepper(ReadThenMoved(), args).outcomes(3)
    actual = Stepper(ReadThenMoved(), args, seeded(seed)).outcomes(3)

    assert [differences(e, a) for e, a in zip(expected, actual, strict=True)] == [
        []
    ] * 3
    assert actual[-1]["buffer scale"].tolist() == [4.0] * 4


def test_every_recompute_of_a_dropout_has_its_first_mask():
    """Dropout is made again for each of its readers, and gradients are exact.

    The gradient of sin(d) cos(d) = sin(2 d) / 2 is cos(2 d), times 2 where the mask
    keeps: one other mask among the runs would show.
    """
    args = (torch.ones(4096),)

    def again_and_again(graph):
        (draw,) = (op.id for op in graph.ops if "dropout.default" in op.target)
        made = set(graph.ops[draw].outputs)
        steps = []
        for op in graph.ops:
            if made & set(op.inputs):
                steps += [draw, draw]
            steps.append(op.id)
        return steps

    stepper = Stepper(OneDropout(), args, again_and_again)
    (actual,) = stepper.outcomes(1)
    (expected,) = Stepper(OneDropout(), args).outcomes(1)

    draws = Counter(stepper.steps)
    assert max(draws.values()) > 4
    assert differences(expected, actual) == []
    kept = actual["grad weight"] != 0
    assert torch.allclose(actual["grad weight"][kept], torch.tensor(4.0).cos() * 2)


def test_successive_steps_draw_different_masks():
    """Replaying a mask within a step leaves the next step its own."""
    stepper = Stepper(*noisy_dropout(), seeded(1))
    model = stepper.model
    torch.manual_seed(0)
    gradients = []
    for _ in range(2):
        model.zero_grad(set_to_none=True)
        stepper.call(*stepper.args).backward()
        gradients.append(model.model.layers[0].weight.grad)

    assert not torch.equal(*gradients)


def test_what_is_drawn_after_a_step_is_what_would_be():
    """The global stream ends where the unplanned step leaves it."""
    drawn = []
    for schedule in (None, seeded(2)):
        Stepper(*noisy_dropout(), schedule).outcome(seed=7)
        drawn.append(torch.rand(4))

    assert torch.equal(*drawn)


def test_an_error_while_drawing_again_leaves_the_stream():
    """A hook that fails in the backward leaves no state of an earlier draw behind."""
    stepper = Stepper(*noisy_dropout(), seeded(3))
    stepper.outcome(seed=7)
    after = torch.get_rng_state()
    weight = stepper.model.model.layers[0].weight

    def fail(_):
        raise ValueError("no")

    hook = weight.register_post_accumulate_grad_hook(fail)
    with pytest.raises(ValueError, match="no"):
        stepper.outcome(seed=7)
    hook.remove()
    assert torch.equal(torch.get_rng_state(), after)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_input_that_requires_a_gradient_gets_it(seed):
    """Leaves among the inputs get their gradients like parameters."""

    def made():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
        x = torch.randn(4, 8, requires_grad=True)
        return _Squared(model), (x,)

    (expected,) = Stepper(*made()).outcomes(1)
    (actual,) = Stepper(*made(), seeded(seed)).outcomes(1)

    assert expected["grad input 0"] is not None
    assert differences(expected, actual) == []


class _Squared(nn.Module):
    """A model under its squared sum."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).square().sum()


def test_parameters_without_a_gradient_keep_none():
    """What the loss does not depend on, or is frozen, has no gradient afterwards."""
    args = (torch.ones(2, 8),)
    (outcome,) = Stepper(PartlyUsed(), args, seeded(1)).outcomes(1)
    without = {name for name, tensor in outcome.items() if tensor is None}

    assert without == {
        f"grad {part}.{name}"
        for part in ("unused", "frozen")
        for name in ("weight", "bias")
    }


def test_two_forwards_before_one_backward():
    """Each call keeps its own saved tensors: gradients of a sum are sums."""
    model, args = tied_and_shared()
    gradients = []
    for schedule in (None, seeded(1)):
        stepper = Stepper(model, args, schedule)
        model.zero_grad(set_to_none=True)
        (stepper.call(*args) + 2 * stepper.call(*args)).backward()
        gradients.append([p.grad.clone() for p in model.parameters()])

    assert all(torch.equal(*pair) for pair in zip(*gradients, strict=True))


def test_gradients_accumulate_over_steps():
    """Without zero_grad, a second backward adds to the first."""
    model, args = tied_and_shared()
    stepper = Stepper(model, args, seeded(1))
    first = stepper.outcome()
    stepper.call(*args).backward()

    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.grad, 2 * first[f"grad {name}"])


def test_calls_that_need_no_gradient_run():
    """Under no_grad and in eval mode the step runs, unplanned, as it would."""
    model, args = batch_norm()
    stepper = Stepper(model, args, seeded(1))
    expected = model(*args).detach()
    stepper.call(*args).backward()

    with torch.no_grad():
        assert torch.equal(stepper.call(*args), expected)
    model.eval()
    with torch.no_grad():
        assert torch.equal(stepper.call(*args), model(*args))
    assert model.model[0][1].num_batches_tracked == 3


def test_hooks_fire_once_a_backward():
    """Recomputing a block accumulates no gradient, so no hook fires again."""
    model, args = tied_and_shared()
    fired = Counter()
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda _, name=name: fired.update([name])
        )
    Stepper(model, args, seeded(2)).outcome()

    assert fired == dict.fromkeys(dict(model.named_parameters()), 1)


def test_running_statistics_move_once_a_step():
    """After three steps `num_batches_tracked` is 3, however often blocks ran."""
    stepper = Stepper(*batch_norm(), seeded(3))
    outcome = stepper.outcomes(3)[-1]
    counts = [t.item() for name, t in outcome.items() if "num_batches" in name]

    assert counts == [3] * 4


def test_every_op_once_is_the_unplanned_step():
    """The schedule without recomputation leaves what PyTorch's own split leaves."""
    (expected,) = Stepper(*tied_and_shared()).outcomes(1)
    (actual,) = Stepper(*tied_and_shared(), as_it_is).outcomes(1)

    assert differences(expected, actual) == []
