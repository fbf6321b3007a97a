"""The correction desk: ask systems, see why, correct them, ask again, damage a copy of the ledger."""

import base64
import html
import importlib.util
import io
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
from IPython.display import HTML
from matplotlib.figure import Figure

from ocrrlib.database import verify
from ocrrlib.embeddings import encode, widen
from ocrrlib.encoders import load_encoder
from ocrrlib.experiments import EXPERIMENTS
from ocrrlib.files import InputError, pick
from ocrrlib.memory import CorrectionMemory
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
    "rewrite": ("relabel it and recompute all hashes", "DELETE FROM entries"),  # then all are written again
}
FINDINGS = {
    "whole": "verify: all entries are as they were written.",
    "changed": "verify: entry {} is not what was written.",
    "removed": "verify: entry {} is missing.",
    "truncated": "verify: the file is whole in itself; but the noted head has more entries: cut off.",
    "forked": "verify: the file is whole in itself; but the noted head is not in it: rewritten.",
}


def picture(figure, alt):
    """A figure as an image with a description."""
    figure.savefig(file := io.BytesIO(), format="png", dpi=150)
    data, (width, height) = base64.b64encode(file.getvalue()).decode(), 100 * figure.get_size_inches()
    look = f'width="{width:.0f}" height="{height:.0f}" style="max-width:100%; height:auto"'
    return HTML(f'<img src="data:image/png;base64,{data}" alt="{html.escape(alt)}" {look}>')


def table(frame, marked=None):
    """A data frame as HTML, perhaps with a marked row; it scrolls where it is too wide."""
    shown = frame.rename_axis(index=None, columns=frame.index.name).style.format(escape="html")
    shown.set_table_styles([dict(selector="", props="margin-left:0"), dict(selector="*", props="text-align:left")])
    if marked in frame.index:
        shown.format_index(lambda label: f"▶ {label}" if label == marked else label)
        shown.set_properties(subset=([marked], slice(None)), background=f"{COLOURS[NEW]}33")
    # Without a width of its own, it does not widen the flex boxes around it.
    box = '<div class="jp-RenderedHTMLCommon" style="overflow-x:auto; width:0; min-width:100%; padding-right:0">'
    return f"{box}{shown.to_html()}</div>"


class Desk:
    """One to three systems that meet the same queries and the same corrections.

    Ten classes of the dataset, or a quarter of few, are held out. Typed queries need an encoder, by default the
    dataset's. Initial rows and corrections are written to ``memory``, a ``CorrectionMemory`` in a file that ends with
    the desk. Every method raises ``InputError`` for what it cannot use, and then changes nothing.

    ``answers`` has what each system says to the last query, ``near`` the entries nearest to it, of each system that
    keeps any, ``history`` the accuracies on test rows at the start and after every correction.
    """

    def __init__(self, data, systems=("substrate",), seed=0, texts=None, encoder=None):
        self.data, self.texts, self.encoder = data, texts, encoder or data.encoder
        self.scenario = make_scenario(data, seed, held_out=min(10, max(1, len(data.classes) // 4)))
        self.ids = {name: id for id, name in enumerate(data.classes)}
        self.new = {data.classes[id] for id in self.scenario.held_out}
        self.kinds = dict.fromkeys(sorted(self.new), NEW) | dict.fromkeys(sorted({*self.ids} - self.new), KNOWN)
        self._order = np.random.default_rng([seed, 7]).permutation(len(data.y_test)).tolist()
        self.memory, self._folder = None, tempfile.mkdtemp(prefix="desk-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self.restart(systems)

    def restart(self, systems=None):
        """Forget query and corrections, and begin another file."""
        if self.memory:
            self.memory.close()
            self.memory.path.unlink()
        self.memory, s = CorrectionMemory.open(f"{self._folder}/desk.sqlite"), self.scenario
        self.memory.learn(s.X_initial, [s.classes[id] for id in s.y_initial])
        self.title, self.corrected, self.streamed = None, [], 0
        self.compare(systems or self.systems)

    def compare(self, systems):
        """Fit other systems; they get all corrections made so far, and the last query."""
        if not 1 <= len(systems) <= len(LINES):
            raise InputError(f"{len(systems)} systems: give 1 to {len(LINES)}")
        s, made = self.scenario, self.corrected
        self.systems = {name: make(name, s.seed).fit(s.X_initial, s.y_initial, s.classes) for name in systems}
        self._watches = {name: system.watch(s.queries).answers for name, system in self.systems.items()}
        self.answers, self.near, self.history, self.corrected = None, {}, [], []
        self._measure()
        for correction in made:
            self._learn(*correction)
        if self.title is not None:
            self.again()

    def draw(self, pool=NEW):
        """The next test row in random order, of a class, or of all new or all known ones."""
        pick("class", pool, self.kinds | COLOURS)
        names = [self.data.classes[self.data.y_test[row]] for row in self._order]
        place = next(place for place, name in enumerate(names) if pool in (name, self.kinds[name]))
        self._order.append(row := self._order.pop(place))  # it comes again after all others
        return row

    def ask(self, query):
        """Ask a text, or a test row by its number; returns the desk, which a notebook shows."""
        if isinstance(query, str) and query.strip():
            if not callable(self.encoder):
                self.encoder = load_encoder(self.encoder, self.texts and self.texts.train)
            title, x, truth = query.strip(), widen(encode([query.strip()], self.encoder))[0], None
        elif query in range(len(self.data.y_test)):
            title = self.texts.test[query] if self.texts else f"test row {query}"
            x, truth = self.data.X_test[query], self.data.classes[self.data.y_test[query]]
        else:
            rows = len(self.data.y_test)
            raise InputError(f"{query!r} is no query: type a sentence, or take a test row from 0 to {rows - 1}")
        self.title, self._x, self.truth, self.answers = title, x, truth, None
        return self.again()

    def again(self):
        """Ask the last query again."""
        x, names, rows, before = self._asked[None], self.data.classes, [], self.answers
        for name, system in self.systems.items():
            (id,), (p,) = system.predict(x), system.probabilities(x)
            row = {"system": name, "before": "" if before is None else before.at[name, "answer"], "answer": names[id]}
            row |= {"right": "✗✓"[names[id] == self.truth] if self.truth else "", "votes": ""}
            if hasattr(system, "entries"):
                near = self.near[name] = self._nearest(system)
                votes = near["class"][near["votes"]].value_counts()
                row["votes"] = ", ".join(f"{n} {label}" for label, n in votes.items())
            row["probability"], p[id] = f"{p[id]:.2f}", 0
            rows.append(row | {"runner-up": names[p.argmax()] if p.any() else ""})
        answers = pd.DataFrame(rows).set_index("system")
        self.answers = answers.loc[:, (answers != "").any()]
        return self

    @property
    def _asked(self):
        if self.title is None:
            raise InputError("nothing was asked yet: type a query or take a test row, and ask")
        return self._x

    def _nearest(self, system):
        entries, margin = system.entries, getattr(system, "margin", -1)  # without a margin none votes
        (cosines,), (slots,) = top_k(self._x[None], entries.X, entries.born, min(5, entries.size))
        near = pd.DataFrame({"entry": slots, "class": [self.data.classes[id] for id in entries.y[slots]]})
        return near.assign(kind=near["class"].map(self.kinds), cosine=cosines, votes=cosines >= cosines[0] - margin)

    def correct(self, label, x=None):
        """Tell all systems and the file the class of the last query, or of a row x (d,)."""
        pick("class", label, self.ids)
        if x is None:
            x = self._asked
            self.memory.correct(self.title, label, vector=x)
        else:
            self.memory.correct(x, label)
        self._learn(label, x)

    def _learn(self, label, x):
        for system in self.systems.values():
            system.correct(x, self.ids[label])
        self.corrected.append((label, x))
        self._measure()

    def _measure(self):
        self.restore()
        s = self.scenario
        rows, n = np.arange(len(s.y_stream), len(s.queries)), len(s.y_novel)
        right = {name: answer(rows) == np.append(s.y_novel, s.y_original) for name, answer in self._watches.items()}
        parts = {NEW: slice(n), KNOWN: slice(n, None)}
        self.history.append({kind: {name: right[name][part].mean() for name in right} for kind, part in parts.items()})

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
        (_, change), entries = pick("damage", kind, DAMAGES), self.memory.entries
        if entry not in range(entries.size):
            raise InputError(f"there is no entry {entry!r}: give 0 to {entries.size - 1}")
        labels = [self.memory.labels[id] for id in entries.y]
        labels[entry] = self.data.classes[self.ids[labels[entry]] - 1]
        self.copy, self._shown = f"{self._folder}/copy.sqlite", entry + 3
        with closing(sqlite3.connect(self.memory.path)) as whole, closing(sqlite3.connect(self.copy)) as base, base:
            whole.backup(base)
            base.execute(change, {"label": labels[entry], "place": entry})
        if kind == "rewrite":
            with CorrectionMemory.open(self.copy) as forged:
                forged.learn(entries.X, labels)
        self.found = "A copy, damaged; the desk keeps the whole file.", None

    def restore(self):
        """Drop the damaged copy."""
        self.copy, self._shown, self.found = None, len(self.memory), ("", None)

    def verify(self, head=True):
        """The first ``Fault`` of the damaged copy, or of the file, by its head or without; None if all is whole."""
        fault = verify(self.copy or self.memory.path, *[self.memory.head()] * head)
        place, kind = fault or (0, "whole")
        self.found = FINDINGS[kind].format(place), {"changed": place, "removed": place + 1}.get(kind)
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
        """The entries nearest to the last query, of one system or of the first that keeps any; filled ones vote."""
        if not self.near:
            return HTML("")
        style.apply()
        system = system or next(iter(self.near))
        near, margin = self.near[system], getattr(self.systems[system], "margin", 0)
        axes = Figure(figsize=(style.WIDTH, 0.6 + 0.28 * max(2, len(near)))).subplots()
        titles, edges = near["class"] + "  (entry " + near["entry"].astype(str) + ")", near["kind"].map(COLOURS)
        fills, best = edges.where(near["votes"], "white"), near["cosine"].max()
        bars = axes.barh(titles, near["cosine"], 0.6, color=fills, edgecolor=edges, zorder=2)
        axes.bar_label(bars, fmt="%.3f", padding=3, fontsize=7.5)
        axes.axvspan(best - margin, best, color="#E6E6E6", label="margin band")
        for kind, colour in COLOURS.items():
            axes.barh(0, 0, color=colour, label=kind)
        axes.set(xlabel="cosine to the query", xlim=(0, 1.1))
        axes.set_title(f"Nearest entries of {system}; filled ones vote", fontsize=8.5, loc="left")
        axes.grid(axis="y", visible=False)
        axes.invert_yaxis()
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=7.5)
        return picture(axes.figure, "Nearest: " + ", ".join(near["class"] + near["cosine"].map(" {:.3f}".format)))

    @mpl.rc_context()
    def curves(self):
        """Accuracies on test rows over corrections."""
        style.apply()
        figure = Figure(figsize=(style.WIDTH, 2.2))
        look = dict(color=LINES, marker="o", markevery=[-1], xlabel="corrections", ylabel="accuracy on test rows")
        look |= dict(ylim=(-0.03, 1.03), xlim=(-0.5, max(10, 1.03 * len(self.corrected))), legend=False)
        for axes, kind in zip(figure.subplots(1, 2, sharey=True), COLOURS):
            pd.DataFrame([point[kind] for point in self.history]).plot(ax=axes, title=kind, **look)
        axes.legend(loc="lower right", fontsize=7.5)
        ends = [f"{kind}, {name}: {end:.3f}" for kind, means in self.history[-1].items() for name, end in means.items()]
        return picture(figure, "; ".join(ends))

    def chain(self, n=4):
        """The newest ``n`` entries of the file, or those around the damage, the head and what ``verify`` found."""
        (said, marked), head, fields = self.found, self.memory.head(), "place AS entry, label AS class"
        fields += ", strftime('%H:%M:%S', time / 1000000, 'unixepoch') AS 'time (UTC)'"
        fields += ", substr(lower(hex(previous)), 1, 10) AS previous, substr(lower(hex(hash)), 1, 10) AS hash"
        newest = f"SELECT {fields} FROM entries WHERE place < {self._shown} ORDER BY place DESC LIMIT {n}"
        with closing(sqlite3.connect(self.copy or self.memory.path)) as base:
            rows = table(pd.read_sql_query(newest, base, index_col="entry")[::-1], marked)
        noted = f"Head, to be noted elsewhere: {head.size} entries, root {head.root.hex()}"
        return HTML(f'{rows}<div style="overflow-wrap:anywhere">{noted}</div><b>{html.escape(said)}</b>')

    def _repr_html_(self):
        return self.reply().data + self.neighbours().data


class DeskView(widgets.VBox):
    """Widgets around a ``Desk``; the last line of a cell shows them."""

    def __init__(self, desk):
        self.desk, self.buttons, wide = desk, {}, {"width": "32em", "max_width": "98%"}
        first, *others = [*desk.systems, NONE, NONE][: len(LINES)]
        self.systems = [widgets.Dropdown(description="Systems", options=CHOICES, value=first)]
        short = dict(description="and", style={"description_width": "3em"}, layout={"width": "16em"})
        self.systems += [widgets.Dropdown(options=(NONE, *CHOICES), value=name, **short) for name in others]
        self.query = widgets.Text(description="Query", placeholder="type a sentence", layout=wide)
        self.query.continuous_update = False  # Enter asks
        pools = [("any new class", NEW), ("any known class", KNOWN)]
        pools += [(f"{name} (new)" if kind == NEW else name, name) for name, kind in desk.kinds.items()]
        self.pool = widgets.Dropdown(description="or a row of", options=pools, layout=wide)
        self.label = widgets.Combobox(description="It is", placeholder="the right class", layout=wide)
        self.label.options = list(desk.ids)
        self.source = widgets.ToggleButtons(description="Entries of")
        self.entry = widgets.IntText(description="Entry", layout={"width": "13em"})
        self.kind = widgets.Dropdown(description="Damage", options=[(DAMAGES[kind][0], kind) for kind in DAMAGES])
        self.line, self.reply, self.near, self.curves, self.chain = (widgets.HTML() for _ in range(5))
        ask = self._button("Ask", lambda: self._ask(self.query.value), "primary")
        draw = self._button("Take a test row", lambda: self._ask(desk.draw(self.pool.value)))
        correct = self._button("Correct", lambda: desk.correct(self.label.value.strip()), "primary")
        damage = self._button("Damage a copy", lambda: desk.damage(self.kind.value, self.entry.value), "warning")
        again, stream = self._button("Ask again", desk.again), self._button("Stream 50", desk.stream)
        verify, restore = self._button("Verify", desk.verify), self._button("Restore", desk.restore)
        row = partial(widgets.HBox, layout={"flex_flow": "row wrap"})
        super().__init__(
            [
                *(row(self.systems), row([self.query, ask]), row([self.pool, draw]), row([self.label, correct, again])),
                *(self.line, self.reply, self.source, self.near),
                widgets.HTML("<b>Accuracy on test rows</b>"),
                row([stream, self._button("Start again", desk.restart)]),
                self.curves,
                widgets.HTML("<b>The ledger</b>"),
                row([self.entry, self.kind, damage, verify, restore]),
                self.chain,
            ],
            layout={"max_width": "66em"},
        )
        self.query.observe(lambda change: change["new"].strip() and ask.click(), "value")
        self.source.observe(self._show, "value")
        for control in self.systems:
            control.observe(lambda _: self._do("Fit", self._fit), "value")
        if not (callable(desk.encoder) or importlib.util.find_spec("sentence_transformers")):
            self.query.disabled = True
            self.query.placeholder = "sentence-transformers is not installed: take a test row"
        self._show()

    def _button(self, text, action, style=""):
        button = widgets.Button(description=text, button_style=style, layout={"width": "auto", "min_width": "9em"})
        button.on_click(lambda _: self._do(text, action))
        return self.buttons.setdefault(text, button)

    def _do(self, what, action):
        """Act while the controls wait, then show the desk; an error is said in the line, where it can be seen."""
        self._say(f"{what} …")
        for control in (*self.systems, *self.buttons.values()):
            control.disabled = True
        try:
            action()
            self._show()
            self._say("")
        except Exception as error:
            known = isinstance(error, InputError)
            self._say(str(error).split("; there are")[0] if known else f"{type(error).__name__}: {error}", "alert")
            if not known:
                raise
        finally:
            for control in (*self.systems, *self.buttons.values()):
                control.disabled = False

    def _say(self, text, role="status"):
        colour = f"color:{COLOURS[NEW]}" if role == "alert" else "font-style:italic"
        self.line.value = f'<div role="{role}" style="{colour}; min-height:1.4em">{html.escape(text)}</div>'

    def _fit(self):
        self.desk.compare([control.value for control in self.systems if control.value != NONE])

    def _ask(self, query):
        if isinstance(query, str) and not callable(self.desk.encoder):
            self._say("Ask; the encoder is loaded first, which takes some seconds …")
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
        self.entry.value = self.entry.value if desk.copy else len(desk.memory) - 1
