"""Harder streams: what the studies come to, in numbers, and what a practitioner should do."""

import re

import pandas as pd

from ocrrlib.experiments import OURS
from ocrrlib.report.stream_differences import METRICS, Difference, compared
from ocrrlib.report.streams import detection, last, of_study
from ocrrlib.report.tables import Table
from ocrrlib.report.values import Value

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
# Differences that the prose says the seeds cannot tell from 0; of all others it may say which way they go.
CANNOT_TELL = set(
    "wrong.ours_lost late.slda_end late.ours_end asked.slda_gained asked.ours_gained_entropy drift.substrate_end "
    "drift.ours_end new.slda_novel new.ours_novel scope.ours_through order.reservoir_novel order.reservoir_original "
    "encoder.linear_novel digits.tuned_over_novel digits.tuned_over_original".split()
)


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
        row = self.places.loc[study, system, setting or usual[0], than or usual[1], metric]
        _, size, digits, unit = METRICS[metric]
        mean, low, high = (size * row[name] for name in ("difference", "low", "high"))
        return Difference(mean, digits, unit, low, high)

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
    values = {"seeds": int(rows["seed"].nunique())} | _corrected(s) | _asked(s) | _queries(s) | _scope(s) | _rows(s)
    made = {name: value if isinstance(value, Value) else Value(value, digits=0) for name, value in values.items()}
    return {f"streams.{name}": value for name, value in made.items()}


# What was found, and what to do about it; values stand in braces.
ADVICE = {
    "wrong": (
        "At the highest rate of wrong labels, all of the nearest class, final novel accuracy is lower by "
        "{wrong.slda_lost} for SLDA, {wrong.substrate_lost} for the substrate, {wrong.reservoir_lost} for its "
        "reservoir, {wrong.knn_lm_lost} for the kNN-LM and {wrong.linear_lost} for the linear head; for ours it is "
        "{wrong.ours_lost}, which cannot be told from 0. Original accuracy moves by {wrong.original_most} at most. In "
        "the end {wrong.substrate_memory} of the substrate's entries are wrong, and {wrong.ours_memory} of ours.",
        "Where annotators err, use a model of the classes, as SLDA and ours have: these lose least. Votes of "
        "neighbours lose more, and a head that takes one gradient step for each correction loses most. Whether "
        "corrections are stored does not decide it: ours stores them all, the head none.",
    ),
    "late": (
        "With corrections {late.items} items late, the substrate needs {late.substrate_more} more of them, SLDA "
        "{late.slda_more} and ours {late.ours_more}; novel accuracy averaged over the stream is lower by "
        "{late.substrate_way}, {late.slda_way} and {late.ours_way}. In the end it is {late.substrate_end} higher for "
        "the substrate; the changes of SLDA, {late.slda_end}, and of ours, {late.ours_end}, cannot be told from 0. "
        "Original accuracy moves by {late.original_most} at most.",
        "If corrections must wait, expect more of them and lower accuracy on the way. For no system is it shown that "
        "it knows less of the new classes in the end.",
    ),
    "asked": (
        "With one question for every ten items, a share that was chosen before these runs, asking by margin instead of "
        "at random changes novel accuracy by {asked.ours_gained} for ours, which comes to {asked.ours_end}, and by "
        "{asked.substrate_gained} for the substrate; the {asked.slda_gained} of SLDA cannot be told from 0. Of "
        "{asked.shares} shares, the change is above 0 at {asked.ours_shares} for ours, surely at {asked.ours_sure}; at "
        "{asked.slda_shares} for SLDA, surely at {asked.slda_sure}; for the substrate it is below 0 at "
        "{asked.substrate_shares}, surely at {asked.substrate_sure}. By entropy {asked.ours_met} more questions to "
        "ours meet a mistake, but its change of {asked.ours_gained_entropy} cannot be told from 0; the substrate "
        "surely loses at {asked.substrate_sure_entropy} shares, the kNN-LM at {asked.knn_lm_sure_entropy}.",
        "With ours, ask where the two likeliest classes are close; with SLDA, too, if many questions may be asked. "
        "With the substrate, ask at random. Do not ask where the entropy of a vote is high.",
    ),
    "drift": (
        "If classes drift gradually from their centre outwards, novel accuracy averaged over the stream is lower by "
        "{drift.substrate_lost} for the substrate, {drift.slda_lost} for SLDA and {drift.ours_lost} for ours. In the "
        "end it is lower by {drift.slda_end} for SLDA and higher by {drift.linear_end} for the linear head; what the "
        "substrate loses, {drift.substrate_end}, and ours, {drift.ours_end}, cannot be told from 0.",
        "Collect first corrections from all over a class: typical ones alone cost accuracy on the way, though little "
        "of it in the end.",
    ),
    "new": (
        "With {new.fewest} new class SLDA ends at {new.slda_novel_fewest} on new and {new.slda_original_fewest} on "
        "original classes, ours at {new.ours_novel_fewest} and {new.ours_original_fewest}; with {new.most}, SLDA at "
        "{new.slda_novel_most} and {new.slda_original_most}, ours at {new.ours_novel_most} and "
        "{new.ours_original_most}. The changes of novel accuracy, {new.slda_novel} and {new.ours_novel}, cannot be "
        "told from 0; original accuracy is lower by {new.slda_original}, {new.ours_original}, and "
        "{new.substrate_original} for the substrate.",
        "Opening many classes at once instead of one costs original accuracy; what it does to novel accuracy, these "
        "runs cannot tell.",
    ),
    "known": (
        "Started from {known.few} known classes instead of {known.all}, the substrate ends {known.substrate_novel} "
        "higher on new classes, SLDA {known.slda_novel} and ours {known.ours_novel}; on the original classes, which "
        "are fewer then, {known.substrate_original}, {known.slda_original} and {known.ours_original} higher.",
        "Compare only runs that know equally many classes. To start from few is no hindrance to new ones.",
    ),
    "scope": (
        "The substrate's best cosine tells out-of-scope queries apart with an AUROC of {scope.cosine_before} before "
        "and {scope.cosine_after} after the stream, {scope.cosine_gained} more. The highest probability comes to "
        "{scope.ours_after} for ours, {scope.linear_after} for the linear head, {scope.substrate_after} for the "
        "substrate and {scope.slda_after} for SLDA: below that cosine by {scope.ours_below}, {scope.linear_below}, "
        "{scope.substrate_below} and {scope.slda_below}. At 95 % recall the cosine lets through "
        "{scope.cosine_let_through} of them and ours {scope.ours_let_through}, a difference of {scope.ours_through} "
        "that cannot be told from 0.",
        "Reject by the distance to what is stored; the probability of ours comes close to it. Do not reject by the "
        "probability of a vote or of a discriminant.",
    ),
    "order": (
        "A queue of 1,000 entries ends at {order.fifo_sorted} on original classes if the first rows are sorted by "
        "class; shuffled, at {order.fifo_shuffled}, a change of {order.fifo_original}, and of {order.fifo_novel} on "
        "new ones. What shuffling changes for a reservoir, {order.reservoir_original} and {order.reservoir_novel}, "
        "cannot be told from 0. The reservoir's original accuracy differs from that of the shuffled queue by "
        "{order.over_fifo_original}, its novel accuracy by {order.over_fifo_novel}.",
        "Shuffle the first rows before a queue sees them. A reservoir keeps more of the original classes than a "
        "shuffled queue, at a price in the new ones.",
    ),
    "encoder": (
        "With a lexical encoder, whose TF-IDF and SVD were fitted on all training sentences, those of the classes to "
        "come included, the substrate loses {encoder.substrate_novel} of novel and {encoder.substrate_original} of "
        "original accuracy, SLDA {encoder.slda_novel} and {encoder.slda_original}, and ours {encoder.ours_novel} and "
        "{encoder.ours_original}. The linear head loses {encoder.linear_original} of original accuracy; its loss of "
        "novel accuracy, {encoder.linear_novel}, cannot be told from 0.",
        "Without a sentence encoder, words and letters will do for a start, at a loss on both axes. One that has not "
        "seen sentences of the classes to come may lose more.",
    ),
    "digits": (
        "On digits the substrate ends at {digits.substrate_novel} on new and {digits.substrate_original} on original "
        "classes, SLDA at {digits.slda_novel} and {digits.slda_original}, ours at {digits.ours_novel} and "
        "{digits.ours_original}, the linear head at {digits.linear_novel} and {digits.linear_original}. With a step "
        "set by rehearsal on the known digits it ends at {digits.tuned_novel} and {digits.tuned_original}: changes of "
        "{digits.tuned_over_novel} and {digits.tuned_over_original}, which cannot be told from 0.",
        "Neighbours and models of classes carry over to this modality as they are. A linear head forgets known "
        "classes here, and setting its step anew does not mend that.",
    ),
}


def advice(quoted):
    """One row per study: what was found, in numbers from ``quoted``, and what to do."""
    texts = {name.removeprefix("streams."): value.text for name, value in quoted.items()}

    def filled(sentence):
        return re.sub(r"\{([\w.]+)\}", lambda match: texts[match[1]], sentence)

    text = pd.DataFrame([(study, filled(found), what) for study, (found, what) in ADVICE.items()])
    text.columns = ["Study", "What happens", "What to do"]
    caption = (
        f"Harder streams: what happens, and what a practitioner should do. Numbers are means over {texts['seeds']} "
        "seeds; in brackets stand paired 95 % t-intervals of differences. Where one includes 0, the seeds cannot tell."
    )
    return Table("table_stream_advice", caption, text.set_axis(["study", "found", "advice"], axis=1), text)
