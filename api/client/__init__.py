"""A typed client of the planning service, blocking or async.

```python
from encamp.api.client import Client

with Client("https://plans.example.org") as client:  # the key is in ENCAMP_KEY
    plan = client.plan(graph, "16GiB")
```

A plan that comes from a service is replayed and checked on the graph in hand before
it is returned. Errors are those of the planner in process, and `ServiceError`s.
"""

from .answers import Operation, SweepAnswer
from .asking import Ask, Search
from .asynchronous import AsyncClient
from .keys import read_key
from .synchronous import Client

__all__ = [
    "Ask",
    "AsyncClient",
    "Client",
    "Operation",
    "Search",
    "SweepAnswer",
    "read_key",
]
