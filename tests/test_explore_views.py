"""Widgets of the desk and of the explorer, without a browser: what a click changes, and what is said when it cannot."""

import re

import pytest

from ocrrlib.explore import queries, results_pictures
from ocrrlib.explore.busy import Busy
from ocrrlib.explore.desk import Desk
from ocrrlib.explore.desk_view import NONE, DeskView
from ocrrlib.explore.results_view import ResultsView
from tests.test_explore import directions, published, results  # noqa: F401


@pytest.fixture
def view(tiny):
    return DeskView(Desk(tiny, ("substrate", "ncm"), encoder=directions))


def alert(view):
    return view.busy.line.value if 'role="alert"' in view.busy.line.value else ""


class TestDesk:
    def test_a_typed_query_is_asked_corrected_and_learnt(self, view):
        view.query.value = "where is my card"
        assert "“where is my card”" in view.reply.value and "<img " in view.near.value
        view.label.value = "class 03"
        view.correct.click()
        view.again.click()
        assert "before" in view.reply.value and view.reply.value.count("class 03") >= 2
        assert view.desk.history["corrections"].max() == 1 and alert(view) == ""

    def test_a_test_row_brings_its_class_along(self, view):
        view.rows.value = ("class", "class 05")
        view.draw.click()
        assert view.label.value == "class 05" and "in truth class 05" in view.reply.value
        before = view.accuracies.value
        view.correct.click()
        assert view.accuracies.value != before and "class 05" in view.chain.value

    def test_the_stream_goes_on_and_starting_again_forgets_it(self, view):
        start = view.accuracies.value
        view.stream.click()
        assert view.desk.streamed > 0 and view.accuracies.value != start
        view.restart.click()
        assert view.accuracies.value == start and view.reply.value == ""

    def test_systems_are_chosen_and_what_has_no_ledger_says_so(self, view):
        view.systems[2].value = "slda"
        assert list(view.desk.systems) == ["substrate", "ncm", "slda"]
        view.systems[2].value = NONE
        view.systems[0].value = "ncm"
        assert list(view.desk.systems) == ["ncm"] and "keeps a ledger: choose substrate" in view.chain.value
        view.damage.click()
        assert "keeps a ledger: choose substrate" in alert(view)

    def test_neighbours_are_those_of_the_system_that_is_chosen(self, view):
        assert view.source.layout.display == "none"
        view.systems[2].value = "ledger_plda"
        view.draw.click()
        assert view.source.options == ("substrate", "ledger_plda") and view.source.layout.display == ""
        first = view.near.value
        view.source.value = "ledger_plda"
        assert view.near.value != first
        view.again.click()
        assert view.source.value == "ledger_plda", "it stays chosen"
        view.systems[2].value = NONE
        assert view.near.value == view.reply.value == "" and view.source.layout.display == "none"
        view.draw.click()
        assert view.source.value == "substrate" and view.near.value

    def test_damage_is_shown_named_and_undone(self, view):
        whole = view.chain.value
        view.entry.value, view.kind.value = 7, "swap"
        view.damage.click()
        assert "A copy, damaged" in view.chain.value
        view.verify.click()
        assert "entry 7 stands in the wrong place" in view.chain.value
        assert view.chain.value.count("▶") == 1 and re.search("<tr style=[^>]+>\\s*<th>▶ 7</th>", view.chain.value)
        view.restore.click()
        assert view.chain.value == whole
        view.verify.click()
        assert "all entries are as they were written" in view.chain.value

    @pytest.mark.parametrize(
        "do, why",
        [
            (lambda view: view.ask.click(), "the query is empty"),
            (lambda view: view.again.click(), "nothing was asked yet"),
            (
                lambda view: (view.draw.click(), setattr(view.label, "value", "no such"), view.correct.click()),
                "no such",
            ),
            (lambda view: (setattr(view.entry, "value", -1), view.damage.click()), "there is no entry -1"),
        ],
    )
    def test_what_cannot_be_done_is_said_in_the_line_and_the_desk_goes_on(self, view, do, why):
        do(view)
        assert why in alert(view) and not view.ask.disabled
        view.draw.click()
        assert alert(view) == "" and view.reply.value

    def test_without_an_encoder_rows_can_be_asked_and_the_reason_is_given(self, tiny, monkeypatch):
        monkeypatch.setattr(queries.importlib.util, "find_spec", lambda _: None)
        view = DeskView(Desk(tiny, encoder="all-MiniLM-L6-v2"))
        assert (
            view.query.disabled
            and view.ask.disabled
            and "sentence-transformers is not installed" in view.busy.line.value
        )
        view.draw.click()
        assert view.reply.value and view.query.disabled, "what cannot be used stays so"

    def test_it_shows_itself_as_widgets(self, view):
        assert "application/vnd.jupyter.widget-view+json" in view._repr_mimebundle_()


class TestResults:
    @pytest.fixture
    def view(self, results):  # noqa: F811
        return ResultsView(results, systems=("substrate", "ncm"))

    def test_choosing_redraws_and_the_inside_is_made_when_asked_for(self, view):
        first = view.overview.value
        view.policy.value = "random50"
        assert view.overview.value != first and "Look inside substrate, seed 0" in view.parts["Classes"].value
        view.seed.value = 1
        view.look.click()
        assert all("substrate, seed 1:" in part.value and "<img " in part.value for part in view.parts.values())
        view.system.value = "ncm"
        assert "Look inside ncm" in view.parts["Classes"].value
        view.system.value = "substrate"
        assert "as published" in view.parts["Classes"].value, "it is kept"

    def test_no_system_is_said_and_one_that_is_gone_is_replaced(self, view):
        view.systems.value = ()
        assert "No system is chosen" in alert(view)
        view.systems.value = ("static_knn",)
        assert view.system.value == "static_knn" and alert(view) == "" and "static_knn" in view.overview.value

    def test_more_systems_than_can_be_told_apart_are_not_drawn(self, view, monkeypatch):
        monkeypatch.setattr(results_pictures, "MOST", 2)
        before = view.overview.value
        view.systems.value = view.systems.options[:3]
        assert "3 systems are chosen" in alert(view) and "2 at most" in alert(view)
        assert view.overview.value == before


def test_buttons_wait_while_something_is_done_and_errors_are_not_lost(view):
    busy, seen = Busy([view.ask]), []
    assert busy("working", lambda: seen.append((view.ask.disabled, busy.line.value)))
    assert seen[0][0] and "working …" in seen[0][1] and not view.ask.disabled
    with pytest.raises(ZeroDivisionError):
        busy("dividing", lambda: 1 / 0)
    assert "ZeroDivisionError" in busy.line.value and not view.ask.disabled
