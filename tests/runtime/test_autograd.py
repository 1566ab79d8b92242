"""Training is the same whatever feature of autograd it uses: three ways, bit for bit.

Each training is run eagerly, captured but unplanned, and on a plan that recomputes.
All three leave the same, but where the docstring says that capturing alone, whatever
the plan, makes another order of the same sums.
"""

import functools

import pytest
import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from ways import Loss, Training, differing, dropping, eager, planned, unplanned


@pytest.fixture(autouse=True)
def _fresh_compilations():
    """Dynamo counts compilations of a function; each test starts from none."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def once(trained):
    """Run one step."""
    loss = trained.step(trained.inputs[0])
    loss.backward()
    return loss


def accumulating(trained):
    """Add up the gradients of micro-batches, then step, twice."""
    optimizer = torch.optim.AdamW(trained.model.parameters(), lr=0.1)
    losses = []
    for first in (0, 2):
        optimizer.zero_grad(set_to_none=first == 0)
        for x in trained.inputs[first : first + 2]:
            loss = trained.step(x) / 2
            loss.backward()
            losses.append(loss)
        optimizer.step()
    return losses


def retaining(trained):
    """Run a plain backward first, then one forward's backward twice."""
    trained.step(trained.inputs[0]).backward()
    loss = trained.step(trained.inputs[1])
    loss.backward(retain_graph=True)
    loss.backward()


def two_losses(trained):
    """Differentiate two outputs of one forward, one after the other."""
    first, second = trained.step(trained.inputs[0])
    first.backward(retain_graph=True)
    second.backward()


def two_forwards(trained):
    """Run two forwards, and their backwards in the same order, not the reverse."""
    first, second = trained.step(trained.inputs[0]), trained.step(trained.inputs[1])
    first.backward()
    second.backward()


def hooked_parameters(trained):
    """Clamp each gradient as it comes, and count how often each is accumulated."""
    fired = []
    for name, parameter in trained.model.named_parameters():
        parameter.register_hook(lambda gradient: gradient.clamp(-1e-3, 1e-3))
        parameter.register_post_accumulate_grad_hook(
            lambda _, name=name: fired.append(name)
        )
    once(trained)
    return sorted(fired)


def stepping_in_the_backward(trained):
    """Let each parameter take its optimizer step as soon as it has its gradient."""
    for parameter in trained.model.parameters():
        optimizer = torch.optim.SGD([parameter], lr=0.1)

        def step(parameter, optimizer=optimizer):
            optimizer.step()
            parameter.grad = None

        parameter.register_post_accumulate_grad_hook(step)
    return [once(trained) for _ in range(3)]


def hooked_modules(trained):
    """Change what goes into and comes out of inner modules, from the second step on."""
    losses = [once(trained)]
    trained.model[2].register_forward_hook(lambda _, __, output: output * 2)
    trained.model[4].register_forward_pre_hook(lambda _, inputs: (inputs[0] + 1,))
    losses.append(once(trained))
    trained.model[2]._forward_hooks.clear()
    return [*losses, once(trained)]


def differentiated_inputs(trained):
    """Ask for gradients of inputs: a leaf and one that was computed."""
    leaf = trained.inputs[0].requires_grad_()
    trained.step(leaf).backward()
    first = leaf.grad.clone()
    trained.step(leaf * 2).backward()
    return first, leaf.grad


def subset(trained):
    """Ask for the gradients of two parameters only, accumulating nothing."""
    parameters = list(trained.model.parameters())
    loss = trained.step(trained.inputs[0])
    return torch.autograd.grad(loss, [parameters[0], parameters[5]])


def freezing(trained):
    """Freeze layers and thaw them again between steps."""
    losses = []
    for frozen in (False, True, False):
        trained.model[:4].requires_grad_(not frozen)
        trained.model.zero_grad(set_to_none=True)
        losses.append(once(trained))
        losses += [p.grad for p in trained.model.parameters()]
    return losses


def switching_modes(trained):
    """Train, evaluate with and without gradients, and train again."""
    x = trained.inputs[0]
    said = [once(trained)]
    trained.model.eval()
    said.append(once(trained))
    with torch.no_grad():
        said.append(trained.step(x))
    with torch.inference_mode():
        said.append(trained.step(x).clone())
    trained.model.train()
    return [*said, once(trained)]


def evaluating_first(trained):
    """Evaluate before anything is trained."""
    with torch.no_grad():
        before = trained.step(trained.inputs[0])
    return before, once(trained)


def autocasting(trained):
    """Run the forward in bfloat16, once with its backward inside the context."""
    with torch.autocast("cpu", torch.bfloat16):
        first = trained.step(trained.inputs[0])
    first.backward()
    with torch.autocast("cpu", torch.bfloat16):
        second = once(trained)
    return first, second, once(trained)


def scaling(trained):
    """Scale the loss, skip the step whose gradients overflow, and clip the others."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    optimizer = torch.optim.SGD(trained.model.parameters(), lr=0.1)
    trained.inputs[1][0] = torch.inf
    scales = []
    for x in trained.inputs:
        optimizer.zero_grad()
        scaler.scale(trained.step(x)).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(trained.model.parameters(), 1e-3)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [1024.0, 512.0, 512.0, 1024.0]
    return scales


def keeping_on_the_host(trained):
    """Send saved tensors through hooks of the caller's."""
    packed = []

    def pack(tensor):
        packed.append(1)
        return tensor.clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = trained.step(trained.inputs[0])
    loss.backward()
    assert packed


def taking_apart(trained):
    """Use what else the step returns, of any type."""
    said = trained.step(trained.inputs[0])
    said["loss"].backward()
    return said


def outer(model):
    """Return a step that is a function, with more in its output than tensors."""

    def step(x):
        y = model(x)
        loss = y.square().mean()
        extra = {"input": x, "none": None, "count": 3, "share": 0.5, "name": "a"}
        return {"loss": loss, "logits": y.detach(), "nested": [(y[2:],)], **extra}

    return step


def both(model):
    """Return a step of two losses."""

    def step(x):
        y = model(x)
        return y.square().mean(), y.sin().mean()

    return step


def hooked_inside(model):
    """Return a step that hooks a tensor of its own and a forward hook on its root."""

    class Hooked(Loss):
        def forward(self, x):
            y = self.model[:4](x)
            y.register_hook(lambda gradient: gradient * 2)
            return self.model[4:](y).square().mean()

    step = Hooked(model)
    step.register_forward_hook(lambda _, __, loss: loss * 3)
    return step


def checkpointed(model, **options):
    """Return a step that checkpoints blocks of its model itself."""

    def step(x):
        for first in range(0, len(model) - 1, 2):
            x = checkpoint(model[first : first + 2], x, **options)
        return model[-1](x).square().mean()

    return step


def selective(model):
    """Return a step that checkpoints two blocks, of one of which it keeps products."""

    def policy(_, operator, *__, **___):
        if operator is torch.ops.aten.addmm.default:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.MUST_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)

    def step(x):
        x = checkpoint(model[:4], x, use_reentrant=False, context_fn=contexts)
        x = checkpoint(model[4:8], x, use_reentrant=False)
        return model[8:](x).square().mean()

    return step


class Tripled(torch.autograd.Function):
    """Squares, with a gradient that is deliberately not that of a square."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * x * gradient


def with_own_gradient(model):
    """Return a step with a function that brings its own backward."""
    return lambda x: Tripled.apply(model[4:](Tripled.apply(model[:4](x)))).mean()


def with_inner_gradient(model):
    """Return a step whose loss is made of gradients, by torch.func."""

    def loss(weights, x):
        return torch.func.functional_call(model, weights, (x,)).square().mean()

    def step(x):
        inner = torch.func.grad(loss)(dict(model.named_parameters()), x)
        return loss(dict(model.named_parameters()), x) + sum(
            gradient.square().sum() for gradient in inner.values()
        )

    return step


TRAININGS = {
    "accumulation": Training(accumulating),
    "retain_graph": Training(retaining),
    "two losses": Training(two_losses, both),
    "two forwards": Training(two_forwards),
    "hooks on parameters": Training(hooked_parameters),
    "optimizer in the backward": Training(stepping_in_the_backward),
    "hooks on modules": Training(hooked_modules),
    "hooks inside the step": Training(once, hooked_inside),
    "inputs that require a gradient": Training(differentiated_inputs),
    "gradients of some": Training(subset),
    "frozen in between": Training(freezing),
    "modes": Training(switching_modes, model=dropping, budget="peak*0.95"),
    "evaluation first": Training(evaluating_first),
    "autocast": Training(autocasting),
    "GradScaler": Training(scaling),
    "saved tensors' hooks": Training(keeping_on_the_host),
    "outputs of any type": Training(taking_apart, outer),
    "checkpoint": Training(once, functools.partial(checkpointed, use_reentrant=False)),
    "checkpoint, reentrant": Training(
        differentiated_inputs, functools.partial(checkpointed, use_reentrant=True)
    ),
    "checkpoint, dropout": Training(
        once,
        functools.partial(checkpointed, use_reentrant=False),
        dropping,
        "peak*0.95",
    ),
    "checkpoint, selective": Training(once, selective, budget="peak*0.95"),
    "own gradient": Training(once, with_own_gradient),
    "inner gradient": Training(once, with_inner_gradient),
}


# Dynamo instantiates the class of a function that brings its own backward.
@pytest.mark.filterwarnings("ignore:.*autograd.function.Function:DeprecationWarning")
@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_leaves_the_same_three_ways(name):
    """Whether captured or planned, every bit of what is left behind is eager's."""
    training = TRAININGS[name]
    expected = training.outcome(eager)

    assert differing(expected, training.outcome(unplanned)) == []
    assert differing(expected, training.outcome(planned)) == []
