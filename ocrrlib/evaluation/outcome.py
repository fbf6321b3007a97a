"""What an evaluation came to: its curves, its summary, its place among all that is published."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from ocrrlib.cards import published_cards
from ocrrlib.cards.cells import HELD_OUT, METRICS, cell_of, place_of
from ocrrlib.cards.check import VERSION
from ocrrlib.cards.standings import ranked, standings
from ocrrlib.errors import InputError
from ocrrlib.policies import POLICIES
from ocrrlib.statistics.anytime import measure
from ocrrlib.statistics.student import interval
from ocrrlib.stream import EVERY

_MADE = ("system", "made_with")  # of what repeats an evaluation; the rest is of its cell


class Stopped(KeyboardInterrupt):
    """An evaluation that was stopped from the keyboard when seeds of it were done.

    Attributes
    ----------
    finished : Evaluation
        Of these seeds.
    """

    def __init__(self, finished, seeds):
        done = list(finished.curve["seed"].unique())
        left = ",".join(str(seed) for seed in seeds if seed not in done)
        super().__init__(
            f"stopped when {len(done)} of {len(seeds)} seeds of {finished.name} were done; left are seeds {left}"
        )
        self.finished = finished


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation:
    """What an evaluation came to.

    Attributes
    ----------
    curve : DataFrame
        One row per checkpoint: ``dataset``, ``encoder``, ``policy``, ``seed``, ``system``, ``step``,
        ``corrections``, ``novel_acc``, ``original_acc``, ``stored_entries``, ``storage_bytes``.
    about : dict
        What repeats it: ``system`` and ``made_with``, as cards have them, and of the cell ``fingerprint``,
        ``revision``, ``held_out``, ``draw``, ``cap``, ``every``, ``data``.
    """

    curve: pd.DataFrame
    about: dict

    @property
    def name(self):
        """The system's name."""
        return self.about["system"]["name"]

    @cached_property
    def runs(self):
        """One row per seed, as ``ocrrlib.statistics.anytime.measure`` has it; own policies may correct at any step."""
        policy = self.curve["policy"].iloc[0]
        return measure(self.curve.assign(policy=policy if policy in POLICIES else "oracle")).assign(policy=policy)

    @cached_property
    def summary(self):
        """One row per metric: ``mean``, ``sd``, ``low``, ``high`` (95 % t interval; NaN for one seed), ``n`` seeds."""
        rows = [{"metric": name} | interval(self.runs[column]) for name, column in METRICS.items()]
        return pd.DataFrame(rows)

    def compared(self):
        """This system's row among all published ones of its cell, best first by anytime novel accuracy.

        Systems that have collapsed come after all others, see ``ocrrlib.cards.standings.ranked``.

        Returns
        -------
        DataFrame
            As ``standings``, over the seeds that both have, of this system's too; ``own`` marks its row.

        Raises
        ------
        InputError
            If nothing is published for this cell, or not for any of these seeds.
        """
        own, published, known = self.card(), published_cards(), {}
        place = place_of(own["cells"][0])
        for cell in (cell for card in published for cell in card["cells"]):
            known.setdefault(place_of(cell), set()).update(cell["seeds"])
        if place not in known:
            names = dict.fromkeys(f"{name}, {policy}, {encoder}" for name, _, encoder, policy, *_ in known)
            raise InputError(
                f"nothing is published to compare {self._cell} with; there are: {'; '.join(names) or 'no cards'}, "
                f"{HELD_OUT} classes held out, tested every {EVERY} stream items"
            )
        shared = known[place] & set(own["cells"][0]["seeds"])
        if not shared:
            seeds = ", ".join(map(str, sorted(known[place])))
            raise InputError(
                f"none of the seeds of {self.name} is published for {self._cell}: evaluate some of the seeds {seeds}"
            )
        rivals = standings(published, place, seeds=shared).assign(own=False)
        mine = standings([own], place, seeds=shared).assign(own=True)
        return ranked(pd.concat([mine, rivals], ignore_index=True))

    def against(self, other):
        """What this system has over another one on the same streams, in pairs of one seed.

        The two may read different embeddings, or one of them sentences.

        Parameters
        ----------
        other : Evaluation
            Of the same dataset, under the same policy; only seeds that both have are compared.

        Returns
        -------
        DataFrame
            One row per metric: ``mean``, ``sd``, ``low``, ``high`` (95 % t interval; NaN for one seed) of the
            differences, ``n`` seeds, and in how many of them this system is ``higher`` or ``lower``.

        Raises
        ------
        InputError
            If their streams are not the same, or they have no seed in common.
        """
        self._check_same_streams(other)
        pairs = self.runs.merge(other.runs, on="seed", suffixes=("", " of the other"))
        if pairs.empty:
            seeds = ", ".join(map(str, other.runs["seed"]))
            raise InputError(f"{self.name} and {other.name} have no seed in common: evaluate some of the seeds {seeds}")
        rows = []
        for name, column in METRICS.items():
            gaps = (pairs[column] - pairs[f"{column} of the other"]).to_numpy()
            counts = {"higher": int((gaps > 0).sum()), "lower": int((gaps < 0).sum())}
            rows.append({"metric": name} | interval(gaps) | counts)
        return pd.DataFrame(rows)

    def plot(self, *others):
        """The curve with its spread, and the plane of novel against original accuracy with all published systems.

        In the plane all are shown as ``compared`` has them, over the seeds that both have.

        Parameters
        ----------
        *others : Evaluation
            Further ones on the same streams, to be shown beside this one.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        InputError
            If the others met other streams or have other seeds, two have one name, or matplotlib or seaborn is not
            installed.
        """
        for other in others:
            self._check_same_streams(other)
            if set(other.runs["seed"]) != set(self.runs["seed"]):
                raise InputError(f"{self.name} and {other.name} have other seeds: draw evaluations of the same ones")
        names = [one.name for one in (self, *others)]
        if len(set(names)) < len(names):
            raise InputError(f"two of {', '.join(names)} have one name: give each its own, evaluate(..., name=...)")
        try:
            from ocrrlib.report.evaluation import draw  # slow to import, and optional
        except ImportError as error:
            raise InputError(f"a plot needs {error.name}, which is not installed: pip install {error.name}") from error
        return draw(self, *others)

    def card(self, source="own run"):
        """A result card of it, as a dict; ``source`` says whose result it is.

        Raises
        ------
        InputError
            If the policy is one's own: a card must say how to repeat it, and no name does.
        """
        policy = self.curve["policy"].iloc[0]
        if policy not in POLICIES:
            raise InputError(f"policy {policy!r} is known to this run only: cards are for {', '.join(POLICIES)}")
        cell = cell_of(self.runs, **{name: value for name, value in self.about.items() if name not in _MADE})
        about = {name: self.about[name] for name in _MADE}
        return {"version": VERSION, "source": source, "cells": [cell]} | about

    @property
    def _stream(self):
        """What makes the streams of two evaluations the same for equal seeds, beside the data."""
        return self.curve.iloc[0][["dataset", "policy"]].to_dict() | {
            name: self.about[name] for name in ("held_out", "draw", "cap", "every")
        }

    def _check_same_streams(self, other):
        if not isinstance(other, Evaluation):
            raise InputError(f"a {type(other).__name__} is no evaluation: give what evaluate returned")
        own, its = self._stream, other._stream
        apart = [f"{name} {own[name]} and {its[name]}" for name in own if own[name] != its[name]]
        if not apart and self._rows != other._rows:
            apart = ["other rows, or split otherwise"]
        if apart:
            raise InputError(
                f"{self.name} and {other.name} met different streams ({', '.join(apart)}): evaluate both on the same"
            )

    @property
    def _rows(self):
        """What pins the data: files and split, whatever encoded them; of rows that are from no file, their hash."""
        return self.about["data"] if self.about["data"].get("sources") else self.about["fingerprint"]

    @property
    def _cell(self):
        first = self.curve.iloc[0]
        held_out = f"{self.about['held_out']} classes held out"
        often = "" if self.about["every"] == EVERY else f", tested every {self.about['every']} stream items"
        return f"{first['dataset']}, {first['policy']}, {first['encoder']}, {held_out}{often}"

    def __repr__(self):
        rows = self.summary.set_index("metric")
        parts = [f"{name} {rows.at[name, 'mean']:.3f}" for name in METRICS if name != "corrections"]
        parts.append(f"{rows.at['corrections', 'mean']:.0f} corrections")
        return f"<{self.name} on {self._cell}, {len(self.runs)} seeds: {', '.join(parts)}>"
