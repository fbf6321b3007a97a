"""Where data and finished work are: in a checkout beside the code, elsewhere in the package and the user's cache."""

import os
from pathlib import Path

import pooch

from ocrrlib.files import ROOT

_CHECKOUT = (ROOT / "pyproject.toml").exists()


def data_folder():
    """The folder of embeddings and published results: the checkout's, or what the installed package carries."""
    return ROOT / "data" if _CHECKOUT else Path(__file__).parent / "data"


def cache_folder():
    """The folder of finished work; the environment variable ``OCRR_CACHE_DIR`` names another one."""
    given = os.environ.get("OCRR_CACHE_DIR")
    return Path(given) if given else ROOT / "build/cache" if _CHECKOUT else Path(pooch.os_cache("ocrr"))
