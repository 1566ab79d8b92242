"""What an operator of the service may choose."""

from __future__ import annotations

from dataclasses import dataclass, field

from encamp.wire import Limits

from .store import Room

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most of each that a request may hold or ask for; above it is refused."""

    wire_bytes: int = 32 * _MIB
    """Of a body as it is sent."""
    document_bytes: int = 64 * _MIB
    """Of a body decompressed."""
    ops: int = 200_000
    edges: int = 2_000_000
    time_limit_s: float = 3600.0
    wait_s: float = 60.0
    points: int = 64
    queued: int = 1000
    """Operations that wait, of all keys."""
    per_key: int = 64
    """Operations in flight of one key."""

    @property
    def room(self) -> Room:
        """Return what the queue takes."""
        return Room(self.queued, self.per_key)

    @property
    def reading(self) -> Limits:
        """Return what a reader of documents takes."""
        return Limits(ops=self.ops, edges=self.edges, bytes=self.document_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one replica of the service behaves."""

    authenticate: bool = False
    """Whether a request needs an API key."""
    allowed_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    """Names the service answers to; "*" stands for any."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages whose scripts may call it; none without saying so."""
    caps: Caps = field(default_factory=Caps)
    lease_s: float = 15.0
    """Seconds after its last heartbeat that a replica is taken for dead."""
    poll_s: float = 0.1
    """Seconds between two looks at what other replicas did."""
    shutdown_s: float = 5.0
    """Seconds that running solves have to end when the service does."""
