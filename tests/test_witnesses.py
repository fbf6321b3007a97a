"""Witnesses asked at once, killed or with a damaged state; texts that editors and mail changed."""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ocrrlib import CorrectionMemory
from ocrrlib.chain import Fault
from ocrrlib.cli import main
from ocrrlib.files import ROOT, InputError
from ocrrlib.memory import COSIGNATURE, Head, Key, proven, witness
from tests import torture
from tests.auditor import fault, sql, write

LOG = Key.new("log", seed=bytes(32))
WITNESS = Key.new("witness", COSIGNATURE, seed=bytes(32))


def status(*arguments):
    """Exit status of ``ocrr memory``."""
    with pytest.raises(SystemExit) as ended:
        main(["memory", *map(str, arguments)])
    return ended.value.code or 0


# Two forks at once


@pytest.mark.parametrize("seen", [True, False], ids=["after a head", "first seen"])
def test_one_of_two_forks_is_cosigned_and_the_other_reported_to_threads_that_ask_at_once(
    tmp_path, seen
):
    for i in range(20):
        start = threading.Barrier(2, timeout=100)
        state = torture.state_of(tmp_path / str(i), seen)
        link = tmp_path / f"{i} link"
        link.symlink_to(state)
        base, forks = torture.forked(i)

        def ask(text, state):
            start.wait()
            return witness(text, state, torture.WITNESS, [torture.LOG])

        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(ask, forks, [state, link] if seen else [state, state]))
        assert sorted(type(one) for one in found) == [Head, Fault]
