"""One published run, streamed again to see its inside: each class, each mix-up, each correction."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make

NO_ANSWER = "no answer"


class Recorder:
    """A system that notes what it answers to stream items, and when it is corrected.

    Parameters
    ----------
    system : System
        The system.
    n : int
        Stream items: the first ``n`` of the watched queries.
    """

    def __init__(self, system, n):
        self.system, self.n = system, n
        self.fit, self.storage = system.fit, system.storage
        self.answers, self.corrected = [], []

    def watch(self, Q):
        answer = self.system.watch(Q)

        def noted(rows):
            given = answer(rows)
            if len(rows) and rows[0] < self.n:
                self.answers.extend(given.tolist())
            return given

        return noted

    def correct(self, x, y):
        self.corrected.append(len(self.answers) - 1)
        self.system.correct(x, y)


@dataclass(frozen=True)
class Replay:
    """What a run was made of.

    Attributes
    ----------
    system, policy, seed
        Whose run it is.
    end : dict
        The last checkpoint: ``step``, ``corrections``, ``novel_acc``, ``original_acc``, ...
    stream : DataFrame
        One row per stream item, by its ``step``: ``row`` (number in the training file), ``class``, ``answered``,
        ``right``, ``corrected``.
    classes : DataFrame
        One row per class: ``new`` (met in the stream only), test ``rows``, accuracy ``before`` and ``after``.
    confusion : DataFrame
        Test rows at the end, by true class (index) and answer (columns).
    """

    system: str
    policy: str
    seed: int
    end: dict
    stream: pd.DataFrame
    classes: pd.DataFrame
    confusion: pd.DataFrame

    @property
    def kinds(self):
        """Test rows by the kind of class they are of, and by the kind of answer they get."""
        new = self.classes["new"]
        right = pd.Series(np.diag(self._square), index=new.index)
        mistakes = self._square - np.diag(right)
        rows = {}
        for kind, chosen in (("new classes", new), ("known classes", ~new)):
            own = mistakes.loc[chosen]
            rows[kind] = {
                "right": int(right[chosen].sum()),
                "another new class": int(own.loc[:, new].to_numpy().sum()),
                "another known class": int(own.loc[:, ~new].to_numpy().sum()),
            }
            if NO_ANSWER in self.confusion:
                rows[kind][NO_ANSWER] = int(self.confusion.loc[chosen, NO_ANSWER].sum())
        return pd.DataFrame.from_dict(rows, orient="index")

    @property
    def _square(self):
        return self.confusion[self.classes.index]

    def mixed_up(self, n=10):
        """The most frequent mistakes in which a new class is involved.

        Returns
        -------
        DataFrame
            ``class``, ``answered``, test ``rows``, ``kinds`` (such as "new as known"); equal ones by name.
        """
        pairs = self.confusion.rename_axis(index="class", columns="answered").stack().rename("rows").reset_index()
        kind = self.classes["new"].map({True: "new", False: "known"}).to_dict()
        kinds = [f"{kind[a]} as {kind.get(b, NO_ANSWER)}" for a, b in zip(pairs["class"], pairs["answered"])]
        pairs["kinds"] = kinds
        wrong = pairs[(pairs["class"] != pairs["answered"]) & (pairs["rows"] > 0) & pairs["kinds"].str.contains("new")]
        worst = wrong.sort_values(["rows", "class", "answered"], ascending=[False, True, True])
        return worst.head(n).reset_index(drop=True)


def replay(data, system, policy, seed, held_out, draw, cap):
    """Stream a scenario through a system of the registry, and keep its inside.

    Parameters
    ----------
    data : Embedded
        The dataset.
    system, policy : str
        Names in the registry and in ``POLICIES``.
    seed, held_out, draw, cap
        See ``make_scenario``.

    Returns
    -------
    Replay
    """
    scenario = make_scenario(data, seed, draw=draw, cap=cap, held_out=held_out)
    recorder = Recorder(make(system, seed), len(scenario.y_stream))
    checkpoints = list(run_stream(recorder, scenario, POLICIES[policy]))
    names = pd.Index(data.classes)
    stream = pd.DataFrame(
        {
            "row": _numbers(data, scenario, draw, cap).X_stream[:, 0],
            "class": names[scenario.y_stream],
            "answered": _named(recorder.answers, names),
            "right": np.array(recorder.answers) == scenario.y_stream,
            "corrected": np.isin(np.arange(len(scenario.y_stream)), recorder.corrected),
        },
        index=pd.RangeIndex(1, len(scenario.y_stream) + 1, name="step"),
    )
    truth = np.concatenate([scenario.y_novel, scenario.y_original])
    first, last = checkpoints[0].answers, checkpoints[-1].answers
    classes = pd.DataFrame({"class": names[truth], "before": first == truth, "after": last == truth})
    classes = classes.groupby("class").agg(rows=("after", "size"), before=("before", "mean"), after=("after", "mean"))
    classes.insert(0, "new", classes.index.isin(names[scenario.held_out]))
    confusion = pd.crosstab(names[truth], _named(last, names), dropna=False)
    columns = [*classes.index, *sorted(set(confusion.columns) - set(classes.index))]
    confusion = confusion.reindex(index=classes.index, columns=columns, fill_value=0)
    return Replay(system, policy, seed, checkpoints[-1].scalars, stream, classes, confusion)


def _named(ids, names):
    return [names[id] if id >= 0 else NO_ANSWER for id in ids]


def _numbers(data, scenario, draw, cap):
    """The same scenario with row numbers in the place of vectors."""
    numbered = {f"X_{part}": np.arange(len(getattr(data, f"y_{part}")))[:, None] for part in ("train", "test")}
    return make_scenario(replace(data, **numbered), scenario.seed, draw, cap, len(scenario.held_out))
