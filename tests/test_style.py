"""Figures look the same on every machine, and leave no seed out."""

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.font_manager import FontEntry, FontProperties, findfont, fontManager

from ocrrlib.experiments import COMPARED, OURS
from ocrrlib.files import sha256
from ocrrlib.systems import SYSTEMS
from paper import figures, style

SHIPPED = Path(mpl.get_data_path(), "fonts/ttf").resolve()
OTHER = str(SHIPPED / "STIXGeneral.ttf")  # letters that look otherwise


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Draws a figure on a machine that knows some fonts: hashes of its files, and fonts found."""

    def draw(fonts):
        style.take_shipped_fonts.cache_clear()
        with monkeypatch.context() as patch, mpl.rc_context():
            patch.setattr(fontManager, "ttflist", list(fonts))
            fontManager._findfont_cached.cache_clear()
            style.apply()
            figure, axes = plt.subplots(figsize=(2, 1))
            axes.set_title("seven $x_1$", weight="bold")
            style.save(figure, "figure", tmp_path)
            plt.close(figure)
            found = [
                Path(findfont(FontProperties(weight=weight))).resolve()
                for weight in ("normal", "bold")
            ]
        return [sha256(tmp_path / f"figure.{suffix}") for suffix in ("pdf", "png")], found

    yield draw
    style.take_shipped_fonts.cache_clear()
    style.take_shipped_fonts()


# None; another of the name; one that seaborn prefers.
@pytest.mark.parametrize("name", [None, "DejaVu Sans", "Arial"])
def test_a_figure_is_the_same_whatever_fonts_a_machine_has(drawn, name):
    fonts = [FontEntry(fname=OTHER, name=name)] if name else []
    hashes, found = drawn(fontManager.ttflist)
    assert found == [SHIPPED / "DejaVuSans.ttf", SHIPPED / "DejaVuSans-Bold.ttf"]
    assert drawn(fonts) == (hashes, found)
    assert drawn([*fonts, *fontManager.ttflist]) == (hashes, found)


def test_a_seed_whose_stream_is_over_stays_where_it_ended():
    rows = [(0, 0, 0, 0.0), (0, 10, 4, 0.5), (1, 0, 0, 0.0), (1, 10, 2, 0.1), (1, 20, 8, 0.7)]
    cell = pd.DataFrame(rows, columns=["seed", "step", "corrections", "novel_acc"])
    x, found = figures.mean_curve(cell, "novel_acc")
    assert x.tolist() == [0, 3, 6] and found.tolist() == [[0.0, 0.5, 0.5], [0.0, 0.1, 0.7]]


def test_every_compared_system_has_the_colour_of_its_family_and_so_has_a_new_one(monkeypatch):
    colours = {name: style.family_colour(name) for name in COMPARED}
    assert colours["er"] == colours["gdumb"] != colours["slda"] == colours["ranpac"]
    assert colours[OURS] not in {colours["substrate"], colours["slda"], colours["ewc"]}
    new = replace(SYSTEMS["slda"], module="rivals.new")
    monkeypatch.setitem(SYSTEMS, "new", new)
    assert style.family_colour("new") == colours["slda"]
