"""Compile a step again when a hook is added to one of its modules.

Dynamo reads hooks when it compiles and by default never looks again: one that is
added later would silently be left out.
"""

from __future__ import annotations

from torch._dynamo import config
from torch._dynamo.callback import callback_handler

_before: list[bool] = []
"""The settings to put back when the compilation in progress ends."""


def guard_hooks() -> None:
    """Make the compilation in progress depend on which modules have no hooks.

    The setting is read when guards are made, after the backend has returned, and is
    put back when this compilation ends.
    """
    if _put_back not in callback_handler.end_callbacks:
        callback_handler.register_end_callback(_put_back)
    _before.append(config.skip_nnmodule_hook_guards)
    config.skip_nnmodule_hook_guards = False


def _put_back(_: object) -> None:
    while _before:
        config.skip_nnmodule_hook_guards = _before.pop()
