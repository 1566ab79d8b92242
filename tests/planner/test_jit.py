"""Compiling, and the random stream of the compiled searches."""

from types import SimpleNamespace

import numba
import pytest

from encamp.planner import jit


def test_compiles_without_a_cache_where_none_can_be_written(monkeypatch):
    """Numba refuses to cache where it finds no folder; the loop runs all the same."""

    def unwritable(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr(
        jit, "numba", SimpleNamespace(njit=unwritable, config=numba.config)
    )

    assert jit.compiled(lambda number: number + 1)(1) == 2


class TestRandomStream:
    def test_repeats_for_a_seed(self):
        """Two streams of seed 7 draw alike, one of seed 8 does not."""
        seven, again, eight = (jit.random_state(seed) for seed in (7, 7, 8))
        draws = [[jit.uniform(s) for _ in range(5)] for s in (seven, again, eight)]

        assert draws[0] == draws[1] != draws[2]

    def test_is_splitmix64(self):
        """The first word of seed 0 is 0xE220A8397B1DCDAF, as published."""
        first = 0xE220A8397B1DCDAF >> 11

        assert jit.uniform(jit.random_state(0)) == first * 2.0**-53

    @pytest.mark.parametrize("limit", [1, 2, 7])
    def test_draws_every_integer_below_a_limit(self, limit):
        """Within 200 draws each of up to seven integers comes."""
        state = jit.random_state(1)

        assert {jit.below(state, limit) for _ in range(200)} == set(range(limit))


class TestCache:
    def test_is_another_for_another_source(self, monkeypatch, tmp_path):
        """A changed file of the planner changes the digest its cache is kept under."""
        source = tmp_path / "jit.py"
        source.write_text("first")
        monkeypatch.setattr(jit, "__file__", str(source))
        digest = jit._source_digest.__wrapped__
        before = digest()
        (tmp_path / "callee.py").write_text("second")

        assert digest() != before

    def test_leaves_the_folder_of_others_alone(self):
        """Compiling ours does not move where other functions are cached."""
        before = numba.config.CACHE_DIR
        jit.compiled(lambda number: number + 2)

        assert before == numba.config.CACHE_DIR
