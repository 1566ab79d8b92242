"""A draw can be repeated from its state, and the stream does not notice."""

import pytest
import torch

from encamp.tracer.randomness import first_draw, random_state, redraw, state_bytes

CPU = torch.device("cpu")
dropout = torch.ops.aten.native_dropout.default


def test_a_redraw_repeats_the_first_draw():
    """However often and whenever it is repeated, the mask is the first one's."""
    state, x = random_state(CPU), torch.ones(64)
    value, mask = first_draw(state, dropout, x, 0.5, True)
    torch.rand(5)

    for _ in range(2):
        value_again, mask_again = redraw(state, CPU, dropout, x, 0.5, True)
        assert torch.equal(mask_again, mask)
        assert torch.equal(value_again, value)


def test_a_redraw_leaves_the_stream_where_it_is():
    """What is drawn afterwards is what would have been drawn without it."""
    state, x = random_state(CPU), torch.ones(64)
    first_draw(state, dropout, x, 0.5, True)
    before = torch.get_rng_state()
    redraw(state, CPU, dropout, x, 0.5, True)

    assert torch.equal(torch.get_rng_state(), before)


def test_a_first_draw_is_the_operators_own():
    """The first run draws from the stream as the operator does by itself."""
    x = torch.ones(64)
    torch.manual_seed(3)
    expected = dropout(x, 0.5, True)
    torch.manual_seed(3)
    drawn = first_draw(random_state(CPU), dropout, x, 0.5, True)

    assert all(torch.equal(a, b) for a, b in zip(drawn, expected, strict=True))


def test_taking_the_state_draws_nothing():
    """The state is that of the stream, which stays where it is."""
    before = torch.get_rng_state()

    assert torch.equal(random_state(CPU), before)
    assert torch.equal(torch.get_rng_state(), before)
    assert random_state(CPU).nbytes == state_bytes(CPU)


def test_an_error_within_a_redraw_puts_the_stream_back():
    """Whatever happens in the operator, the stream is where it was."""
    state = random_state(CPU)
    torch.rand(5)
    before = torch.get_rng_state()

    def fail():
        torch.rand(3)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        redraw(state, CPU, fail)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.gpu
def test_a_redraw_repeats_the_first_draw_on_a_gpu():
    """The device's own stream is taken, set and put back; no byte of it on the GPU."""
    device = torch.device("cuda", torch.cuda.current_device())
    state, x = random_state(device), torch.ones(64, device=device)
    _, mask = first_draw(state, dropout, x, 0.5, True)
    before = torch.cuda.get_rng_state(device)
    _, again = redraw(state, device, dropout, x, 0.5, True)

    assert torch.equal(again, mask)
    assert torch.equal(torch.cuda.get_rng_state(device), before)
    assert state_bytes(device) == 0
