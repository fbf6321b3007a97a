"""The notebooks: prose first, short cells, no stored outputs; each runs, and a failure leaves no target."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from types import SimpleNamespace

import nbformat
import papermill
import pytest

from notebooks import build
from notebooks.run import PLAYED, SHOWN, artefacts, execute, notebooks
from notebooks.settings import PUBLISHED, Settings
from notebooks.verify import OLDER, changes, follows
from ocrrlib import results
from ocrrlib.datasets import load_texts
from ocrrlib.embeddings import load
from ocrrlib.errors import InputError
from ocrrlib.experiments import EXPERIMENTS, grid
from ocrrlib.files import ROOT
from ocrrlib.home import cache_folder
from ocrrlib.publish import STUDIES
from ocrrlib.scale import check_memory
from ocrrlib.scale_plan import PARTS
from ocrrlib.scale_plan import cells as comparisons
from ocrrlib.sweep import sweep

NOTEBOOKS = notebooks()


def texts_are_here():
    try:
        load_texts("banking77")
    except InputError:
        return False
    return True


LORA = "LORA=live" if texts_are_here() else "LORA=published"
QUICK = ("PROFILE=quick", "SEEDS=0", LORA, "TIMES=live", "SCALES=10k,map,race_100k", "BEYOND=live", "BEYOND_SEEDS=0,1")


def cells(path, kind):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def test_your_own_keeps_its_cache_in_its_own_folder(monkeypatch):
    monkeypatch.setenv("OCRR_CACHE_DIR", "elsewhere")
    monkeypatch.setattr(sys, "path", list(sys.path))
    names, (path,) = {}, [path for path in NOTEBOOKS if path.stem == "11_your_own"]
    for cell in cells(path, "code")[1:4]:
        exec(cell.source, names)
    assert cache_folder().is_relative_to(names["folder"]) and list(cache_folder().rglob("*.safetensors"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
class TestForm:
    def test_prose_comes_first_and_asks_a_question(self, path):
        first = nbformat.read(path, as_version=4).cells[0]
        assert first.cell_type == "markdown"
        assert "**Question.**" in first.source and "**What to expect.**" in first.source

    def test_the_first_code_cell_holds_the_parameters(self, path):
        assert cells(path, "code")[0].metadata.tags == ["parameters"]

    def test_cells_are_short(self, path):
        assert max(len(cell.source.splitlines()) for cell in cells(path, "code")) <= 15

    def test_there_are_no_stored_outputs(self, path):
        assert not any(cell.outputs or cell.execution_count for cell in cells(path, "code"))

    def test_parameters_default_to_the_published_settings(self, path):
        known = papermill.inspect_notebook(path)
        usual = asdict(Settings())
        for name, about in known.items():
            if name not in ("OUT", "JOBS", *PLAYED.get(path.stem, ())):
                assert about["default"].strip('"') == usual[name]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """All notebooks, run by the build in its quick profile with one seed, into a folder of their own."""
    out = tmp_path_factory.mktemp("quick")
    run = build_command("paper", *QUICK, "JOBS=2", f"OUT={out}")
    assert run.returncode == 0, run.stdout + run.stderr
    return out, run


def build_command(*words, **environment):
    command = [sys.executable, "-m", "notebooks.build", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | environment)


def test_every_notebook_runs_and_writes_results_tables_and_figures(quick):
    out, _ = quick
    assert {path.stem for path in (out / "data/results").iterdir()} == {*EXPERIMENTS, *STUDIES, "beyond_rows"}
    assert {path.suffix for path in (out / "paper/tables").iterdir()} == {".csv", ".md", ".tex"}
    assert {path.suffix for path in (out / "figures").iterdir()} == {".pdf", ".png"}


def test_long_work_shows_runs_done_and_time_left(quick):
    _, run = quick
    assert "/54 [" in run.stderr and "run/s" in run.stderr.replace("s/run", "run/s")


def test_what_is_up_to_date_is_not_run_again_and_what_is_stale_is_named_with_its_reason(quick):
    out, _ = quick
    words = (*QUICK, f"OUT={out}")
    assert "stale" not in build_command("status", *words).stdout
    again = build_command("paper", *words).stdout
    assert again.count("up to date") == len(NOTEBOOKS) and "running" not in again
    (out / "figures/fig2_recovery.png").unlink()
    (out / "paper/tables/table_datasets.csv").write_text("changed by hand")
    status = build_command("status", *words).stdout
    assert "figures/fig2_recovery.png is missing" in status
    assert "paper/tables/table_datasets.csv is not as it was made" in status
    changed = build_command("status", *words, "ENCODER=all-MiniLM-L6-v2").stdout
    assert changed == status
    rerun = build_command("paper", *words)
    assert "02_full_sweep: running" in rerun.stdout and "03_storage_pareto: up to date" in rerun.stdout
    assert "54/54 [00:00<?" in rerun.stderr, "finished runs come from the cache"


def test_changed_parameters_make_a_notebook_stale(quick):
    out, _ = quick
    assert "parameters changed" in build_command("status", *QUICK, "SEEDS=1", f"OUT={out}").stdout


def test_a_parameter_makes_only_those_notebooks_stale_that_declare_it(quick):
    out, _ = quick
    status = build_command("status", *QUICK, "BACKBONE=other", "LORA=published", f"OUT={out}").stdout
    assert [line for line in status.splitlines() if line.endswith(": stale")] == ["04_lora: stale"]


def test_values_that_were_changed_by_hand_make_stale_only_the_notebook_that_they_come_from(quick):
    out, _ = quick
    path = out / "paper/values.json"
    kept = path.read_text()
    entries = json.loads(kept)
    entries["vote.k1_novel"]["text"] = "0.999"
    path.write_text(json.dumps(entries))
    status = build_command("status", *QUICK, f"OUT={out}").stdout
    path.write_text(kept)
    assert [line for line in status.splitlines() if line.endswith(": stale")] == ["05_vote_ablation: stale"]
    assert "paper/values.json is not as it was made" in status


def test_notebooks_write_every_value_that_the_paper_quotes_and_no_other(quick):
    out, _ = quick
    made, published = (json.loads((folder / "paper/values.json").read_text()) for folder in (out, ROOT))
    assert {key: entry["notebook"] for key, entry in made.items()} == {
        key: entry["notebook"] for key, entry in published.items()
    }


def test_notebooks_to_play_with_write_nothing():
    for stem, own in PLAYED.items():
        known = papermill.inspect_notebook(ROOT / f"notebooks/{stem}.ipynb")
        assert set(own) <= set(known) and "OUT" not in known


def small_notebook(folder, name, *sources):
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.cells = [nbformat.v4.new_code_cell("N = 1", metadata={"tags": ["parameters"]})]
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(notebook, folder / name)
    return folder / name


def test_a_failing_cell_is_named_and_leaves_no_target(tmp_path, monkeypatch):
    monkeypatch.setattr("notebooks.run.BUILD", ROOT / "build")
    source = small_notebook(tmp_path, "fails.ipynb", "a = N", "raise RuntimeError('no luck')")
    target = tmp_path / "executed" / "fails.ipynb"
    target.parent.mkdir()
    target.write_text("left over from an earlier run")
    with pytest.raises(InputError, match=r"fails.ipynb, cell 3: RuntimeError: no luck"):
        execute(source, {"N": 2}, target)
    assert not any(target.parent.iterdir())


def test_an_unknown_notebook_parameter_is_an_error_before_anything_runs(tmp_path):
    source = small_notebook(tmp_path, "fine.ipynb", "N")
    with pytest.raises(InputError, match="unknown parameter of fine.ipynb 'M'"):
        execute(source, {"M": 2}, tmp_path / "target.ipynb")
    assert not (tmp_path / "target.ipynb").exists()


def test_notebooks_can_run_at_the_same_time_and_leave_nothing_beside_their_targets(tmp_path):
    before = set(ROOT.iterdir())
    wait = "import time; time.sleep(1)"
    sources = [small_notebook(tmp_path, f"{n}.ipynb", wait, f"a = {n}", f"assert a == {n}") for n in (1, 2)]
    targets = [tmp_path / "executed" / source.name for source in sources]
    program = (
        "import sys; from pathlib import Path; from notebooks.run import execute; "
        "execute(Path(sys.argv[1]), {}, Path(sys.argv[2]))"
    )
    runs = [subprocess.Popen([sys.executable, "-c", program, *pair], cwd=ROOT) for pair in zip(sources, targets)]
    assert [run.wait() for run in runs] == [0, 0]
    assert sorted(targets[0].parent.iterdir()) == targets
    assert set(ROOT.iterdir()) <= before | {ROOT / "build"}


@pytest.mark.parametrize(
    "word, said",
    [
        ("PROFILE=fast", "unknown profile 'fast'; there are: paper, quick"),
        ("SEEDS=0,x", "not a list of integers"),
        ("SEEDS=-1", "out of range"),
        ("SEEDS=0,0", "different integers"),
        ("JOBS=0", "JOBS=0 is out of range"),
        ("JOBS=many", "out of range"),
        ("ENCODER=no-such-encoder", "cannot load encoder 'no-such-encoder'"),
        ("LORA=fresh", "unknown value of LORA 'fresh'; there are: published, live"),
        ("LORA=live", "OCRR_DATA_DIR must hold banking77/train.csv"),
        ("TIMES=new", "unknown value of TIMES 'new'; there are: published, live"),
        ("BEYOND=new", "unknown value of BEYOND 'new'; there are: published, live"),
        ("TUNE=new", "unknown value of TUNE 'new'; there are: published, live"),
        ("SCALES=5k", "unknown part of the scale experiment '5k'"),
        ("DASK=nowhere", "no Dask scheduler answers at nowhere"),
        ("SEED=1", "unknown parameter 'SEED' (did you mean 'SEEDS'?)"),
    ],
)
def test_a_bad_value_is_refused_in_one_line_before_anything_runs(word, said, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    if "ENCODER" in word or "LORA=live" in word:
        monkeypatch.setenv("OCRR_DATA_DIR", "unused")
        said = "OCRR_DATA_DIR must hold banking77/train.csv"  # its texts are looked for first
    monkeypatch.setattr(sys, "argv", ["build.py", "paper", word])
    monkeypatch.setattr(build, "run_stale", None)
    with pytest.raises(SystemExit) as stopped:
        build.main()
    assert said in stopped.value.code and "\n" not in stopped.value.code
    assert capsys.readouterr() == ("", "")


def test_from_the_command_line_a_bad_value_is_one_line_and_a_failure():
    run = build_command("paper", "PROFILE=fast")
    assert run.returncode == 1 and run.stdout == ""
    assert run.stderr == "error: unknown profile 'fast'; there are: paper, quick\n"


def test_a_scale_that_does_not_fit_is_refused_before_anything_runs(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=10**9))
        with pytest.raises(InputError, match="10,000,000 entries need"):
            Settings.parse(["SCALES=10k,10M"])
        Settings.parse(["SCALES=10M", "PROFILE=quick"])
    check_memory(0)


@pytest.mark.parametrize(
    "command, which, live",
    [
        ("lora", "04_*", {"LORA": "live"}),
        ("scale", "06_*", {"TIMES": "live"}),
        ("compute", "07_*", {"TIMES": "live"}),
        ("beyond", "09_*|10_*", {"BEYOND": "live", "TUNE": "published"}),
        ("tune", "09_*", {"TUNE": "live", "BEYOND": "published"}),
    ],
)
def test_what_is_shown_as_published_has_a_command_that_runs_it_anew(command, which, live, monkeypatch):
    called = {}
    monkeypatch.setattr(build, "paper", lambda settings, which: called.update(settings=settings, which=which))
    monkeypatch.setattr("notebooks.settings.load_texts", lambda _: None)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=10**12))
    monkeypatch.setattr(sys, "argv", ["build.py", command, "SEEDS=4"])
    build.main()
    assert called["which"] == which
    for pattern in which.split("|"):
        assert len([path for path in NOTEBOOKS if path.match(f"{pattern}.ipynb")]) == 1
    assert live.items() <= asdict(called["settings"]).items() and called["settings"].SEEDS == "4"
    assert called["settings"].SCALES == (",".join(PARTS) if command == "scale" else Settings().SCALES)
    monkeypatch.setattr(sys, "argv", ["build.py", command, "SCALES=1M"])
    build.main()
    assert called["settings"].SCALES == "1M"


@pytest.mark.parametrize("target", ["paper", "lora", "scale", "compute", "beyond", "tune", "status", "help"])
def test_make_passes_its_parameters_on(target):
    make = shutil.which("make")
    run = subprocess.run([make, "--dry-run", target, "SEEDS=4"], cwd=ROOT, capture_output=True, text=True)
    assert ("SEEDS=4" in run.stdout) == (target != "help")


def test_published_results_follow_from_the_code_that_is_checked_out():
    for name in (*EXPERIMENTS, *STUDIES):
        path = ROOT / f"data/results/{name}.parquet"
        stale = follows(path) != []
        assert stale == (name in OLDER), f"{path.name}: make it anew and commit it, or it is no longer older"


def test_every_published_artefact_says_what_it_came_from_and_follows_from_it():
    manifest = json.loads((ROOT / "paper/provenance.json").read_text())
    made = {name for entry in manifest.values() for name in entry["made"]}
    listed = {path.relative_to(ROOT).as_posix() for path in artefacts(ROOT)}
    shown = {f"data/results/{name}.parquet" for names in PUBLISHED.values() for name in names}
    assert listed - made == shown, "what is shown as published says in itself what it came from"
    assert changes(Settings()) == {}, "`make paper` and commit what it writes"


def test_what_an_artefact_came_from_names_what_has_changed_since(monkeypatch, tmp_path):
    manifest = json.loads((ROOT / "paper/provenance.json").read_text())
    part = manifest["05_vote_ablation"]
    part["code"]["ocrrlib.report.figures"] = part["lock"] = "other"
    part["parameters"]["SEEDS"] = "0"
    part["made"]["figures/vote_ablation.png"] = "other"
    (tmp_path / "provenance.json").write_text(json.dumps(manifest))
    monkeypatch.setattr("notebooks.verify.MANIFEST", tmp_path / "provenance.json")
    ((name, reasons),) = changes(Settings()).items()
    assert name == "05_vote_ablation" and reasons == [
        "code: ocrrlib.report.figures differs",
        "lock differs",
        "parameters: SEEDS differs",
        "figures/vote_ablation.png is not as it was made",
    ]


def test_published_comparisons_are_of_the_plan_and_hold_no_times():
    names = ["n", "classes", "noise", "seed", "queries", "ef", "threads", "in_turn"]
    planned = {tuple(asdict(cell)[name] for name in names) for cell in comparisons(",".join(PARTS))}
    for study in ("scale", "scale_costs"):
        frame, _ = results.read(ROOT / f"data/results/{study}.parquet")
        rows = list(frame[names].itertuples(index=False, name=None))
        assert len(set(rows)) == len(rows) and set(rows) == planned
    race, _ = results.read(ROOT / "data/results/race.parquet")
    assert set(race["n"]) == {100_000, 1_000_000} and race.groupby("n")["index"].nunique().tolist() == [6, 6]
    found, _ = results.read(ROOT / "data/results/scale.parquet")
    assert not {"build_s", "hnsw_ms", "bytes", "resident"} & set(found)


def test_published_results_have_all_runs_and_no_time_or_machine_in_them():
    columns = "dataset encoder policy seed system step corrections novel_acc original_acc stored_entries storage_bytes"
    for name in EXPERIMENTS:
        frame, _ = results.read(ROOT / f"data/results/{name}.parquet")
        assert list(frame) == columns.split()
        assert len(frame.drop_duplicates(list(frame)[:5])) == len(grid(name))


def test_the_headline_table_of_the_readme_is_the_published_one():
    table = (ROOT / "paper/tables/table1_headline.md").read_text().split("\n\n")[0]
    assert table in (ROOT / "README.md").read_text()


def test_numbers_in_the_readme_are_the_published_values():
    entries = json.loads((ROOT / "paper/values.json").read_text())
    shown = SHOWN.findall((ROOT / "README.md").read_text())
    assert len(shown) >= 10
    for start, key, _ in shown:
        assert f"{start}{entries[key]['text']}<!---->" in (ROOT / "README.md").read_text()


def test_readme_shows_a_published_figure():
    assert "(figures/fig1_storage_pareto.png)" in (ROOT / "README.md").read_text()
    assert (ROOT / "figures/fig1_storage_pareto.png").stat().st_size > 0


SAMPLE = [
    ("full_sweep", "banking77", "oracle", 0, "river_logreg"),
    ("full_sweep", "clinc150", "random10", 2, "substrate"),
    ("full_sweep", "clinc150", "random50", 1, "knn_lm"),
    ("full_sweep", "banking77", "random50", 2, "a_gem"),
    ("storage_pareto", "banking77", "oracle", 1, "bounded_reservoir_1000"),
    ("storage_pareto", "banking77", "oracle", 2, "bounded_fifo_500"),
    ("vote_ablation", "banking77", "oracle", 0, "substrate_sumsim"),
]


def test_published_rows_come_out_again_exactly():
    for experiment, *run in SAMPLE:
        names = ["dataset", "policy", "seed", "system"]
        (again,) = [r for r in grid(experiment) if [getattr(r, name) for name in names] == run]
        frame, _ = sweep([again], {again.dataset: load(again.dataset)}, cache=None, progress=False)
        published, _ = results.read(ROOT / f"data/results/{experiment}.parquet")
        rows = published[(published[names] == run).all(axis=1)].reset_index(drop=True)
        assert frame.equals(rows), again


def test_published_rows_come_out_with_the_arithmetic_of_an_older_processor():
    program = """if True:
        from ocrrlib import results
        from ocrrlib.embeddings import load
        from ocrrlib.experiments import grid
        from ocrrlib.sweep import sweep

        systems = ("static_linear", "online_linear", "ewc", "a_gem", "lwf", "knn_lm", "river_logreg", "substrate")
        runs = [r for r in grid("full_sweep", seeds="0") if r.system in systems and r.dataset == "banking77"]
        frame, _ = sweep(runs, {"banking77": load("banking77")}, cache=None, progress=False)
        published, _ = results.read("data/results/full_sweep.parquet")
        same = published.merge(frame, how="inner")
        assert len(same) == len(frame) > 0, f"{len(frame) - len(same)} of {len(frame)} rows differ"
    """
    # No AVX-512 in matrix products and in NumPy's own loops; on other processors these settings change nothing.
    older = {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_ICL"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=ROOT,
        env=os.environ | older,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
