"""The tree of exceptions, drawn and real."""

import inspect
import re

import encamp.errors
from encamp.errors import EncampError, GraphError, InfeasibleError, PeakSite


def tree(root, depth=0):
    """Return (depth, name) of every exception of the module under a root.

    What the runtime makes of one on its way through a compiler is not the module's.
    """
    named = vars(encamp.errors)
    own = [c for c in root.__subclasses__() if named.get(c.__name__) is c]
    children = [node for child in own for node in tree(child, depth + 1)]
    return [(depth, root.__name__), *children]


def test_the_drawn_tree_is_the_real_one():
    """The text at the top of the module shows every class where it belongs."""
    drawing = re.search(r"```\n(.*?)```", encamp.errors.__doc__, re.DOTALL)[1]
    drawn = [re.match(r"([│├└─ ]*)(\w+)", line) for line in drawing.splitlines()]
    depths = sorted({len(match[1]) for match in drawn})

    assert [(depths.index(len(m[1])), m[2]) for m in drawn] == tree(EncampError)


def test_every_exception_says_when_it_is_raised():
    """Each class has a docstring of its own."""
    classes = [c for _, c in inspect.getmembers(encamp.errors, inspect.isclass)]

    assert all("__doc__" in vars(c) and vars(c)["__doc__"] for c in classes)


def test_programs_can_read_what_an_error_says():
    """Figures and places stand beside the message."""
    site = PeakSite("mm", "net.0", "n.py:2", ("x",), 53)
    error = InfeasibleError("no", budget_bytes=1, bound_bytes=2, site=site)

    assert (error.budget_bytes, error.bound_bytes) == (1, 2)
    assert (error.smallest_bytes, error.site) == (None, site)
    assert GraphError("wrong", at="ops[3]").at == "ops[3]"
    assert not GraphError("wrong").at
