"""Two wheels: of the benchmark with its door, and of the memory; each asks for few packages."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest

from ocrrlib.files import ROOT
from tests.slim import closure, installed_bytes, names, only, run

pytestmark = pytest.mark.slow
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MEMORY = tomllib.loads((ROOT / "memory/pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
STREAM = closure(PROJECT["dependencies"])
RUN = closure([*PROJECT["dependencies"], *EXTRAS["run"]])
OTHERS = [requirement for requirement in MEMORY["dependencies"] if requirement != "ocrrlib"]
ASK = closure([*PROJECT["dependencies"], *OTHERS])
COMMAND = closure([*PROJECT["dependencies"], *OTHERS, *MEMORY["optional-dependencies"]["command"]])
BOUND = 260e6  # bytes that a memory may take
EVALUATION = """if True:
    import ocrr
    from ocrrlib import files

    for name in ("substrate", "ncm", "slda"):
        result = ocrr.evaluate(name, seeds=[0], policy="random10", progress=False)
        print(result, len(result.compared()))
    print(ocrr.__file__, files.installed(), files.data_folder())
"""


def wheel(source, out):
    """Build the wheel of a folder; unpack it."""
    program = f"from setuptools.build_meta import build_wheel; build_wheel({str(out)!r})"
    command = [sys.executable, "-W", "ignore", "-c", program]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(out)
    built.unlink()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with what both wheels have, as if they were installed there."""
    source = tmp_path_factory.mktemp("source")
    folder = tmp_path_factory.mktemp("site")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("ocrrlib", "ocrr", "data", "memory"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    wheel(source, folder)
    wheel(source / "memory", folder)
    return folder


@pytest.fixture(scope="module")
def stream(tmp_path_factory, site):
    """Environment variables with which Python finds the wheels, and what ``ocrrlib`` asks for."""
    return only(STREAM, tmp_path_factory.mktemp("stream"), site)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, site):
    """Environment variables with which Python finds the wheels, and the extra ``run``."""
    return only(RUN, tmp_path_factory.mktemp("run"), site)


@pytest.fixture(scope="module")
def ask(tmp_path_factory, site):
    """Environment variables with which Python finds the wheels, and what a memory asks for."""
    return only(ASK, tmp_path_factory.mktemp("ask"), site)


@pytest.fixture(scope="module")
def command(tmp_path_factory, site):
    """Environment variables with which Python finds the wheels, and the extra ``command``."""
    return only(COMMAND, tmp_path_factory.mktemp("command"), site)


def test_a_memory_is_small_and_without_what_the_extras_bring(site):
    extras = {
        requirement for name in EXTRAS.keys() - {"all", "run"} for requirement in EXTRAS[name]
    }
    assert STREAM < ASK and RUN.isdisjoint(names(extras)) and ASK.isdisjoint(names(extras))
    own = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    assert installed_bytes(ASK) + own < BOUND


def test_wheels_have_the_code_and_of_the_data_only_banking77_and_the_comparison(site):
    packaged = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    code = {str(path.relative_to(ROOT)) for path in (ROOT / "ocrrlib").rglob("*.py")}
    code |= {str(path.relative_to(ROOT)) for path in (ROOT / "ocrr").rglob("*.py")}
    package = ROOT / "memory/corrigible"
    code |= {str(path.relative_to(package.parent)) for path in package.rglob("*.py")}
    code |= {f"corrigible/service/{name}" for name in ("desk.html", "desk.json")}
    code |= {f"{name}/py.typed" for name in ("ocrrlib", "ocrr", "corrigible")}
    others = {name for name in packaged - code if ".dist-info/" not in name}
    embeddings = "ocrrlib/data/embeddings/banking77.all-MiniLM-L6-v2.safetensors"
    assert code <= packaged and others == {embeddings, "ocrrlib/data/results/beyond.parquet"}
    published = ROOT / embeddings.removeprefix("ocrrlib/")
    assert (site / embeddings).read_bytes() == published.read_bytes()


def test_the_stream_needs_four_packages(stream, tmp_path):
    program = """if True:
        from ocrrlib.embeddings import load
        from ocrrlib.policies import POLICIES
        from ocrrlib.scenario import make_scenario
        from ocrrlib.stream import run_stream
        from ocrrlib.systems import make

        scenario = make_scenario(load("banking77"), seed=0, thin=20)
        for name in ("substrate", "ledger_lda", "online_linear"):
            last = list(run_stream(make(name), scenario, POLICIES["oracle"]))[-1]
            print(last.corrections > 0)
    """
    assert run(stream, program, tmp_path).split() == 3 * ["True"]


@pytest.mark.parametrize(
    "what",
    ["from ocrr.__main__ import main; main(['systems'])", "import ocrr; ocrr.evaluate"],
)
def test_the_door_says_which_extra_it_needs(stream, tmp_path, what):
    program = f"try: exec({what!r})\nexcept (SystemExit, ImportError) as error: print(error)"
    said = run(stream, program, tmp_path)
    assert "pip install 'ocrrlib[run]'" in said and said.count("\n") == 1


def test_an_installed_core_evaluates_from_an_empty_folder_as_the_checkout_does(
    runs, site, tmp_path
):
    caches = [{"OCRR_CACHE_DIR": str(tmp_path / name)} for name in ("one", "two")]
    (tmp_path / "empty").mkdir()
    *figures, where = run(runs | caches[0], EVALUATION, tmp_path / "empty").splitlines()
    assert where == f"{site / 'ocrr/__init__.py'} True {site / 'ocrrlib/data'}"
    checkout = {"PYTHONPATH": str(ROOT)} | caches[1]
    assert figures == run(checkout, EVALUATION).splitlines()[:-1]
    assert len(figures) == 3 and list((tmp_path / "empty").iterdir()) == []


def test_a_bare_memory_answers_and_its_command_says_which_extra_it_needs(ask, tmp_path):
    program = """if True:
        import sys
        import numpy as np
        from corrigible import CorrectionMemory
        from corrigible.__main__ import main

        memory = CorrectionMemory.open("desk.sqlite")
        memory.learn(np.eye(3)[:2], ["card", "pin"])
        memory.correct(np.eye(3)[2], "transfer", by="ana")
        print(memory.predict(np.eye(3)[2]).label, memory.verify())
        print({"torch", "pandas", "matplotlib"} & {*sys.modules})
        try: main(["--help"])
        except SystemExit as end: print(end)
    """
    answer, loaded, refused = run(ask, program, tmp_path).splitlines()
    assert (answer, loaded) == ("transfer None", "set()")
    assert "pip install 'corrigible[command]'" in refused


def test_the_command_takes_json_lines_and_says_what_other_files_need(command, tmp_path):
    program = """if True:
        import numpy as np
        from corrigible import CorrectionMemory, ledger_encoder
        from corrigible.cli import main

        letters = lambda texts: np.array([[text.count(one) + 1 for one in "ab"] for text in texts])
        CorrectionMemory.open("texts.sqlite", letters).close()
        ledger_encoder.load_encoder = lambda name: letters
        for arguments in (
            "add texts.sqlite a.jsonl",
            "export texts.sqlite b.jsonl",
            "add texts.sqlite a.csv",
            "export texts.sqlite b.csv",
            "export texts.sqlite b.parquet",
        ):
            try: main(arguments.split())
            except SystemExit as end: print(end.code)
    """
    (tmp_path / "a.csv").write_text("text,label\na,b\n")
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": "b"}\n')
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | command,
        capture_output=True,
        text=True,
    )
    said = done.stdout.splitlines()
    assert said == ["1 entries added, 1 in texts.sqlite", *"00222"]
    refused = done.stderr.splitlines()
    assert len(refused) == 3 and all("pip install 'corrigible[files]'" in one for one in refused)


def test_the_core_reads_data_of_ones_own_runs_a_grid_and_has_the_command_line(runs, tmp_path):
    program = """if True:
        import numpy as np
        from ocrr import cli
        from ocrr.data import read as own_data
        from ocrrlib import embeddings, experiments, runs

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
    said = run(runs | {"OCRR_CACHE_DIR": str(tmp_path / "cache")}, program, tmp_path)
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
        ("systems.make('river_logreg')", "ocrrlib[river]"),
        ("systems.make('lora')", "ocrrlib[lora]"),
        ("encoders.load_encoder('all-MiniLM-L6-v2')", "ocrrlib[text]"),
        ("encoders.load_encoder('all-MiniLM-L6-v2-int8')", "ocrrlib[onnx]"),
        ("CorrectionMemory.open('postgresql://host/base#m')", "corrigible[postgres]"),
    ],
)
def test_what_needs_an_extra_says_which(ask, tmp_path, needs, extra):
    program = "from corrigible import CorrectionMemory\nfrom ocrrlib import encoders, systems\n"
    program += f"try: {needs}\nexcept ValueError as error: print(error)"
    said = run(ask, program, tmp_path)
    assert f"pip install '{extra}'" in said and said.count("\n") == 1
    name = extra.partition("[")[2].rstrip("]")
    assert name in EXTRAS | MEMORY["optional-dependencies"]
