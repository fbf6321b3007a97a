"""The correction desk: ask systems, see why, correct them, damage a copy of the ledger."""

import html
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import ipywidgets as widgets
import matplotlib as mpl
import numpy as np
import pandas as pd
import pooch
from IPython.core.pylabtools import print_figure
from IPython.display import HTML
from matplotlib.figure import Figure

from corrigible import CorrectionMemory, verify
from ocrrlib.chain import Fault
from ocrrlib.datasets import Texts, load_texts
from ocrrlib.embeddings import Embedded, encode, load, widen
from ocrrlib.encoders import DEFAULT_ENCODER, load_encoder
from ocrrlib.experiments import COMPARED
from ocrrlib.files import InputError
from ocrrlib.labels import label_of
from ocrrlib.scenario import make_scenario
from ocrrlib.search import top_k
from ocrrlib.systems import make
from paper import style
from studies.requests import requests

NONE = "–"  # no further system
NEW = "new classes"
KNOWN = "known classes"
COLOURS = {NEW: style.PALETTE["vermilion"], KNOWN: style.PALETTE["blue"]}
LINES = [style.PALETTE[name] for name in ("vermilion", "black", "green")]  # of up to three systems
DAMAGES = {  # to an entry of a file
    "relabel": ("give it another label", "UPDATE entries SET label = :label WHERE place = :place"),
    "remove": ("take it out", "DELETE FROM entries WHERE place = :place"),
    # Afterwards all entries are written again.
    "rewrite": ("relabel it and recompute all hashes", "DELETE FROM entries"),
}


def picture(figure: Figure, alt: str) -> HTML:
    """A figure as an image with a description."""
    data = print_figure(figure, bbox_inches=None, dpi=150, base64=True)
    look = f"width:{100 * figure.get_figwidth():.0f}px; max-width:100%"
    return HTML(f'<img src="data:image/png;base64,{data}" alt="{html.escape(alt)}" style="{look}">')


def table(frame: pd.DataFrame, marked: int | None = None) -> str:
    """A data frame as HTML, perhaps with a marked row; it scrolls where it is too wide."""
    shown = frame.rename({marked: f"▶ {marked}"}).rename_axis(index=None, columns=frame.index.name)
    left = [dict(selector="", props="margin-left:0"), dict(selector="*", props="text-align:left")]
    shown = shown.style.format(escape="html").set_table_styles(left)
    # Without a width of its own, it does not widen the flex boxes around it.
    look = "overflow-x:auto; width:0; min-width:100%; padding-right:0"
    box = f'<div class="jp-RenderedHTMLCommon" style="{look}">'
    return f"{box}{shown.to_html()}</div>"


class Desk:
    """One to three systems that meet the same queries and the same corrections.

    Ten classes of the dataset, or a quarter of few, are held out. Typed queries need an encoder, by
    default the dataset's; ``written`` has the vector and the class of some. Initial rows and
    corrections go to ``memory``, a ``CorrectionMemory`` in a file that ends with the desk.

    ``answers`` has what each system says to the last query, ``near`` the entries nearest to it, of
    each system that keeps any, ``history`` the accuracies on test rows at the start and after every
    correction.
    """

    def __init__(
        self,
        data: Embedded,
        systems: Sequence[str] = ("substrate",),
        seed: int = 0,
        texts: Texts | None = None,
        encoder: str | Callable | None = None,
        written: Mapping[str, tuple[np.ndarray, str]] | None = None,
    ):
        self._given = data
        self.data = data
        self.texts = texts
        self.encoder = encoder or data.encoder
        self.written = written or {}
        self.scenario = make_scenario(data, seed, held_out=min(10, max(1, len(data.classes) // 4)))
        self.new = {data.classes[id] for id in self.scenario.held_out}
        self._random = np.random.default_rng([seed, 7])
        self._folder = tempfile.mkdtemp(prefix="desk-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self.systems = systems
        self._memories = {}  # on that file, by the system that answers
        self.restart()

    def restart(self) -> None:
        """Forget query and corrections, and begin another file."""
        for memory in self._memories.values():
            memory.close()
        path = Path(self._folder) / "desk.sqlite"
        path.unlink(missing_ok=True)
        self.memory = CorrectionMemory.open(path)
        self._memories = {"substrate": self.memory}
        self._name_classes(self._given.classes)
        s = self.scenario
        self.memory.learn(s.X_initial, [s.classes[id] for id in s.y_initial])
        self.title = None
        self._x = None
        self.corrected = []
        self.streamed = 0
        self.compare(self.systems)

    def _name_classes(self, classes):
        """Know these classes: those of the dataset, then those of one's own."""
        self.data = replace(self.data, classes=classes)
        self.scenario = replace(self.scenario, classes=classes)
        kinds = {name: NEW for name in classes}
        kinds |= {name: KNOWN for name in self._given.classes if name not in self.new}
        self.kinds = dict(sorted(kinds.items(), key=lambda item: (item[1] == KNOWN, item[0])))

    def compare(self, systems: Sequence[str]) -> None:
        """Fit other systems; they get all corrections made so far, and the last query."""
        self.answers = None
        self.near = {}
        self._fit(systems)
        self.again()

    def _fit(self, systems):
        """Fit systems, and tell them all corrections made so far."""
        s = self.scenario
        made = self.corrected
        self.systems = {
            name: make(name, s.seed).fit(s.X_initial, s.y_initial, s.classes) for name in systems
        }
        self._watches = {
            name: system.watch(s.queries).answers for name, system in self.systems.items()
        }
        self.history = []
        self.corrected = []
        self._measure()
        for correction in made:
            self._learn(*correction)

    def draw(self, pool: str = NEW) -> int:
        """A random test row of a class, or of any new or known one."""
        names = [self.data.classes[id] for id in self.data.y_test]
        rows = [row for row, name in enumerate(names) if pool in (name, self.kinds[name])]
        if not rows:
            raise InputError(f"{pool!r} has no test rows: type a sentence, or take another class")
        return int(self._random.choice(rows))

    def ask(self, query: str | int) -> "Desk":
        """Ask a text, or a test row by its number; returns the desk, which a notebook shows."""
        if isinstance(query, str):
            title = query.strip()
            if not title:
                raise InputError("nothing is asked: type a sentence, or take a test row")
            x, truth = self.written.get(title, (None, None))
            if x is None:
                x = self._encoded(title)
        else:
            title = self.texts.test[query] if self.texts else f"test row {query}"
            x = self.data.X_test[query]
            truth = self.data.classes[self.data.y_test[query]]
        self.title = title
        self._x = x
        self.truth = truth
        self.answers = None
        return self.again()

    def _encoded(self, text):
        if not callable(self.encoder):
            self.encoder = load_encoder(self.encoder, self.texts and self.texts.train)
        return widen(encode([text], self.encoder))[0]

    def again(self) -> "Desk":
        """Ask the last query again, if there is one."""
        if self.title is None:
            return self
        rows = []
        for name, system in self.systems.items():
            rows.append({"system": name} | self._answer(name, system))
            entries = getattr(system, "entries", None)
            if entries:
                self.near[name] = self._nearest(entries)
        answers = pd.DataFrame(rows).set_index("system")
        self.answers = answers.loc[:, (answers != "").any()]
        return self

    def _answer(self, name, system):
        """What a system answers to the last query, by column; "" where there is nothing to say."""
        names = self.data.classes
        x = self._x[None]
        (id,) = system.predict(x)
        p = system.predict_proba(x)[0].copy()
        confidence = self._confidence(name, system, names[id])
        row = {
            "before": "" if self.answers is None else self.answers.at[name, "answer"],
            "answer": names[id],
            "right": "",
            "confidence": "" if confidence is None else f"{confidence:.2f}",
            "share of votes": f"{p[id]:.2f}" if confidence is None else "",
        }
        if self.truth:
            row["right"] = "✓" if names[id] == self.truth else "✗"
        p[id] = 0
        row["runner-up"] = names[p.argmax()] if p.any() else ""
        return row

    def _confidence(self, name, system, label):
        """A memory's probability that an answer to the last query is right; None without one."""
        if not hasattr(system, "read"):  # it reads no ledger
            return None
        if name not in self._memories:
            self._memories[name] = CorrectionMemory.open(self.memory.path, reader=name)
        answer = self._memories[name].predict(self._x)
        return answer.confidence if answer.label == label else None

    def _nearest(self, entries):
        """The five entries nearest to the last query: class, entry, cosine and kind."""
        most = min(5, entries.size)
        (cosines,), (slots,) = top_k(self._x[None], entries.X, entries.born, most)
        classes = [self.data.classes[id] for id in entries.y[slots]]
        near = pd.DataFrame({"class": classes, "entry": slots, "cosine": cosines})
        return near.assign(kind=near["class"].map(self.kinds))

    def correct(self, label: str, x: np.ndarray | None = None) -> None:
        """Tell all systems and the file the class of the last query, or of a row x (d,).

        A label that is not in the list is a class of your own. The systems, which are fitted for a
        list of classes, are fitted anew with it and get all corrections again.
        """
        if not label.strip():
            raise InputError("no class is given: choose one, or type a name of your own")
        label = label_of(label)
        if x is None and self.title is None:
            raise InputError("nothing was asked yet: type a query or take a test row, and ask")
        if x is None:
            x = self._x
            self.memory.correct(self.title, label, vector=x)
        else:
            self.memory.correct(x, label)
        if label not in self.kinds:
            self._name_classes((*self.data.classes, label))
            self._fit(self.systems)
        self._learn(label, x)

    def _learn(self, label, x):
        for system in self.systems.values():
            system.correct(x, self.data.classes.index(label))
        self.corrected.append((label, x))
        self._measure()

    def _measure(self):
        self.restore()
        s = self.scenario
        rows = np.arange(len(s.y_stream), len(s.queries))
        n = len(s.y_novel)
        right = {
            name: answer(rows) == np.append(s.y_novel, s.y_original)
            for name, answer in self._watches.items()
        }
        parts = {NEW: slice(n), KNOWN: slice(n, None)}
        point = {}
        for kind, part in parts.items():
            point[kind] = {name: right[name][part].mean() for name in right}
        self.history.append(point)

    def stream(self, n: int = 50) -> int:
        """Let ``n`` stream items pass; the number of corrections made.

        All systems are corrected where the first one errs.
        """
        s = self.scenario
        answer = next(iter(self._watches.values()))
        before = len(self.corrected)
        passing = range(len(s.y_stream))[self.streamed : self.streamed + n]
        if not passing:
            raise InputError("the stream is over: start again, or correct by hand")
        for at in passing:
            if answer(np.array([at]))[0] != s.y_stream[at]:
                self.correct(s.classes[s.y_stream[at]], s.X_stream[at])
        self.streamed = passing.stop
        return len(self.corrected) - before

    def damage(self, kind: str, entry: int) -> None:
        """Damage an entry in a copy of the file, see ``DAMAGES``; the desk keeps the whole one."""
        names = self.memory.labels
        labels = [names[id] for id in self.memory.counted.y]
        classes = self.data.classes
        labels[entry] = classes[classes.index(labels[entry]) - 1]
        self.copy = f"{self._folder}/copy.sqlite"
        self._shown = entry + 3
        with (
            closing(sqlite3.connect(self.memory.path)) as whole,
            closing(sqlite3.connect(self.copy)) as base,
            base,
        ):
            whole.backup(base)
            base.execute(DAMAGES[kind][1], {"label": labels[entry], "place": entry})
        if kind == "rewrite":
            with CorrectionMemory.open(self.copy) as forged:
                forged.learn(self.memory.counted.X, labels)
        self.found = "A copy, damaged; the desk keeps the whole file."
        self._marked = None

    def restore(self) -> None:
        """Drop the damaged copy."""
        self.copy = None
        self._shown = len(self.memory)
        self.found = ""
        self._marked = None

    def verify(self, head: bool = True) -> Fault | None:
        """The first fault of the damaged copy, or of the file; None if all is whole.

        It is checked by the file's head, or without.
        """
        heads = [self.memory.head()] if head else []
        fault = verify(self.copy or self.memory.path, *heads)
        self.found = f"verify: {fault or 'all entries are as they were written'}"
        self._marked = fault and fault.position
        return fault

    # Displays

    def reply(self) -> HTML:
        """The last query and its answers."""
        if self.answers is None:
            return HTML("")
        title = f"“{self.title}”" + (f", in truth {self.truth}" if self.truth else "")
        return HTML(f"<b>{html.escape(title)}</b>{table(self.answers)}")

    @mpl.rc_context()
    def neighbours(self, system: str | None = None) -> HTML:
        """The entries nearest to the last query, of one system or of the first that keeps any."""
        if not self.near:
            return HTML("")
        style.apply()
        system = system or next(iter(self.near))
        near = self.near[system]
        margin = getattr(self.systems[system], "margin", 0)
        axes = Figure(figsize=(style.WIDTH, 2)).subplots()
        best = near["cosine"].max()
        titles = near["class"] + "  (entry " + near["entry"].astype(str) + ")"
        bars = axes.barh(titles, near["cosine"], 0.6, color=near["kind"].map(COLOURS), zorder=2)
        axes.bar_label(bars, fmt="%.3f", padding=3, fontsize=7.5)
        axes.axvspan(best - margin, best, color="#E6E6E6", label="margin band")
        for kind, colour in COLOURS.items():
            axes.barh(0, 0, color=colour, label=kind)
        axes.set(xlabel="cosine to the query", xlim=(0, 1.1), title=f"Nearest entries of {system}")
        axes.grid(axis="y", visible=False)
        axes.invert_yaxis()
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=7.5)
        return picture(
            axes.figure,
            "Nearest: " + ", ".join(near["class"] + near["cosine"].map(" {:.3f}".format)),
        )

    @mpl.rc_context()
    def curves(self) -> HTML:
        """Accuracies on test rows over corrections."""
        style.apply()
        figure = Figure(figsize=(style.WIDTH, 2.2))
        look = dict(
            color=LINES,
            marker="o",
            markevery=[-1],
            xlabel="corrections",
            ylabel="accuracy on test rows",
        )
        look |= dict(
            ylim=(-0.03, 1.03), xlim=(-0.5, max(10, 1.03 * len(self.corrected))), legend=False
        )
        for axes, kind in zip(figure.subplots(1, 2, sharey=True), COLOURS):
            pd.DataFrame([point[kind] for point in self.history]).plot(ax=axes, title=kind, **look)
        axes.legend(loc="lower right", fontsize=7.5)
        ends = [
            f"{kind}, {name}: {end:.3f}"
            for kind, means in self.history[-1].items()
            for name, end in means.items()
        ]
        return picture(figure, "; ".join(ends))

    def chain(self, n: int = 4) -> HTML:
        """The newest ``n`` entries of the file, the head and what ``verify`` found.

        After a damage, the entries around it.
        """
        head = self.memory.head()
        query = f"""
            SELECT place AS entry, label AS class, datetime(time / 1e6, 'unixepoch') AS UTC,
                substr(lower(hex(previous)), 1, 10) AS previous,
                substr(lower(hex(hash)), 1, 10) AS hash
            FROM entries WHERE place < {self._shown} ORDER BY place DESC LIMIT {n}"""
        with closing(sqlite3.connect(self.copy or self.memory.path)) as base:
            newest = pd.read_sql_query(query, base, index_col="entry")
        rows = table(newest[::-1], self._marked)
        noted = f"Head, to be noted elsewhere: {head.size} entries, root {head.root.hex()}"
        return HTML(f'{rows}<div style="overflow-wrap:anywhere">{noted}</div><b>{self.found}</b>')

    def _repr_html_(self):
        return self.reply().data + self.neighbours().data


def published_desk(
    dataset: str = "banking77",
    encoder: str = DEFAULT_ENCODER,
    systems: Sequence[str] = ("substrate", "ledger_lda", "online_linear"),
) -> Desk:
    """A desk on a published dataset.

    Without its texts, as without a network, test rows have a number instead of words. Banking77
    with the default encoder comes with the requests written for this compendium.
    """
    written = {}
    if (dataset, encoder) == ("banking77", DEFAULT_ENCODER):
        texts, X = requests()
        written = dict(zip(texts["text"], zip(X, texts["label"])))
    return Desk(load(dataset, encoder), systems, texts=_texts_of(dataset), written=written)


@cache  # without a network, this can take long to fail
def _texts_of(dataset):
    pooch.get_logger().setLevel("ERROR")
    try:
        return load_texts(dataset)
    except InputError:
        return None


class DeskView(widgets.VBox):
    """Widgets around a ``Desk``; the last line of a cell shows them."""

    def __init__(self, desk: Desk):
        self.desk = desk
        self.buttons = {}
        wide = dict(layout={"width": "32em", "max_width": "98%"})
        first, *others = [*desk.systems, NONE, NONE][: len(LINES)]
        self.systems = [widgets.Dropdown(description="Systems", options=COMPARED, value=first)]
        self.systems += [
            widgets.Dropdown(description="and", options=(NONE, *COMPARED), value=name)
            for name in others
        ]
        self.query = widgets.Combobox(
            description="Query",
            placeholder="type a sentence",
            options=tuple(desk.written),
            ensure_option=False,
            continuous_update=False,
            **wide,
        )
        self.pool = widgets.Dropdown(
            description="or a row of", options=(NEW, KNOWN, *desk.kinds), **wide
        )
        classes = dict(placeholder="the right class, or a new name", options=desk.data.classes)
        # Any text is taken: a class of one's own.
        self.label = widgets.Combobox(description="It is", ensure_option=False, **classes, **wide)
        self.source = widgets.ToggleButtons(description="Entries of")
        self.entry = widgets.BoundedIntText(description="Entry", layout={"width": "13em"})
        self.kind = widgets.Dropdown(
            description="Damage", options=[(DAMAGES[kind][0], kind) for kind in DAMAGES]
        )
        self.line = widgets.HTML()
        self.reply = widgets.HTML()
        self.near = widgets.HTML()
        self.curves = widgets.HTML()
        self.chain = widgets.HTML()
        ask = self._button("Ask", lambda: self._ask(self.query.value))
        draw = self._button("Take a test row", lambda: self._ask(desk.draw(self.pool.value)))
        correct = self._button("Correct", lambda: desk.correct(self.label.value))
        damage = self._button(
            "Damage a copy", lambda: desk.damage(self.kind.value, self.entry.value)
        )
        again = self._button("Ask again", desk.again)
        stream = self._button("Stream 50", desk.stream)
        verify = self._button("Verify", desk.verify)
        restore = self._button("Restore", desk.restore)
        restart = self._button("Start again", desk.restart)
        row = partial(widgets.HBox, layout={"flex_flow": "row wrap"})
        asking = (
            row(self.systems),
            row([self.query, ask]),
            row([self.pool, draw]),
            row([self.label, correct, again]),
        )
        answers = (
            self.line,
            self.reply,
            self.source,
            self.near,
            widgets.HTML("<b>Accuracy on test rows</b>"),
        )
        ledger = (
            widgets.HTML("<b>The ledger</b>"),
            row([self.entry, self.kind, damage, verify, restore]),
            self.chain,
        )
        super().__init__([*asking, *answers, row([stream, restart]), self.curves, *ledger])
        self.layout.max_width = "66em"
        self.query.observe(lambda change: change["new"].strip() and ask.click(), "value")
        self.source.observe(self._show, "value")
        for control in self.systems:
            control.observe(lambda _: self._do("Fit", self._fit), "value")
        self._show()

    def _button(self, text, action):
        self.buttons[text] = button = widgets.Button(description=text)
        button.on_click(lambda _: self._do(text, action))
        return button

    def _do(self, what, action):
        """Act, then show the desk; an error is said in the line, where it can be seen."""
        self.line.value = f"{what} …"
        classes = self.desk.data.classes
        try:
            action()
            self._show()
            said = [f"a new class: {name}" for name in self.desk.data.classes[len(classes) :]]
            self.line.value = html.escape("".join(said)) or "&nbsp;"
        except Exception as error:
            known = isinstance(error, InputError)
            said = (
                str(error).split("; there are")[0] if known else f"{type(error).__name__}: {error}"
            )
            self.line.value = f'<b role="alert">{html.escape(said)}</b>'
            if not known:
                raise

    def _fit(self):
        self.desk.compare([control.value for control in self.systems if control.value != NONE])

    def _ask(self, query):
        self.desk.ask(query)
        self.label.value = self.desk.truth or self.label.value

    def _show(self, _=None):
        desk = self.desk
        self.label.options = desk.data.classes
        self.source.options = tuple(desk.near)
        self.source.index = self.source.index or (0 if desk.near else None)
        self.source.layout.display = "" if len(desk.near) > 1 else "none"
        self.reply.value = desk.reply().data
        self.near.value = desk.neighbours(self.source.value).data
        self.curves.value = desk.curves().data
        self.chain.value = desk.chain().data
        self.entry.max = len(desk.memory) - 1
        self.entry.value = self.entry.value if desk.copy else self.entry.max
