"""Claims: strict reading, verdicts from expressions alone, numbers as people write them."""

import pytest
from matplotlib.colors import to_rgb

from ocrrlib.files import InputError
from paper import claims
from paper.claims import COLOURS, VERDICTS, check, read

OURS = {"sweep": {"a": {"novel": 0.9, "novel_std": 0.02}, "b": {"novel": 0.5, "novel_std": 0.03}}}
CLAIM = dict(id="first", section=5.1, claim="a reaches nine tenths", printed={"novel": 0.9})
NO = {"holds": "1 > 2"}
YES = {"holds": "2 > 1"}


def judged(**parts):
    (row,) = check({"paper": {"table": {"a": 0.88}}}, [CLAIM | parts], OURS)
    return row


@pytest.mark.parametrize(
    "tests, verdict",
    [
        ({"holds": "novel >= printed.novel", "direction": "novel > 0.1"}, "holds"),
        (
            {"holds": "novel > printed.novel", "direction": "novel > 0.1", "depends": "2 > 1"},
            "holds in direction",
        ),
        (
            {"holds": "novel > printed.novel", "direction": "novel > 1", "depends": "2 > 1"},
            "depends on the setting",
        ),
        ({"holds": "novel > printed.novel", "direction": "novel > 1"}, "does not hold"),
        ({"holds": "novel > printed.novel"}, "does not hold"),
        ({"holds": "1"}, "does not hold"),  # no truth value
        ({"holds": "max([ours.sweep[s].novel for s in ['a', 'b']]) == 0.9"}, "holds"),
    ],
)
def test_a_verdict_is_what_the_expressions_say(tests, verdict):
    row = judged(system="a", ours={"found": {"novel": "ours.sweep[claim.system].novel"}} | tests)
    assert row["checks"]["ours"] == {"verdict": verdict, "found": {"novel": 0.9, "novel_std": 0.02}}
    assert row["verdict"] == verdict and row["section"] == "5.1"


def test_only_our_means_have_a_spread():
    found = {
        "a": "ours.sweep.a.novel",
        "lead": "ours.sweep.a.novel - ours.sweep.b.novel",
        "printed": "paper.table.a",
    }
    assert set(judged(ours={"found": found, "holds": "lead > 0"})["checks"]["ours"]["found"]) == {
        *found,
        "a_std",
    }


def test_a_comparison_is_asked_of_every_seed_and_a_level_beside_a_printed_figure_of_the_means():
    seeds = [{"sweep": {"a": {"novel": a}, "b": {"novel": 0.5}}} for a in (0.95, 0.85, 0.45)]
    lead = {"found": {"lead": "ours.sweep.a.novel - ours.sweep.b.novel"}, "holds": "lead > 0"}
    level = {"holds": "ours.sweep.a.novel >= printed.novel"}

    def verdict(tests, kind="ours"):
        (row,) = check({}, [CLAIM | {kind: tests}], OURS, seeds)
        return row["verdict"], row["checks"][kind]["found"].get("in_seeds")

    assert verdict(lead) == ("not shown here", "2 of 3")
    assert verdict(lead | {"direction": "lead > -0.1"}) == ("holds in direction", "2 of 3")
    seeds.append({"sweep": {"a": {"novel": None}, "b": {"novel": 0.5}}})  # never reached
    assert verdict(lead) == ("not shown here", "2 of 4")
    assert verdict(level) == ("holds", None)
    assert verdict(lead, kind="released") == ("holds", None)


def test_our_runs_decide_before_the_release_before_the_paper_unless_the_claim_names_another():
    assert judged(ours=YES, paper=NO, released=NO)["verdict"] == "holds"
    assert judged(released=YES, paper=NO)["verdict"] == "holds"
    assert judged(paper=NO)["verdict"] == "does not hold"
    assert (
        judged(ours=YES, released=NO, paper=YES, decides="released")["verdict"] == "does not hold"
    )
    checks = judged(ours=YES, paper=NO)["checks"]
    assert {kind: part["verdict"] for kind, part in checks.items()} == {
        "paper": "does not hold",
        "ours": "holds",
    }


@pytest.mark.parametrize(
    "parts, verdict",
    [
        ({"ours": NO, "released": YES}, "not shown here"),  # the encoder may be why
        ({"ours": NO, "released": {"holds": "1 > 2", "direction": "2 > 1"}}, "not shown here"),
        ({"ours": NO, "released": YES, "decides": "ours"}, "does not hold"),  # no encoder in it
        ({"ours": NO, "released": NO}, "does not hold"),
        ({"ours": NO, "paper": YES}, "does not hold"),  # the paper alone confirms nothing
        ({"ours": NO}, "does not hold"),
        ({"ours": YES, "released": NO}, "holds"),
    ],
)
def test_what_the_release_confirms_our_runs_alone_do_not_turn(parts, verdict):
    row = judged(**parts)
    assert row["verdict"] == verdict
    if parts["ours"] is NO:
        assert row["checks"]["ours"]["verdict"] == "does not hold"


def test_a_claim_that_cannot_be_checked_says_why():
    row = judged(unchecked="no weights")
    assert (row["verdict"], row["unchecked"], row["checks"]) == (
        "cannot be checked",
        "no weights",
        {},
    )


@pytest.mark.parametrize(
    "text", ["ours.sweep.c.novel > 0", "1 +", "unknown > 1", "ours.sweep.a.novel / 0", "open('x')"]
)
def test_an_expression_that_fails_is_named_with_its_claim(text):
    with pytest.raises(InputError, match="claim first, ours: ") as caught:
        judged(ours={"holds": text})
    assert text in str(caught.value)


def test_every_claim_of_the_original_is_listed_once_and_no_verdict_is_typed():
    facts, listed = read()
    assert len({claim["id"] for claim in listed}) == len(listed) >= 120 and {
        "paper",
        "released",
    } <= set(facts)
    sections = {section for claim in listed for section in str(claim["section"]).split(", ")}
    assert {"abstract", "5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "6.5"} <= sections
    known = {*CLAIM, *claims.KINDS, "decides", "unchecked", "note", "dataset", "sweep", "system"}
    known.add("central")
    assert sum(claim.get("central", False) for claim in listed) == 10
    for claim in listed:
        assert CLAIM.keys() <= claim.keys() <= known and claim.get("decides", "id") in claim
        assert ("unchecked" in claim) != bool(claims.KINDS.keys() & claim.keys())
        for kind in claims.KINDS:
            assert str(claim.get(kind, {}).get("holds", "a > b")) not in ("True", "False")


def test_verdicts_are_told_apart_in_grey_and_in_their_order():
    lightness = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in map(to_rgb, COLOURS.values())]
    steps = [light - dark for light, dark in zip(lightness[:-1], lightness[1:-1])]
    assert list(COLOURS) == list(VERDICTS) and min(steps) > 0.09


@pytest.mark.parametrize(
    "value, text",
    [
        (0.9, "0.9"),
        (1172.4, "1,172"),
        (False, "no"),
        (
            {"novel": 0.9, "novel_std": 0.029, "to_70": None},
            "novel = 0.900 ± 0.029; to 70 % = never",
        ),
        ({"us": 14.9275, "hnsw_ms": 0.99, "mb": 20}, "14.9 µs; HNSW = 0.99 ms; 20 MB"),
        ({"others": [], "substrate": True}, "others = none; substrate = yes"),
        ([1, "ewc"], "1, ewc"),
    ],
)
def test_numbers_read_as_people_write_them(value, text):
    assert claims.shown(value) == text
