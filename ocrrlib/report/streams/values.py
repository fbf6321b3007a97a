"""Harder streams: what the studies come to, in numbers."""

from ocrrlib.experiments import OURS
from ocrrlib.report.streams.differences import ALPHA, METRICS, Difference, compared
from ocrrlib.report.streams.rows import detection, last, of_study
from paper.values import Value

NAMES = {"substrate": "substrate", "slda": "slda", "ours": OURS}
ALL = NAMES | {"reservoir": "bounded_reservoir_1000", "knn_lm": "knn_lm", "linear": "online_linear"}
FIFO, COSINE = "bounded_fifo_1000", "substrate, cosine"
ASKED = 10  # % of the items asked about where one share is quoted; set before the runs at equal budgets
# The setting of each study that is quoted, and what it is compared with.
WORST = {
    "wrong": ("40 % wrong, nearest", "0 % wrong, none"),
    "late": ("200 late", "0 late"),
    "asked": (f"{ASKED} % asked, margin", f"{ASKED} % asked, random"),
    "drift": ("gradual drift", "none drift"),
    "new": ("40 new", "1 new"),
    "known": ("5 known", "67 known"),
    "scope": ("after", "before"),
    "order": ("shuffled", "file"),
    "encoder": ("tfidf-svd", "all-MiniLM-L6-v2"),
}


class Studies:
    """Means over seeds, and paired differences, of the rows of all studies."""

    def __init__(self, rows):
        self.rows, self.table = rows, compared(rows)
        self.places = self.table.set_index(["study", "system", "setting", "than", "metric"]).sort_index()
        self.final = last(rows)

    def mean(self, study, system, metric="novel_acc", **setting):
        """A metric at the end, by the values of its setting."""
        runs = of_study(self.final, study)
        for name, value in ({"system": system} | setting).items():
            runs = runs[runs[name] == value]
        return Value(runs[metric].mean())

    def added(self, study, system, metric="novel_acc", setting=None, than=None):
        """What a setting adds to the usual one, or a system to another, as ``Difference``."""
        usual = WORST.get(study, ("usual", None))
        return Difference.of(metric, self.places.loc[study, system, setting or usual[0], than or usual[1], metric])

    def most(self, study, metric):
        """The largest mean change of any system, either way."""
        worst = self.table[["study", "setting", "than", "metric"]].eq([study, *WORST[study], metric]).all(axis=1)
        _, size, digits, unit = METRICS[metric]
        return Value(size * self.table.loc[worst, "difference"].abs().max(), digits, unit)

    def shares(self, system, way, sign):
        """At how many shares of questions a way of asking differs from random in this direction; surely at how many."""
        rows = self.table[(self.table["study"] == "asked") & (self.table["metric"] == "novel_acc")]
        rows = rows[(rows["system"] == system) & rows["setting"].str.endswith(way)]
        low = rows["low"] if sign > 0 else -rows["high"]
        return int((sign * rows["difference"] > 0).sum()), int((low > 0).sum())


def _corrected(s):
    wrong = {f"wrong.{name}_lost": -s.added("wrong", system) for name, system in ALL.items()}
    wrong["wrong.original_most"] = s.most("wrong", "original_acc")
    for name in ("substrate", "ours"):
        share = s.mean("wrong", NAMES[name], "wrong_entries", wrong=0.4, confusion="nearest").value
        wrong[f"wrong.{name}_memory"] = Value(100 * share, digits=1, unit="%")
    late = {"late.items": int(s.final["delay"].max()), "late.original_most": s.most("late", "original_acc")}
    for name, system in NAMES.items():
        late[f"late.{name}_more"] = s.added("late", system, "corrections")
        late[f"late.{name}_way"] = -s.added("late", system, "mean_novel")
        late[f"late.{name}_end"] = s.added("late", system)
    return wrong | late


def _asked(s):
    found = {f"asked.{name}_gained": s.added("asked", system) for name, system in NAMES.items()}
    found["asked.ours_gained_entropy"] = s.added("asked", OURS, setting=f"{ASKED} % asked, entropy")
    found["asked.ours_met"] = s.added("asked", OURS, "corrections", f"{ASKED} % asked, entropy")
    found["asked.ours_end"] = s.mean("asked", OURS, asking="margin", p=ASKED / 100)
    found["asked.shares"] = int(of_study(s.final, "asked")["p"].nunique())
    for name, way, sign in (("ours", "margin", 1), ("slda", "margin", 1), ("substrate", "margin", -1)):
        found[f"asked.{name}_shares"], found[f"asked.{name}_sure"] = s.shares(NAMES[name], way, sign)
    found["asked.knn_lm_sure_entropy"] = s.shares("knn_lm", "entropy", -1)[1]
    found["asked.substrate_sure_entropy"] = s.shares("substrate", "entropy", -1)[1]
    return found


def _queries(s):
    found = {}
    for name, system in NAMES.items():
        found[f"drift.{name}_lost"] = -s.added("drift", system, "mean_novel")
        found[f"drift.{name}_end"] = -s.added("drift", system)
        found[f"known.{name}_novel"] = s.added("known", system)
        found[f"known.{name}_original"] = s.added("known", system, "original_acc")
        found[f"new.{name}_original"] = -s.added("new", system, "original_acc")
    found["drift.linear_end"] = s.added("drift", "online_linear")
    counts = {name: of_study(s.final, name)[name] for name in ("new", "known")}
    found |= {"new.fewest": int(counts["new"].min()), "new.most": int(counts["new"].max())}
    found |= {"known.few": int(counts["known"].min()), "known.all": int(counts["known"].max())}
    found["new.ours_over_original"] = s.added("new", OURS, "original_acc", than="substrate")
    for name in ("slda", "ours"):
        found[f"new.{name}_novel"] = s.added("new", NAMES[name])
        for axis in ("novel", "original"):
            for end in ("fewest", "most"):
                place = s.mean("new", NAMES[name], f"{axis}_acc", new=found[f"new.{end}"])
                found[f"new.{name}_{axis}_{end}"] = place
    return found


def _scope(s):
    found = detection(s.rows).groupby(["system", "score", "within", "metric", "when"])["value"].mean()
    cosine = found["substrate", "cosine", "all"]
    values = {
        "scope.cosine_before": Value(cosine["auroc", "before"]),
        "scope.cosine_after": Value(cosine["auroc", "after"]),
        "scope.cosine_gained": s.added("scope", COSINE, "auroc"),
        "scope.cosine_let_through": Value(100 * cosine["fpr95", "after"], digits=0, unit="%"),
        "scope.ours_let_through": Value(100 * found[OURS, "probability", "all", "fpr95", "after"], digits=0, unit="%"),
        "scope.ours_through": s.added("scope", f"{OURS}, probability", "fpr95", than=COSINE),
    }
    for name, system in (NAMES | {"linear": "online_linear"}).items():
        values[f"scope.{name}_after"] = Value(found[system, "probability", "all", "auroc", "after"])
        values[f"scope.{name}_below"] = -s.added("scope", f"{system}, probability", "auroc", than=COSINE)
    return values


def _rows(s):
    found, reservoir, tuned = {}, "bounded_reservoir_1000", "online_linear_tuned"
    for axis in ("novel", "original"):
        metric = f"{axis}_acc"
        found[f"order.fifo_{axis}"] = s.added("order", FIFO, metric)
        found[f"order.reservoir_{axis}"] = s.added("order", reservoir, metric)
        found[f"order.over_fifo_{axis}"] = s.added("order", reservoir, metric, than=FIFO)
        for name, system in (NAMES | {"linear": "online_linear"}).items():
            found[f"encoder.{name}_{axis}"] = -s.added("encoder", system, metric)
            found[f"digits.{name}_{axis}"] = s.mean("digits", system, metric)
        found[f"digits.tuned_{axis}"] = s.mean("digits", tuned, metric)
        found[f"digits.tuned_over_{axis}"] = s.added("digits", tuned, metric, than="online_linear")
    found["order.fifo_sorted"] = s.mean("order", FIFO, "original_acc", order="file")
    found["order.fifo_shuffled"] = s.mean("order", FIFO, "original_acc", order="shuffled")
    return found


def quoted(rows):
    """Values for the prose, by key; differences with their 95 % t-intervals over seeds."""
    s = Studies(rows)
    counts = {"seeds": int(rows["seed"].nunique()), "differences": len(s.table)}
    counts |= {"clear": int((s.table["p"] < ALPHA).sum()), "standing": int((s.table["p_holm"] < ALPHA).sum())}
    values = counts | _corrected(s) | _asked(s) | _queries(s) | _scope(s) | _rows(s)
    made = {name: value if isinstance(value, Value) else Value(value, digits=0) for name, value in values.items()}
    return {f"streams.{name}": value for name, value in made.items()}
