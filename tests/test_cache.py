"""Finished runs are found again exactly when nothing that decides them has changed, and never damaged."""

import importlib.metadata
import json
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ocrrlib
from ocrrlib import provenance
from ocrrlib.cache import RunCache
from ocrrlib.experiments import Run
from ocrrlib.provenance import digest
from ocrrlib.sweep import depends_on
from ocrrlib.systems import SYSTEMS

RUN = Run("banking77", "all-MiniLM-L6-v2", "oracle", 0, "substrate")
KEY = "ab" + 62 * "0"
FINISHED = {"checkpoints": [{"step": 0, "novel_acc": 1 / 3}, {"step": 50, "novel_acc": 0.625}], "seconds": 0.123}


def key(run=RUN, fingerprint="00ff"):
    return digest(depends_on(run, fingerprint))


# --- what a key depends on


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A copy of the library that keys are made from: ``edit(module, add=...)`` or ``edit(module, old, new)``."""
    folder = tmp_path / "ocrrlib"
    shutil.copytree(Path(ocrrlib.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(provenance, "ROOT", tmp_path)

    def forget():
        provenance._parsed.cache_clear()
        provenance.closure.cache_clear()

    def edit(module, old=None, new=None, add=""):
        text = (folder / f"{module}.py").read_text()
        assert old is None or old in text
        (folder / f"{module}.py").write_text((text if old is None else text.replace(old, new, 1)) + add)
        forget()

    forget()
    yield edit
    forget()


DECIDES = ["systems/substrate", "systems/base", "ledger", "search", "shared", "stream", "scenario", "policies"]
DOES_NOT = ["systems/river_logreg", "systems/heads", "systems/__init__", "sweep", "metrics", "datasets", "__init__"]


def test_keys_are_the_same_for_a_copy_of_the_code(request):
    before = key()
    request.getfixturevalue("source")
    assert key() == before


@pytest.mark.parametrize("module", DECIDES)
def test_the_key_changes_with_code_that_the_run_uses(source, module):
    before = key()
    source(module, add="\nEXTRA = 1\n")
    assert key() != before


@pytest.mark.parametrize("module", DECIDES)
def test_the_key_stays_when_comments_and_docstrings_change(source, module):
    before = key()
    source(module, '"""', '"""Other words. ', add="\n# a remark\n")
    assert key() == before


@pytest.mark.parametrize("module", DOES_NOT)
def test_the_key_stays_when_code_that_the_run_does_not_use_changes(source, module):
    before = key()
    source(module, add="\nEXTRA = 1\n")
    assert key() == before


def test_an_edit_of_one_system_leaves_the_keys_of_the_others_alone(source):
    runs = {name: replace(RUN, system=name) for name in ("substrate", "static_knn", "ewc", "a_gem", "river_logreg")}
    before = {name: key(run) for name, run in runs.items()}
    source("systems/ewc", "pull = self.lr", "pull = 2 * self.lr")
    assert {name for name, run in runs.items() if key(run) != before[name]} == {"ewc"}
    source("systems/heads", "steps = 0", "steps = 1")
    assert {name for name, run in runs.items() if key(run) != before[name]} == {"ewc", "a_gem"}


@pytest.mark.parametrize(
    "change",
    [
        dict(dataset="clinc150"),
        dict(encoder="BAAI/bge-large-en-v1.5"),
        dict(policy="random50"),
        dict(seed=1),
        dict(system="substrate_k1"),
        dict(draw="continued"),
        dict(cap=None),
        dict(thin=2),
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_key_changes_with_every_field_of_a_run(change):
    assert key(replace(RUN, **change)) != key()


def test_the_key_changes_with_the_data():
    assert key(fingerprint="00fe") != key(fingerprint="00ff")


def test_the_fingerprint_in_the_key_changes_with_one_label_or_one_bit_of_the_data(tiny):
    y, X = tiny.y_test.copy(), tiny.X_train.copy()
    y[-1] = (y[-1] + 1) % len(tiny.classes)
    X[3, 5] = np.nextafter(X[3, 5], 2, dtype=np.float32)
    others = [replace(tiny, y_test=y), replace(tiny, X_train=X), replace(tiny, encoder="another")]
    assert len({data.fingerprint for data in (tiny, *others)}) == 4
    assert replace(tiny, y_test=tiny.y_test.copy()).fingerprint == tiny.fingerprint


def test_the_key_changes_with_a_systems_hyperparameters_and_class(monkeypatch):
    before, entry = key(), SYSTEMS["substrate"]
    for other in (replace(entry, params=entry.params | {"margin": 0.06}), replace(entry, cls="Neighbours")):
        monkeypatch.setitem(SYSTEMS, "substrate", other)
        assert key() != before
    monkeypatch.setitem(SYSTEMS, "substrate", entry)
    monkeypatch.setitem(SYSTEMS, "ewc", replace(SYSTEMS["ewc"], params={}))
    assert key() == before


@pytest.mark.parametrize(
    "library, changed", [("numpy", {"substrate", "river_logreg"}), ("river", {"river_logreg"}), ("pandas", set())]
)
def test_the_key_changes_with_the_versions_of_the_libraries_that_the_run_uses(source, monkeypatch, library, changed):
    runs = {name: replace(RUN, system=name) for name in ("substrate", "river_logreg")}
    before = {name: key(run) for name, run in runs.items()}
    installed = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0" if name == library else installed(name))
    provenance.closure.cache_clear()
    assert {name for name, run in runs.items() if key(run) != before[name]} == changed


# --- what is kept


@pytest.fixture
def cache(tmp_path):
    kept = RunCache(tmp_path / "runs")
    kept.save(KEY, FINISHED)
    return kept


def entry_of(cache):
    (path,) = (path for path in cache.folder.rglob("*") if path.is_file())
    return path


def test_a_kept_run_is_found_again_as_it_was(cache):
    again = RunCache(str(cache.folder))
    assert KEY in again and again.load(KEY) == FINISHED


def test_a_run_that_was_not_kept_is_not_found(cache):
    other = "ac" + KEY[2:]
    assert other not in cache and cache.load(other) is None


def test_no_folder_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nowhere = RunCache(None)
    nowhere.save(KEY, FINISHED)
    assert KEY not in nowhere and nowhere.load(KEY) is None
    assert list(tmp_path.iterdir()) == []


def damaged(cache):
    with pytest.warns(UserWarning, match="damaged: its run is repeated") as caught:
        assert cache.load(KEY) is None
    assert str(entry_of(cache)) in str(caught[0].message)


@pytest.mark.parametrize("length", [0, 1, 10, 100, -2, -1])
def test_a_truncated_entry_is_reported_and_not_used(cache, length):
    path = entry_of(cache)
    path.write_bytes(path.read_bytes()[:length])
    damaged(cache)


@pytest.mark.parametrize(
    "text", ["null", "[]", "{}", '"x"', '{"sha256": "00"}', '{"run": {}, "sha256": null}', "\udcff"]
)
def test_an_entry_of_another_form_is_reported_and_not_used(cache, text):
    entry_of(cache).write_bytes(text.encode("utf-8", "surrogateescape"))
    damaged(cache)


def test_a_flipped_digit_is_reported_and_not_used(cache):
    path = entry_of(cache)
    path.write_text(path.read_text().replace("0.625", "0.635"))
    damaged(cache)


def test_no_flipped_bit_ever_gives_another_run(cache):
    path = entry_of(cache)
    whole, refused = path.read_bytes(), 0
    for place in range(len(whole)):
        for bit in (0, 2, 5, 7):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = cache.load(KEY)
            assert found == FINISHED if found is not None else caught
            refused += found is None
    assert refused > 3 * len(whole)


def test_saving_again_mends_a_damaged_entry(cache):
    entry_of(cache).write_text("{")
    cache.save(KEY, FINISHED)
    assert cache.load(KEY) == FINISHED
    assert json.loads(entry_of(cache).read_text())["run"] == FINISHED
