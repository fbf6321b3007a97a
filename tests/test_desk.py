"""The correction desk without a browser, a published run replayed, the benchmark from scratch."""

import json

import numpy as np
import pytest

from notebooks.desk import DAMAGES, KNOWN, NEW, Desk, DeskView, published_desk
from ocrrlib.experiments import COMPARED
from ocrrlib.files import ROOT, InputError
from ocrrlib.policies import POLICIES
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS, make
from studies.requests import requests


def directions(texts):
    """An encoder for tests: the letters of a text decide."""
    return np.array([[1 + text.count(chr(97 + at)) for at in range(16)] for text in texts], float)


@pytest.fixture
def desk(tiny):
    return Desk(tiny, ("substrate", "ncm"), encoder=directions)


def test_a_correction_is_learnt_and_appended(desk):
    first = desk.ask(desk.draw()).answers
    size = len(desk.memory)
    desk.correct(desk.truth)
    desk.again()
    assert desk.truth in desk.new and len(desk.memory) == size + 1
    assert (first["right"] == "✗").all() and (desk.answers["right"] == "✓").all()
    assert desk.answers["before"].tolist() == first["answer"].tolist()
    best = desk.near["substrate"].iloc[0]
    assert (best["entry"], best["class"], best["kind"]) == (size, desk.truth, NEW)
    assert best["cosine"] == pytest.approx(1) and "<img " in desk._repr_html_()


def test_a_typed_query_is_encoded_and_has_no_known_class(desk):
    desk.ask("  card gone ")
    assert desk.title == "card gone" and desk.truth is None and "right" not in desk.answers
    desk.correct("class 03")
    assert desk.memory.entry(len(desk.memory) - 1)["text"] == "card gone"
    assert set(desk.ask("card gone").answers["answer"]) == {"class 03"}


def test_a_written_request_needs_no_encoder_and_has_a_class(monkeypatch):
    monkeypatch.setattr("notebooks.desk.load_encoder", None)
    desk = published_desk(systems=["substrate"])
    texts, X = requests()
    assert sorted(desk.written) == sorted(texts["text"])
    desk.ask(texts["text"][10])
    assert desk.truth == texts["label"][10] == "age_limit" in desk.new
    assert desk.answers["answer"].item() == "getting_spare_card"  # as the README says
    desk.correct(desk.truth)
    assert desk.again().answers["right"].item() == "✓"


def test_how_sure_a_system_is_is_the_memorys_confidence_or_a_share_of_votes(desk):
    answers = desk.ask("zebra crossing").answers
    confidence = desk.memory.predict(directions(["zebra crossing"])[0]).confidence
    assert answers["confidence"].tolist() == [f"{confidence:.2f}", ""]
    assert answers["share of votes"].tolist()[0] == "" != answers["share of votes"].tolist()[1]
    assert "probability" not in answers


def test_rows_are_drawn_by_class_and_by_kind(desk, tiny):
    assert {tiny.y_test[desk.draw("class 04")] for _ in range(6)} == {4}
    assert tiny.classes[tiny.y_test[desk.draw(KNOWN)]] not in desk.new


def test_the_stream_is_the_benchmarks_and_every_correction_is_measured(desk):
    n = len(desk.scenario.y_stream)
    made = desk.stream(20) + desk.stream(10 * n)
    (end,) = list(run_stream(make("substrate"), desk.scenario, POLICIES["oracle"], every=n))[1:]
    assert made == end.corrections == len(desk.corrected) == len(desk.history) - 1
    assert [desk.history[-1][kind]["substrate"] for kind in (NEW, KNOWN)] == [
        end.novel_acc,
        end.original_acc,
    ]
    with pytest.raises(InputError, match="the stream is over"):
        desk.stream()


def test_another_system_gets_query_and_corrections_and_a_restart_forgets_them(desk, tiny):
    start = [*desk.history]
    other = Desk(tiny, ("substrate", "slda"), encoder=directions)
    for one in (desk, other):
        one.stream(10)
        one.ask(0)
    desk.compare(("substrate", "slda"))
    assert (
        desk.history == other.history and desk.streamed == 10 and desk.answers.equals(other.answers)
    )
    desk.compare(("substrate", "ncm"))
    desk.restart()
    assert (
        desk.history == start
        and desk.corrected == []
        and desk.streamed == 0
        and desk.answers is None
    )


@pytest.mark.parametrize(
    "system", {SYSTEMS[name].cls: name for name in COMPARED if name != "klda"}.values()
)
def test_every_system_can_sit_at_the_desk(tiny, system):
    desk = Desk(tiny, (system,)).ask(0)
    desk.correct(desk.truth)
    assert len(desk.again().answers) == 1 and len(desk.history) == 2 and desk._repr_html_()


@pytest.mark.parametrize(
    "kind, said", [*zip(DAMAGES, ("entry 7: changed", "entry 7: changed", "forked"))]
)
def test_damage_to_a_copy_is_found_and_a_rewrite_by_the_head_only(desk, kind, said):
    desk.compare(["ncm"])  # the file is the desk's, whatever sits there
    desk.damage(kind, 7)
    assert (desk.verify(head=False) is None) == (kind == "rewrite") and said in str(desk.verify())
    assert ("▶ 7" in desk.chain().data) == (kind == "relabel")  # one that is gone has no mark
    desk.restore()
    assert desk.verify() is None and "as they were written" in desk.chain().data
    desk.damage("remove", len(desk.memory) - 1)
    assert desk.verify().kind == "truncated"


def test_clicks_ask_compare_correct_verify_ask_again_stream_and_start_again(desk):
    view = DeskView(desk)
    view.query.value = "where is my card"
    assert "“where is my card”" in view.reply.value and "<img " in view.near.value
    view.pool.value = "class 05"
    view.buttons["Take a test row"].click()
    assert view.label.value == "class 05" and "in truth class 05" in view.reply.value
    view.systems[1].value = "slda"
    assert list(desk.systems) == ["substrate", "slda"] and "slda" in view.reply.value
    view.buttons["Correct"].click()
    assert "class 05" in view.chain.value and len(desk.corrected) == 1
    view.buttons["Damage a copy"].click()
    view.buttons["Verify"].click()
    assert f"verify: entry {view.entry.value}: changed" in view.chain.value
    view.buttons["Ask again"].click()
    assert "before" in view.reply.value
    curves = view.curves.value
    view.buttons["Stream 50"].click()
    assert desk.streamed > 0 and view.curves.value != curves and "alert" not in view.line.value
    view.buttons["Start again"].click()
    assert desk.streamed == 0 and view.reply.value == view.near.value == ""


def test_an_error_is_said_in_the_line_and_changes_nothing(desk, monkeypatch):
    view = DeskView(desk)
    view.buttons["Ask"].click()
    assert "type a sentence" in view.line.value
    for label, why in (("", "no class is given"), ("class 01", "nothing was asked")):
        view.label.value = label
        view.buttons["Correct"].click()
        assert why in view.line.value and 'role="alert"' in view.line.value
    monkeypatch.setattr(desk, "draw", lambda _: 1 / 0)
    view.buttons["Take a test row"].click()
    assert (
        "ZeroDivisionError" in view.line.value and len(desk.history) == 1 and desk.verify() is None
    )


@pytest.mark.parametrize("system", ["substrate", "ncm", "ledger_lda"])
def test_a_class_of_ones_own_is_learnt_by_every_system_and_ends_with_a_restart(tiny, system):
    desk = Desk(tiny, (system,), encoder=directions)
    desk.ask(desk.draw())
    desk.correct(desk.truth)
    desk.ask("zebra crossing")
    desk.correct(" road signs ")
    assert desk.again().answers["answer"].tolist() == ["road signs"]
    assert desk.memory.labels[-1] == "road signs" and len(desk.corrected) == 2
    assert len(desk.history) == 3 and "road signs" in desk.chain().data
    desk.compare(["slda"])
    assert desk.answers["answer"].tolist() == ["road signs"]
    with pytest.raises(InputError, match="no test rows"):
        desk.draw("road signs")
    desk.restart()
    assert desk.data.classes == tiny.classes and "road signs" not in desk.kinds


def test_a_new_name_typed_at_the_desk_is_told_and_offered_from_then_on(desk):
    view = DeskView(desk)
    view.query.value = "zebra crossing"
    view.label.value = "<road signs>"
    view.buttons["Correct"].click()
    assert "a new class: &lt;road signs&gt;" in view.line.value
    assert "<road signs>" in view.label.options
    view.buttons["Ask again"].click()
    assert "&lt;road signs&gt;" in view.reply.value and "alert" not in view.line.value


def test_the_cell_that_opens_the_desk_works_alone():
    (cell,) = [source for source in cells("00_tour") if "DeskView(" in source]
    names = {}
    exec(cell.replace("DeskView(", "view = DeskView("), names)
    view = names["view"]
    view.buttons["Take a test row"].click()
    assert "in truth" in view.reply.value and "alert" not in view.line.value


def cells(name, without=""):
    """Code cells of a notebook, but those with a tag."""
    content = json.loads((ROOT / f"notebooks/{name}.ipynb").read_text(encoding="utf-8"))
    return [
        "".join(cell["source"])
        for cell in content["cells"]
        if cell["cell_type"] == "code" and without not in cell["metadata"].get("tags", [])
    ]


@pytest.mark.published
def test_a_replayed_run_ends_as_published_and_adds_up():
    names = {"SYSTEMS": ""}
    for source in cells("12_explore")[1:3]:
        exec(source, names)
    (replay,) = (source for source in cells("12_explore") if "def replay" in source)
    exec(replay, names)
    tests, corrected, end = names["replay"]("banking77", "random10", "ncm", 3)
    runs = names["rows"].query("dataset == 'banking77' and policy == 'random10'")
    run = runs.query("system == 'ncm' and seed == 3").iloc[-1]
    assert (run["novel_acc"], run["original_acc"]) == (end.novel_acc, end.original_acc)
    new = tests[tests["new"]]
    assert (new["after"] == new["class"]).mean() == end.novel_acc and new["class"].nunique() == 10
    assert (
        not (new["before"] == new["class"]).any()
        and len(corrected) == end.corrections == run["corrections"]
    )


@pytest.mark.published
def test_the_benchmark_from_scratch_equals_every_published_checkpoint(monkeypatch):
    monkeypatch.chdir(ROOT)
    sources = cells("00_from_scratch", without="hide-input")  # which shows what came out
    assert sum(len(source.splitlines()) for source in sources) <= 100
    names = {}
    for source in sources:
        exec(source, names)
    for run in names["runs"].values():
        kept = run.copy()
        run.loc[12, "novel_acc"] += 1e-9
        with pytest.raises(AssertionError, match="other checkpoints"):
            exec(sources[-1], names)
        run[:] = kept
