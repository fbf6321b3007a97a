"""The correction desk and the explorer without widgets: asking, correcting, damage, published runs from the inside."""

import dataclasses
import re
import sys

import numpy as np
import pandas as pd
import pytest

from ocrrlib.errors import InputError
from ocrrlib.explore import desk_pictures, looks, queries, results_pictures
from ocrrlib.explore.damage import damaged, examine
from ocrrlib.explore.desk import CHOICES, Desk
from ocrrlib.explore.desk_script import STEPS, play
from ocrrlib.explore.queries import Typed
from ocrrlib.explore.replay import NO_ANSWER, replay
from ocrrlib.explore.results import Results
from ocrrlib.ledger import Ledger
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from tests.conftest import rows

DRAWN = dict(held_out=3, draw="fresh", cap=None)


def directions(texts):
    """An encoder for tests: a text's letters decide."""
    return np.array([[1 + text.count(chr(97 + at)) for at in range(16)] for text in texts], float)


@pytest.fixture
def desk(tiny):
    return Desk(tiny, ("substrate", "ncm"), encoder=directions)


@pytest.fixture
def ledger():
    return Ledger(rows(8, 4, seed=0), np.arange(8) % 3)


class TestDesk:
    def test_what_is_corrected_is_learnt_and_only_that_is_appended(self, desk):
        row = desk.draw(new=True)
        first = desk.ask(row)
        assert first.truth in desk.new and not first.answers["right"].any()
        before = desk.chain.ledger.size
        desk.correct(first.truth)
        again = desk.again()
        assert desk.chain.ledger.size == before + 1
        assert again.answers["right"].all() and again.answers["before"].tolist() == first.answers["answer"].tolist()
        best = again.neighbours["substrate"].iloc[0]
        assert (best["entry"], best["class"]) == (before, first.truth) and best["cosine"] == pytest.approx(1)

    def test_answers_are_those_of_the_systems_and_votes_those_inside_the_margin(self, desk, tiny):
        for row in range(12):
            reply = desk.ask(row)
            for name, system in desk.systems.items():
                assert reply.answers.at[name, "answer"] == tiny.classes[system.predict(tiny.X_test[[row]])[0]]
            near = reply.neighbours["substrate"]
            inside = near["cosine"] >= near["cosine"].iloc[0] - 0.05
            assert reply.margins == {"substrate": 0.05} and near["inside"].tolist() == inside.tolist()
            votes = dict(part.split(" ", 1)[::-1] for part in reply.answers.at["substrate", "votes"].split(", "))
            assert {name: int(n) for name, n in votes.items()} == near["class"][inside].value_counts().to_dict()
            assert reply.answers.at["ncm", "votes"] == ""

    def test_accuracies_are_measured_after_every_correction(self, desk):
        desk.ask(desk.draw(new=True))
        desk.correct(sorted(desk.new)[0])
        items, corrections = desk.stream(20)
        history = desk.history
        assert items == 20 and len(history) == 2 * (2 + corrections)
        s = desk.scenario
        for name, last in history.groupby("system").last().iterrows():
            assert last["novel"] == np.mean(desk.systems[name].predict(s.X_novel) == s.y_novel)
            assert last["original"] == np.mean(desk.systems[name].predict(s.X_original) == s.y_original)

    def test_the_stream_corrects_where_the_first_system_errs_and_ends(self, desk):
        n = len(desk.scenario.y_stream)
        items, corrections = desk.stream(10 * n)
        assert items == n and 0 < corrections < n and len(desk.corrected) == corrections
        (last,) = list(run_stream(make("substrate"), desk.scenario, POLICIES["oracle"], every=n))[1:]
        assert last.corrections == corrections and last.novel_acc == desk.history.iloc[-2]["novel"]
        with pytest.raises(InputError, match="the stream is over"):
            desk.stream()
        with pytest.raises(InputError, match="give a number from 1 up"):
            desk.stream(0)

    def test_another_system_gets_all_corrections_made_so_far(self, desk, tiny):
        desk.stream(10)
        other = Desk(tiny, ("substrate", "slda"), encoder=directions)
        other.stream(10)
        desk.compare(("substrate", "slda"))
        pd.testing.assert_frame_equal(desk.history, other.history)
        assert desk.streamed == 10

    def test_starting_again_forgets_all_corrections(self, desk):
        start = desk.history
        desk.stream(10)
        desk.restart()
        pd.testing.assert_frame_equal(desk.history, start)
        assert desk.corrected == [] and desk.streamed == 0

    def test_a_typed_query_is_encoded_and_has_no_known_class(self, desk):
        reply = desk.ask("  card gone ")
        assert reply.query == "card gone" and reply.truth is None and reply.answers["right"].isna().all()
        desk.correct("class 03")
        assert set(desk.ask("card gone").answers["answer"]) == {"class 03"}

    def test_rows_are_drawn_without_repetition_and_by_class(self, desk, tiny):
        drawn = []
        for _ in range(6):
            drawn.append(desk.draw("class 04"))
            desk.ask(drawn[-1])
        assert len(set(drawn)) == 6 and set(tiny.y_test[drawn]) == {4}
        assert desk.draw("class 04") == drawn[0], "all were asked: it begins anew"
        assert tiny.classes[tiny.y_test[desk.draw(new=False)]] not in desk.new

    def test_systems_that_keep_no_entries_show_none(self, tiny):
        desk = Desk(tiny, ("ncm",))
        reply = desk.ask(0)
        assert reply.neighbours == {} and not desk.chain.is_there
        assert desk_pictures.neighbours(reply)
        with pytest.raises(InputError, match="keeps a ledger: choose substrate"):
            desk.chain.damage("relabel", 0)

    @pytest.mark.parametrize("system", [name for name in CHOICES if name != "klda"])
    def test_every_system_of_the_list_can_sit_at_the_desk(self, tiny, system):
        desk = Desk(tiny, (system,))
        reply = desk.ask(desk.draw(new=True))
        desk.correct(reply.truth)
        again = desk.again()
        assert 0 <= again.answers["probability"].fillna(0).iloc[0] <= 1 and len(desk.history) == 2
        assert desk_pictures.neighbours(again) and len(desk_pictures.answers(again)) == 1

    def test_what_cannot_be_used_is_refused_and_changes_nothing(self, desk):
        for systems, why in (
            ((), "none: give 1 to 3"),
            (("ncm", "ncm"), "give 1 to 3 different"),
            (("ncm", "nmc"), "unknown system of the desk 'nmc'.*did you mean 'ncm'"),
        ):
            with pytest.raises(InputError, match=why):
                desk.compare(systems)
        for action, why in (
            (lambda: desk.again(), "nothing was asked yet"),
            (lambda: desk.correct("class 01"), "nothing was asked yet"),
            (lambda: desk.ask("  "), "the query is empty"),
            (lambda: desk.ask(10**6), "there is no test row 1000000: give 0 to 71"),
            (lambda: desk.ask(0.5), "there is no test row 0.5"),
            (lambda: desk.draw("class 99"), "unknown class 'class 99'.*did you mean 'class 09'"),
            (lambda: desk.chain.damage("burn", 0), "unknown damage 'burn'"),
            (lambda: desk.chain.damage("relabel", 10**6), "there is no entry 1000000"),
        ):
            with pytest.raises(InputError, match=why):
                action()
        desk.ask(0)
        with pytest.raises(InputError, match="unknown class 'nothing like it': choose one of the 12 classes"):
            desk.correct("nothing like it")
        assert list(desk.systems) == ["substrate", "ncm"] and len(desk.history) == 2
        assert desk.chain.verify().alone is None


class TestDamage:
    @pytest.mark.parametrize(
        "kind, alone, with_head",
        [
            ("relabel", "entry 3: changed", "entry 3: changed"),
            ("remove", "entry 3: removed", "entry 3: removed"),
            ("repeat", "entry 4: inserted", "entry 4: inserted"),
            ("swap", "entry 3: reordered", "entry 3: reordered"),
            ("cut", "None", "entry 3: truncated"),
            ("rewrite", "None", "entry 8: truncated"),
        ],
    )
    def test_verify_names_the_damage_and_what_only_a_noted_head_shows(self, ledger, kind, alone, with_head):
        copy = damaged(ledger, kind, 3, 3)
        verdict = examine(copy, ledger.head)
        assert (str(verdict.alone), str(verdict.with_head)) == (alone, with_head)
        assert ("whole in itself" in verdict.sentence) == (alone == "None")
        assert ledger.verify(ledger.head) is None, "the ledger itself stays as it is"

    def test_every_kind_has_a_title_and_the_whole_ledger_its_sentence(self, ledger):
        assert examine(ledger, ledger.head).sentence == "verify: all entries are as they were written."
        with pytest.raises(InputError, match="entry 7 is the last"):
            damaged(ledger, "swap", 7, 3)

    def test_the_desk_shows_the_links_around_the_damage_of_a_copy(self, desk):
        desk.stream(10)
        newest = desk.chain.links()
        assert newest.index[-1] == desk.chain.ledger.size - 1
        assert newest["previous"].tolist()[1:] == newest["hash"].tolist()[:-1]
        desk.chain.damage("swap", 100)
        around = desk.chain.links()
        assert {100, 101} <= set(around.index) and around.at[100, "id"] == 101
        assert desk.chain.verify().alone.position == 100
        desk.chain.restore()
        assert desk.chain.verify().with_head is None and desk.chain.links().equals(newest)


class TestTyped:
    def test_without_an_encoder_the_reason_and_a_way_out_are_given(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)
        monkeypatch.setattr(queries.importlib.util, "find_spec", lambda _: None)
        typed = Typed("all-MiniLM-L6-v2")
        assert typed.missing == "sentence-transformers is not installed"
        with pytest.raises(InputError, match="sentence-transformers is not installed.: take a test row"):
            typed("a query")

    def test_the_lexical_encoder_needs_the_texts(self):
        assert "not on this machine" in Typed("tfidf-svd").missing

    def test_a_text_is_encoded_once(self):
        calls = []

        def counted(texts):
            calls.append(texts)
            return directions(texts)

        counted.revision = "1"  # it changes what it uses, so it must say itself what it is known by
        typed = Typed(counted)
        assert not typed.loaded
        np.testing.assert_array_equal(typed("one"), typed(" one "))
        assert typed.loaded and calls == [["one"]]

    def test_texts_are_never_downloaded(self, monkeypatch, tmp_path):
        monkeypatch.delenv("OCRR_DATA_DIR", raising=False)
        monkeypatch.setattr(queries.pooch, "os_cache", lambda _: tmp_path)
        monkeypatch.setattr("pooch.retrieve", None)
        assert queries.texts_at_hand("banking77") is None and queries.texts_at_hand("own") is None
        monkeypatch.setenv("OCRR_DATA_DIR", str(tmp_path))
        assert queries.texts_at_hand("banking77") is None


class TestScript:
    def test_every_step_shows_something(self, desk):
        label = sorted(desk.new)[0]
        steps = [{"ask": 0}, {"correct": label}, {"again": True}, {"ask": "typed"}, {"stream": 5}]
        steps += [{"damage": "relabel"}, {"verify": True}, {"restore": True}, {"verify": True}]
        assert {next(iter(step)) for step in steps} == set(STEPS)
        shown = [list(play(desk, step)) for step in steps]
        assert all(shown)
        assert "is not what was written" in shown[6][0].data and "as they were written" in shown[8][0].data
        assert [name for name in shown[6][1].index if "▶" in name] == [f"▶ {desk.chain.ledger.size - 2}"]

    @pytest.mark.parametrize("step", [{"answer": 1}, "ask", {}])
    def test_what_is_no_step_is_refused(self, desk, step):
        with pytest.raises(InputError, match="step"):
            play(desk, step)


@pytest.fixture(scope="module")
def published(tiny):
    """Results as they would be published of the tiny dataset."""
    found = []
    for policy in ("oracle", "random50"):
        for seed in (0, 1):
            for system in ("substrate", "ncm", "static_knn"):
                run = run_stream(make(system, seed), make_scenario(tiny, seed, **DRAWN), POLICIES[policy], every=20)
                place = dict(dataset="tiny", encoder="drawn", policy=policy, seed=seed, system=system)
                found += [place | checkpoint.scalars for checkpoint in run]
    return pd.DataFrame(found)


@pytest.fixture
def results(published, tiny):
    return Results(published, load=lambda dataset, encoder: tiny, **DRAWN)


class TestResults:
    def test_curves_and_finals_are_those_of_the_results(self, results, published):
        assert (results.datasets, results.seeds) == (("tiny",), (0, 1))
        own = published[(published["policy"] == "oracle") & (published["seed"] == 1)]
        curve = results.curves("tiny", "oracle", ["ncm"], seed=1)
        assert curve["novel"].tolist() == own[own["system"] == "ncm"]["novel_acc"].tolist()
        both = results.curves("tiny", "oracle", ["ncm", "substrate"])
        assert (both["novel low"] <= both["novel high"]).all() and set(both["system"]) == {"ncm", "substrate"}
        finals = results.finals("tiny", "oracle", seed=1)
        for system, rows_ in own.groupby("system"):
            assert finals.at[system, "novel"] == rows_["novel_acc"].iloc[-1]
        assert finals["front"].any() and not (finals["front"] & finals["collapsed"]).any()
        assert finals["collapsed"].is_monotonic_increasing
        for _, part in finals.groupby("collapsed"):
            assert part["novel"].is_monotonic_decreasing

    def test_a_seed_may_be_given_as_text(self, results):
        found = results.cell("tiny", "oracle", "1")
        assert len(found) and found.equals(results.cell("tiny", "oracle", 1)) and set(found["seed"]) == {1}

    def test_what_is_not_there_is_named(self, results):
        for place, why in (
            (("other", "oracle", 0), "unknown dataset 'other'"),
            (("tiny", "orcale", 0), "unknown policy 'orcale'.*did you mean 'oracle'"),
            (("tiny", "oracle", 7), "unknown seed '7'; there are: 0, 1"),
        ):
            with pytest.raises(InputError, match=why):
                results.cell(*place)
        with pytest.raises(InputError, match="unknown system 'lora'"):
            results.inside("tiny", "oracle", "lora", 0)

    def test_a_run_is_streamed_once_and_ends_as_published(self, results):
        assert not results.is_ready("tiny", "oracle", "substrate", 0)
        run = results.inside("tiny", "oracle", "substrate", 0)
        assert results.is_ready("tiny", "oracle", "substrate", 0)
        assert results.inside("tiny", "oracle", "substrate", 0) is run

    def test_a_run_that_ends_elsewhere_is_refused(self, published, tiny):
        changed = published.assign(novel_acc=published["novel_acc"] * 0.5)
        with pytest.raises(InputError, match="ends with novel_acc .* is published: the code, data or libraries"):
            Results(changed, lambda *_: tiny, **DRAWN).inside("tiny", "oracle", "substrate", 0)

    @pytest.mark.parametrize("policy", ["oracle", "random50"])
    def test_the_inside_adds_up(self, tiny, policy):
        run = replay(tiny, "substrate", policy, 1, **DRAWN)
        s = make_scenario(tiny, 1, **DRAWN)
        assert run.stream["corrected"].sum() == run.end["corrections"]
        assert not (run.stream["corrected"] & run.stream["right"]).any()
        assert (run.stream["corrected"] == ~run.stream["right"]).all() == (policy == "oracle")
        np.testing.assert_array_equal(tiny.X_train[run.stream["row"]], s.X_stream)
        assert run.stream["class"].tolist() == [tiny.classes[id] for id in s.y_stream]
        new = run.classes[run.classes["new"]]
        assert set(new.index) == {tiny.classes[id] for id in s.held_out} and (new["before"] == 0).all()
        assert np.average(new["after"], weights=new["rows"]) == pytest.approx(run.end["novel_acc"])
        assert run.confusion.to_numpy().sum() == len(tiny.y_test) == run.kinds.to_numpy().sum()
        assert run.kinds.at["new classes", "right"] == round(run.end["novel_acc"] * len(s.y_novel))
        for _, pair in run.mixed_up().iterrows():
            assert run.confusion.at[pair["class"], pair["answered"]] == pair["rows"] and "new" in pair["kinds"]

    def test_rows_without_an_answer_have_a_column_of_their_own(self, tiny):
        run = replay(tiny, "substrate", "oracle", 0, **DRAWN)
        counts = run.confusion.copy()
        counts[NO_ANSWER] = counts.pop(counts.columns[-1])
        silent = dataclasses.replace(run, confusion=counts.assign(**{run.classes.index[-1]: 0}))
        assert NO_ANSWER in silent.kinds and silent.kinds.to_numpy().sum() == len(tiny.y_test)

    def test_all_pictures_can_be_drawn(self, results):
        run = results.inside("tiny", "random50", "substrate", 0)
        for seed in (None, 1):
            assert results_pictures.overview(results, "tiny", "oracle", ["ncm", "substrate"], seed)
        for draw in (results_pictures.classes, results_pictures.confusion, results_pictures.corrections):
            assert "<img " in looks.image(draw(run), "a picture")
        assert len(results_pictures.corrected(run, "tiny")) == run.end["corrections"]
        assert "as published" in results_pictures.run_line(run)

    def test_published_runs_are_all_there_and_end_where_they_are_published(self):
        published = Results()
        assert len(published.systems) == len(CHOICES) and len(published.seeds) == 20
        run = published.inside("banking77", "random10", "ncm", 3)
        assert run.classes["new"].sum() == 10 and run.end["corrections"] > 0


def test_colours_differ_as_long_as_there_are_enough():
    chosen = ("substrate", "ledger_plda", "static_linear", "er", "mir")
    found = looks.colours(chosen)
    assert len(set(found.values())) == len(chosen) and found["substrate"] == looks.colours(["substrate"])["substrate"]


def test_texts_of_a_table_are_flush_left_and_numbers_flush_right():
    columns = {"class": ["lost_card", ""], "corrections": ["12", "7"], "novel": [0.5, np.nan], "front": ["", "●"]}
    shown = looks.table(pd.DataFrame(columns, index=pd.Index(["ncm", "er"], name="system")))
    header, *rows = re.findall("<tr.*?</tr>", shown, re.DOTALL)
    assert len(rows) == 2
    for row in (header, *rows):
        assert ["left" in cell for cell in re.findall("<t[hd][^>]*>", row)] == [True, True, False, False, True]
    assert 'style="text-align:left">lost_<wbr>card</td>' in shown
    entries = looks.table(pd.DataFrame({"hash": ["3f", "aa"]}, index=["6", "▶ 7"]), "▶")
    assert re.search("<tr style=[^>]+>\\s*<th>▶ 7</th>", entries) and entries.count("text-align:left") == 3
