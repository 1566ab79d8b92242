"""Compile a planned step with Inductor, its partitioner ours.

`lite` is Inductor's mode that calls PyTorch's own kernels in the order of the graph:
nothing is fused, reordered, merged or reused, so that a plan is run as it stands. It
is given the very joint graph that the eager runtime gets, and so the same plans.

`inductor` is all of Inductor. It takes operators apart before the split and fuses them
after it, so that its graph has plans of its own. Kernels that share only what they
read are not fused: that would bring two runs of an operator together again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch import config as functorch_config
from torch._inductor import list_mode_options
from torch._inductor.choices import InductorChoices
from torch._inductor.compile_fx import compile_fx
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch._inductor.virtualized import V

from encamp.tracer.recurrent import trainable_lstm

from .compiling import Partition, allow_second_backward
from .guarding import guard_hooks


class PlannedPartition(CustomPartitionerFn):
    """Splits a joint graph as a plan has it.

    Inductor copies and pickles its whole configuration, this object with it: it is its
    own copy and has no state. What makes two of them the same is `uuid`, a digest of
    what the plan depends on, which is a part of the keys of Inductor's caches.
    """

    def __init__(self, partition: Partition, key: str) -> None:
        """Split with `partition`; `key` tells it from every other one."""
        self._partition = partition
        self._key = key

    def __call__(
        self,
        gm: fx.GraphModule,
        joint_inputs: Sequence[object],
        *,
        compiler: str = "inductor",
        **kwargs: Any,  # noqa: ANN401 -- as AOTAutograd's
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Return the forward and the backward graph."""
        del compiler  # Inductor's own, which only its partitioner asks for
        return self._partition(gm, joint_inputs, **kwargs)

    def uuid(self) -> str:
        """Return what caches tell partitions apart by."""
        return self._key

    def __deepcopy__(self, _: object) -> PlannedPartition:
        """Return itself."""
        return self

    def __getstate__(self) -> dict[str, object]:
        """Keep graphs and plans out of the keys of caches."""
        return {}


def partition_key(*parts: object) -> str:
    """Return a digest of what a partition depends on, PyTorch's version included."""
    text = repr((torch.__version__, *parts)).encode()
    return hashlib.sha256(text).hexdigest()


def compile_lite(
    module: fx.GraphModule, example_inputs: list[Any], partition: Partition, key: str
) -> Any:  # noqa: ANN401 -- what AOTAutograd returns
    """Compile one graph of Dynamo's with Inductor's lite mode, split by `partition`.

    No operator is taken apart before the split, which lite does after it and then
    loses what AOTAutograd noted on the nodes.
    """
    patches = {
        **list_mode_options("lite"),
        "selective_decompose": False,
        # It would hand kernels other strides than they were traced with.
        "layout_optimization": False,
        "custom_partitioner_fn": PlannedPartition(partition, key),
    }
    return _compiled(module, example_inputs, patches, decompositions={})


def compile_full(
    module: fx.GraphModule, example_inputs: list[Any], partition: Partition, key: str
) -> Any:  # noqa: ANN401 -- what AOTAutograd returns
    """Compile one graph of Dynamo's with Inductor, split by `partition`.

    `module` stays as it is, so that it can be compiled again.
    """
    patches = {
        "use_pre_grad_passes": False,
        "custom_partitioner_fn": PlannedPartition(partition, key),
    }
    with V.set_choices_handler(_NoSharedReads()):
        return _compiled(module, example_inputs, patches)


def compile_stock(module: fx.GraphModule, example_inputs: list[Any]) -> Any:  # noqa: ANN401
    """Compile one graph of Dynamo's with Inductor and its own partitioner."""
    return _compiled(module, example_inputs, {"use_pre_grad_passes": False})


class _NoSharedReads(InductorChoices):
    """Fuses what reads what another kernel makes, not what reads the same."""

    @staticmethod
    def can_fuse_horizontal(*_: Any) -> bool:  # noqa: ANN401 -- Inductor's nodes
        """Refuse."""
        return False


def _compiled(
    module: fx.GraphModule,
    example_inputs: list[Any],
    patches: dict[str, Any],
    decompositions: dict[Any, Any] | None = None,
) -> Any:  # noqa: ANN401 -- what AOTAutograd returns
    """Call Inductor so that it always asks for a partition.

    A hit in AOTAutograd's cache would not: nothing would then say which plan runs. The
    cache of compiled kernels is below it and stays.
    """
    guard_hooks()
    options = {
        "donated_buffer": False,
        "enable_autograd_cache": False,
        # What fails to compile fails here, not in the first backward.
        "force_non_lazy_backward_lowering": True,
    }
    with functorch_config.patch(options), trainable_lstm():
        compiled = compile_fx(
            module,
            example_inputs,
            config_patches=patches,
            decompositions=decompositions,
        )
    allow_second_backward()
    return compiled
