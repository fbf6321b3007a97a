"""Harder streams: what the studies come to, in numbers, and what a practitioner should do."""

import re

import pandas as pd

from ocrrlib.experiments import OURS
from ocrrlib.report.streams import detection, last, of_study
from ocrrlib.report.tables import Table
from ocrrlib.report.values import Value


def _points(value):
    return Value(100 * value, digits=1, unit="pp")


def _means(rows, study, by, metric="novel_acc"):
    """Means over seeds as a table: systems down, what the study varies across."""
    final = last(of_study(rows, study))
    return final.groupby(["system", *by])[metric].mean().unstack(by)


def quoted(rows):
    """Values for the prose, by key."""
    wrong, late = _means(rows, "wrong", ["confusion", "wrong"]), _means(rows, "late", ["delay"], "corrections")
    clean, most = wrong["none", 0.0], wrong["nearest"][max(wrong["nearest"])]
    asked, drift = _means(rows, "asked", ["asking", "p"]), _means(rows, "drift", ["drift"])
    taught = _means(rows, "asked", ["asking", "p"], "corrections").loc[OURS]
    path = _means(rows, "drift", ["drift"], "mean_novel")
    new, known = _means(rows, "new", ["new"]), _means(rows, "known", ["known"])
    kept = _means(rows, "new", ["new"], "original_acc")
    order, encoder = _means(rows, "order", ["order"], "original_acc"), _means(rows, "encoder", ["encoder"])
    digits, memory = _means(rows, "digits", ["new"]), _means(rows, "wrong", ["confusion", "wrong"], "wrong_entries")
    gained = {by: asked[by, 0.1] - asked["random", 0.1] for by in ("margin", "entropy")}
    found = detection(rows).groupby(["system", "score", "within", "metric", "when"])["value"].mean()
    cosine, probability = (found["substrate", score, "all"] for score in ("cosine", "probability"))
    queue, lexical = order.loc["bounded_fifo_1000"], encoder.columns[1]
    values = {
        "wrong.substrate_lost": _points(clean["substrate"] - most["substrate"]),
        "wrong.knn_lm_lost": _points(clean["knn_lm"] - most["knn_lm"]),
        "wrong.slda_lost": _points(clean["slda"] - most["slda"]),
        "wrong.ours_lost": _points(clean[OURS] - most[OURS]),
        "wrong.substrate_memory": Value(
            100 * memory["nearest", max(wrong["nearest"])]["substrate"], digits=1, unit="%"
        ),
        "late.items": Value(max(late), digits=0),
        "late.substrate_more": Value(100 * (late[max(late)] / late[0] - 1)["substrate"], digits=0, unit="%"),
        "late.slda_more": Value(100 * (late[max(late)] / late[0] - 1)["slda"], digits=0, unit="%"),
        "asked.slda_gained": _points(gained["margin"]["slda"]),
        "asked.substrate_gained": _points(gained["margin"]["substrate"]),
        "asked.ours_gained": _points(gained["margin"][OURS]),
        "asked.ours_gained_entropy": _points(gained["entropy"][OURS]),
        "asked.ours_tenth": asked["margin", 0.1][OURS],
        "asked.ours_corrections_entropy": Value(taught["entropy", 0.1], digits=0),
        "asked.ours_corrections_random": Value(taught["random", 0.1], digits=0),
        "drift.substrate_lost": _points((path["none"] - path["gradual"])["substrate"]),
        "drift.slda_lost": _points((path["none"] - path["gradual"])["slda"]),
        "drift.slda_end": _points((drift["none"] - drift["gradual"])["slda"]),
        "new.most": Value(max(new), digits=0),
        "new.substrate_one": new[min(new)]["substrate"],
        "new.substrate_most": new[max(new)]["substrate"],
        "new.slda_most": new[max(new)]["slda"],
        "new.substrate_original_lost": _points((kept[min(new)] - kept[max(new)])["substrate"]),
        "known.few": Value(min(known), digits=0),
        "known.all": Value(max(known), digits=0),
        "known.substrate_few": known[min(known)]["substrate"],
        "known.substrate_all": known[max(known)]["substrate"],
        "known.slda_few": known[min(known)]["slda"],
        "known.slda_all": known[max(known)]["slda"],
        "scope.cosine_before": cosine["auroc", "before"],
        "scope.cosine_after": cosine["auroc", "after"],
        "scope.cosine_let_through": Value(100 * cosine["fpr95", "after"], digits=0, unit="%"),
        "scope.probability_after": probability["auroc", "after"],
        "scope.linear_after": found["online_linear", "probability", "all", "auroc", "after"],
        "scope.slda_after": found["slda", "probability", "all", "auroc", "after"],
        "scope.ours_after": found[OURS, "probability", "all", "auroc", "after"],
        "scope.ours_let_through": Value(100 * found[OURS, "probability", "all", "fpr95", "after"], digits=0, unit="%"),
        "order.fifo_sorted": queue["file"],
        "order.fifo_shuffled": queue["shuffled"],
        "encoder.substrate_lost": _points((encoder[encoder.columns[0]] - encoder[lexical])["substrate"]),
        "encoder.slda_lost": _points((encoder[encoder.columns[0]] - encoder[lexical])["slda"]),
        "digits.substrate": digits.iloc[:, 0]["substrate"],
        "digits.slda": digits.iloc[:, 0]["slda"],
        "digits.linear_original": _means(rows, "digits", ["new"], "original_acc").iloc[:, 0]["online_linear"],
    }
    return {f"streams.{name}": value if isinstance(value, Value) else Value(value) for name, value in values.items()}


# What was found, and what to do about it; values stand in braces.
ADVICE = {
    "wrong": (
        "At the highest rate of wrong labels, all of the nearest class, the substrate loses {wrong.substrate_lost}, "
        "the kNN-LM {wrong.knn_lm_lost}, SLDA {wrong.slda_lost} and ours {wrong.ours_lost} of novel accuracy; "
        "{wrong.substrate_memory} of the substrate's entries are wrong.",
        "Where annotators err, prefer a system that averages over corrections to one that stores each.",
    ),
    "late": (
        "Corrections that are {late.items} items late cost {late.substrate_more} more corrections with the substrate "
        "and {late.slda_more} more with SLDA; what is known in the end does not suffer.",
        "Deliver corrections in batches if need be; what delay costs is annotators' time and accuracy on the way.",
    ),
    "asked": (
        "With one question for every ten items, asking by margin instead of at random adds {asked.slda_gained} of "
        "novel accuracy for SLDA, {asked.ours_gained} for ours, which comes to {asked.ours_tenth}, and "
        "{asked.substrate_gained} for the substrate. By entropy, it is {asked.ours_gained_entropy} for ours, though "
        "more questions meet a mistake: {asked.ours_corrections_entropy}, at random {asked.ours_corrections_random}.",
        "Ask where the two likeliest classes are close, if a model of the classes says how likely they are; where only "
        "neighbours do, ask at random.",
    ),
    "drift": (
        "If classes drift from their centre outwards, novel accuracy averaged over the stream is lower by "
        "{drift.substrate_lost} for the substrate and {drift.slda_lost} for SLDA; in the end by {drift.slda_end} for "
        "SLDA.",
        "Collect first corrections from all over a class, not only typical ones.",
    ),
    "new": (
        "With one new class the substrate ends at {new.substrate_one}, with {new.most} at {new.substrate_most}, and "
        "SLDA at {new.slda_most}; the substrate's original accuracy is then lower by {new.substrate_original_lost}.",
        "Open many classes at once if need be: it is corrections per class that count.",
    ),
    "known": (
        "Started from {known.few} known classes the substrate ends at {known.substrate_few} on new ones and SLDA at "
        "{known.slda_few}; from {known.all} they end at {known.substrate_all} and {known.slda_all}.",
        "Start with few classes if that is all there is; compare only runs that know equally many.",
    ),
    "scope": (
        "The best cosine tells out-of-scope queries apart with an AUROC of {scope.cosine_before} before and "
        "{scope.cosine_after} after the stream, where it lets through {scope.cosine_let_through} of them at 95 % "
        "recall; the highest probability comes to {scope.probability_after} for the substrate, {scope.slda_after} for "
        "SLDA, {scope.linear_after} for the linear head, and {scope.ours_after} for ours, which lets through "
        "{scope.ours_let_through}.",
        "Reject by the distance to what is stored, or by the probability of a system that mixes several views, as "
        "ours; not by that of a vote or of a discriminant.",
    ),
    "order": (
        "A queue of 1,000 entries ends at {order.fifo_sorted} on original classes if the first rows are sorted by "
        "class, and at {order.fifo_shuffled} if they are shuffled.",
        "Shuffle the first rows, or keep a reservoir, which does not care.",
    ),
    "encoder": (
        "With the lexical encoder the substrate loses {encoder.substrate_lost} of novel accuracy and SLDA "
        "{encoder.slda_lost}.",
        "Without a sentence encoder, words and letters will do for a start.",
    ),
    "digits": (
        "On digits the substrate ends at {digits.substrate} on new classes and SLDA at {digits.slda}; the linear head "
        "keeps {digits.linear_original} of original accuracy.",
        "Neighbours and discriminants carry over to other modalities as they are; a linear head's step must be set "
        "anew.",
    ),
}


def advice(quoted):
    """One row per study: what was found, in numbers from ``quoted``, and what to do."""
    texts = {name.removeprefix("streams."): value.text for name, value in quoted.items()}

    def filled(sentence):
        return re.sub(r"\{([\w.]+)\}", lambda match: texts[match[1]], sentence)

    text = pd.DataFrame([(study, filled(found), what) for study, (found, what) in ADVICE.items()])
    text.columns = ["Study", "What happens", "What to do"]
    caption = "Harder streams: what happens, and what a practitioner should do. Numbers are means over seeds."
    return Table("table_stream_advice", caption, text.set_axis(["study", "found", "advice"], axis=1), text)
