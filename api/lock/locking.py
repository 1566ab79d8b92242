"""Make the plans of a lock file, and leave alone those that still hold."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import encamp
from encamp.check import check
from encamp.errors import OptionError
from encamp.graph import CostGraph
from encamp.plan import Plan
from encamp.wire import plan_to_json, read_graph, read_plan
from encamp.wire.files import write_content

from .document import Lock, Locked, digest_of
from .facts import Choices, PlanFacts
from .verifying import verify

Solve = Callable[[CostGraph, Choices], Plan]


@dataclass(frozen=True, slots=True)
class Wish:
    """A graph's file, and what its plan is asked for with."""

    graph_file: Path
    choices: Choices


@dataclass(frozen=True, slots=True)
class Made:
    """What became of one wish: an entry, and its plan if a new one was made."""

    name: str
    locked: Locked
    plan: Plan | None


def make(
    wishes: Iterable[Wish], lock: Lock, folder: Path, plans: str, solve: Solve
) -> list[Made]:
    """Return an entry for each wish; nothing is written.

    An entry of `lock`, which is of the lock file in `folder`, is kept where it was
    made by this version for the same wish and still holds; others are solved.

    Args:
        wishes: graphs of different names.
        lock: what the lock file holds.
        folder: that of the lock file.
        plans: the folder of new plans, relative to it.
        solve: what makes a plan.

    Raises:
        OptionError: two graphs have one name, or two names one plan file.
        EncampError: what reading and solving raises.

    """
    made: dict[str, Made] = {}
    for wish in wishes:
        graph = read_graph(wish.graph_file)
        if graph.name in made:
            _refuse_name(graph.name, made[graph.name], wish)
        old = lock.plans.get(graph.name)
        path = relative(wish.graph_file, folder)
        if old is not None and old.graph_path == path and _holds(old, wish, folder):
            made[graph.name] = Made(graph.name, old, None)
        else:
            plan = solve(graph, wish.choices)
            made[graph.name] = _made(plan, path, wish.choices, plans)
    _require_own_files(lock.with_plans({m.name: m.locked for m in made.values()}))
    return list(made.values())


def write_plans(made: Iterable[Made], folder: Path) -> None:
    """Write the new plans among `made`.

    Raises:
        WireError: one cannot be written.

    """
    for each in made:
        if each.plan is not None:
            path = folder / each.locked.plan_path
            path.parent.mkdir(parents=True, exist_ok=True)
            write_content(path, plan_to_json(each.plan).encode("utf-8"))


def relative(path: Path, folder: Path) -> str:
    """Return a path as seen from a folder, with forward slashes."""
    return Path(os.path.relpath(path, folder)).as_posix()


def _holds(old: Locked, wish: Wish, folder: Path) -> bool:
    if old.choices != wish.choices or old.facts.encamp != encamp.__version__:
        return False
    if verify("", old, folder).findings:
        return False
    # Op costs that were measured anew make another plan worth it.
    graph = read_graph(wish.graph_file)
    return not check(graph, read_plan(folder / old.plan_path))


def _made(plan: Plan, graph_path: str, choices: Choices, plans: str) -> Made:
    # How long it took is of no matter here, and would differ from run to run.
    lasting = replace(plan, solver=replace(plan.solver, seconds=0.0))
    name = lasting.graph.name
    locked = Locked(
        graph_path=graph_path,
        plan_path=f"{plans}/{_file_name(name)}",
        plan_digest=digest_of(plan_to_json(lasting).encode("utf-8")),
        choices=choices,
        facts=PlanFacts.of(lasting),
    )
    return Made(name, locked, lasting)


def _file_name(name: str) -> str:
    """Return a plain file name for a graph's; a digest keeps odd names apart."""
    plain = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:80]
    if plain == name:
        return f"{plain}.json"
    short = hashlib.sha256(name.encode("utf-8")).hexdigest()[:8]
    return f"{plain or 'graph'}-{short}.json"


def _refuse_name(name: str, first: Made, wish: Wish) -> None:
    msg = (
        f"{first.locked.graph_path} and {wish.graph_file} both hold a graph named"
        f" {name!r}; a lock file keeps one plan a name: trace one with another --name"
    )
    raise OptionError(msg)


def _require_own_files(lock: Lock) -> None:
    users: dict[str, str] = {}
    for name, locked in lock.plans.items():
        other = users.setdefault(locked.plan_path, name)
        if other != name:
            msg = (
                f"the plans of {other!r} and {name!r} would both be in"
                f" {locked.plan_path}; rename one of the graphs"
            )
            raise OptionError(msg)
