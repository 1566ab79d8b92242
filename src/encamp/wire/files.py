"""Whole files in, whole files out: `.json` and `.json.zst`.

A file is written beside its target and renamed over it, so a reader meets the old
document or the new one and never half of either.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

from encamp.errors import MissingExtraError, WireError

# Zstandard packs up to 128 KiB into 4 bytes, so that one piece yields 32 MiB at most.
_PIECE = 1024
_SUFFIXES = (".json", ".json.zst")


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Return the document in a file, decompressed if its name ends in .zst.

    Raises:
        WireError: the file cannot be read, is damaged or holds more than
            `max_bytes`.

    """
    compressed = _is_compressed(path)
    content = read_content(path, max_bytes)
    return _decompress(path, content, max_bytes) if compressed else content


def read_content(path: Path, max_bytes: int) -> bytes:
    """Return what a file of any name holds.

    Raises:
        WireError: the file cannot be read, is empty or holds more than `max_bytes`.

    """
    if path.is_dir():
        _fail(path, "is a directory, expected a file")
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except FileNotFoundError:
        _fail(path, "no such file")
    except (OSError, ValueError) as error:
        _fail(path, f"cannot be read: {_reason(error)}")
    if len(content) > max_bytes:
        _fail(path, f"holds more than the limit of {max_bytes} bytes")
    if not content:
        _fail(path, "the file is empty, expected JSON")
    return content


def write_text(path: Path, text: str) -> None:
    """Write a document, compressed if the name ends in .zst, or leave things alone.

    Raises:
        WireError: the file cannot be written; what was there is untouched.

    """
    compressed = _is_compressed(path)
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:
        _fail(path, f"cannot be written as UTF-8: {error.reason}; look at the names")
    write_content(path, _compress(content) if compressed else content)


def write_content(path: Path, content: bytes) -> None:
    """Write a file of any name, whole or not at all.

    Raises:
        WireError: the file cannot be written; what was there is untouched.

    """
    if path.exists() and not path.is_file():
        _fail(path, "is not a regular file, expected one to write to")
    try:
        _replace(path.resolve(), content)
    except (OSError, RuntimeError, ValueError) as error:
        _fail(path, f"cannot be written: {_reason(error)}")


def _replace(target: Path, content: bytes) -> None:
    beside = target.with_name(f".encamp-{uuid4().hex}.tmp")
    try:
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _is_compressed(path: Path) -> bool:
    name = path.name.lower()
    if not name.endswith(_SUFFIXES):
        _fail(path, f"expected a name that ends in {' or '.join(_SUFFIXES)}")
    return name.endswith(".zst")


def _compress(content: bytes) -> bytes:
    try:
        import zstandard  # noqa: PLC0415 - only .zst files need it
    except ImportError:
        raise _missing() from None
    return zstandard.ZstdCompressor(write_checksum=True).compress(content)


def _decompress(path: Path, content: bytes, max_bytes: int) -> bytes:
    try:
        import zstandard  # noqa: PLC0415 - only .zst files need it
    except ImportError:
        raise _missing() from None
    unpacked = bytearray()
    rest = content
    while rest:
        frame = zstandard.ZstdDecompressor().decompressobj()
        start = 0
        try:
            while start < len(rest) and not frame.eof:
                unpacked += frame.decompress(rest[start : start + _PIECE])
                start += _PIECE
                if len(unpacked) > max_bytes:
                    limit = f"more than the limit of {max_bytes} bytes"
                    _fail(path, f"decompresses to {limit}")
        except zstandard.ZstdError as error:
            _fail(path, f"damaged or not Zstandard: {error}")
        if not frame.eof:
            _fail(path, "truncated: the compressed data ends in its middle")
        rest = frame.unused_data + rest[start:]
    return bytes(unpacked)


def _missing() -> MissingExtraError:
    return MissingExtraError("files ending in .zst need zstandard: pip install encamp")


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _fail(path: Path, message: str) -> NoReturn:
    msg = f"{path}: {message}"
    raise WireError(msg)
