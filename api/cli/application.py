"""The typer application: its commands, and how an error ends it."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import encamp
from encamp.errors import EncampError, InternalError

from . import (
    baselines,
    check,
    devices,
    diff,
    gc,
    keys,
    min_budget,
    plan,
    serve,
    show,
    sweep,
    trace,
    verify,
)
from .exits import MEANINGS, exit_of


class _Commands(TyperGroup):
    """Ends with an error's message and exit code; a bug keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as inherited
        try:
            return super().invoke(ctx)
        except InternalError:
            raise
        except EncampError as error:
            typer.echo(f"encamp: {error}", err=True)
            raise typer.Exit(exit_of(error)) from None


app = typer.Typer(
    name="encamp",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a bug shows a plain traceback
    rich_markup_mode=None,  # help and usage errors are plain lines, also in a pipe
)
app.command("trace")(trace.trace)
app.command("plan")(plan.plan)
app.command("min-budget")(min_budget.min_budget)
app.command("sweep")(sweep.sweep)
app.command("check")(check.check)
app.command("verify")(verify.verify)
app.command("show")(show.show)
app.command("diff")(diff.diff)
app.command("baselines")(baselines.baselines)
app.command("devices")(devices.devices)
app.command("serve")(serve.serve)
app.add_typer(keys.app, name="keys")
app.command("gc")(gc.gc)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"encamp {encamp.__version__}")
        raise typer.Exit


_CODES = [f"  {code.value}  {meaning}" for code, meaning in MEANINGS.items()]


@app.callback(epilog="\n".join(["\b", "Exit codes:", *_CODES]))
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """Plan activation checkpoints for PyTorch training steps.

    A budget is the total peak of a step: 16GiB, 16GB, bare bytes, "90%" of the device
    or "peak*0.6" of the unplanned peak.
    """


def main() -> None:
    """Run the command line; the process exits with a code of `exits.Exit`."""
    app(prog_name="encamp")
