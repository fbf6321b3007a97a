"""The gallery of notebooks: question, running time, first figure; anchors of what cells make."""

import base64
import io

import nbformat
import pytest
from PIL import Image

from paper import gallery

ABOUT = "# 7 · Costs & times\n\n**Question.** It grows. What does `ocrr` cost, then? Much.\n"


def notebook():
    """A notebook of which the second cell shows a figure within HTML."""
    picture = io.BytesIO()
    Image.new("RGBA", (900, 450)).save(picture, format="PNG")
    text = base64.b64encode(picture.getvalue()).decode()
    html = f'<img src="data:image/png;base64,{text}">'
    output = nbformat.v4.new_output("display_data", {"text/html": html})
    cells = [nbformat.v4.new_markdown_cell(ABOUT)]
    look = {"tags": ["table_costs", "hide-input", "growth"]}
    cells.append(nbformat.v4.new_code_cell("1", outputs=[output], metadata=look))
    cells.append(nbformat.v4.new_code_cell("2", metadata={"tags": ["injected-parameters"]}))
    return nbformat.v4.new_notebook(cells=cells, metadata={"papermill": {"duration": 61.5}})


def test_a_card_has_title_question_running_time_and_first_figure(tmp_path):
    card = gallery.card("07_costs", notebook())
    assert (card.title, card.question) == ("7 · Costs & times", "What does `ocrr` cost, then?")
    gallery.write_thumbnail(card.figure, tmp_path / "small.png")
    small = Image.open(tmp_path / "small.png")
    assert small.size == (gallery.WIDTH, gallery.WIDTH // 2)
    assert small.getpixel((0, 0)) == (255, 255, 255)
    page = gallery.page([card], "pictures")
    assert "Costs &amp; times" in page and "What does <code>ocrr</code> cost, then?" in page
    assert 'href="notebooks/07_costs.html"' in page and "pictures/07_costs.png" in page
    assert "2 min" in page


def test_a_notebook_without_figure_or_time_has_a_card_all_the_same():
    bare = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(ABOUT)])
    page = gallery.page([gallery.card("07_costs", bare)], "pictures")
    assert "Costs" in page and "<img" not in page and "<small>" not in page


@pytest.mark.parametrize(
    "seconds, text", [(3.2, "5 s"), (41, "45 s"), (60, "60 s"), (125, "3 min")]
)
def test_running_times_are_rounded(seconds, text):
    assert gallery.running_time(seconds) == text


def test_each_figure_and_table_has_an_anchor_before_its_cell():
    book = notebook()
    gallery.add_places(book, {"growth", "table_costs", "table_others"})
    sources = [cell.source for cell in book.cells[1:4]]
    assert sources == ['<div id="growth"></div>', '<div id="table_costs"></div>', "1"]
    assert "hide-input" in book.cells[-1].metadata["tags"]


def test_the_answer_stands_behind_the_question_and_the_rest_keeps_its_order():
    sources = ["# 1 · Asked", "how", "## Ways", "1 + 1", "## What came out", "2", "## Your turn"]
    cells = [nbformat.v4.new_markdown_cell(source) for source in sources]
    book = nbformat.v4.new_notebook(cells=cells)
    gallery.answer_first(book)
    answered = [sources[place] for place in (0, 4, 5, 1, 2, 3, 6)]
    assert [cell.source for cell in book.cells] == answered


def test_folded_cells_that_show_nothing_are_one_with_the_next():
    shown = nbformat.v4.new_output("stream", text="1")
    folds = [("a", "hide-input"), ("b", "hide-input"), ("c", "hide-input"), ("d", "hide-cell")]
    cells = [nbformat.v4.new_code_cell(code, metadata={"tags": [tag]}) for code, tag in folds]
    cells[1].outputs = [shown]
    book = nbformat.v4.new_notebook(cells=cells)
    gallery.join_folded(book)
    assert [cell.source for cell in book.cells] == ["a\n\nb", "c", "d"]
    assert book.cells[0].outputs == [shown]
