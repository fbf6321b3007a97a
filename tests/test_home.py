"""In a checkout all is found in it; an installed package has its own data, and caches where users' caches are."""

from pathlib import Path

import pooch
import pytest

from ocrrlib import home
from ocrrlib.files import ROOT


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    monkeypatch.delenv("OCRR_CACHE_DIR", raising=False)


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """As if the package were installed here."""
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(home, "_PACKAGED", tmp_path / "data")
    return tmp_path


def test_in_a_checkout_both_folders_are_the_checkouts():
    assert not home.installed()
    assert (home.data_folder(), home.cache_folder()) == (ROOT / "data", ROOT / "build/cache")


def test_an_installed_package_has_its_own_data_and_the_users_cache(wheel):
    assert home.installed()
    assert (home.data_folder(), home.cache_folder()) == (wheel / "data", Path(pooch.os_cache("ocrr")))


def test_the_environment_variable_names_the_cache_in_both(monkeypatch, tmp_path, request):
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert home.cache_folder() == tmp_path / "elsewhere" and home.data_folder() == ROOT / "data"
    request.getfixturevalue("wheel")
    assert home.cache_folder() == tmp_path / "elsewhere"


def test_an_empty_variable_is_as_good_as_none(monkeypatch):
    monkeypatch.setenv("OCRR_CACHE_DIR", "")
    assert home.cache_folder() == ROOT / "build/cache"


def test_the_published_embeddings_are_in_the_data_folder():
    assert (home.data_folder() / "embeddings/banking77.all-MiniLM-L6-v2.safetensors").is_file()
