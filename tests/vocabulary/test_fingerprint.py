"""What the two fingerprints cover, what they ignore, and where graphs differ."""

from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from encamp.fingerprint import (
    difference_from,
    exact,
    first_difference,
    op_class,
    outline,
    structure,
)
from encamp.graph import CostGraph, Kind, Op, Phase, Reason, Recompute, Value
from graphs import chain, noisy, renumbered, with_op, with_value
from strategies import graphs

FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD


def prints(graph):
    """Return both fingerprints."""
    return structure(graph), exact(graph)


def changed(graph, other):
    """Return which fingerprints differ between two graphs."""
    names = ("structure", "exact")
    pairs = zip(names, prints(graph), prints(other), strict=True)
    return {name for name, ours, theirs in pairs if ours != theirs}


def renamed(graph):
    """Return the graph with everything changed that is not the step itself."""
    values = [replace(value, name=f"v{value.id}") for value in graph.values]
    ops = [
        replace(
            op,
            name=f"n{op.id}",
            duration_ns=op.duration_ns + 1,
            spread_ns=3,
            workspace_bytes=op.workspace_bytes + 5,
            recompute=Recompute(allowed=False, reason=Reason.USER),
            module="elsewhere",
            source="there.py:1",
        )
        for op in graph.ops
    ]
    return CostGraph("other", tuple(values), tuple(ops), graph.outputs, {"torch": "3"})


STRUCTURE_OF_NOISY = """encamp.structure/1
["aten.native_dropout.default", "forward", "0.1,True", [["given", "input", true, 0]]]
["aten.convolution.default", "forward", "", [["op", 0, 1], ["op", 0, 2]]]
["aten.mul.Tensor", "backward", "", [["op", 1, 0], ["op", 0, 0]]]
[["op", 1, 0], ["op", 2, 0]]"""
EXACT_OF_NOISY = """encamp.exact/1
["aten.native_dropout.default", "forward", "0.1,True", "", \
[["given", "input", true, 0]], \
[["activation", false, 1], ["activation", false, 8], ["activation", false, 0]]]
["aten.convolution.default", "forward", "", "f32[2]", \
[["op", 0, 1], ["op", 0, 2]], [["activation", false, 8]]]
["aten.mul.Tensor", "backward", "", "", \
[["op", 1, 0], ["op", 0, 0]], [["gradient", false, 2]]]
[["input", true, 4]]
[]
[["op", 1, 0], ["op", 2, 0]]"""


def test_a_fingerprint_is_the_sha256_of_a_text_one_can_write():
    """The canonical texts are what plan files out there were made from."""
    texts = (STRUCTURE_OF_NOISY, EXACT_OF_NOISY)
    digests = tuple(f"sha256:{sha256(text.encode()).hexdigest()}" for text in texts)

    assert prints(noisy()) == digests


@settings(max_examples=60)
@given(graphs(), st.data())
def test_names_numbers_and_costs_are_ignored(graph, data):
    """Renaming, renumbering, new costs and permissions leave both as they are."""
    numbers = data.draw(st.permutations(range(len(graph.values))))
    outputs = data.draw(st.permutations(graph.outputs))
    other = replace(graph, outputs=tuple(outputs))

    assert changed(graph, renumbered(renamed(other), numbers)) == set()


@settings(max_examples=60)
@given(graphs(), st.data())
def test_each_op_counts(graph, data):
    """Another target, argument or phase of any op changes both."""
    index = data.draw(st.integers(0, len(graph.ops) - 1))
    plain = with_op(graph, index, target="aten.mm.default")

    assert changed(plain, with_op(plain, index, target="aten.mm.out")) == {
        "structure",
        "exact",
    }
    assert changed(plain, with_op(plain, index, arguments="another")) == {
        "structure",
        "exact",
    }
    last_forward = graph.num_forward - 1
    moved = with_op(graph, last_forward, phase=BACKWARD)
    assert changed(graph, moved) == {"structure", "exact"}


@settings(max_examples=60)
@given(graphs(), st.data())
def test_each_edge_counts(graph, data):
    """Taking any input away changes both."""
    edges = [(op.id, value) for op in graph.ops for value in op.inputs]
    assume(edges)
    index, value = data.draw(st.sampled_from(edges))
    inputs = tuple(v for v in graph.ops[index].inputs if v != value)

    # Attention and batch norm read sets: a second use of one op is the same use.
    plain = with_op(graph, index, target="aten.mm.default")
    cut = with_op(plain, index, inputs=inputs)
    makers = {graph.producer[v] for v in inputs} - {None}
    merged = graph.producer[value] in makers
    assert changed(plain, cut) >= ({"exact"} if merged else {"structure", "exact"})


@settings(max_examples=60)
@given(graphs(), st.data())
def test_sizes_and_layouts_are_exact_alone(graph, data):
    """Another byte of any value, or layout of any op, leaves the structure."""
    index = data.draw(st.integers(0, len(graph.ops) - 1))
    assert changed(graph, with_op(graph, index, layout="another")) == {"exact"}

    assume(graph.values)
    number = data.draw(st.integers(0, len(graph.values) - 1))
    larger = graph.values[number].bytes + 1
    assert changed(graph, with_value(graph, number, bytes=larger)) == {"exact"}


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (with_op(chain(), 5, inputs=(0, 6)), {"structure", "exact"}),
        (with_op(chain(), 4, inputs=(5,)), {"structure", "exact"}),
        (replace(chain(), outputs=(3,)), {"structure", "exact"}),
        (replace(chain(), outputs=(3, 7, 6)), {"structure", "exact"}),
        (with_value(chain(), 0, kind=Kind.PARAM), {"structure", "exact"}),
        (with_value(chain(), 4, resident=True), {"structure", "exact"}),
        (with_op(noisy(), 2, inputs=(4, 2)), {"structure", "exact"}),
        (with_value(chain(), 1, kind=Kind.GRADIENT), {"exact"}),
    ],
)
def test_single_changes_of_hand_made_graphs(other, differs):
    """Order and position of an input, outputs, kind and residency are structure."""
    graph = noisy() if other.name == "noisy" else chain()

    assert changed(graph, other) == differs


def test_a_parameter_nobody_reads_is_exact_alone():
    """Optimizer state counts as bytes; no op connects to it."""
    state = Value(8, 40, Kind.OPTIMIZER, resident=True)
    graph = replace(chain(), values=(*chain().values, state))

    assert changed(chain(), graph) == {"exact"}
    assert changed(graph, with_value(graph, 8, bytes=41)) == {"exact"}


def test_two_given_values_are_told_apart_by_first_use():
    """Reading one input twice is another step than reading two inputs once."""
    values = tuple(Value(n, 1, Kind.INPUT, resident=True) for n in range(2))
    target = "aten.relu.default"

    def reads(*inputs):
        ops = [Op(i, "o", target, FORWARD, (v,), (), 1) for i, v in enumerate(inputs)]
        return CostGraph("reads", values, tuple(ops), ())

    assert structure(reads(0, 1)) == structure(reads(1, 0))
    assert structure(reads(0, 0)) != structure(reads(0, 1))


SDPA = "aten._scaled_dot_product_"


def attention(name, extras, *, inputs=(0, 1, 2), saved_first=False):
    """Return attention forward and backward, with `extras` saved beside its sum.

    The backward reads the gradient, what the forward read and all it returned.
    """
    given = [Value(n, 4, Kind.PARAM, resident=True) for n in range(3)]
    tangent = Value(3, 4, Kind.TANGENT)
    made = [Value(4 + n, 4 + n, Kind.ACTIVATION) for n in range(1 + extras)]
    grads = [Value(5 + extras + n, 4, Kind.GRADIENT) for n in range(3)]
    saved = tuple(value.id for value in made)
    reads = (3, *saved, *inputs) if saved_first else (3, *inputs, *saved)
    results = tuple(value.id for value in grads)
    target = f"{SDPA}{name}"
    ops = (
        Op(0, "sdpa", f"{target}.default", FORWARD, inputs, saved, 1, arguments=name),
        Op(
            1,
            "sdpa_backward",
            f"{target}_backward.default",
            BACKWARD,
            reads,
            results,
            1,
            arguments=name,
        ),
    )
    values = (*given, tangent, *made, *grads)
    return CostGraph("attention", values, ops, (4, results[0]))


@pytest.mark.parametrize(
    "variant",
    [
        attention("flash_attention", 4),
        attention("efficient_attention", 3, saved_first=True),
        attention("cudnn_attention", 3),
        attention("fused_attention_overrideable", 5),
    ],
)
def test_attention_of_all_devices_is_one_structure(variant):
    """Variants return other extras and take them in other places."""
    on_cpu = attention("flash_attention_for_cpu", 1)

    assert changed(on_cpu, variant) == {"exact"}
    assert first_difference(on_cpu, variant) is None


def test_attention_is_still_connected():
    """Within the class, an input more or less is another structure."""
    on_cpu = attention("flash_attention_for_cpu", 1)
    without_value = attention("flash_attention_for_cpu", 1, inputs=(0, 1))

    assert changed(on_cpu, without_value) == {"structure", "exact"}


@pytest.mark.parametrize(
    ("targets", "shared"),
    [
        (
            (
                "aten.native_batch_norm.default",
                "aten._native_batch_norm_legit_functional.default",
                "aten.cudnn_batch_norm.default",
                "aten.miopen_batch_norm.default",
                "aten._batch_norm_with_update.default",
            ),
            "batch norm",
        ),
        (
            (
                "aten.native_batch_norm_backward.default",
                "aten.cudnn_batch_norm_backward.default",
                "aten.miopen_batch_norm_backward.default",
                "aten.batch_norm_backward.default",
            ),
            "batch norm backward",
        ),
        ((f"{SDPA}flash_attention.default",), "attention"),
        ((f"{SDPA}flash_attention_backward.default",), "attention backward"),
        (("aten.mm.default",), "aten.mm.default"),
        (
            ("aten._native_batch_norm_legit_no_training.default",),
            "aten._native_batch_norm_legit_no_training.default",
        ),
    ],
)
def test_device_variants_share_a_class(targets, shared):
    """Every variant of one op is of one class; any other op is its own."""
    assert {op_class(target) for target in targets} == {shared}


def test_no_difference_between_a_graph_and_its_renaming():
    """Where the structures agree there is nothing to show."""
    assert first_difference(chain(), renamed(chain())) is None


def test_the_first_differing_op_is_shown_on_both_sides():
    """The message has name, target, place, inputs and arguments of both ops."""
    other = replace(
        with_op(chain(), 1, target="aten.gelu.default", arguments="tanh"), name="new"
    )
    difference = first_difference(chain(), other)

    assert (difference.op, difference.left, difference.right) == (
        1,
        chain().ops[1],
        other.ops[1],
    )
    assert difference.message == (
        "op 1 differs in class and arguments:\n"
        "  'chain' has second (aten.relu.default, forward) at n.py:2, reading op 0"
        " first of net.0\n"
        "  'new' has second (aten.gelu.default, forward) at n.py:2, reading op 0"
        " first of net.0 with arguments tanh"
    )


def test_a_rewired_op_shows_what_it_reads():
    """Where only the inputs differ, they are what differs in the message."""
    difference = first_difference(chain(), with_op(chain(), 4, inputs=(5, 2)))

    assert difference.message == (
        "op 4 differs in inputs:\n"
        "  'chain' has second_back (aten.mul.Tensor, backward), reading op 3"
        " third_back, op 0 first of net.0\n"
        "  'chain' has second_back (aten.mul.Tensor, backward), reading op 3"
        " third_back, op 1 second"
    )


def test_a_graph_that_ends_early_says_so():
    """An op that only one side has is a difference."""
    short = replace(chain(), ops=chain().ops[:5], outputs=(3,), name="short")
    difference = first_difference(chain(), short)

    assert (difference.op, difference.right) == (5, None)
    assert difference.message == (
        "op 5 differs in being there:\n"
        "  'chain' has first_back (aten.mm.default, backward), reading op 4"
        " second_back, x\n"
        "  'short' has no such op; it ends after 5 ops"
    )


def test_other_outputs_are_a_difference_of_no_op():
    """Where every op agrees, the outputs of the step are compared."""
    other = replace(chain(), outputs=(3, 0, 6), name="new")
    difference = first_difference(chain(), other)

    assert difference.op is None
    assert difference.message == (
        "every op agrees, but the outputs of the step differ: op 5[0] only in"
        " 'chain', a given input, op 4[0] only in 'new'"
    )


@settings(max_examples=60)
@given(graphs(), graphs())
def test_a_difference_is_there_exactly_when_structures_differ(left, right):
    """The structure fingerprint and the comparison are one reading."""
    same = structure(left) == structure(right)

    assert (first_difference(left, right) is None) == same


class TestOutline:
    """What a plan keeps of its graph, to say later where another departs."""

    def test_a_graph_does_not_differ_from_its_own_outline(self) -> None:
        """Nothing differs from itself."""
        graph = chain()

        assert difference_from(outline(graph), graph) is None

    def test_the_first_op_that_differs_is_shown_on_both_sides(self) -> None:
        """The text names the op in the plan's words and in the step's."""
        graph = chain()
        other = with_op(graph, 1, target="aten.tanh.default", module="head")

        found = difference_from(outline(graph), other)

        assert found is not None
        assert "the first op that differs is op 1" in found
        assert f"the plan has {graph.ops[1].target}" in found
        assert "this step has aten.tanh.default in head" in found

    def test_a_shorter_outline_ends(self) -> None:
        """Where the plan's graph ended, the text says so."""
        graph = chain()

        found = difference_from(outline(graph)[:1], graph)

        assert found is not None
        assert "the plan has no such op: it has ended" in found
