"""Documents as the store keeps them: compressed, named by the digest of their text."""

from __future__ import annotations

import hashlib
import re

import zstandard

from encamp.errors import StoreError

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LEVEL = 3
"""Of Zstandard: about 15 times smaller for graphs, at hundreds of MB a second."""


def digest_of(content: bytes) -> str:
    """Return the name of a document: the SHA-256 of its bytes, uncompressed."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def is_digest(text: str) -> bool:
    """Return whether a text is the name of a document."""
    return _DIGEST.fullmatch(text) is not None


def pack(content: bytes) -> bytes:
    """Return a document compressed."""
    return zstandard.ZstdCompressor(_LEVEL, write_checksum=True).compress(content)


def unpack(blob: bytes, json_bytes: int, digest: str) -> bytes:
    """Return a document as it was.

    Raises:
        StoreError: the blob is damaged.

    """
    try:
        content = zstandard.ZstdDecompressor().decompress(blob, json_bytes)
    except zstandard.ZstdError as error:
        msg = f"{digest} is damaged in the store: {error}"
        raise StoreError(msg) from None
    if digest_of(content) != digest:
        msg = f"{digest} is damaged in the store: its digest is {digest_of(content)}"
        raise StoreError(msg)
    return content
