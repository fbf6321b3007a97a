"""The look of all figures: print sizes, names, a fixed colour and marker for every system."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from IPython.display import Image
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from ocrrlib.datasets import DATASETS
from ocrrlib.files import atomic
from ocrrlib.systems import SYSTEMS

WIDTH = 7.0  # inches, the text width of a page

# Okabe and Ito's colours and four more, distinct under all common colour vision deficiencies;
# every system has a marker of its own, too, so that figures also read in grey.
PALETTE = dict(
    vermilion="#D55E00",
    blue="#0072B2",
    pink="#CC79A7",
    green="#009E73",
    orange="#E69F00",
    sky="#56B4E9",
)
PALETTE |= dict(
    olive="#B39B00",
    brown="#661100",
    black="#000000",
    grey="#808080",
    wine="#882255",
    indigo="#332288",
)
RELEASED = "#A87C4F"  # of points that the original's authors released: no system's colour
STYLES = {
    "substrate": ("vermilion", "*"),
    "knn_lm": ("blue", "s"),
    "river_logreg": ("pink", "X"),
    "online_linear": ("green", "o"),
    "a_gem": ("orange", "^"),
    "ewc": ("sky", "v"),
    "lwf": ("olive", "D"),
    "lora": ("brown", ">"),
    "static_linear": ("black", "P"),
    "static_knn": ("grey", "p"),
    "bounded_reservoir": ("wine", "h"),
    "bounded_fifo": ("indigo", "d"),
    "ledger_lda": ("black", "D"),
    "klda": ("green", "h"),
    "klda_held": ("green", "o"),
    "ranpac": ("wine", "X"),
    "slda": ("sky", "d"),
    "ncm": ("orange", "v"),
    "online_linear_tuned": ("pink", "P"),
}
# Colours of families, for figures with more systems than styles: by the module of a system in the
# registry, or by its room.
FAMILIES = {
    "systems": "blue",  # the paper's
    "rivals": "green",  # statistics of classes
    "rivals.replay": "orange",
    "rivals.tuned": "pink",
    "rivals.passive_aggressive": "pink",
    "rivals.blind": "grey",
    "rivals.ledger_lda": "black",
}
ALONE = {"substrate": "vermilion"}  # systems that stand out of their family
FURTHER_DATASETS = {"trec": "TREC", "curekart": "Curekart"}
POLICY_TITLES = {"oracle": "oracle", "random50": "random-50", "random10": "random-10"}

MARK = "†"  # of a difference that stands after Holm's correction


@dataclass(frozen=True)
class Value:
    """A number and its display: ``digits`` decimals, then ``unit``, such as ``MB`` or ``%``.

    A difference also has the bounds of its interval (NaN for one seed), and whether it ``stands``.
    """

    value: float
    digits: int = 3
    unit: str = ""
    low: float = np.nan
    high: float = np.nan
    stands: bool = False

    @property
    def text(self) -> str:
        """The number for readers.

        Thousands are separated from 10,000 on, the minus sign is a real one, and the unit stays on
        the same line. An interval follows in brackets, and a mark if the difference stands.
        """
        unit = f"\N{NO-BREAK SPACE}{self.unit}" if self.unit else ""
        shown = self._shown(self.value) + unit
        if np.isfinite(self.low):
            shown += f" [{self._shown(self.low)}, {self._shown(self.high)}]" + MARK * self.stands
        return shown

    def _shown(self, number):
        shown = f"{abs(number):,.{self.digits}f}"
        if len(shown.partition(".")[0]) <= len("9,999"):
            shown = shown.replace(",", "")
        sign = "−" if number < 0 and shown.strip("0.") else ""
        return sign + shown

    def __neg__(self) -> "Value":
        """The same the other way round: what was added, as what is lost."""
        return replace(self, value=-self.value, low=-self.high, high=-self.low)

    def __rmul__(self, factor: float) -> "Value":
        """The number and its interval in another unit; ``factor`` is above zero."""
        times = (factor * number for number in (self.value, self.low, self.high))
        return replace(self, **dict(zip(("value", "low", "high"), times)))


def held(expectation: bool) -> str:
    """The beginning of a sentence that says what came of an expectation."""
    return "The expectation held" if expectation else "The expectation did not hold"


def title_of(dataset: str) -> str:
    """Display name of a dataset; a dataset of the user's own keeps its name."""
    if dataset in DATASETS:
        return DATASETS[dataset].title
    return FURTHER_DATASETS.get(dataset, dataset)


def cell_title(dataset: str, policy: str) -> str:
    """Display name of a dataset and a policy."""
    return f"{title_of(dataset)}, {POLICY_TITLES.get(policy, policy)}"


def style_of(system: str) -> tuple[str, str]:
    """Colour and marker of a system; all budgets of one eviction share theirs."""
    without_budget = system.rsplit("_", 1)[0]
    known = STYLES.get(system) or STYLES.get(without_budget)
    if known is None:  # a system that a reader adds to a grid
        return family_colour(system), "o"
    colour, marker = known
    return PALETTE[colour], marker


def family_colour(system: str) -> str:
    """Colour of a system's family, by the module that the registry names."""
    module = SYSTEMS[system].module
    room = module.partition(".")[0]
    return PALETTE[ALONE.get(system) or FAMILIES.get(module) or FAMILIES[room]]


@cache
def take_shipped_fonts() -> None:
    """Draw with the fonts that matplotlib ships, whatever fonts the machine has."""
    others = fontManager.ttflist
    fontManager.ttflist = []
    for path in sorted(Path(mpl.get_data_path(), "fonts/ttf").glob("*.ttf")):
        fontManager.addfont(path)
    shipped = {font.name for font in fontManager.ttflist}
    fontManager.ttflist += [font for font in others if font.name not in shipped]


def apply() -> None:
    """Set fonts, lines and sizes of all figures that follow."""
    take_shipped_fonts()
    sns.set_theme(
        context="paper",
        style="ticks",
        font="DejaVu Sans",
        font_scale=0.9,
        rc={
            "axes.grid": True,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "figure.constrained_layout.use": True,
            "figure.dpi": 110,
            "grid.color": "#E6E6E6",
            "grid.linewidth": 0.6,
            "legend.frameon": False,
            "lines.linewidth": 1.4,
            "pdf.fonttype": 42,
            "savefig.dpi": 300,
        },
    )


def save(figure: Figure, name: str, folder: Path) -> Image:
    """Write ``<name>.pdf`` and ``<name>.png``, and show the figure.

    They carry no dates, so that the same figure gives the same bytes.
    """
    undated = {
        "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
        "png": {"Software": None},
    }
    for suffix, metadata in undated.items():
        with atomic(folder / f"{name}.{suffix}") as temporary:
            figure.savefig(temporary, metadata=metadata)
    plt.close(figure)  # a notebook would draw it a third time
    return Image(folder / f"{name}.png", width=round(100 * figure.get_figwidth()))
