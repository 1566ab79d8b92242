from pathlib import Path

import pytest

from encamp.folders import cache_folder, data_folder


@pytest.mark.parametrize(
    ("folder", "named", "platform"),
    [
        (cache_folder, "ENCAMP_CACHE_DIR", "XDG_CACHE_HOME"),
        (data_folder, "ENCAMP_DATA_DIR", "XDG_DATA_HOME"),
    ],
)
def test_folders_are_where_one_says(monkeypatch, folder, named, platform):
    """Our own variable first, then the platform's."""
    monkeypatch.setenv(named, "/ours")
    monkeypatch.setenv(platform, "/theirs")
    assert folder() == Path("/ours")
    monkeypatch.delenv(named)
    assert folder() == Path("/theirs/encamp")


def test_without_a_word_they_are_at_home(monkeypatch):
    """As on Linux."""
    for name in ("ENCAMP_CACHE_DIR", "ENCAMP_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/encamp")
    assert data_folder() == Path("/home/me/.local/share/encamp")
