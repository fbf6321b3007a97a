"""Figures look the same on every machine."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from matplotlib.font_manager import FontEntry, FontProperties, findfont, fontManager

from ocrrlib.files import sha256
from paper import style

SHIPPED = Path(mpl.get_data_path(), "fonts/ttf")
OTHER = str(SHIPPED / "STIXGeneral.ttf")  # letters that look otherwise


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Draws a figure on a machine that knows some fonts; gives the hashes of its files, and the fonts it found."""

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
            found = [findfont(FontProperties(weight=weight)) for weight in ("normal", "bold")]
        return [sha256(tmp_path / f"figure.{suffix}") for suffix in ("pdf", "png")], found

    yield draw
    style.take_shipped_fonts.cache_clear()
    style.take_shipped_fonts()


@pytest.mark.parametrize(
    "fonts",
    [
        pytest.param([], id="none"),
        pytest.param([FontEntry(fname=OTHER, name="DejaVu Sans")], id="another of the name"),
        pytest.param([FontEntry(fname=OTHER, name="DejaVu Sans", weight=700)], id="another bold one"),
        pytest.param([FontEntry(fname=OTHER, name="Arial")], id="one that seaborn likes better"),
        pytest.param([FontEntry(fname="gone/DejaVuSans.ttf", name="DejaVu Sans")], id="one that is gone"),
    ],
)
def test_a_figure_is_the_same_whatever_fonts_a_machine_has(drawn, fonts):
    hashes, found = drawn(fontManager.ttflist)
    assert found == [str(SHIPPED / "DejaVuSans.ttf"), str(SHIPPED / "DejaVuSans-Bold.ttf")]
    assert drawn(fonts) == (hashes, found)
    assert drawn([*fonts, *fontManager.ttflist]) == (hashes, found)
