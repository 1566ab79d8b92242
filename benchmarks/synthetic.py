"""Training steps of transformers of any depth, made without torch.

A step is written forward, one call at a time; each call says what its backward reads,
and the backward follows in reverse, with gradients summed where a value has several
readers. Durations are those of a roofline: 150 TFLOP/s, 1.5 TB/s, 1 us a launch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from encamp.graph import CostGraph, Kind, Op, Phase, Value

_FLOPS_PER_NS = 150_000
_BYTES_PER_NS = 1_500
_LAUNCH_NS = 1_000
_ITEM = 2
"""Bytes of one number in bfloat16."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a decoder; its layers are all alike."""

    layers: int
    width: int = 1024
    heads: int = 16
    batch: int = 8
    sequence: int = 1024
    vocabulary: int = 50_304

    @property
    def tokens(self) -> int:
        """How many tokens one step sees."""
        return self.batch * self.sequence


@dataclass(frozen=True, slots=True)
class _Grad:
    """One backward op: whose gradients it makes, what it reads beside the gradient."""

    of: tuple[int, ...]
    reads: tuple[int, ...] = ()
    flops: int = 0


@dataclass(frozen=True, slots=True)
class _Call:
    """One forward call as its backward needs to know it."""

    name: str
    module: str
    output: int
    grads: tuple[_Grad, ...]


@dataclass(slots=True)
class _Step:
    """A training step under construction."""

    values: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    gradients: dict[int, int] = field(default_factory=dict)
    """The gradient of each value, as far as it is summed."""
    params: list[int] = field(default_factory=list)
    module: str = ""

    def given(self, size: int, kind: Kind) -> int:
        """Return a new value that is held for the whole step."""
        return self._value(size, kind, resident=True)

    def param(self, numbers: int) -> int:
        """Return a new parameter, whose gradient the step is for."""
        self.params.append(self.given(_ITEM * numbers, Kind.PARAM))
        return self.params[-1]

    def _value(self, size: int, kind: Kind, *, resident: bool = False) -> int:
        self.values.append(Value(len(self.values), size, kind, resident=resident))
        return len(self.values) - 1

    def _run(
        self, name: str, reads: tuple[int, ...], makes: tuple[int, ...], flops: int
    ) -> None:
        backward = self.values[makes[0]].kind is Kind.GRADIENT
        reads = tuple(dict.fromkeys(reads))
        moved = sum(self.values[value].bytes for value in (*reads, *makes))
        number = len(self.ops)
        op = Op(
            number,
            f"{name}_{number}",
            f"synthetic.{name}",
            Phase.BACKWARD if backward else Phase.FORWARD,
            reads,
            makes,
            _LAUNCH_NS + max(flops // _FLOPS_PER_NS, moved // _BYTES_PER_NS),
            module=self.module,
        )
        self.ops.append(op)

    def matmul(self, left: int, weight: int, size: int, flops: int) -> int:
        """Return the product; its backward is two products of as many operations."""
        grads = _Grad((left,), (weight,), flops), _Grad((weight,), (left,), flops)
        return self.call("matmul", (left, weight), (size,), grads, flops)

    def map(self, name: str, *reads: int, saved: bool = True) -> int:
        """Return an elementwise result of the size of the first operand."""
        grads = tuple(
            _Grad((one,), self._saved(one, reads) if saved else ())
            for one in reads
            if not self.values[one].resident
        )
        return self.call(name, reads, (self.values[reads[0]].bytes,), grads)

    @staticmethod
    def _saved(one: int, reads: tuple[int, ...]) -> tuple[int, ...]:
        """Return what the gradient of one operand reads: the others, or itself."""
        return tuple(other for other in reads if other != one) or (one,)

    def add(self, left: int, right: int) -> int:
        """Return the sum, whose gradient is that of both operands."""
        size = self.values[left].bytes
        return self.call("add", (left, right), (size,), (_Grad((left, right)),))

    def call(
        self,
        name: str,
        reads: tuple[int, ...],
        sizes: tuple[int, ...],
        grads: tuple[_Grad, ...],
        flops: int = 0,
        *,
        keeps: bool = False,
    ) -> int:
        """Run a forward op and return its first value.

        The others are for its backward only, which also reads the first if it `keeps`.
        """
        makes = tuple(self._value(size, Kind.ACTIVATION) for size in sizes)
        self._run(name, reads, makes, flops)
        saved = makes if keeps else makes[1:]
        with_saved = tuple(replace(one, reads=one.reads + saved) for one in grads)
        self.calls.append(_Call(name, self.module, makes[0], with_saved))
        return makes[0]

    def backward(self, loss: int) -> tuple[int, ...]:
        """Run the backward of all calls; return the gradients of parameters."""
        self.gradients[loss] = self._value(self.values[loss].bytes, Kind.TANGENT)
        for call in reversed(self.calls):
            self.module = call.module
            for grad in call.grads:
                self._backward_of(call, grad)
        return tuple(self.gradients[param] for param in self.params)

    def _backward_of(self, call: _Call, grad: _Grad) -> None:
        came = self.gradients[call.output]
        if call.name == "add":
            for value in grad.of:
                self._sum(value, came)
            return
        made = tuple(self._value(self.values[v].bytes, Kind.GRADIENT) for v in grad.of)
        self._run(f"{call.name}_backward", (came, *grad.reads), made, grad.flops)
        for value, gradient in zip(grad.of, made, strict=True):
            self._sum(value, gradient)

    def _sum(self, value: int, gradient: int) -> None:
        """Add a gradient to what other readers of the value sent back."""
        before = self.gradients.get(value)
        if before is not None:
            total = self._value(self.values[value].bytes, Kind.GRADIENT)
            self._run("accumulate", (before, gradient), (total,), 0)
            gradient = total
        self.gradients[value] = gradient


@dataclass(frozen=True, slots=True)
class _Decoder:
    """The forward of one decoder, written into a step."""

    step: _Step
    shape: Shape
    rotation: int
    """Cosines and sines of the positions."""

    def layer(self, hidden: int) -> int:
        """Return what a layer makes of its input."""
        step, width = self.step, self.shape.width
        normed = self._norm(hidden)
        query, key = (
            self._rotated(self._linear(normed, width, width)) for _ in range(2)
        )
        mixed = self._attention(query, key, self._linear(normed, width, width))
        hidden = step.add(hidden, self._linear(mixed, width, width))
        normed = self._norm(hidden)
        gate = step.map("silu", self._linear(normed, width, 4 * width))
        gated = step.map("mul", gate, self._linear(normed, width, 4 * width))
        return step.add(hidden, self._linear(gated, 4 * width, width))

    def head(self, hidden: int) -> int:
        """Return the loss."""
        shape = self.shape
        logits = self._linear(self._norm(hidden), shape.width, shape.vocabulary)
        grads = (_Grad((logits,), (logits,)),)
        return self.step.call("cross_entropy", (logits,), (4, 4 * shape.tokens), grads)

    def _linear(self, read: int, wide: int, out: int) -> int:
        tokens = self.shape.tokens
        weight = self.step.param(wide * out)
        return self.step.matmul(
            read, weight, _ITEM * tokens * out, 2 * tokens * wide * out
        )

    def _norm(self, read: int) -> int:
        tokens, width = self.shape.tokens, self.shape.width
        weight = self.step.param(width)
        grads = (_Grad((read, weight), (read, weight)),)
        sizes = _ITEM * tokens * width, 4 * tokens
        return self.step.call("rms_norm", (read, weight), sizes, grads)

    def _rotated(self, read: int) -> int:
        step = self.step
        turned = step.map("rotate_half", read, saved=False)
        return step.add(
            step.map("scale", read, self.rotation),
            step.map("scale", turned, self.rotation),
        )

    def _attention(self, *reads: int) -> int:
        shape = self.shape
        flops = 4 * shape.tokens * shape.sequence * shape.width
        sizes = _ITEM * shape.tokens * shape.width, 4 * shape.tokens * shape.heads
        grads = (_Grad(reads, reads, 5 * flops // 2),)
        return self.step.call("attention", reads, sizes, grads, flops, keeps=True)


def transformer(shape: Shape) -> CostGraph:
    """Return the training step of a decoder with gated feed-forward layers.

    Linear in the number of layers, which have 55 ops each.
    """
    step, tokens, width = _Step(), shape.tokens, shape.width
    words = step.given(8 * tokens, Kind.INPUT)
    rotation = step.given(_ITEM * shape.sequence * width // shape.heads, Kind.BUFFER)
    table = step.param(shape.vocabulary * width)
    grads = (_Grad((table,), (words,)),)
    sizes = (_ITEM * tokens * width,)
    hidden = step.call("embedding", (table, words), sizes, grads)
    decoder = _Decoder(step, shape, rotation)
    for number in range(shape.layers):
        step.module = f"layers.{number}"
        hidden = decoder.layer(hidden)
    step.module = "head"
    loss = decoder.head(hidden)
    gradients = step.backward(loss)
    name = f"decoder of {shape.layers} layers"
    return CostGraph(name, tuple(step.values), tuple(step.ops), (loss, *gradients))
