"""One look for all figures: sizes for print, and a fixed colour and marker for every system."""

import seaborn as sns

from ocrrlib.files import atomic

WIDTH = 7.0  # inches, the text width of a page

# Okabe and Ito's colours, told apart under all common colour vision deficiencies;
# every system has a marker of its own, too, so that figures also read in grey.
STYLES = {
    "substrate": ("#D55E00", "*"),
    "knn_lm": ("#0072B2", "s"),
    "river_logreg": ("#CC79A7", "X"),
    "online_linear": ("#009E73", "o"),
    "a_gem": ("#E69F00", "^"),
    "ewc": ("#56B4E9", "v"),
    "lwf": ("#B39B00", "D"),
    "static_linear": ("#000000", "P"),
    "static_knn": ("#808080", "p"),
    "bounded_reservoir": ("#882255", "h"),
    "bounded_fifo": ("#332288", "d"),
}
POLICY_TITLES = {"oracle": "oracle", "random50": "random-50", "random10": "random-10"}


def style_of(system):
    """Colour and marker of a system; all budgets of one eviction share theirs."""
    return STYLES[system if system in STYLES else system.rsplit("_", 1)[0]]


def apply():
    """Set fonts, lines and sizes for what is drawn from here on."""
    sns.set_theme(
        context="paper",
        style="ticks",
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
