import pytest

from databases import KINDS, database_url
from encamp.api.pool import Stop
from encamp.api.store import Store
from requests_to_plan import chain_job, endless_job
from serving import ThreadPool


@pytest.fixture(params=KINDS)
def url(request, tmp_path):
    """Give an empty database, of each kind in turn."""
    with database_url(request.param, tmp_path) as found:
        yield found


@pytest.fixture(scope="session")
def compiled():
    """Compile the planner's loops, so that a wait is one for a solve and no more."""
    for job in (chain_job(), endless_job(time_limit_s=1.0)):
        ThreadPool().run(job, lambda _: None, Stop())


class Hands:
    """A clock that is set by hand, in milliseconds."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def hands():
    """Give a clock that stands still."""
    return Hands()


@pytest.fixture
def store(url, hands):
    """Give a store that counts time by it."""
    found = Store.open(url, hands)
    yield found
    found.close()
