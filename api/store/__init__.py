"""What the service keeps: graphs, plans, answers, operations and keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .database import Database, milliseconds
from .documents import Answer, Documents, GraphEntry
from .keys import Key, Keys, Scope
from .queue import Operation, Queue, Room, StoredEvent, Submission
from .upkeep import Removed, Retention, Upkeep

__all__ = [
    "Answer",
    "Database",
    "Documents",
    "GraphEntry",
    "Key",
    "Keys",
    "Operation",
    "Queue",
    "Removed",
    "Retention",
    "Room",
    "Scope",
    "Store",
    "StoredEvent",
    "Submission",
    "Upkeep",
]


@dataclass(frozen=True, slots=True)
class Store:
    """All parts of the store over one database."""

    database: Database
    documents: Documents
    queue: Queue
    keys: Keys
    upkeep: Upkeep

    @classmethod
    def open(cls, url: str, now_ms: Callable[[], int] = milliseconds) -> Store:
        """Return the store at a database URL, its tables brought to this version.

        Raises:
            OptionError: the URL is none, or of a database that is not supported.
            MissingExtraError: its driver is not installed.
            StoreError: it cannot be reached, or its tables are of a newer version.

        """
        database = Database.open(url, now_ms)
        parts = Documents(database), Queue(database), Keys(database), Upkeep(database)
        return cls(database, *parts)

    def close(self) -> None:
        """Close all connections."""
        self.database.close()
