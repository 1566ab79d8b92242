"""A step is captured whole, the same from real tensors and from fake ones."""

import inspect

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from cases import CASES, frozen_prefix, tied_and_shared
from encamp import fingerprint
from encamp.errors import CaptureError
from encamp.graph import Kind
from encamp.tracer.capture import capture, private_copy
from encamp.tracer.tracing import trace_factory
from stepping import UnitCosts, lowered


class Branching(nn.Module):
    """Asks for the value of a tensor in the middle of the step."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        y = self.layer(x)
        if y.sum() > 0:
            y = y * 2
        return y.sum()


class Broken(nn.Module):
    """Breaks the graph on purpose."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        y = self.layer(x)
        torch._dynamo.graph_break()
        return y.sum()


def line_of(cls, text):
    """Return "test_capture.py:12", where `text` stands in the class."""
    lines, first = inspect.getsourcelines(cls)
    return (
        f"test_capture.py:{first + next(i for i, s in enumerate(lines) if text in s)}"
    )


def names(joint, kind):
    """Return the names of the step's inputs of one kind."""
    return [given.name for given in joint.inputs.values() if given.kind is kind]


def gpt2():
    """Return a tiny GPT-2 of the transformers library, and what its step is given."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=16, vocab_size=64, n_positions=8,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).train()
    model.loss_type = "ForCausalLM"  # else a warning, shown once, breaks the graph
    words = torch.randint(0, 64, (2, 8))
    return model, {"input_ids": words, "labels": words}


def test_a_step_is_one_joint_graph():
    """A linear layer has three primals, one tangent, one output and two gradients."""
    joint = capture(
        lambda model, x: model(x).sum(), (nn.Linear(2, 3), torch.ones(4, 2))
    )

    assert len(joint.primals) == 3
    assert len(joint.tangents) == 1
    assert len(joint.forward_outputs) == 1
    assert [item is None for item in joint.backward_outputs].count(True) == 1


def test_inputs_are_told_apart_by_kind_and_name():
    """Parameters and buffers have their names in the model, inputs their own."""
    model, x = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), torch.ones(3, 2)
    joint = capture(lambda x: model(x).sum(), (x,))

    assert sorted(names(joint, Kind.PARAM)) == [
        "0.bias", "0.weight", "1.bias", "1.weight",
    ]  # fmt: skip
    assert sorted(names(joint, Kind.BUFFER)) == [
        "1.num_batches_tracked", "1.running_mean", "1.running_var",
    ]  # fmt: skip
    assert len(names(joint, Kind.INPUT)) == 1


def test_a_tied_weight_is_one_input():
    """The embedding and the head share one parameter, captured once."""
    joint = capture(*tied_and_shared())
    weights = [name for name in names(joint, Kind.PARAM) if "weight" in name]

    assert weights.count("embedding.weight") == 1
    assert "head.weight" not in weights


def test_frozen_parameters_are_inputs_without_gradients():
    """Every input that requires a gradient gets one, and no other does."""
    model, args = frozen_prefix()
    joint = capture(model, args)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    gradients = {
        joint.inputs[i].name
        for i, gradient in enumerate(joint.backward_outputs)
        if gradient is not None
    }

    assert gradients == trained
    assert set(names(joint, Kind.PARAM)) == {n for n, _ in model.named_parameters()}


@pytest.mark.parametrize(
    ("broken", "line", "why"),
    [
        (Branching, "if y.sum()", "Python branches on the value of a tensor"),
        (Broken, "graph_break()", "Call to `torch._dynamo.graph_break()`"),
    ],
)
def test_a_graph_break_is_refused_by_its_line(broken, line, why):
    """The refusal says at which line of the model the step breaks, and why."""
    with pytest.raises(CaptureError) as caught:
        capture(broken(), (torch.ones(2, 2),))

    place = line_of(broken, line)
    begins = f"the step breaks into several graphs at {place} ({why})."
    assert str(caught.value).startswith(begins)


def test_a_step_without_gradients_is_refused():
    """Where nothing requires a gradient there is no backward to plan for."""
    frozen = nn.Linear(2, 2).requires_grad_(requires_grad=False)

    with pytest.raises(CaptureError, match="nothing in the step requires a gradient"):
        capture(frozen, (torch.ones(2, 2),))


def test_a_step_under_no_grad_is_refused():
    """Under `torch.no_grad()` there is no backward either."""
    model = nn.Linear(2, 2)

    with torch.no_grad(), pytest.raises(CaptureError, match=r"leave torch\.no_grad"):
        capture(model, (torch.ones(2, 2),))


def test_an_error_of_the_step_is_told():
    """What the model itself raises stands in the refusal."""
    with pytest.raises(CaptureError, match=r"got \[2, 3\] X \[2, 2\]"):
        capture(nn.Linear(2, 2), (torch.ones(2, 3),))


def test_capturing_computes_nothing():
    """Neither buffers nor the random stream move, and no gradient appears."""
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout())
    state = torch.get_rng_state()
    capture(lambda x: model(x).sum(), (torch.ones(3, 2),))

    assert torch.equal(torch.get_rng_state(), state)
    assert model[1].num_batches_tracked == 0
    assert all(p.grad is None for p in model.parameters())


def test_a_private_copy_has_code_of_its_own():
    """Dynamo counts recompilations by code object, so each copy has its own."""
    step = nn.Linear(2, 2)
    first, second = private_copy(step), private_copy(step)

    assert first.__code__ is not second.__code__
    assert torch.equal(first(torch.ones(1, 2)), step(torch.ones(1, 2)))


@pytest.mark.parametrize("case", CASES)
def test_fake_tensors_give_the_same_graph(case):
    """A step traced offline is the one that training meets, by both fingerprints."""
    real = lowered(*CASES[case]()).graph
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = lowered(*CASES[case]()).graph

    assert fingerprint.exact(fake) == fingerprint.exact(real)
    assert fingerprint.structure(fake) == fingerprint.structure(real)
    assert fake == real


def test_a_hugging_face_gpt2_is_one_graph():
    """Its loss is inside, its head tied to its embedding, and dropout is on."""
    model, kwargs = gpt2()
    joint = capture(model, (), kwargs)

    assert len([name for name in names(joint, Kind.PARAM) if "wte" in name]) == 1
    assert "lm_head.weight" not in names(joint, Kind.PARAM)
    targets = [str(node.target) for node in joint.module.graph.nodes]
    assert targets.count("aten.native_dropout.default") == 7
    assert targets.count("aten.nll_loss_forward.default") == 1


def test_a_hugging_face_gpt2_traces_alike_from_fake_tensors():
    """Built of fake tensors, it has the same fingerprints."""
    model, kwargs = gpt2()
    real = lowered(model, (), kwargs).graph
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, kwargs = gpt2()
        fake = lowered(model, (), kwargs).graph

    assert fingerprint.exact(fake) == fingerprint.exact(real)


def test_a_factory_that_converts_fake_parameters_is_told_what_to_do():
    """PyTorch cannot convert fake parameters; the refusal names the way round."""

    def factory():
        return nn.Linear(4, 4).to(torch.bfloat16), (torch.zeros(2, 4),)

    with pytest.raises(CaptureError, match=r"torch\.set_default_dtype"):
        trace_factory(factory, costs=UnitCosts())
