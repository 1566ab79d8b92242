"""What requests and responses hold, for validation and for the API's description."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, WithJsonSchema

from .operations import State

MAX_BYTES = 2**60
_DIGEST = r"^sha256:[0-9a-f]{64}$"
_EXAMPLE = "sha256:" + "0123456789abcdef" * 4

Digest = Annotated[str, Field(pattern=_DIGEST, examples=[_EXAMPLE])]

# Kept as they were parsed, so that their own readers see what was wrong in them.
Document = Annotated[
    InstanceOf[dict[str, Any]],
    WithJsonSchema({"type": "object", "description": "An `encamp.graph/1`."}),
]
PlanDocument = Annotated[
    InstanceOf[dict[str, Any]],
    WithJsonSchema({"type": "object", "description": "An `encamp.plan/1`."}),
]
Amount = Annotated[
    Annotated[int, Field(ge=0, le=MAX_BYTES)]
    | Annotated[str, Field(min_length=1, max_length=64)],
    Field(
        description="Bytes, as a number or as text: 16GiB, 16GB, 90% of the device,"
        " peak*0.6 of the unplanned peak.",
        examples=["16GiB"],
    ),
]
Pattern = Annotated[str, Field(min_length=1, max_length=500)]
Patterns = Annotated[list[Pattern], Field(max_length=1000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class SearchOptions(_Strict):
    """How to search; each field has the default of `encamp plan`."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    time_limit_s: Annotated[
        float | None,
        Field(
            ge=0, allow_inf_nan=False, description="Seconds; 60 where no work is set."
        ),
    ] = None
    work_limit: Annotated[
        int | None,
        Field(
            ge=0,
            lt=2**40,
            description="Million elementary steps instead: the same on every machine.",
        ),
    ] = None
    target_gap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0005
    keep: Patterns = []
    recompute: Patterns = []
    robust: Annotated[float | None, Field(ge=0, lt=1, allow_inf_nan=False)] = None
    fixed_order: Annotated[
        bool, Field(description="Keep the first runs in the order of the graph.")
    ] = False


class _OfGraph(_Strict):
    graph: Digest | Document = Field(description="Its digest, or the whole of it.")
    options: SearchOptions = SearchOptions()


class PlanRequest(_OfGraph):
    """The cheapest step of a graph under a budget."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "graph": _EXAMPLE,
                    "budget": "16GiB",
                    "options": {"time_limit_s": 30},
                }
            ]
        }
    )
    budget: Amount
    reserve: Amount = 0


class SweepRequest(_OfGraph):
    """The cheapest steps of a graph at many budgets."""

    points: Annotated[int, Field(ge=2)] = 12
    budgets: Annotated[list[Amount] | None, Field(min_length=1)] = None


class MinBudgetRequest(_OfGraph):
    """The smallest budget that a step of a graph fits."""


class CheckRequest(_Strict):
    """Whether a plan keeps the rules of a graph and what it states."""

    graph: Digest | Document
    plan: Digest | PlanDocument
    budget: Amount | None = None


class Violation(BaseModel):
    """A rule that a plan breaks."""

    kind: str
    message: str
    step: int | None


class Checked(BaseModel):
    """What the independent check says of a plan."""

    valid: bool
    violations: list[Violation]


class Fault(BaseModel):
    """What is wrong at one place of a document."""

    path: str = Field(examples=["$.ops[3].inputs[1]"])
    detail: str


class ProblemDocument(BaseModel):
    """A problem (RFC 9457)."""

    type: str = Field(examples=["/problems/wire-error"])
    title: str
    status: int
    detail: str
    errors: list[Fault] | None = None
    request_id: str | None = None


class Stored(BaseModel):
    """A stored graph."""

    digest: Digest
    name: str
    structure: str
    exact: str
    num_ops: int
    json_bytes: int
    unplanned_peak_bytes: int


class Result(BaseModel):
    """The answer to a question. What else it holds depends on `kind`.

    `final` says that no longer search would change it. `plan` is the digest of a plan;
    a sweep has one for each of its `points`.
    """

    model_config = ConfigDict(extra="allow")
    kind: Literal["plan", "sweep", "min-budget"]
    graph: Digest
    status: Literal["optimal", "feasible", "infeasible", "solved"]
    final: bool
    plan: Digest | None = None


class OperationDocument(BaseModel):
    """A long-running operation. Times are milliseconds since 1970 in UTC."""

    id: str = Field(examples=["op_0193c5a2f0d1a1b2c3d4e5f60718"])
    kind: Literal["plan", "sweep", "min-budget"]
    state: State
    done: bool
    graph: Digest
    request: dict[str, Any]
    progress: dict[str, Any] | None
    result: Result | None
    error: ProblemDocument | None
    created_ms: int
    started_ms: int | None
    ended_ms: int | None


class OperationPage(BaseModel):
    """Operations, newest first."""

    operations: list[OperationDocument]
    next_page_token: str | None


class Health(BaseModel):
    """Whether the service is up, and what is missing where it is not."""

    status: Literal["ok", "unavailable"]
    missing: list[str] = []


class Version(BaseModel):
    """What runs here."""

    encamp: str
    ortools: str
    python: str


class ProblemType(BaseModel):
    """What a type of problem means."""

    type: str
    title: str
    status: int
    description: str
