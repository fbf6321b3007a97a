"""The build: prose first and short cells; a quick build makes its targets; failures are named."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest
from nbclient import NotebookClient
from nbclient.output_widget import OutputWidget

from notebooks.run import check, execute, main
from ocrrlib.files import ROOT, InputError
from paper.makefile import Makefile

NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
FOLDED = ("parameters", "hide-input", "hide-cell")  # tags that name nothing
TURN = "## Your turn"
# Their outcome follows from settings; others show what is published, and run by hand as they are.
SET = ("05_vote_ablation", "06_hnsw_scale", "08_claims", "15_headline")
QUICK = ("PROFILE=quick", "SEEDS=0", "BEYOND_SEEDS=0,1", "JOBS=2")


def make(*words):
    """Run make in the checkout with this environment."""
    command = ["make", "--no-print-directory", *words]
    settings = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=settings)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_prose_first_with_short_cells_without_outputs_and_usual_parameters(path):
    cells = nbformat.read(path, as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert cells[0].cell_type == "markdown" and code[0].metadata.tags == ["parameters"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert all(len(cell.source.splitlines()) <= 20 for cell in code)
    defaults = dict(re.findall(r"^d\.(\w+) := ([^$\n]+)$", MAKEFILE, re.MULTILINE))
    for name, about in papermill.inspect_notebook(path).items():
        assert name not in defaults or about["default"].strip('"') == defaults[name], name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_ends_with_what_came_out_and_a_turn_and_folds_what_writes_tables(path):
    cells = nbformat.read(path, as_version=4).cells
    heads = {
        cell.source.partition("\n")[0]: place
        for place, cell in enumerate(cells)
        if cell.cell_type == "markdown"
    }
    after = [head for head in heads if heads[head] > heads["## What came out"]]
    assert after in ([], [TURN])
    assert cells[heads[after[0]] - 1 if after else -1].source.startswith('Markdown(f"""')
    folded = [cell for cell in cells if "hide-cell" in cell.metadata.get("tags", [])]
    assert all(cell.source.endswith('.write(out / "paper/tables");') for cell in folded)


WITH_WIDGETS = [path for path in NOTEBOOKS if "widgets" in path.read_text(encoding="utf-8")]


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_WIDGETS, ids=lambda path: path.stem)
def test_a_notebook_with_widgets_lets_its_client_tell_the_kernel_nothing(path, monkeypatch):
    """A message between request and reply can make the client miss the reply, and wait forever."""
    told = []
    monkeypatch.setattr(OutputWidget, "send", lambda widget, data: told.append(data))
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(ROOT)}}
    NotebookClient(notebook, kernel_name="python3", resources=where).execute()
    assert notebook.metadata.widgets and not told


@pytest.mark.slow
@pytest.mark.parametrize(
    "stem, given", [("11_your_own", {"SEEDS": 0}), ("12_explore", {"SYSTEMS": ["ncm"]})]
)
def test_a_list_of_one_may_be_given_as_papermill_reads_it(stem, given, tmp_path):
    how = dict(cwd=ROOT, kernel_name="python3", progress_bar=False)
    papermill.execute_notebook(
        ROOT / f"notebooks/{stem}.ipynb", tmp_path / "made.ipynb", given, **how
    )


def test_tags_name_the_figures_and_tables_that_a_notebook_makes():
    made = Makefile().made
    for path in NOTEBOOKS:
        files = [Path(file) for file in made.get(path.stem, [])]
        names = {file.stem for file in files if file.parts[-2] in ("figures", "tables")}
        cells = nbformat.read(path, as_version=4).cells
        tags = [tag for cell in cells for tag in cell.metadata.get("tags", [])]
        assert sorted(tag for tag in tags if tag not in FOLDED) == sorted(names), path.stem


def test_a_notebook_that_makes_results_or_tables_ends_with_how_they_differ_from_the_published():
    for stem, files in Makefile().made.items():
        results = [Path(file).stem for file in files if file.endswith(".parquet")]
        tables = [Path(file).stem for file in files if file.endswith(".csv")]
        cells = nbformat.read(ROOT / f"notebooks/{stem}.ipynb", as_version=4).cells
        text = "\n".join(cell.source for cell in cells)
        (called,) = re.findall(r"(?s)\{against_published\(out, (.*?)\)\}", text)
        assert sorted(re.findall(r"\w+", called)) == sorted(results or tables), stem


def test_a_notebook_is_made_again_when_a_published_result_that_it_shows_is_newer():
    database = make("-pnq", "paper").stdout
    for path in NOTEBOOKS:
        shown = re.findall(r'published\(\\?"(\w+)\\?"', path.read_text(encoding="utf-8"))
        rule = re.search(rf"^build/notebooks/{path.stem}\.ipynb: (.*)$", database, re.MULTILINE)
        needed = {f"data/results/{name}.parquet" for name in shown}
        assert needed <= {*rule[1].split()}, path.stem


def test_every_published_figure_and_table_is_in_the_rule_of_a_notebook():
    files = [*ROOT.glob("figures/*.pdf"), *ROOT.glob("paper/tables/*.tex")]
    made = {name for names in Makefile().made.values() for name in names}
    assert {str(path.relative_to(ROOT)) for path in files} <= made


@pytest.mark.slow
def test_a_quick_build_makes_what_is_asked_for_then_the_rest_and_nothing_again(tmp_path):
    settings = (*QUICK, f"O={tmp_path}/")
    figure = f"{tmp_path}/figures/fig1_storage_pareto.pdf"
    done = make(*settings, figure)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "/18 [" in done.stderr  # a bar for long work
    needed = {"02_full_sweep", "03_storage_pareto"}
    assert {path.stem for path in tmp_path.glob("notebooks/*.ipynb")} == needed
    found = {path.stem for path in tmp_path.glob("data/results/*")}
    assert found == {"full_sweep", "storage_pareto"}
    rest = [made for stem, made in Makefile().made.items() if stem in SET]
    done = make("-j2", *settings, *(f"{tmp_path}/{made[0]}" for made in rest))
    assert done.returncode == 0, done.stdout + done.stderr
    assert all((tmp_path / name).exists() for made in rest for name in made)
    assert "03_storage_pareto" not in make(*settings, "-n", figure).stdout
    (tmp_path / "figures/fig2_recovery.png").unlink()
    again = make(*settings, "-n", f"{tmp_path}/figures/fig2_recovery.png").stdout
    assert "02_full_sweep" in again and "03_storage_pareto" not in again


def small_notebook(path, *cells):
    """Write a notebook with a parameter N and these cells."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    notebook.cells = [nbformat.v4.new_code_cell("N = 1", metadata={"tags": ["parameters"]})]
    notebook.cells += map(nbformat.v4.new_code_cell, cells)
    nbformat.write(notebook, path)


def test_a_failing_cell_is_named_and_leaves_no_target(tmp_path):
    small_notebook(tmp_path / "small.ipynb", "assert N == '2'", "raise RuntimeError('no luck')")
    target = tmp_path / "executed/small.ipynb"
    target.parent.mkdir()
    target.write_text("of an earlier run")
    with pytest.raises(InputError, match=r"small.ipynb, cell 3: RuntimeError: no luck"):
        execute(tmp_path / "small.ipynb", {"N": "2", "M": "3"}, target)
    assert not any(target.parent.iterdir())


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))  # files end there
from notebooks.run import main
main()
"""


@pytest.mark.parametrize(
    "cell, said",
    [
        ("print('x' * 2_000_000)", "error: small.ipynb .*File too large.*make room"),
        ("import os; os.kill(os.getpid(), 9)", "error: small.ipynb: the kernel was killed"),
    ],
)
def test_a_full_disk_or_a_killed_kernel_is_one_line_and_leaves_no_target(tmp_path, cell, said):
    small_notebook(tmp_path / "small.ipynb", cell)
    done = subprocess.run(
        [sys.executable, "-c", FULL, "small.ipynb", "executed/small.ipynb"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert re.search(said, done.stderr.splitlines()[-1])
    assert not any((tmp_path / "executed").iterdir())


@pytest.mark.parametrize("name", ["small.ipynb", "other.ipynb", "elsewhere/notes.md", "link.ipynb"])
def test_a_target_beside_sources_or_of_another_kind_is_refused_and_stays(tmp_path, name):
    small_notebook(tmp_path / "small.ipynb", "N")
    (tmp_path / "link.ipynb").symlink_to(tmp_path / "small.ipynb")
    target = tmp_path / name
    target.parent.mkdir(exist_ok=True)
    if not target.exists():
        target.write_text("kept")
    before = target.read_text()
    with pytest.raises(InputError, match="cannot be a target"):
        execute(tmp_path / "small.ipynb", {}, target)
    assert target.read_text() == before


@pytest.mark.parametrize(
    "words",
    [
        "",
        "small.ipynb",
        "small.ipynb made/small.ipynb more",
        "none.ipynb made/none.ipynb",
        "broken.ipynb made/broken.ipynb",
        "JOBS=x jobs.ipynb made/jobs.ipynb",
        "SEED=1 small.ipynb made/small.ipynb",
        "embed",
        "embed ENCODER=",
        "embed SEEDS=0",
    ],
)
def test_the_command_refuses_what_it_cannot_do_in_one_line(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    small_notebook(tmp_path / "small.ipynb", "N")
    (tmp_path / "broken.ipynb").write_text("{}")
    jobs = (tmp_path / "small.ipynb").read_text().replace("N = 1", "JOBS = 1")
    (tmp_path / "jobs.ipynb").write_text(jobs)
    monkeypatch.setattr(sys, "argv", ["run", *words.split()])
    with pytest.raises(SystemExit, match="^error: [^\n]+$") as ended:
        main()
    assert "make room" not in str(ended.value)


@pytest.mark.parametrize(
    "word, said",
    [
        ("PROFILE=fast", "unknown profile 'fast'"),
        ("SEEDS=0,x", "integers"),
        ("JOBS=0", "JOBS=0 is out of range"),
        ("DASK=nowhere", "no Dask scheduler answers at nowhere"),
        ("SEDS=1", "unknown parameter 'SEDS' .*'SEEDS'"),
        ("SEED=5", "unknown parameter 'SEED' .*'SEEDS'"),
        ("SAMPLE=3", "unknown parameter 'SAMPLE'"),
        ("OUT=elsewhere", "unknown parameter 'OUT'"),
        ("BACKBONE=nosuch", "cannot load 'nosuch'"),
        ("O=", "published"),
        ("O=.", "published"),
        ("O=build/", "published"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_refused_in_one_line(word, said):
    with pytest.raises(InputError, match=said) as caught:
        check(dict([word.split("=", 1)]))
    assert "\n" not in str(caught.value)


def test_other_settings_write_into_a_folder_of_their_own():
    folder = "build/variants/SEEDS-0_PROFILE-quick/notebooks"
    assert folder in make("-n", "SEEDS=0", "PROFILE=quick", "notebooks").stdout
    assert "build/variants" not in make("-n", "JOBS=1", "notebooks").stdout


@pytest.mark.parametrize("goal", ["embed", "arxiv", "paper/ocrr.pdf", "paper/supplement.pdf"])
def test_a_goal_refuses_parameters_of_others(goal):
    check({"SEEDS": "0"}, ["paper", "lora", "figures/fig2_recovery.pdf"])
    with pytest.raises(InputError, match="unknown parameter 'SEEDS'"):
        check({"SEEDS": "0"}, [goal])


def test_values_with_blanks_and_commas_reach_the_notebooks():
    said = make("-n", "SEEDS=0, 1", "ENCODER=/my texts", "notebooks").stdout
    settings = next(line for line in said.splitlines() if "02_full_sweep" in line)
    assert {"SEEDS=0, 1", "ENCODER=/my texts"} <= set(shlex.split(settings))
    figure = "build/variants/SEEDS-0,1/figures/fig2_recovery.pdf"
    assert "02_full_sweep" in make("-n", "SEEDS=0,1", figure).stdout


def test_a_folder_may_be_given_without_a_slash(tmp_path):
    said = make("-n", f"O={tmp_path}", "notebooks").stdout
    assert f" {tmp_path}/notebooks/00_tour.ipynb" in said and f"OUT='{tmp_path}/'" in said


def test_verify_rebuilds_with_its_own_parameters_alone():
    said = make("-n", "verify", "SYSTEMS=slda", "SEED=3", "JOBS=1").stdout
    asked = [line for line in said.splitlines() if "notebooks.run check" in line]
    assert len(asked) == 1 and set(asked[0].split()[-3:]) == {
        "notebooks",
        "O=build/verify/",
        "JOBS=1",
    }
