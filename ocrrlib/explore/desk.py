"""The correction desk without its widgets: ask, see why, correct, ask again, and watch the ledger."""

from difflib import get_close_matches

import numpy as np
import pandas as pd

from ocrrlib.errors import InputError, pick
from ocrrlib.own import n_held_out
from ocrrlib.experiments import EXPERIMENTS
from ocrrlib.explore.desk_chain import Chain
from ocrrlib.explore.desk_replies import reply_to
from ocrrlib.explore.queries import Typed
from ocrrlib.scenario import PAPER_CAP, make_scenario
from ocrrlib.systems import SYSTEMS, make

CHOICES = EXPERIMENTS["beyond"].systems
MOST = 3  # systems side by side


class Desk:
    """One to three systems that meet the same queries and the same corrections.

    Parameters
    ----------
    data : Embedded
        The dataset; some of its classes are held out, and are new to the systems.
    systems : sequence of str
        Names in ``CHOICES``; those that keep entries show neighbours, the first with a ledger its chain.
    seed : int
        Seed of the scenario and of the systems.
    held_out : int, optional
        New classes; by default 10, or a quarter where that is fewer.
    cap : int or None
        Test rows per axis that accuracies are measured on.
    encoder : str or callable, optional
        What encodes typed queries; by default what the dataset was embedded by.
    texts : Texts, optional
        The dataset's sentences, to show test rows in words.

    Raises
    ------
    InputError
        If a system is unknown, or there are none, too many, or the same twice.
    """

    def __init__(self, data, systems=("substrate",), seed=0, held_out=None, cap=PAPER_CAP, encoder=None, texts=None):
        held_out = n_held_out(held_out, data)
        self.data, self.texts, self.seed = data, texts, seed
        self.scenario = make_scenario(data, seed, cap=cap, held_out=held_out)
        self.typed = Typed(data.encoder if encoder is None else encoder, texts)
        self.ids = {name: id for id, name in enumerate(data.classes)}
        self.new = {data.classes[id] for id in self.scenario.held_out}
        self._order = np.random.default_rng([seed, 7]).permutation(len(data.y_test))
        self._start(systems)

    def _start(self, systems):
        systems = tuple(systems)
        if not 1 <= len(systems) <= MOST or len(set(systems)) < len(systems):
            raise InputError(f"systems {', '.join(systems) or 'none'}: give 1 to {MOST} different ones")
        known = {name: SYSTEMS[name] for name in CHOICES}
        for name in systems:
            pick("system of the desk", name, known)
        s = self.scenario
        fitted = {name: make(name, self.seed) for name in systems}
        for system in fitted.values():
            system.fit(s.X_initial, s.y_initial, s.classes)
        self.systems, self.corrected, self.streamed, self._said = fitted, [], 0, {}
        self._watches, self._measured = {name: system.watch(s.queries) for name, system in fitted.items()}, []
        self._measure()
        self.chain, self._asked = Chain(fitted, self.data.classes), None

    def compare(self, systems):
        """Other systems at the same desk: they start afresh and get all corrections made so far."""
        made, streamed, asked = self.corrected, self.streamed, self._asked
        self._start(systems)
        for x, label in made:
            self._learn(x, label)
        self.streamed, self._asked = streamed, asked

    def restart(self):
        """Forget all corrections."""
        self._start(self.systems)

    def id_of(self, label):
        """A class's id by its name.

        Raises
        ------
        InputError
            If there is no such class.
        """
        if label not in self.ids:
            close = get_close_matches(str(label), list(self.ids), n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise InputError(f"unknown class {label!r}{hint}: choose one of the {len(self.ids)} classes of the dataset")
        return self.ids[label]

    # Asking

    def row_title(self, row):
        """A test row in words: its sentence where the texts are at hand."""
        return self.texts.test[row] if self.texts else f"test row {row}"

    def draw(self, label=None, new=None):
        """A test row to ask about: the next in a random order that is not yet asked.

        Parameters
        ----------
        label : str, optional
            Only of this class.
        new : bool, optional
            Only of classes that are new, or known from the start.

        Raises
        ------
        InputError
            If the class is unknown or has no test row.
        """
        wanted = {self.id_of(label)} if label is not None else set(range(len(self.ids)))
        if new is not None:
            wanted &= {id for name, id in self.ids.items() if (name in self.new) == new}
        rows = [int(row) for row in self._order if self.data.y_test[row] in wanted]
        if not rows:
            raise InputError(f"there is no test row of {label or 'these classes'}: choose another class")
        return next((row for row in rows if self.row_title(row) not in self._said), rows[0])

    def ask(self, query):
        """Ask all systems: a text, or the number of a test row; a ``Reply``.

        Raises
        ------
        InputError
            If the text is empty or cannot be encoded here, or there is no such row.
        """
        if isinstance(query, str):
            self._asked = query.strip(), self.typed(query), None
        else:
            n = len(self.data.y_test)
            if not (isinstance(query, (int, np.integer)) and 0 <= query < n):
                raise InputError(f"there is no test row {query!r}: give 0 to {n - 1}")
            self._asked = self.row_title(query), self.data.X_test[query], self.data.classes[self.data.y_test[query]]
        return self.again()

    def again(self):
        """Ask the last query again.

        Raises
        ------
        InputError
            If nothing was asked yet.
        """
        title, x, truth = self._last()
        reply = reply_to(title, x, truth, self.systems, self.data.classes, self.new, self._said.get(title, {}))
        self._said[title] = reply.answers["answer"].to_dict()
        return reply

    def _last(self):
        if self._asked is None:
            raise InputError("nothing was asked yet: type a query or take a test row, and ask")
        return self._asked

    # Correcting

    def correct(self, label):
        """Tell all systems the class of the last query.

        Raises
        ------
        InputError
            If nothing was asked yet or there is no such class.
        """
        _, x, _ = self._last()
        self._learn(x, self.id_of(label))

    def _learn(self, x, id):
        for system in self.systems.values():
            system.correct(x, id)
        self.corrected.append((x, id))
        self.chain.restore()
        self._measure()

    def _measure(self):
        """Note where all systems stand on the test rows after the corrections made so far."""
        s = self.scenario
        for name, answer in self._watches.items():
            novel, original = np.split(answer(np.arange(len(s.y_stream), len(s.queries))), [len(s.y_novel)])
            accuracies = {"novel": np.mean(novel == s.y_novel), "original": np.mean(original == s.y_original)}
            self._measured.append({"corrections": len(self.corrected), "system": name} | accuracies)

    def stream(self, n=50):
        """Let the next ``n`` stream items pass; where the first system errs, all are corrected.

        Returns
        -------
        items, corrections : int
            How many passed and how many were corrected; fewer than ``n`` items where the stream ends.

        Raises
        ------
        InputError
            If the stream is over, or ``n`` is not positive.
        """
        s, start = self.scenario, self.streamed
        if not (isinstance(n, (int, np.integer)) and n > 0):
            raise InputError(f"{n!r} stream items are out of range: give a number from 1 up")
        if start == len(s.y_stream):
            raise InputError("the stream is over: start again, or correct by hand")
        answer, before = next(iter(self._watches.values())), len(self.corrected)
        for at in range(start, min(start + n, len(s.y_stream))):
            if answer(np.array([at]))[0] != s.y_stream[at]:
                self._learn(s.X_stream[at], int(s.y_stream[at]))
            self.streamed += 1
        return self.streamed - start, len(self.corrected) - before

    @property
    def history(self):
        """Accuracies on test rows after every correction: ``corrections``, ``system``, ``novel``, ``original``."""
        return pd.DataFrame(self._measured)
