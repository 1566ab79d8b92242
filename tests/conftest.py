"""What holds for all tests."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# Tests import these; collecting them again would register their operators twice.
collect_ignore = ["support"]

# What is measured and built here is kept between runs, apart from the user's own.
os.environ["ENCAMP_CACHE_DIR"] = str(Path(__file__).parents[1] / "build" / "cache")

# Examples take what they take on a busy machine; in CI they are the same each time.
settings.register_profile("encamp", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("encamp")


def pytest_collection_modifyitems(items):
    """Skip the tests that need a CUDA device where there is none."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not has_cuda():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def has_cuda():
    """Say whether PyTorch sees a CUDA device."""
    if find_spec("torch") is None:
        return False
    import torch  # noqa: PLC0415 - only where a test asks for it

    return torch.cuda.is_available()
