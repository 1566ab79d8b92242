"""Run a training step on graphs of a test's choosing, and count what is live.

`Stepper` compiles a model through AOTAutograd either with PyTorch's own
`default_partition`, which is the unplanned step, or with a schedule rewritten by
Encamp. `LiveStorages` is a meter of its own, so that a peak is judged by something
that shares nothing with Encamp.
"""

import copy
import random
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch.partitioners import default_partition
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from encamp.check import check
from encamp.graph import CostGraph, Op
from encamp.runtime.rewrite import rewrite
from encamp.tracer.calls import OpCost
from encamp.tracer.capture import capture, given_inputs, joint_step, private_copy
from encamp.tracer.lower import Lowered, lower

Schedule = Callable[[CostGraph], Sequence[int]]
Outcome = dict[str, Tensor | None]


class UnitCosts:
    """Costs for tests: every call takes 1000 ns and no workspace."""

    meta = {"costs": "unit"}  # noqa: RUF012 - a constant; the protocol wants a mapping

    def costs(self, calls, progress=None):
        """Return the same cost for each call."""
        del progress
        return [OpCost(1000) for _ in calls]


def lowered(step, args, kwargs=None) -> Lowered:
    """Return a step captured and lowered with unit costs."""
    return lower(capture(step, args, kwargs), UnitCosts())


def without_workspace(graph: CostGraph) -> CostGraph:
    """Return the graph with nothing but storages in it."""
    ops = tuple(replace(op, workspace_bytes=0) for op in graph.ops)
    return replace(graph, ops=ops)


def ops_of(graph: CostGraph, target: str) -> list[Op]:
    """Return the ops whose target is, or begins with, `target`."""
    return [op for op in graph.ops if op.target.startswith(target)]


def random_schedule(graph: CostGraph, seed: int, depth: int = 4) -> list[int]:
    """Return a valid schedule full of recomputations, the same for a seed.

    Before most ops, some of what they read is made again, and for that some of what
    its makers read, down to `depth`. Pinned ops run once.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    steps: list[int] = []

    def rerun(op: int, level: int) -> None:
        for value in graph.ops[op].inputs:
            maker = graph.producer[value]
            if maker is None or not graph.ops[maker].recompute.allowed:
                continue
            if level < depth and chance.random() < 0.4:
                rerun(maker, level + 1)
                steps.append(maker)

    for op in graph.ops:
        if chance.random() < 0.7:
            rerun(op.id, 0)
        steps.append(op.id)
    assert check(graph, steps) == ()
    return steps


class LiveStorages(TorchDispatchMode):
    """Counts the bytes of the storages made while it is active, each one once."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        super().__init__()
        self.reset()

    def reset(self) -> None:
        """Forget everything counted so far."""
        self.live = self.peak = 0
        self._known = weakref.WeakKeyDictionary()
        self._round = object()

    def ignore(self, tensors) -> None:
        """Leave out storages that the step is given."""
        for tensor in tensors:
            self._known.setdefault(tensor.untyped_storage(), 0)

    def count(self, tensors) -> None:
        """Count storages from now on until they are freed."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage in self._known:
                continue
            self._known[storage] = storage.nbytes()
            self.live += storage.nbytes()
            weakref.finalize(storage, self._free, storage.nbytes(), self._round)
        self.peak = max(self.peak, self.live)

    def _free(self, size: int, counted_in: object) -> None:
        if counted_in is self._round:
            self.live -= size

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run a call and count the storages it makes."""
        del types
        result = func(*args, **(kwargs or {}))
        self.count(t for t in tree_leaves(result) if isinstance(t, Tensor))
        return result


@dataclass
class Stepper:
    """A model compiled for one schedule, or unplanned where there is none.

    `lowered` and `steps` are what was compiled last.
    """

    model: nn.Module
    args: Sequence[object]
    schedule: Schedule | None = None
    lowered: Lowered | None = None
    steps: Sequence[int] = ()
    meter: LiveStorages = field(default_factory=LiveStorages)
    _metering: bool = False

    def __post_init__(self) -> None:
        """Compile the model; nothing is traced before its first call."""
        self.call = torch.compile(
            private_copy(self.model), backend=self._backend, dynamic=False
        )
        self._start = copy.deepcopy(self.model.state_dict())

    def outcome(self, seed: int = 5) -> Outcome:
        """Run one step from the random seed and return what it left behind."""
        torch.manual_seed(seed)
        self.model.zero_grad(set_to_none=True)
        loss = self.call(*self.args)
        loss.backward()
        grads = {f"grad {n}": _copy(p.grad) for n, p in self.model.named_parameters()}
        buffers = {f"buffer {n}": _copy(b) for n, b in self.model.named_buffers()}
        inputs = {
            f"grad input {i}": _copy(x.grad)
            for i, x in enumerate(self.args)
            if isinstance(x, Tensor) and x.requires_grad
        }
        state = {"random state": torch.get_rng_state()}
        return {"loss": loss.detach().clone(), **grads, **buffers, **inputs, **state}

    def outcomes(self, count: int) -> list[Outcome]:
        """Run steps in a row from the model's first state."""
        self.model.load_state_dict(self._start)
        return [self.outcome(seed) for seed in range(count)]

    def peak(self) -> int:
        """Return the peak of the storages that one warm step makes."""
        self.outcome()
        self.model.zero_grad(set_to_none=True)
        self.meter.reset()
        self._metering = True
        try:
            loss = self.call(*self.args)
            loss.backward()
        finally:
            self._metering = False
        return self.meter.peak

    def _backend(self, module, example_inputs):
        inputs = given_inputs(module)

        def partition(joint, joint_inputs, *, num_fwd_outputs, **options):
            if self.schedule is None:
                return default_partition(
                    joint, joint_inputs, num_fwd_outputs=num_fwd_outputs, **options
                )
            self.lowered = lower(
                joint_step(joint, num_fwd_outputs, inputs), UnitCosts()
            )
            self.steps = self.schedule(self.lowered.graph)
            graphs = rewrite(self.lowered, self.steps)
            return graphs.forward, graphs.backward

        return aot_autograd(
            fw_compiler=lambda m, i: self._metered(m, i, self.meter.ignore),
            bw_compiler=lambda m, i: self._metered(m, i, self.meter.count),
            inference_compiler=boxed_nop,
            partition_fn=partition,
            keep_inference_input_mutations=True,
        )(module, example_inputs)

    def _metered(self, module, inputs, enter):
        run = boxed_nop(module, inputs)

        def call(args):
            if not self._metering:
                return run(args)
            enter(a for a in args if isinstance(a, Tensor))
            with self.meter:
                return run(args)

        call._boxed_call = True  # how AOTAutograd knows it
        return call


def differences(expected: Outcome, actual: Outcome) -> list[str]:
    """Return the names of what is not bit for bit the same."""
    assert expected.keys() == actual.keys()
    return [name for name in expected if not _same(expected[name], actual[name])]


def _same(left: Tensor | None, right: Tensor | None) -> bool:
    if left is None or right is None:
        return left is right
    if left.stride() != right.stride() or left.dtype != right.dtype:
        return False
    # As bytes, so that a NaN equals itself and 0.0 is not -0.0.
    return torch.equal(_bytes(left), _bytes(right))


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)


def _copy(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().clone()
