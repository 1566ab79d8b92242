"""The ops of a step while it is lowered, with the tokens that order them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from torch import fx

from encamp.errors import UnsupportedError
from encamp.graph import Op, Reason, Recompute

from .provenance import where
from .values import ValueTable


class CallKind(Enum):
    """What an op of the cost graph stands for."""

    OPERATOR = auto()
    """A call of the joint graph."""
    TAKE_STATE = auto()
    """Taking the random state that the node's draw starts from."""
    RECEIVE_TANGENTS = auto()
    """The caller handing over the tangents when the backward begins."""


@dataclass(frozen=True, slots=True)
class Call:
    """What one op of the cost graph runs.

    `node` is the call of the joint graph, or for taking a state the draw it is for;
    receiving tangents has the first tangent. `state` is the value that holds the
    random state: the one that is taken, or the one an operator draws with.
    """

    node: fx.Node
    kind: CallKind = CallKind.OPERATOR
    state: int | None = None


@dataclass(slots=True)
class Draft:
    """An op that is not costed yet."""

    op: Op
    call: Call


@dataclass(slots=True)
class DraftList:
    """Ops in order, and who read and who wrote each value."""

    table: ValueTable
    position: dict[fx.Node, int]
    drafts: list[Draft] = field(default_factory=list)
    _readers: dict[int, list[int]] = field(default_factory=dict)
    _writer: dict[int, int] = field(default_factory=dict)
    _token: dict[int, int] = field(default_factory=dict)

    def append(self, op: Op, call: Call, written: Iterable[int] = ()) -> int:
        """Add an op that writes into the values `written`; return its id.

        Reads and writes of one storage keep the order of the program: who read it
        before may not run again, and the write waits for them.

        Raises:
            UnsupportedError: the backward reads what the forward overwrites.

        """
        self.drafts.append(Draft(op, call))
        for value in op.inputs:
            writer = self._writer.get(value)
            if writer is not None:
                self._read_after(op.id, writer)
        for value in written:
            for reader in self._readers.get(value, []):
                self.wait(op.id, reader)
                self._pin(reader, Reason.MUTATED_INPUT)
            self._writer[value] = op.id
        for value in op.inputs:
            self._readers.setdefault(value, []).append(op.id)
        return op.id

    def wait(self, op: int, earlier: int) -> None:
        """Make `op` run after `earlier`, at no cost."""
        draft = self.drafts[op]
        token = self.token_of(earlier)
        if token not in draft.op.inputs:
            draft.op = replace(draft.op, inputs=(*draft.op.inputs, token))

    def token_of(self, op: int) -> int:
        """Return the zero-byte value by which others wait for `op`."""
        if op not in self._token:
            draft = self.drafts[op]
            token = self.table.token(f"after {draft.op.name}")
            self._token[op] = token
            draft.op = replace(draft.op, outputs=(*draft.op.outputs, token))
        return self._token[op]

    def _read_after(self, reader: int, writer: int) -> None:
        read, wrote = self.drafts[reader].call.node, self.drafts[writer].call.node
        if self.position[read] < self.position[wrote]:
            msg = (
                f"{where(read)} reads an input in the backward that {where(wrote)}"
                " overwrites in the forward; clone the input before it is"
                " overwritten, or do not overwrite it in place"
            )
            raise UnsupportedError(msg)
        self.wait(reader, writer)

    def _pin(self, op: int, reason: Reason) -> None:
        draft = self.drafts[op]
        if draft.op.recompute.allowed:
            pinned = Recompute(allowed=False, reason=reason)
            draft.op = replace(draft.op, recompute=pinned)
