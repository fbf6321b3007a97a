"""One look for all figures: sizes for print, and a fixed colour and marker for every system."""

from functools import cache
from pathlib import Path

import matplotlib as mpl
import seaborn as sns
from matplotlib.font_manager import fontManager

from ocrrlib.datasets import DATASETS
from ocrrlib.errors import pick
from ocrrlib.experiments import FULL_SWEEP, ONLINE, OURS, REPLAYS
from ocrrlib.files import atomic

WIDTH = 7.0  # inches, the text width of a page
FONT = "DejaVu Sans"  # comes with matplotlib

# Okabe and Ito's colours, told apart under all common colour vision deficiencies;
# every system has a marker of its own, too, so that figures also read in grey.
PALETTE = {
    "vermilion": "#D55E00",
    "blue": "#0072B2",
    "pink": "#CC79A7",
    "green": "#009E73",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "olive": "#B39B00",
    "brown": "#661100",
    "black": "#000000",
    "grey": "#808080",
    "wine": "#882255",
    "indigo": "#332288",
}
LOOKS = {
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
    "ledger_plda": ("black", "D"),
    "klda": ("green", "h"),
    "slda": ("sky", "d"),
    "online_linear_tuned": ("pink", "P"),
}
LINEAR = ("online_linear_tuned", "pa")
# Kinds of systems where there are too many for looks of their own: title, colour, marker, systems.
FAMILIES = (
    ("ours", "black", "D", (OURS,)),
    ("the paper's substrate", "vermilion", "*", ("substrate",)),
    ("other systems of the paper", "blue", "s", tuple(name for name in FULL_SWEEP if name != "substrate")),
    ("statistics of classes", "green", "o", tuple(name for name in ONLINE if name not in LINEAR)),
    ("replay", "orange", "X", REPLAYS),
    ("linear, online", "pink", "P", LINEAR),
)
POLICY_TITLES = {"oracle": "oracle", "random50": "random-50", "random10": "random-10"}


def title_of(dataset):
    """A dataset's name as readers know it; one's own has no other."""
    return DATASETS[dataset].title if dataset in DATASETS else dataset


def cell_title(dataset, policy):
    """A dataset and a policy as readers know them."""
    return f"{title_of(dataset)}, {POLICY_TITLES.get(policy, policy)}"


def style_of(system):
    """Colour and marker of a system; all budgets of one eviction share theirs."""
    colour, marker = LOOKS[system if system in LOOKS else system.rsplit("_", 1)[0]]
    return PALETTE[colour], marker


def family_of(system):
    """Title, colour and marker of the kind that a system is of."""
    kinds = {name: (title, PALETTE[colour], marker) for title, colour, marker, names in FAMILIES for name in names}
    return pick("system of the comparison", system, kinds)


@cache
def take_shipped_fonts():
    """Draw with the fonts that matplotlib brings, whatever is installed and whatever it has noted about that."""
    others, fontManager.ttflist = fontManager.ttflist, []
    for path in sorted(Path(mpl.get_data_path(), "fonts/ttf").glob("*.ttf")):
        fontManager.addfont(path)
    shipped = {font.name for font in fontManager.ttflist}
    fontManager.ttflist += [font for font in others if font.name not in shipped]


def apply():
    """Set fonts, lines and sizes for what is drawn from here on."""
    take_shipped_fonts()
    sns.set_theme(
        context="paper",
        style="ticks",
        font=FONT,
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


def save(figure, name, folder):
    """Write a figure as PDF and PNG without dates, so that the same figure gives the same bytes."""
    for suffix, metadata in {
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
        "png": {"Software": None},
    }.items():
        with atomic(folder / f"{name}.{suffix}") as temporary:
            figure.savefig(temporary, metadata=metadata)
