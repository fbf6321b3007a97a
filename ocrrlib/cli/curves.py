"""An evaluation in lines of text."""

import sys

BARS, PLAIN = "▁▂▃▄▅▆▇█", "_.,-=+*#"


def can_print(text):
    """Whether stdout has all characters of a text; a file or an older terminal may be in another encoding."""
    try:
        return bool(text.encode(sys.stdout.encoding or "utf-8"))
    except UnicodeEncodeError:
        return False


def sparkline(values):
    """Accuracies as a line of bars, one for each checkpoint."""
    bars = BARS if can_print(BARS) else PLAIN
    return "".join(bars[min(int(value * len(bars)), len(bars) - 1)] for value in values)


def text_lines(evaluation):
    """An evaluation in lines of text: curves, then each metric with its interval."""
    curve = evaluation.curve
    reached = curve.groupby("seed")["step"].max().min()  # streams differ in length: as far as all of them go
    mean = curve[curve["step"] <= reached].groupby("step")[["novel_acc", "original_acc"]].mean()
    first = curve.iloc[0]
    yield f"{evaluation.name} on {first['dataset']}, {first['policy']}: {len(evaluation.runs)} seeds"
    for name in ("novel", "original"):
        yield f"  {name:<9} {sparkline(mean[f'{name}_acc'])}"
    for row in evaluation.summary.to_dict("records"):
        digits = 1 if row["metric"] == "corrections" else 3
        between = f"  ({row['low']:.{digits}f} to {row['high']:.{digits}f})" if row["n"] > 1 else ""
        yield f"  {row['metric']:<17} {row['mean']:.{digits}f}{between}"
    shares = evaluation.summary[evaluation.summary["metric"] != "corrections"]
    if shares["low"].min() < 0 or shares["high"].max() > 1:
        yield "  (each a 95 % t interval of the mean, not cut off where it leaves 0 or 1: more seeds make it narrower)"
