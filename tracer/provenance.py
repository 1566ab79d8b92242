"""Where in the user's model an FX node comes from."""

from __future__ import annotations

import re
from pathlib import PurePath

from torch import fx

_ROOT = re.compile(r"^(?:[LG]\['[^']*'\])?\.?(?:__closure__\.\d+\.cell_contents\.?)*")
_ITEM = re.compile(r"\['?([^'\]]+)'?\]")
_MEMBER = re.compile(r"_(?:modules|parameters|buffers)\['([^']+)'\]")
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)


def module_path(node: fx.Node) -> str | None:
    """Return the dotted path of the innermost module that made the node."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return None
    path, _ = list(stack.values())[-1]
    dotted = _ITEM.sub(r".\1", _ROOT.sub("", str(path), count=1))
    return dotted.replace("_modules.", "").strip(".") or None


def source_line(node: fx.Node) -> str | None:
    """Return "file.py:312", the innermost line of Python behind the node."""
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    if not frames:
        return None
    return f"{PurePath(frames[-1]['file']).name}:{frames[-1]['line']}"


def where(node: fx.Node) -> str:
    """Name a node for a person: what it is, its module and its source line."""
    if node.op == "placeholder":
        return f"input {node.name} of the step"
    parts = [f"{node.target} ({node.name})"]
    if module := module_path(node):
        parts.append(f"in module {module}")
    if line := source_line(node):
        parts.append(f"at {line}")
    return " ".join(parts)


def attribute_path(source: str) -> str | None:
    """Return "h.0.weight" of Dynamo's source text for a parameter or buffer."""
    return ".".join(_MEMBER.findall(source)) or None
