"""Where published data lie and what is made on the way is kept: in a checkout, or where the package is installed."""

import os
from pathlib import Path

import pooch

from ocrrlib.files import ROOT

_PACKAGED = Path(__file__).resolve().parent / "data"  # there in an installed wheel only


def installed():
    """Whether the package was installed from a wheel, so that there is no checkout around it."""
    return _PACKAGED.is_dir()


def data_folder():
    """The folder with published ``embeddings`` and ``results``; an installed package has some of them."""
    return _PACKAGED if installed() else ROOT / "data"


def cache_folder():
    """The folder for what can be made anew.

    ``build/cache`` in a checkout, the user's cache otherwise; the environment variable
    ``OCRR_CACHE_DIR`` names another.
    """
    given = os.environ.get("OCRR_CACHE_DIR")
    if given:
        return Path(given)
    return Path(pooch.os_cache("ocrr")) if installed() else ROOT / "build/cache"
