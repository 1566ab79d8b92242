"""A service to measure, and requests for it: bounded in number, on loopback only."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_START = "from encamp.api.cli import main; main()"
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Server:
    """A server process and where it listens."""

    process: subprocess.Popen[str]
    host: str
    port: int

    @property
    def resident_bytes(self) -> int:
        """Return the memory it holds."""
        return _resident_bytes(self.process.pid)

    @property
    def children(self) -> list[int]:
        """Return the processes of its solves."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(one) for path in tasks for one in path.read_text().split()]


@dataclass(frozen=True, slots=True)
class Reply:
    """A response and the seconds it took."""

    status: int
    content: bytes
    seconds: float

    @property
    def document(self) -> dict[str, object]:
        """Return the JSON in it."""
        found: dict[str, object] = json.loads(self.content)
        return found


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Server]:
    """Give a server with its store in a folder; it is ended by SIGTERM."""
    command = [sys.executable, "-c", _START, "serve", "--port", "0"]
    with (folder / "log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(  # noqa: S603 - this very Python
            [*command, "--data", str(folder), *arguments], stderr=log, text=True
        )
        try:
            host, port = _address(process, folder / "log")
            yield Server(process, host, port)
        finally:
            process.terminate()
            process.wait(60)


def request(
    server: Server,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Send one request."""
    message = _message(method, path, body, headers or {})
    (reply,) = send(server, [message], connections=1)
    return reply


def send(server: Server, messages: Sequence[bytes], connections: int) -> list[Reply]:
    """Send requests over so many connections, each waiting for its own answers."""
    return asyncio.run(_send_all(server, messages, connections))


def message(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """Return a request as it is sent."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return _message(method, path, body, named)


def at_share(replies: Sequence[Reply], share: float) -> float:
    """Return the seconds within which a share of requests was answered."""
    ordered = sorted(reply.seconds for reply in replies)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def _message(method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    fields = {"host": "localhost", "content-length": str(len(body)), **headers}
    if body:
        fields = {"content-type": "application/json", **fields}
    lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _send_all(
    server: Server, messages: Sequence[bytes], connections: int
) -> list[Reply]:
    replies: dict[int, Reply] = {}
    waiting = iter(enumerate(messages))

    async def connection() -> None:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        for position, content in waiting:
            began = time.perf_counter()
            writer.write(content)
            status, body = await _read(reader)
            replies[position] = Reply(status, body, time.perf_counter() - began)
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(connection() for _ in range(connections)))
    return [replies[position] for position in range(len(messages))]


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    found = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
    if found is None or status == 304:
        return status, b""
    return status, await reader.readexactly(int(found[1]))


def _address(process: subprocess.Popen[str], log: Path) -> tuple[str, int]:
    while True:
        found = re.search(r"http://([\d.]+):(\d+)", log.read_text(encoding="utf-8"))
        if found:
            return found[1], int(found[2])
        if process.poll() is not None:
            msg = f"the server ended: {log.read_text(encoding='utf-8')}"
            raise RuntimeError(msg)
        time.sleep(0.02)


def _resident_bytes(process: int) -> int:
    fields = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * _PAGE
