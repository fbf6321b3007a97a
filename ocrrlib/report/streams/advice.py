"""Harder streams: what happens, in sentences, and what a practitioner should do."""

import re

import pandas as pd

from ocrrlib.report.streams.differences import MARK
from paper.tables import Table

# What was found, and what to do about it; values stand in braces.
ADVICE = {
    "wrong": (
        "At the highest rate of wrong labels, all of the nearest class, final novel accuracy is lower by "
        "{wrong.ours_lost} for ours, {wrong.slda_lost} for SLDA, {wrong.substrate_lost} for the substrate, "
        "{wrong.reservoir_lost} for its reservoir, {wrong.knn_lm_lost} for the kNN-LM and {wrong.linear_lost} for the "
        "linear head. Original accuracy moves by {wrong.original_most} at most. In the end {wrong.substrate_memory} "
        "of the substrate's entries are wrong, and {wrong.ours_memory} of ours.",
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
        "With one question for every ten items, asking by margin instead of at random changes novel accuracy by "
        "{asked.ours_gained} for ours, which comes to {asked.ours_end}, and by {asked.substrate_gained} for the "
        "substrate; the {asked.slda_gained} of SLDA cannot be told from 0. Of {asked.shares} shares, the change is "
        "above 0 at {asked.ours_shares} for ours, by its interval at {asked.ours_sure}; at {asked.slda_shares} for "
        "SLDA, by its interval at {asked.slda_sure}; for the substrate it is below 0 at {asked.substrate_shares}, by "
        "its interval at {asked.substrate_sure}. By entropy {asked.ours_met} more questions to ours meet a mistake, "
        "but its change of {asked.ours_gained_entropy} cannot be told from 0; by its interval the substrate loses at "
        "{asked.substrate_sure_entropy} shares, the kNN-LM at {asked.knn_lm_sure_entropy}.",
        "These runs favour asking ours where the two likeliest classes are close, and SLDA, too, if many questions may "
        "be asked; the substrate rather at random. More seeds would have to confirm it: corrected for their number, "
        "none of these changes stands. Do not ask where the entropy of a vote is high.",
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
        "{new.substrate_original} for the substrate. With {new.most}, ours ends {new.ours_over_original} from the "
        "substrate on original classes, which cannot be told from 0, either.",
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
        "seeds; in brackets stand paired 95 % t-intervals of differences. Where one includes 0, the seeds cannot tell. "
        f"Of {texts['differences']} differences {texts['clear']} leave it out; corrected by Holm for all of its study, "
        f"{texts['standing']} do ({MARK})."
    )
    return Table("table_stream_advice", caption, text.set_axis(["study", "found", "advice"], axis=1), text)
