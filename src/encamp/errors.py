"""The exceptions Encamp raises on purpose, all under one root.

```
EncampError
├── OptionError         an option that is unknown, missing or contradicts another
├── UnitError            a size, duration or budget text that does not parse
├── GraphError           a cost graph breaks an invariant
├── WireError            a document is not the JSON this version reads
├── PlanError            a plan that cannot be used
│   ├── InvalidPlanError   its steps break the rules of the graph (see `check`)
│   ├── StalePlanError     it was made for another graph, or no longer fits
│   └── MissingPlanError   there is none where it was looked for
├── InfeasibleError      no schedule of the graph fits the budget
├── NoPlanError          a limit or an interrupt came before any plan
├── UnsupportedError     the step holds something Encamp refuses to plan
│   └── CaptureError       the step could not be captured as one graph
├── CostError            an operation's cost could not be measured or looked up
├── VerificationError    a planned step differs from the unplanned one
├── ServiceError         the planning service refused a request, or failed at it
│   ├── UnauthorizedError  no API key came with it, or none that is valid
│   ├── ForbiddenError     the key lacks the scope that it takes
│   ├── NotFoundError      what it names is not there
│   ├── ConflictError      the state of what it names rules it out
│   ├── TooLargeError      it is larger than the service takes
│   ├── BusyError          there is no room for it now: try again later
│   ├── UnreachableError   nothing answers, however often one asks
│   └── StoreError         the store cannot be opened, or holds what is damaged
├── MissingExtraError    an optional dependency is not installed
└── InternalError        Encamp broke a rule of its own: a bug to report
```

Each message says what is wrong, where, and what to do about it.
"""

from __future__ import annotations

from dataclasses import dataclass


class EncampError(Exception):
    """Root of every exception that Encamp raises on purpose."""


class OptionError(EncampError, ValueError):
    """An option is unknown, is missing or contradicts another."""


class UnitError(EncampError, ValueError):
    """A size, duration or budget text does not parse."""


class GraphError(EncampError, ValueError):
    """A cost graph breaks an invariant of `encamp.graph`.

    Attributes:
        at: the field of the graph that is wrong, such as "ops[3].inputs[1]"; empty
            where it is the graph as a whole.

    """

    def __init__(self, message: str, *, at: str = "") -> None:
        """Keep the place beside the message, for readers of documents."""
        super().__init__(message)
        self.at = at


class WireError(EncampError, ValueError):
    """A document is not JSON of a schema that this version reads.

    Attributes:
        at: the path in the document, such as "$.ops[3].inputs[1]"; empty where it is
            not about a place in one.

    """

    def __init__(self, message: str, *, at: str = "") -> None:
        """Keep the place beside the message, for programs."""
        super().__init__(message)
        self.at = at


class PlanError(EncampError):
    """A plan cannot be used."""


class InvalidPlanError(PlanError, ValueError):
    """The steps of a plan break a rule of its graph."""


class StalePlanError(PlanError):
    """A plan belongs to another graph, or no longer fits its budget."""


class MissingPlanError(PlanError):
    """There is no plan of a step where one was looked for."""


@dataclass(frozen=True, slots=True)
class PeakSite:
    """Where a schedule holds the most memory: one op and the values live there."""

    op: str
    module: str | None
    source: str | None
    values: tuple[str, ...]
    bytes: int


class InfeasibleError(EncampError):
    """No schedule of the graph fits the budget.

    Attributes:
        budget_bytes: the budget that was asked for.
        smallest_bytes: the smallest budget a plan was found for, if any.
        bound_bytes: no schedule fits fewer bytes than this (proven).
        site: the op at the peak of the smallest plan, and what is live there.

    """

    def __init__(
        self,
        message: str,
        *,
        budget_bytes: int,
        bound_bytes: int,
        smallest_bytes: int | None = None,
        site: PeakSite | None = None,
    ) -> None:
        """Keep the figures beside the message, for programs."""
        super().__init__(message)
        self.budget_bytes = budget_bytes
        self.bound_bytes = bound_bytes
        self.smallest_bytes = smallest_bytes
        self.site = site


class NoPlanError(EncampError):
    """A limit or an interrupt came before any plan that fits was found."""


class UnsupportedError(EncampError):
    """The training step holds something Encamp refuses to plan."""


class CaptureError(UnsupportedError):
    """The training step could not be captured as one graph."""


class CostError(EncampError):
    """An operation's cost could not be measured or looked up."""


class VerificationError(EncampError):
    """A planned step differs from the unplanned one."""


class ServiceError(EncampError):
    """The planning service refused a request, or failed at it."""


class UnauthorizedError(ServiceError):
    """No API key came with a request, or none that is valid."""


class ForbiddenError(ServiceError):
    """An API key lacks the scope that a request takes."""


class NotFoundError(ServiceError):
    """What a request names is not there, or not the tenant's."""


class ConflictError(ServiceError):
    """The state of what a request names rules the request out."""


class TooLargeError(ServiceError):
    """A request is larger than the service takes."""


class BusyError(ServiceError):
    """The service has no room for a request now.

    Attributes:
        own: the limit is that of the requester's key; else it is the whole service's.
        retry_after_s: seconds after which another try is worth it.

    """

    def __init__(self, message: str, *, own: bool, retry_after_s: int) -> None:
        """Keep what to do beside the message."""
        super().__init__(message)
        self.own = own
        self.retry_after_s = retry_after_s


class UnreachableError(ServiceError):
    """The service does not answer."""


class StoreError(ServiceError):
    """The service's store cannot be opened, or holds what is damaged."""


class MissingExtraError(EncampError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


class InternalError(EncampError):
    """Encamp broke a rule of its own; the message says what to report."""
