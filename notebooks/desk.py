"""The correction desk: ask systems, see why, correct them, ask again, damage a copy of the ledger."""

import html
import shutil
import sqlite3
import tempfile
import weakref
from contextlib import closing
from functools import partial

import ipywidgets as widgets
import matplotlib as mpl
import numpy as np
import pandas as pd
from IPython.core.pylabtools import print_figure
from IPython.display import HTML
from matplotlib.figure import Figure

from ocrrlib.embeddings import encode, widen
from ocrrlib.encoders import load_encoder
from ocrrlib.experiments import EXPERIMENTS
from ocrrlib.files import InputError, pick
from ocrrlib.memory import CorrectionMemory, verify
from ocrrlib.scenario import make_scenario
from ocrrlib.search import top_k
from ocrrlib.systems import make
from paper import style

CHOICES = EXPERIMENTS["beyond"].systems
NONE = "–"  # no further system
NEW, KNOWN = "new classes", "known classes"
COLOURS = {NEW: style.PALETTE["vermilion"], KNOWN: style.PALETTE["blue"]}
LINES = [style.PALETTE[name] for name in ("vermilion", "black", "green")]  # of up to three systems
DAMAGES = {  # to an entry of a file
    "relabel": ("give it another label", "UPDATE entries SET label = :label WHERE place = :place"),
    "remove": ("take it out", "DELETE FROM entries WHERE place = :place"),
    "rewrite": (
        "relabel it and recompute all hashes",
        "DELETE FROM entries",
    ),  # then all are written again
}


def picture(figure, alt):
    """A figure as an image with a description."""
    data = print_figure(figure, bbox_inches=None, dpi=150, base64=True)
    look = f"width:{100 * figure.get_figwidth():.0f}px; max-width:100%"
    return HTML(f'<img src="data:image/png;base64,{data}" alt="{html.escape(alt)}" style="{look}">')


def table(frame, marked=None):
    """A data frame as HTML, perhaps with a marked row; it scrolls where it is too wide."""
    shown = frame.rename({marked: f"▶ {marked}"}).rename_axis(index=None, columns=frame.index.name)
    left = [dict(selector="", props="margin-left:0"), dict(selector="*", props="text-align:left")]
    shown = shown.style.format(escape="html").set_table_styles(left)
    # Without a width of its own, it does not widen the flex boxes around it.
    box = '<div class="jp-RenderedHTMLCommon" style="overflow-x:auto; width:0; min-width:100%; padding-right:0">'
    return f"{box}{shown.to_html()}</div>"


class Desk:
    """One to three systems that meet the same queries and the same corrections.

    Ten classes of the dataset, or a quarter of few, are held out. Typed queries need an encoder, by
    default the dataset's. Initial rows and corrections are written to ``memory``, a
    ``CorrectionMemory`` in a file that ends with the desk.

    ``answers`` has what each system says to the last query, ``near`` the entries nearest to it, of
    each system that keeps any, ``history`` the accuracies on test rows at the start and after every
    correction.
    """

    def __init__(self, data, systems=("substrate",), seed=0, texts=None, encoder=None):
        self.data, self.texts, self.encoder = data, texts, encoder or data.encoder
        self.scenario = make_scenario(data, seed, held_out=min(10, max(1, len(data.classes) // 4)))
        self.new = {data.classes[id] for id in self.scenario.held_out}
        self.kinds = dict.fromkeys(sorted(self.new), NEW) | dict.fromkeys(
            sorted({*data.classes} - self.new), KNOWN
        )
        self._random, self._folder = (
            np.random.default_rng([seed, 7]),
            tempfile.mkdtemp(prefix="desk-"),
        )
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self.systems, self.memory = systems, None
        self.restart()

    def restart(self):
        """Forget query and corrections, and begin another file."""
        if self.memory:
            self.memory.close()
            self.memory.path.unlink()
        self.memory, s = CorrectionMemory.open(f"{self._folder}/desk.sqlite"), self.scenario
        self.memory.learn(s.X_initial, [s.classes[id] for id in s.y_initial])
        self.title, self._x, self.corrected, self.streamed = None, None, [], 0
        self.compare(self.systems)

    def compare(self, systems):
        """Fit other systems; they get all corrections made so far, and the last query."""
        s, made = self.scenario, self.corrected
        self.systems = {
            name: make(name, s.seed).fit(s.X_initial, s.y_initial, s.classes) for name in systems
        }
        self._watches = {
            name: system.watch(s.queries).answers for name, system in self.systems.items()
        }
        self.answers, self.near, self.history, self.corrected = None, {}, [], []
        self._measure()
        for correction in made:
            self._learn(*correction)
        self.again()

    def draw(self, pool=NEW):
        """A random test row of a class, or of any new or known one."""
        names = [self.data.classes[id] for id in self.data.y_test]
        return int(
            self._random.choice(
                [row for row, name in enumerate(names) if pool in (name, self.kinds[name])]
            )
        )

    def ask(self, query):
        """Ask a text, or a test row by its number; returns the desk, which a notebook shows."""
        if isinstance(query, str):
            if not (title := query.strip()):
                raise InputError("nothing is asked: type a sentence, or take a test row")
            if not callable(self.encoder):
                self.encoder = load_encoder(self.encoder, self.texts and self.texts.train)
            x, truth = widen(encode([title], self.encoder))[0], None
        else:
            title = self.texts.test[query] if self.texts else f"test row {query}"
            x, truth = self.data.X_test[query], self.data.classes[self.data.y_test[query]]
        self.title, self._x, self.truth, self.answers = title, x, truth, None
        return self.again()

    def again(self):
        """Ask the last query again, if there is one."""
        if self.title is None:
            return self
        x, names, rows, before = self._x[None], self.data.classes, [], self.answers
        for name, system in self.systems.items():
            (id,), (p,) = system.predict(x), system.predict_proba(x)
            row = {
                "system": name,
                "before": "" if before is None else before.at[name, "answer"],
                "answer": names[id],
            }
            row |= {
                "right": "✗✓"[names[id] == self.truth] if self.truth else "",
                "probability": f"{p[id]:.2f}",
            }
            p[id] = 0
            rows.append(row | {"runner-up": names[p.argmax()] if p.any() else ""})
            if entries := getattr(system, "entries", None):
                (cosines,), (slots,) = top_k(x, entries.X, entries.born, min(5, entries.size))
                near = {
                    "class": [names[id] for id in entries.y[slots]],
                    "entry": slots,
                    "cosine": cosines,
                }
                self.near[name] = pd.DataFrame(near).assign(
                    kind=lambda near: near["class"].map(self.kinds)
                )
        answers = pd.DataFrame(rows).set_index("system")
        self.answers = answers.loc[:, (answers != "").any()]
        return self

    def correct(self, label, x=None):
        """Tell all systems and the file the class of the last query, or of a row x (d,)."""
        pick("class", label, self.kinds)
        if x is None and self.title is None:
            raise InputError("nothing was asked yet: type a query or take a test row, and ask")
        text, x = (self.title, self._x) if x is None else (x, x)
        self.memory.correct(text, label, vector=x)
        self._learn(label, x)

    def _learn(self, label, x):
        for system in self.systems.values():
            system.correct(x, self.data.classes.index(label))
        self.corrected.append((label, x))
        self._measure()

    def _measure(self):
        self.restore()
        s = self.scenario
        rows, n = np.arange(len(s.y_stream), len(s.queries)), len(s.y_novel)
        right = {
            name: answer(rows) == np.append(s.y_novel, s.y_original)
            for name, answer in self._watches.items()
        }
        parts = {NEW: slice(n), KNOWN: slice(n, None)}
        self.history.append(
            {
                kind: {name: right[name][part].mean() for name in right}
                for kind, part in parts.items()
            }
        )

    def stream(self, n=50):
        """Let ``n`` stream items pass; all are corrected where the first system errs. Returns the corrections made."""
        s, answer, before = self.scenario, next(iter(self._watches.values())), len(self.corrected)
        passing = range(len(s.y_stream))[self.streamed : self.streamed + n]
        if not passing:
            raise InputError("the stream is over: start again, or correct by hand")
        for at in passing:
            if answer(np.array([at]))[0] != s.y_stream[at]:
                self.correct(s.classes[s.y_stream[at]], s.X_stream[at])
        self.streamed = passing.stop
        return len(self.corrected) - before

    def damage(self, kind, entry):
        """Damage an entry in a copy of the file, see ``DAMAGES``; the desk keeps the whole one."""
        names = self.memory.labels
        labels = [names[id] for id in self.memory.entries.y]
        classes = self.data.classes
        labels[entry] = classes[classes.index(labels[entry]) - 1]
        self.copy, self._shown = f"{self._folder}/copy.sqlite", entry + 3
        with (
            closing(sqlite3.connect(self.memory.path)) as whole,
            closing(sqlite3.connect(self.copy)) as base,
            base,
        ):
            whole.backup(base)
            base.execute(DAMAGES[kind][1], {"label": labels[entry], "place": entry})
        if kind == "rewrite":
            with CorrectionMemory.open(self.copy) as forged:
                forged.learn(self.memory.entries.X, labels)
        self.found, self._marked = "A copy, damaged; the desk keeps the whole file.", None

    def restore(self):
        """Drop the damaged copy."""
        self.copy, self._shown, self.found, self._marked = None, len(self.memory), "", None

    def verify(self, head=True):
        """The first ``Fault`` of the damaged copy, or of the file, by its head or without; None if all is whole."""
        fault = verify(self.copy or self.memory.path, *[self.memory.head()] * head)
        self.found = f"verify: {fault or 'all entries are as they were written'}"
        self._marked = fault and fault.position + (fault.kind == "removed")
        return fault

    # Displays

    def reply(self):
        """The last query and its answers."""
        if self.answers is None:
            return HTML("")
        title = f"“{self.title}”" + (f", in truth {self.truth}" if self.truth else "")
        return HTML(f"<b>{html.escape(title)}</b>{table(self.answers)}")

    @mpl.rc_context()
    def neighbours(self, system=None):
        """The entries nearest to the last query, of one system or of the first that keeps any."""
        if not self.near:
            return HTML("")
        style.apply()
        system = system or next(iter(self.near))
        near, margin = self.near[system], getattr(self.systems[system], "margin", 0)
        axes, best = Figure(figsize=(style.WIDTH, 2)).subplots(), near["cosine"].max()
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
    def curves(self):
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

    def chain(self, n=4):
        """The newest ``n`` entries of the file, or those around the damage, the head and what ``verify`` found."""
        head, fields = (
            self.memory.head(),
            "place AS entry, label AS class, datetime(time / 1e6, 'unixepoch') AS UTC",
        )
        fields += ", substr(lower(hex(previous)), 1, 10) AS previous, substr(lower(hex(hash)), 1, 10) AS hash"
        newest = f"SELECT {fields} FROM entries WHERE place < {self._shown} ORDER BY place DESC LIMIT {n}"
        with closing(sqlite3.connect(self.copy or self.memory.path)) as base:
            rows = table(pd.read_sql_query(newest, base, index_col="entry")[::-1], self._marked)
        noted = f"Head, to be noted elsewhere: {head.size} entries, root {head.root.hex()}"
        return HTML(f'{rows}<div style="overflow-wrap:anywhere">{noted}</div><b>{self.found}</b>')

    def _repr_html_(self):
        return self.reply().data + self.neighbours().data


class DeskView(widgets.VBox):
    """Widgets around a ``Desk``; the last line of a cell shows them."""

    def __init__(self, desk):
        self.desk, self.buttons, wide = desk, {}, dict(layout={"width": "32em", "max_width": "98%"})
        first, *others = [*desk.systems, NONE, NONE][: len(LINES)]
        self.systems = [widgets.Dropdown(description="Systems", options=CHOICES, value=first)]
        self.systems += [
            widgets.Dropdown(description="and", options=(NONE, *CHOICES), value=name)
            for name in others
        ]
        self.query = widgets.Text(
            description="Query", placeholder="type a sentence", continuous_update=False, **wide
        )
        self.pool = widgets.Dropdown(
            description="or a row of", options=(NEW, KNOWN, *desk.kinds), **wide
        )
        classes = dict(placeholder="the right class", options=desk.data.classes)
        self.label = widgets.Combobox(description="It is", **classes, **wide)
        self.source = widgets.ToggleButtons(description="Entries of")
        self.entry = widgets.BoundedIntText(description="Entry", layout={"width": "13em"})
        self.kind = widgets.Dropdown(
            description="Damage", options=[(DAMAGES[kind][0], kind) for kind in DAMAGES]
        )
        self.line, self.reply, self.near, self.curves, self.chain = (
            widgets.HTML() for _ in range(5)
        )
        ask = self._button("Ask", lambda: self._ask(self.query.value))
        draw = self._button("Take a test row", lambda: self._ask(desk.draw(self.pool.value)))
        correct = self._button("Correct", lambda: desk.correct(self.label.value.strip()))
        damage = self._button(
            "Damage a copy", lambda: desk.damage(self.kind.value, self.entry.value)
        )
        again, stream = (
            self._button("Ask again", desk.again),
            self._button("Stream 50", desk.stream),
        )
        verify, restore = self._button("Verify", desk.verify), self._button("Restore", desk.restore)
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
        try:
            action()
            self._show()
            self.line.value = "&nbsp;"
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
        self.source.options = tuple(desk.near)
        self.source.index = self.source.index or (0 if desk.near else None)
        self.source.layout.display = "" if len(desk.near) > 1 else "none"
        self.reply.value = desk.reply().data
        self.near.value = desk.neighbours(self.source.value).data
        self.curves.value = desk.curves().data
        self.chain.value = desk.chain().data
        self.entry.max = len(desk.memory) - 1
        self.entry.value = self.entry.value if desk.copy else self.entry.max
