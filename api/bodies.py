"""Bodies of requests: read to a cap, decompressed to a cap, parsed strictly.

Nothing is held that is over a cap: a body is counted as it comes in, and what it
decompresses to as it comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import zstandard
from fastapi import HTTPException
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from encamp.errors import EncampError, TooLargeError, WireError
from encamp.units import format_bytes
from encamp.wire.document import parse

from .settings import Caps

_PIECE = 128
"""Zstandard packs up to 128 KiB into 4 bytes, so a piece yields 4 MiB at most."""
_WINDOW = 2**23
"""What a decompressor need hold of what it has made (RFC 8878, section 3.1.1.1.2)."""
_ENCODINGS = ("", "identity", "zstd")


class RefusedBody(HTTPException):
    """Carries an error out of the reading of a body, where others would be lost."""

    def __init__(self, error: EncampError) -> None:
        """Keep the error for the handler of problems."""
        super().__init__(422)
        self.error = error


class StrictRequest(Request):
    """A request whose body keeps the caps of the app's settings."""

    async def body(self) -> bytes:
        """Return the body, decompressed.

        Raises:
            RefusedBody: it is over a cap, or is damaged.

        """
        if not hasattr(self, "_body"):
            caps: Caps = self.app.state.service.settings.caps
            try:
                self._body = _decoded(self, await _received(self, caps), caps)
            except EncampError as error:
                raise RefusedBody(error) from None
        return self._body

    async def json(self) -> object:
        """Return the body as plain data.

        Raises:
            RefusedBody: as `body`, or it is not one JSON document without repeated
                keys, endless numbers and deep nesting.

        """
        content = await self.body()
        try:
            root = parse(content, "body")
            if isinstance(root.value, dict):
                for _, child in root.children():
                    if isinstance(child.value, dict):
                        child.mapping()
        except EncampError as error:
            raise RefusedBody(error) from None
        return root.value


class StrictRoute(APIRoute):
    """A route that reads bodies so."""

    def get_route_handler(
        self,
    ) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


async def _received(request: Request, caps: Caps) -> bytes:
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated[:20]) > caps.wire_bytes:
        raise _too_large(caps.wire_bytes)
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > caps.wire_bytes:
            raise _too_large(caps.wire_bytes)
    return bytes(content)


def _decoded(request: Request, content: bytes, caps: Caps) -> bytes:
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        msg = f"the body is encoded as {encoding[:40]!r}; send it as it is, or as zstd"
        raise WireError(msg)
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if encoding == "zstd" or media == "application/zstd":
        return _unpacked(content, caps.document_bytes)
    if len(content) > caps.document_bytes:
        raise _too_large(caps.document_bytes)
    return content


def _unpacked(content: bytes, most: int) -> bytes:
    frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
    unpacked = bytearray()
    try:
        if zstandard.frame_content_size(content) > most:
            raise _too_large(most, " decompressed")
        for start in range(0, len(content), _PIECE):
            unpacked += frame.decompress(content[start : start + _PIECE])
            if len(unpacked) > most:
                raise _too_large(most, " decompressed")
            if frame.eof:
                break
    except zstandard.ZstdError as error:
        msg = f"the body is damaged or not Zstandard: {error}"
        raise WireError(msg) from None
    if not frame.eof:
        msg = "the body is truncated: the compressed data ends in its middle"
        raise WireError(msg)
    return bytes(unpacked)


def _too_large(most: int, how: str = "") -> TooLargeError:
    msg = f"the body holds more than {format_bytes(most)}{how}, which is the limit here"
    return TooLargeError(msg)
