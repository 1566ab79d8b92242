"""Each op says from which module and which line of the model it comes."""

import inspect

import pytest
import torch
from torch import fx, nn

from encamp.graph import Phase
from encamp.tracer.provenance import attribute_path, module_path, source_line, where
from stepping import lowered


class Block(nn.Module):
    """A linear layer and a tanh."""

    def __init__(self):
        super().__init__()
        self.attn = nn.Linear(2, 2)

    def forward(self, x):
        x = self.attn(x)
        return torch.tanh(x)


class Net(nn.Module):
    """Blocks in a list, a layer in a dictionary and a sequence."""

    def __init__(self):
        super().__init__()
        self.h = nn.ModuleList(Block() for _ in range(2))
        self.by_name = nn.ModuleDict({"last": nn.Linear(2, 2)})
        self.tail = nn.Sequential(nn.Linear(2, 2), nn.Sigmoid())

    def forward(self, x):
        for block in self.h:
            x = block(x)
        return self.tail(self.by_name["last"](x)).sum()


@pytest.fixture(scope="module")
def ops():
    """Return the ops of the net's step."""
    return lowered(Net(), (torch.ones(3, 2),)).graph.ops


def places(ops, phase, target):
    """Return the modules of the ops of one operator, in order."""
    return [op.module for op in ops if op.phase is phase and target in op.target]


def line_of(cls, text):
    """Return "test_provenance.py:12", where `text` stands in the class."""
    lines, first = inspect.getsourcelines(cls)
    index = next(i for i, line in enumerate(lines) if text in line)
    return f"test_provenance.py:{first + index}"


def test_forward_ops_name_their_module(ops):
    """Lists, dictionaries and sequences of modules give dotted paths."""
    assert places(ops, Phase.FORWARD, "addmm") == [
        "h.0.attn", "h.1.attn", "by_name.last", "tail.0",
    ]  # fmt: skip
    assert places(ops, Phase.FORWARD, "tanh") == ["h.0", "h.1"]
    assert places(ops, Phase.FORWARD, "sigmoid") == ["tail.1"]


def test_backward_ops_name_the_module_of_their_forward(ops):
    """The backward of a layer belongs to the layer; it runs the other way."""
    assert places(ops, Phase.BACKWARD, "tanh_backward") == ["h.1", "h.0"]
    assert places(ops, Phase.BACKWARD, "aten.sum") == [
        "tail.0", "by_name.last", "h.1.attn", "h.0.attn",
    ]  # fmt: skip


def test_ops_name_the_line_of_the_users_code(ops):
    """Forward and backward ops say the line that made them, not PyTorch's own."""
    of_tanh = {op.source for op in ops if "tanh" in op.target}
    of_first = {op.source for op in ops if op.module == "h.0.attn"}

    assert of_tanh == {line_of(Block, "torch.tanh(x)")}
    assert of_first == {line_of(Block, "self.attn(x)")}


def test_an_op_outside_any_module_has_no_path(ops):
    """The sum at the end is the net's own: its path is empty."""
    (total,) = (op for op in ops if op.target == "aten.sum.default")

    assert total.module is None
    assert total.source == line_of(Net, ".sum()")


def test_a_message_names_target_node_module_and_line():
    """What a refusal says about a node is all there is to know of it."""
    graph = fx.Graph()
    node = graph.call_function(torch.ops.aten.sin.default, (graph.placeholder("x"),))
    assert where(node) == "aten.sin.default (sin_default)"
    assert module_path(node) is None
    assert source_line(node) is None

    node.meta["nn_module_stack"] = {"k": ("L['self'].h.0", Block)}
    node.meta["stack_trace"] = (
        '  File "/x/outer.py", line 3, in step\n    y = net(x)\n'
        '  File "/x/inner.py", line 12, in forward\n    return x.sin()\n'
    )
    expected = "aten.sin.default (sin_default) in module h.0 at inner.py:12"
    assert where(node) == expected


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("L['self']._modules['h']._modules['0']._parameters['weight']", "h.0.weight"),
        ("L['self']._buffers['mean']", "mean"),
        ("L['x']", None),
    ],
)
def test_attribute_paths_are_read_from_dynamos_sources(source, path):
    """Dynamo's source text for a parameter gives its name in the model."""
    assert attribute_path(source) == path
