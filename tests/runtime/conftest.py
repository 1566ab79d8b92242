"""What holds for the tests that run steps."""

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Run kernels on one thread: threads of small kernels wait more than they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
