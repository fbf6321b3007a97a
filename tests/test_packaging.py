"""The wheel has what a first evaluation needs, and needs the core's few packages only."""

import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest
from slim import closure, installed_bytes, names, only, run

from ocrrlib.files import ROOT

pytestmark = pytest.mark.slow
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = closure(PROJECT["dependencies"])
BOUND = 450e6  # bytes that the core may take
EVALUATION = """if True:
    import ocrr
    from ocrrlib import files

    for name in ("substrate", "ncm", "slda"):
        result = ocrr.evaluate(name, seeds=[0], policy="random10", progress=False)
        print(result, len(result.compared()))
    print(ocrrlib.__file__, files.installed(), files.data_folder())
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with what the wheel has, as if it were installed there."""
    source = tmp_path_factory.mktemp("source")
    out = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(
        ROOT / "ocrrlib", source / "ocrrlib", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(ROOT / "data", source / "data")
    program = f"from setuptools.build_meta import build_wheel; build_wheel({str(out)!r})"
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=source, check=True, capture_output=True
    )
    (wheel,) = out.glob("*.whl")
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def core(tmp_path_factory, site):
    """Environment variables with which Python finds the core's packages and the wheel's content."""
    return only(CORE, tmp_path_factory.mktemp("core"), site)


def test_the_core_is_small_and_without_what_the_extras_bring():
    extras = {
        r
        for name, extra in PROJECT["optional-dependencies"].items()
        if name != "all"
        for r in extra
    }
    assert CORE.isdisjoint(names(extras))
    assert installed_bytes(CORE) + 15e6 < BOUND  # and our own


def test_the_wheel_has_the_code_and_of_the_data_only_banking77_and_the_comparison(site):
    packaged = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    code = {str(path.relative_to(ROOT)) for path in (ROOT / "ocrrlib").rglob("*.py")}
    code |= {"ocrrlib/py.typed", "memory/corrigible/desk.html", "memory/corrigible/desk.json"}
    others = {name for name in packaged - code if ".dist-info/" not in name}
    embeddings = "ocrrlib/data/embeddings/banking77.all-MiniLM-L6-v2.safetensors"
    assert code <= packaged and others == {embeddings, "ocrrlib/data/results/beyond.parquet"}
    assert (site / embeddings).read_bytes() == (
        ROOT / embeddings.removeprefix("ocrrlib/")
    ).read_bytes()


def test_an_installed_core_evaluates_from_an_empty_folder_as_the_checkout_does(
    core, site, tmp_path
):
    caches = [{"OCRR_CACHE_DIR": str(tmp_path / name)} for name in ("one", "two")]
    (tmp_path / "empty").mkdir()
    *figures, where = run(core | caches[0], EVALUATION, tmp_path / "empty").splitlines()
    assert where == f"{site / 'ocrrlib/__init__.py'} True {site / 'ocrrlib/data'}"
    checkout = {"PYTHONPATH": str(ROOT)} | caches[1]
    assert figures == run(checkout, EVALUATION).splitlines()[:-1]
    assert len(figures) == 3 and list((tmp_path / "empty").iterdir()) == []


def test_the_core_reads_data_of_ones_own_runs_a_grid_and_has_the_command_line(core, tmp_path):
    program = """if True:
        import numpy as np
        from ocrr import cli
        from ocrrlib import embeddings, experiments, runs
        from ocrr.data import read as own_data

        with open("tickets.csv", "w") as file:
            file.write("text,label\\n" + "".join(f"number {i},{'ab'[i % 2]}\\n" for i in range(20)))
        def encoder(texts):
            return np.array([[1 + ord(text[-1]), 1] for text in texts])

        data = own_data.read_data("tickets.csv", encoder=encoder)
        np.savez("vectors.npz", X=data.X_train, y=data.y_train)
        grid = [experiments.Run("banking77", "all-MiniLM-L6-v2", "random10", 0, "ncm", thin=20)]
        data = {"banking77": embeddings.load("banking77")}
        assert len(runs.sweep(grid, data, progress=False)) > 1
        cli.main(["run", "static_knn", "--data", "vectors.npz", "--seeds", "0", "--out", "rows"])
    """
    said = run(core | {"OCRR_CACHE_DIR": str(tmp_path / "cache")}, program, tmp_path)
    assert said.startswith("static_knn on vectors") and (tmp_path / "rows/static_knn.csv").exists()
    assert {path.name for path in tmp_path.iterdir()} == {
        "cache",
        "tickets.csv",
        "vectors.npz",
        "rows",
    }


@pytest.mark.parametrize(
    "needs, extra",
    [
        ("systems.make('river_logreg')", "river"),
        ("systems.make('lora')", "lora"),
        ("encoders.load_encoder('all-MiniLM-L6-v2')", "text"),
        ("CorrectionMemory.open('postgresql://host/base#m')", "postgres"),
    ],
)
def test_what_needs_an_extra_says_which(core, tmp_path, needs, extra):
    program = "from ocrrlib import CorrectionMemory, encoders, systems\n"
    program += f"try: {needs}\nexcept ValueError as error: print(error)"
    said = run(core, program, tmp_path)
    assert f"pip install 'ocrrlib[{extra}]'" in said and said.count("\n") == 1
    assert extra in PROJECT["optional-dependencies"]
