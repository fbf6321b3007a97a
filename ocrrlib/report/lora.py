"""LoRA's figures and its table."""

import matplotlib.pyplot as plt
import pandas as pd

from ocrrlib.metrics import summarise
from ocrrlib.report.curves import AXES, legend, mark_end, mean_curve, unit
from ocrrlib.report.style import PALETTE, WIDTH, style_of
from ocrrlib.report.table import Table, accuracies, levels, spread

LOOKS = {  # colour and line style
    "lora": (style_of("lora")[0], "-"),
    "lora_no_dropout": (PALETTE["pink"], "--"),
    "lora_epochs_5": (PALETTE["sky"], "-"),
    "lora_epochs_10": (PALETTE["blue"], "-"),
    "lora_replay": (PALETTE["green"], "-"),
    "lora_replay_summed": (PALETTE["orange"], "-"),
}


def recovery(results, substrate):
    """Figure 6: LoRA and the substrate on one slice; thin lines are seeds, thick ones their mean, its end marked."""
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.3), sharey=True)
    both = {"lora": results[results["system"] == "lora"], "substrate": substrate}
    for axes, (axis, title) in zip(panels, AXES.items()):
        for system, cell in both.items():
            x, curves = mean_curve(cell, f"{axis}_acc")
            (colour, marker), mean = style_of(system), curves.mean(axis=0)
            axes.plot(x, mean, color=colour, marker=marker, markersize=4.5, markevery=(0.1, 0.3), linewidth=2)
            for _, run in cell.groupby("seed"):
                axes.plot(run["corrections"], run[f"{axis}_acc"], color=colour, linewidth=0.7, alpha=0.6)
            mark_end(axes, x, mean, colour, marker)
        axes.set(xlabel="corrections", title=title)
        unit(axes, "y")
    panels[0].set_ylabel("accuracy")
    legend(figure, list(both), 2)
    return figure


def variants(results):
    """What decides LoRA's curves: longer training, dropout, replay; means over seeds, bands from lowest to highest."""
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.5), sharey=True)
    for axes, (axis, title) in zip(panels, AXES.items()):
        for system, cell in results.groupby("system", sort=False):
            x, curves = mean_curve(cell, f"{axis}_acc")
            (colour, line), mean = LOOKS[system], curves.mean(axis=0)
            axes.fill_between(x, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.12, linewidth=0)
            axes.plot(x, mean, color=colour, linestyle=line, label=system)
            mark_end(axes, x, mean, colour)
        axes.set(xlabel="corrections", title=title)
        unit(axes, "y")
    panels[0].set_ylabel("accuracy")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def table(results, substrate):
    """Section 5.5: LoRA and its variants beside the substrate, before and after the stream."""
    both = pd.concat([results, substrate], ignore_index=True)
    summary = summarise(both)
    start = both[both["step"] == 0].groupby("system", sort=False)["original_acc"]
    summary["start"], summary["start_std"] = start.mean().to_numpy(), start.std(ddof=0).to_numpy()
    text = {"System": summary["system"], "Original at the start": spread(summary["start"], summary["start_std"])}
    text |= accuracies(summary) | {"Corrections": [f"{n:.0f}" for n in summary["corrections"]]} | levels(summary)
    caption = (
        "LoRA and its variants on Banking77, oracle policy, with the substrate on the same draws: original accuracy "
        "before the stream, final accuracies (mean ± SD over seeds) and corrections."
    )
    return Table("table_lora", caption, summary, pd.DataFrame(text))
