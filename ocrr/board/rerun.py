"""Run a submitted system again: in an environment and a process of its own, without network.

The environment is fresh. It has the packages that the submission pins, each as a built one and
without what it would bring along, and after these, by a line in a ``.pth`` file, this checkout and
the checker's own packages: the benchmark's code is the checker's, never the submitter's, and
nothing is resolved or downloaded anew for it.

Where the system allows it (``unshare``), the process has no network, the folders with labelled data
are empty there, and it can write nothing that outlives it.
"""

import os
import pickle
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np

import ocrr
from ocrr.board.guest import ERROR, NOTHING
from ocrr.submission import PINS, SYSTEM, read_recipe
from ocrrlib.files import ROOT, InputError, cache_folder, data_folder
from ocrrlib.systems.base import Storage

MOST = 1 << 30  # bytes of a reply
PIP = "-m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: -r".split()
# Without network, and without a process that stays.
ALONE = "unshare -rnipf --kill-child".split()
# Everything can only be read, but for folders that are empty, and new for each process; the inner
# call takes away the right to unmount. A mount inherited from outside keeps the flags it has.
SHUT = """
while read -r _ place _; do
    case $place in /dev | /proc*) continue ;; esac
    mount -o remount,bind,ro,nosuid,nodev "$place" ||
        mount -o remount,bind,ro,nosuid,nodev,noexec "$place"
done < /proc/self/mounts 2> /dev/null
[ ! -w CHECKOUT ] && [ ! -w WORK ] || exit 1
for place in EMPTY; do mount -t tmpfs none "$place" || exit 1; done
exec unshare -rm "$@"
"""
CLOSED = ("network", "data", "disk")
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


@contextmanager
def environment(folder: Path) -> Iterator["Place"]:
    """Make an environment for the submission in a folder, which is removed at the end.

    Raises ``InputError`` if the submission cannot be used, or its packages cannot be installed.
    """
    recipe = read_recipe(folder)
    with tempfile.TemporaryDirectory(prefix="ocrr-") as made:
        env = Path(made) / "env"
        work = Path(made) / "work"
        work.mkdir()
        (work / SYSTEM).write_bytes((folder / SYSTEM).read_bytes())
        _call([sys.executable, "-m", "venv", str(env)], "an environment cannot be made")
        (site,) = env.glob("lib/python*/site-packages")
        ours = [str(Path(ocrr.__file__).parent.parent), *filter(os.path.isdir, sys.path)]
        (site / "checker.pth").write_text("\n".join(map(os.path.abspath, ours)) + "\n")
        python = str(env / "bin/python")
        if (folder / PINS).read_text().strip():
            _call([python, *PIP, str(folder / PINS)], f"{folder / PINS} cannot be installed")
        yield Place(python, work, recipe)


def _call(command, fault):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it says nothing"]
        raise InputError(f"{fault}: {said[-1]}")


class Place:
    """An environment, what is made there, and how far its processes are closed."""

    def __init__(self, python: str, work: Path, recipe: dict):
        self.work = work
        self.home = work / "home"  # where the system can write
        self.home.mkdir(exist_ok=True)
        self.recipe = recipe
        shut, self.closed = _closed(work, self.home)
        self.command = [*shut, python, "-m", "ocrr.board.guest"]

    def system(self, seed: int) -> "Remote":
        """The submitted system in a process of its own, for one run."""
        return Remote(self, seed)


def _closed(work, home):
    """What shuts a command in, as far as the system allows it, and how far that is."""
    paths = {"CHECKOUT": [ROOT], "WORK": [work], "EMPTY": [*labelled(), "/dev/shm", home]}
    script = SHUT
    for name, places in paths.items():
        script = script.replace(name, shlex.join(map(str, places)))
    ways = [
        ([*ALONE, "-m", "sh", "-c", script, "sh"], ("none", "hidden", "read-only")),
        (ALONE, ("none", "not hidden", "writable")),
    ]
    for way, closed in ways:
        try:
            if subprocess.run([*way, "true"], capture_output=True).returncode == 0:
                return way, dict(zip(CLOSED, closed))
        except OSError:  # no such program
            break
    return [], dict(zip(CLOSED, ("not closed", "not hidden", "writable")))


def labelled() -> list[Path]:
    """Folders on this machine in which labels of the benchmark's rows can be found."""
    places = [data_folder(), cache_folder(), ROOT / "build", ROOT / ".git"]
    asked = ["git", "rev-parse", "--path-format=absolute", "--git-common-dir"]
    try:
        shared = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except OSError:
        shared = ""
    places += [Path(one) for one in (shared, os.environ.get("OCRR_DATA_DIR")) if one]
    found = {place.resolve() for place in places if place.is_dir()}
    return sorted(place for place in found if found.isdisjoint(place.parents))


class Remote:
    """A system in another process, which is asked as if it were here; close it after the run.

    It sees rows when they are asked for, several in an order that nobody knows: their places would
    tell new classes from known ones.

    Raises ``InputError`` if it fails, or gives what is no answer.
    """

    def __init__(self, place: Place, seed: int):
        named = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own = dict.fromkeys(("HOME", "TMPDIR", "OCRR_CACHE_DIR"), str(place.home))
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            place.command,
            cwd=place.work,
            env=named | own | dict.fromkeys(THREADS, "1"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )
        try:
            self._ask("make", seed, place.recipe["name"], place.recipe["parameters"])
        except InputError:
            self.close()
            raise

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()
        self.errors.close()

    def fit(self, X: np.ndarray, y: np.ndarray, classes: tuple[str, ...]) -> None:
        """Fit it on rows (n, d) with class ids (n,)."""
        self.n_classes = len(classes)
        self._ask("fit", X, y, classes)

    def correct(self, x: np.ndarray, y: int) -> None:
        """Correct it by a row (d,) and its class id."""
        self._ask("correct", x, y)

    def storage(self) -> Storage:
        """Nothing, as the leaderboard has no column of it."""
        return Storage(bytes=0)

    def watch(self, Q: np.ndarray) -> "Remote":
        """Keep fixed queries (q, d)."""
        self.Q = Q
        return self

    def answers(self, rows: np.ndarray) -> np.ndarray:
        """Its answers (m,) to the queries ``rows``."""
        order = np.random.default_rng().permutation(len(rows))
        self.back = np.argsort(order)
        given = self._ask("answers", self.Q[rows[order]])
        usable = isinstance(given, np.ndarray) and given.shape == rows.shape
        if not usable or given.dtype.kind not in "iu":
            raise InputError("the system gave no class ids")
        return given.astype(np.int64)[self.back]

    def log_probabilities(self, rows: np.ndarray) -> np.ndarray | None:
        """Its log-probabilities (m, C) of the rows answered just before; None if it has none."""
        self.log_p = self._ask("log_probabilities")
        if self.log_p is not None:
            shape = getattr(self.log_p, "shape", None)
            if shape != (len(rows), self.n_classes) or self.log_p.dtype.kind != "f":
                raise InputError("the system gave no log-probabilities")
            self.log_p = self.log_p[self.back]
        return self.log_p

    def whole_log_probabilities(self, rows: np.ndarray) -> np.ndarray | None:
        """The same, which are from all that it holds."""
        return self.log_p

    def _ask(self, method, *arguments):
        try:
            pickle.dump((method, arguments), self.process.stdin)
            self.process.stdin.flush()
            kind = self.process.stdout.read(1)
            size = int.from_bytes(self.process.stdout.read(8))
            if size > MOST:
                raise InputError(f"the system gave {size:,} bytes at once")
            content = self.process.stdout.read(size)
            if not kind or len(content) < size:
                raise BrokenPipeError
            if kind == ERROR:
                last = content.decode(errors="replace").strip().splitlines()[-1:]
                raise InputError(f"the system failed in {method}: {''.join(last)}")
            if kind == NOTHING:
                return None
            return np.load(BytesIO(content), allow_pickle=False)
        except BrokenPipeError as error:
            raise InputError(f"the system's process ended in {method}: {self._said()}") from error
        except (ValueError, OSError, EOFError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"the system gave what is no answer in {method}: {error}") from error

    def _said(self):
        """The last line that the process wrote on stderr."""
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it says nothing"
