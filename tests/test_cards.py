"""Cards: what is no card is refused with the place; published ones follow from the published results."""

import copy
import json

import pandas as pd
import pytest

from ocrrlib import results
from ocrrlib.cards import markdown, published_cards, read_card, write_card
from ocrrlib.cards.cells import METRICS, place_of, spread
from ocrrlib.cards.check import check
from ocrrlib.cards.ours import cards_of, publish_cards
from ocrrlib.cards.repeat import repeat
from ocrrlib.cards.standings import standings
from ocrrlib.embeddings import load
from ocrrlib.errors import InputError
from ocrrlib.experiments import EXPERIMENTS
from ocrrlib.files import ROOT
from ocrrlib.statistics.summary import summary

FOLDER = ROOT / "data/results/cards"


@pytest.fixture
def card():
    return copy.deepcopy(read_card(FOLDER / "ncm_cosine.json"))


@pytest.fixture(scope="module")
def beyond():
    return results.read(ROOT / "data/results/beyond.parquet")


def test_published_cards_come_out_of_the_published_results_byte_for_byte(tmp_path):
    publish_cards(tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = {name: (FOLDER / name).read_bytes() for name in made if (FOLDER / name).exists()}
    assert made.keys() == {f"{name}.json" for name in EXPERIMENTS["beyond"].systems}
    assert made == kept, "`make leaderboard` and commit what it writes"


def test_cards_say_what_the_published_statistics_say(beyond):
    frame = beyond[0]
    frame = frame[frame["system"].isin(("substrate", "ncm", "pa"))]
    told = summary(frame, resamples=9).accuracies.set_index(["system", "dataset", "policy", "metric"])
    for name in ("ncm", "pa"):
        for cell in read_card(FOLDER / f"{name}.json")["cells"]:
            for metric, column in METRICS.items():
                if metric != "corrections":
                    row = told.loc[name, cell["dataset"]["name"], cell["policy"], column]
                    published = row[["mean", "sd", "t_low", "t_high"]].to_list()
                    own = [cell["summary"][metric][part] for part in ("mean", "sd", "low", "high")]
                    assert own == pytest.approx(published, abs=3e-6)


def test_all_published_cards_are_there_once_with_all_six_cells():
    known = published_cards()
    assert known is published_cards()
    ours = [card for card in known if "source" not in card]
    assert sorted(card["system"]["name"] for card in ours) == sorted(EXPERIMENTS["beyond"].systems)
    assert {len({place_of(cell) for cell in card["cells"]}) for card in ours} == {6}
    assert {len(cell["seeds"]) for card in ours for cell in card["cells"]} == {20}


def test_results_of_other_data_are_refused(beyond, tiny):
    frame, provenance = beyond
    with pytest.raises(InputError, match="another banking77"):
        cards_of(frame, provenance, {"banking77": tiny, "clinc150": load("clinc150")})


def test_what_is_written_is_read_again_and_the_same_card_gives_the_same_bytes(card, tmp_path):
    card["source"] = "Zoë, her lab"
    write_card(card, tmp_path / "a.json")
    assert read_card(tmp_path / "a.json") == card
    write_card(dict(reversed(card.items())), tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert max(map(len, (tmp_path / "a.json").read_text().splitlines())) < 400


def spoil(card, place, value):
    *path, last = place
    for part in path:
        card = card[part]
    if value is None:
        del card[last]
    else:
        card[last] = value


CELL = ("cells", 0)
BAD = {
    "missing part": (("cells",), None, "the whole: 'cells' is a required property"),
    "missing key deep inside": (
        (*CELL, "dataset", "fingerprint"),
        None,
        "cells/0/dataset: 'fingerprint' is a required",
    ),
    "wrong type": ((*CELL, "held_out"), "ten", "cells/0/held_out: 'ten' is not of type 'integer'"),
    "seeds in words": ((*CELL, "seeds", 2), "two", "cells/0/seeds/2: 'two' is not of type 'integer'"),
    "accuracy above 1": ((*CELL, "finals", "novel", 3), 1.5, "cells/0/finals/novel/3: 1.5 is greater than the maximum"),
    "percent": ((*CELL, "summary", "novel", "mean"), 87.4, "cells/0/summary/novel/mean: 87.4 is greater"),
    "half a correction": ((*CELL, "finals", "corrections", 0), 1.5, "cells/0/finals/corrections/0: 1.5 is not of type"),
    "unknown version": (("version",), 2, "version: 2 is not a version of cards known here"),
    "no version": (("version",), None, "the whole: 'version' is a required property"),
    "unknown key": (("score",), 1, "the whole: Additional properties are not allowed"),
    "bad hash": ((*CELL, "dataset", "fingerprint"), "abc", "cells/0/dataset/fingerprint: 'abc' does not match"),
    "source that breaks a table": (("source",), "me | you", "source: 'me | you' does not match"),
    "name of two lines": (("system", "name"), "a\nb", "system/name: .* does not match"),
    "unknown draw": ((*CELL, "draw"), "lucky", "cells/0/draw: 'lucky' is not one of"),
    "no cell": (("cells",), [], "cells: .* non-empty|cells: .* too short"),
    "fewer values than seeds": ((*CELL, "finals", "novel"), [0.5], "cells/0/finals/novel: 1 values for 20 seeds"),
    "mean that does not follow": (
        (*CELL, "summary", "original", "mean"),
        0.99,
        "cells/0/summary/original/mean: 0.99 does",
    ),
    "seed twice": ((*CELL, "seeds"), [0] * 20, "cells/0/seeds: .* has non-unique elements"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_card_is_refused_with_the_file_and_the_place(name, card, tmp_path):
    place, value, clue = BAD[name]
    spoil(card, place, value)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(card))
    with pytest.raises(InputError, match=clue) as caught:
        read_card(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and len(message) < 500
    with pytest.raises(InputError, match=clue):
        write_card(card, tmp_path / "never.json")
    assert not (tmp_path / "never.json").exists()


def test_the_same_cell_twice_is_refused(card):
    card["cells"].append(card["cells"][1])
    with pytest.raises(InputError, match="cells/6: is the same cell as cells/1"):
        check(card)


@pytest.mark.parametrize("text", ["", "{", '{"version": NaN}', "[]", "3", "null"])
def test_a_file_that_is_not_even_an_object_is_refused(text, tmp_path):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InputError, match="bad.json"):
        read_card(tmp_path / "bad.json")


def test_a_file_in_another_encoding_or_missing_is_refused(tmp_path):
    (tmp_path / "bad.json").write_bytes(b'{"system": "caf\xe9"}')
    for name, clue in (("bad.json", "is not a card"), ("none.json", "cannot be read")):
        with pytest.raises(InputError, match=f"{name} {clue}"):
            read_card(tmp_path / name)


def test_one_seed_has_no_interval(card):
    cell = card["cells"][0]
    cell["seeds"] = cell["seeds"][:1]
    cell["finals"] = {name: values[:1] for name, values in cell["finals"].items()}
    cell["summary"] = {name: spread(values) for name, values in cell["finals"].items()}
    assert cell["summary"]["novel"] == {"mean": cell["finals"]["novel"][0], "sd": None, "low": None, "high": None}
    check(card)
    assert "| novel | 0.8" in markdown(card)


def test_markdown_has_all_that_repeats_it(card):
    text = markdown(card)
    parts = (
        "ncm_cosine",
        '{"unit": true}',
        "2.4.6",
        "published here",
        *(c["dataset"]["fingerprint"] for c in card["cells"]),
    )
    assert all(part in text for part in parts)
    assert text.count("## ") == 6 and "| novel | 0.87" in text


@pytest.mark.parametrize(
    "factory, named",
    [
        ("mine:make", "mine:make"),
        ("package.mine:Made", "package.mine:Made"),
        ("__main__:Made", "MODULE:NAME"),
        ("mine:Outer.Inner", "MODULE:NAME"),
        ("mine:<lambda>", "MODULE:NAME"),
        ("mine:make.<locals>.Made", "MODULE:NAME"),
        (None, "MODULE:NAME"),
    ],
)
def test_a_command_names_a_system_only_where_that_name_can_be_imported(card, factory, named):
    del card["system"]["registry"]
    if factory:
        card["system"]["factory"] = factory
    assert repeat(card, card["cells"][0]).split()[:3] == ["ocrr", "card", named]


def test_standings_are_over_the_seeds_in_common_and_sorted(card):
    place = place_of(card["cells"][0])
    table = standings(published_cards(), place, seeds={3, 4, 99})
    assert set(table["seeds"]) == {2} and table["collapsed"].is_monotonic_increasing
    finals = card["cells"][0]["finals"]["novel"]
    assert table.set_index("system").at["ncm_cosine", "novel"] == pytest.approx((finals[3] + finals[4]) / 2)
    assert standings(published_cards(), place, seeds={99}).empty
    assert list(standings([], place)) == list(table) and isinstance(table, pd.DataFrame)
