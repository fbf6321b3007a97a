"""Claims are read strictly, and their verdicts come from expressions alone."""

import shutil

import pytest
import yaml

from ocrrlib.claims import MEASURED, OF_THE_PAPER, VERDICTS, check, our_figures, read
from ocrrlib.errors import InputError
from ocrrlib.files import ROOT

OURS = {"sweep": {"a": {"novel": 0.9, "novel_std": 0.02}, "b": {"novel": 0.5, "novel_std": 0.03}}}
CLAIM = dict(id="first", section=5.1, claim="a reaches nine tenths", printed={"novel": 0.9})


def judged(**parts):
    (row,) = check({"paper": {"table": {"a": 0.88}}}, [CLAIM | parts], OURS)
    return row


@pytest.fixture
def written(tmp_path):
    def write(content):
        path = tmp_path / "claims.yml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    return write


@pytest.mark.parametrize(
    "holds, direction, verdict",
    [
        ("novel >= printed.novel", "novel > 0.1", "holds"),
        ("novel > printed.novel", "novel > 0.1", "holds in direction"),
        ("novel > printed.novel", "novel > 1", "does not hold"),
        ("novel > printed.novel", None, "does not hold"),
    ],
)
def test_a_verdict_is_what_the_expressions_say(holds, direction, verdict):
    plan = {"found": {"novel": "ours.sweep.a.novel"}, "holds": holds} | ({"direction": direction} if direction else {})
    row = judged(ours=plan)
    assert row["checks"]["ours"] == {"verdict": verdict, "found": {"novel": 0.9}, "spread": {"novel": 0.02}}
    assert row["verdict"] == verdict
    assert verdict in VERDICTS


def test_only_our_means_have_a_spread():
    found = {"a": "ours.sweep.a.novel", "lead": "ours.sweep.a.novel - ours.sweep.b.novel", "printed": "paper.table.a"}
    assert judged(ours={"found": found, "holds": "lead > 0"})["checks"]["ours"]["spread"] == {"a": 0.02}


def test_names_can_be_taken_from_lists():
    row = judged(ours={"found": {"best": "max([ours.sweep[s].novel for s in ['a', 'b']])"}, "holds": "best == 0.9"})
    assert row["verdict"] == "holds"


def test_our_runs_decide_before_the_release_and_the_paper_itself():
    no, yes = {"holds": "1 > 2"}, {"holds": "2 > 1"}
    assert judged(paper=no, released=no, ours=yes)["verdict"] == "holds"
    assert judged(paper=no, released=yes)["verdict"] == "holds"
    assert judged(paper=no)["verdict"] == "does not hold"
    assert {kind: part["verdict"] for kind, part in judged(paper=no, ours=yes)["checks"].items()} == {
        "paper": "does not hold",
        "ours": "holds",
    }


def test_what_cannot_be_checked_with_our_runs_says_so_and_why():
    row = judged(unchecked="no weights")
    assert (row["verdict"], row["unchecked"], row["checks"]) == ("cannot be checked", "no weights", {})
    row = judged(unchecked="no weights", released={"holds": "2 > 1"})
    assert row["verdict"] == "cannot be checked" and row["checks"]["released"]["verdict"] == "holds"


def test_something_that_is_not_a_truth_value_does_not_hold():
    assert judged(ours={"holds": "1"})["verdict"] == "does not hold"


@pytest.mark.parametrize(
    "text", ["ours.sweep.c.novel > 0", "1 +", "unknown > 1", "ours.sweep.a.novel / 0", "open('x')"]
)
def test_an_expression_that_fails_is_named_with_its_claim(text):
    with pytest.raises(InputError, match="claim first, ours: ") as caught:
        judged(ours={"holds": text})
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "claims, said",
    [
        ([CLAIM], "first: nothing says how to check it"),
        ([CLAIM | {"unchecked": "x"}] * 2, "two claims are called first"),
        ([CLAIM | {"unchecked": "x", "id": "a b"}], "'a b' cannot be linked to"),
        ([CLAIM | {"unchecked": "x", "verdict": "holds"}], "first: missing or unknown: verdict"),
        ([{"id": "a", "claim": "x", "unchecked": "y", "printed": {}}], "a: missing or unknown: section"),
        ([{"claim": "x"}], "claim 1: missing or unknown: id, printed, section"),
    ],
)
def test_a_malformed_claim_is_named(written, claims, said):
    with pytest.raises(InputError, match=said):
        read(written({"claims": claims}))


@pytest.mark.parametrize("content", ["claims: [", "- 1", "facts: {}", ""])
def test_a_file_that_is_none_is_refused(written, content):
    with pytest.raises(InputError, match="claims.yml cannot be read"):
        read(written(content))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="none.yml cannot be read"):
        read(tmp_path / "none.yml")


def test_facts_and_claims_come_apart(written):
    content = {"paper": {"x": 1}, "claims": [CLAIM | {"unchecked": "x"}]}
    assert read(written(content)) == ({"paper": {"x": 1}}, content["claims"])


# --- the real ones


@pytest.fixture(scope="module")
def checked():
    return check(*read(), our_figures())


def test_every_claim_of_the_original_is_checked_or_says_why_not(checked):
    assert len(checked) >= 80
    for row in checked:
        assert row["checks"] or row["unchecked"], row["id"]
        assert row["verdict"] in VERDICTS


def test_no_verdict_is_typed():
    _, claims = read()
    for claim in claims:
        for kind in ("paper", "released", "ours"):
            assert str(claim.get(kind, {}).get("holds", "a > b")) not in ("True", "False")


def test_all_sections_of_the_original_with_results_are_there(checked):
    sections = {row["section"] for row in checked}
    assert {"abstract", "5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "6.5"} <= sections


def test_what_earlier_notebooks_make_is_all_that_claims_need(tmp_path):
    """In a folder of a variant's own there is nothing yet of the notebooks that come later."""
    made = [f"data/results/{name}.parquet" for name in (*OF_THE_PAPER, *MEASURED, "costs")]
    for name in (*made, "paper/tables/table_parameters.csv", "paper/tables/table_file_order.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert repr(our_figures(tmp_path)) == repr(our_figures())  # a NaN equals nothing
