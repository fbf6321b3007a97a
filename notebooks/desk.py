"""The correction desk: ask systems, see why, correct them, ask again, damage a copy of the ledger."""

import base64
import html
import importlib.util
import io
from functools import partial

import ipywidgets as widgets
import matplotlib as mpl
import numpy as np
import pandas as pd
from IPython.display import HTML
from matplotlib.figure import Figure

from ocrrlib.embeddings import encode, widen
from ocrrlib.encoders import load_encoder
from ocrrlib.experiments import EXPERIMENTS
from ocrrlib.files import InputError, pick
from ocrrlib.ledger import Ledger
from ocrrlib.scenario import make_scenario
from ocrrlib.search import top_k
from ocrrlib.systems import make
from paper import style

CHOICES = EXPERIMENTS["beyond"].systems
NONE = "–"  # no further system
NEW, KNOWN = style.PALETTE["vermilion"], style.PALETTE["blue"]
LINES = [NEW, "black", style.PALETTE["green"]]  # colours of up to three systems
KINDS = ["new classes", "known classes"]
DAMAGES = {"relabel": "give it another label", "remove": "take it out", "rewrite": "relabel it and hash all anew"}
FINDINGS = {
    None: "verify: all entries are as they were written.",
    "changed": "verify: entry {} is not what was written.",
    "removed": "verify: an entry is missing just before entry {}.",
    "truncated": "verify: the chain is whole in itself; but the noted head is not in it: cut off or written anew.",
}


def picture(draw, size, alt, panels=1):
    """An image with a description; ``draw`` gets its axes."""
    file = io.BytesIO()
    with mpl.rc_context():
        style.apply()
        figure = Figure(figsize=size)
        draw(*figure.subplots(1, panels, sharey=True, squeeze=False)[0])
        figure.savefig(file, format="png", dpi=150)
    data, (width, height) = base64.b64encode(file.getvalue()).decode(), (round(100 * inches) for inches in size)
    look = f'width="{width}" height="{height}" style="max-width:100%; height:auto"'
    return HTML(f'<img src="data:image/png;base64,{data}" alt="{html.escape(alt)}" {look}>')


def table(frame, marked=None):
    """A data frame as HTML, perhaps with a marked row; it scrolls where it is too wide."""
    shown = frame.rename_axis(index=None, columns=frame.index.name).style.format(escape="html")
    shown.set_table_attributes('style="margin-left:0"')
    shown.set_table_styles([{"selector": "th, td", "props": "text-align:left"}])
    if marked is not None:
        shown.format_index(lambda label: f"▶ {label}" if label == marked else label)
        shown.set_properties(subset=([marked], slice(None)), background=f"{NEW}33")
    # Without a width of its own, it does not widen the flex boxes around it.
    box = '<div class="jp-RenderedHTMLCommon" style="overflow-x:auto; width:0; min-width:100%; padding-right:0">'
    return f"{box}{shown.to_html()}</div>"


class Desk:
    """One to three systems of ``CHOICES`` that meet the same queries and the same corrections.

    Ten classes of the dataset, or a quarter of few, are held out. Typed queries need an encoder, by default the
    dataset's. Every method raises ``InputError`` for what it cannot use, and then changes nothing.

    ``answers`` has what each system says to the last query, ``near`` the entries nearest to it, of each system that
    keeps any, ``history`` the accuracies on test rows after every correction.
    """

    def __init__(self, data, systems=("substrate",), seed=0, texts=None, encoder=None):
        self.data, self.texts, self.seed, self.encoder = data, texts, seed, encoder or data.encoder
        self.scenario = make_scenario(data, seed, held_out=min(10, max(1, len(data.classes) // 4)))
        self.ids = {name: id for id, name in enumerate(data.classes)}
        self.new = {data.classes[id] for id in self.scenario.held_out}
        self._order = np.random.default_rng([seed, 7]).permutation(len(data.y_test))
        self.model, self.title, self.corrected, self.streamed = None, None, [], 0
        self.compare(systems)

    def compare(self, systems):
        """Fit other systems; they get all corrections made so far."""
        if not 1 <= len(set(systems)) == len(systems) <= len(LINES):
            raise InputError(f"systems {', '.join(systems) or 'none'}: give 1 to {len(LINES)} different ones")
        for name in systems:
            pick("system of the desk", name, dict.fromkeys(CHOICES))
        s, self.systems = self.scenario, {name: make(name, self.seed) for name in systems}
        for system in self.systems.values():
            system.fit(s.X_initial, s.y_initial, s.classes)
        self._watches = {name: system.watch(s.queries) for name, system in self.systems.items()}
        self.answers, self.near, self._before = None, {}, {}
        made, self.corrected, self.history = self.corrected, [], []
        self._measure()
        for x, id in made:
            self._learn(x, id)

    def restart(self):
        """Forget all corrections."""
        self.title, self.corrected, self.streamed = None, [], 0
        self.compare(list(self.systems))

    @property
    def missing(self):
        """What is missing for typed queries, or an empty string."""
        there = callable(self.encoder) or importlib.util.find_spec("sentence_transformers")
        return "" if there else "sentence-transformers is not installed"

    def _title_of(self, row):
        return self.texts.test[row] if self.texts else f"test row {row}"

    def draw(self, label=None, new=None):
        """The next test row in random order that was not asked yet: of one class, or of all new or all known ones."""
        ids = self.ids.values() if label is None else [pick("class", label, self.ids)]
        ids = [id for id in ids if new in (None, self.data.classes[id] in self.new)]
        rows = [int(row) for row in self._order if self.data.y_test[row] in ids]
        return next((row for row in rows if self._title_of(row) not in self._before), rows[0])

    def ask(self, query):
        """Ask a text, or a test row by its number; returns the desk, which a notebook shows."""
        if isinstance(query, str):
            title, x, truth = query.strip(), self._encoded(query.strip()), None
        elif query in range(len(self.data.y_test)):
            title, x, truth = self._title_of(query), self.data.X_test[query], self.data.classes[self.data.y_test[query]]
        else:
            raise InputError(f"there is no test row {query!r}: give 0 to {len(self.data.y_test) - 1}")
        self.title, self.x, self.truth = title, x, truth
        return self.again()

    def _encoded(self, text):
        if self.missing or not text:
            raise InputError(f"{self.missing or 'the query is empty'}: take a test row")
        if self.model is None:
            self.model = load_encoder(self.encoder, self.texts and self.texts.train)
        return widen(encode([text], self.model))[0]

    def _check_asked(self):
        if self.title is None:
            raise InputError("nothing was asked yet: type a query or take a test row, and ask")

    def again(self):
        """Ask the last query again."""
        self._check_asked()
        self.near = {n: self._nearest(system) for n, system in self.systems.items() if hasattr(system, "entries")}
        answers = pd.DataFrame([self._answer(*system) for system in self.systems.items()]).set_index("system")
        self.answers, self._before[self.title] = answers.loc[:, (answers != "").any()], answers["answer"].to_dict()
        return self

    def _nearest(self, system):
        entries, margin = system.entries, getattr(system, "margin", None)
        cosines, slots = (found[0] for found in top_k(self.x[None], entries.X, entries.born, min(5, entries.size)))
        near = pd.DataFrame({"class": [self.data.classes[id] for id in entries.y[slots]], "cosine": cosines})
        near["entry"], near["new"] = slots, near["class"].isin(self.new)
        near["inside"], near.attrs["margin"] = cosines >= cosines[0] - (margin or np.inf), margin
        return near

    def _answer(self, name, system):
        id, names = int(system.predict(self.x[None])[0]), self.data.classes
        row = {"system": name, "before": self._before.get(self.title, {}).get(name, ""), "answer": names[id]}
        row |= {"right": "" if self.truth is None else "✗✓"[names[id] == self.truth], "votes": ""}
        if name in self.near and self.near[name].attrs["margin"]:
            votes = self.near[name].query("inside")["class"].value_counts()
            row["votes"] = ", ".join(f"{n} {label}" for label, n in votes.items())
        try:
            p = system.probabilities(self.x[None])[0]
        except InputError:  # it has none
            return row | {"probability": "", "runner-up": ""}
        second = max((other for other in range(len(p)) if other != id), key=p.__getitem__)
        return row | {"probability": f"{p[id]:.2f}", "runner-up": names[second] if p[second] > 0 else ""}

    def correct(self, label):
        """Tell all systems the class of the last query."""
        self._check_asked()
        self._learn(self.x, pick("class", label, self.ids))

    def _learn(self, x, id):
        for system in self.systems.values():
            system.correct(x, id)
        self.corrected.append((x, id))
        self._measure()

    def _measure(self):
        self.restore()
        s, n = self.scenario, len(self.corrected)
        for name, answer in self._watches.items():
            right = answer(np.arange(len(s.y_stream), len(s.queries))) == np.concatenate([s.y_novel, s.y_original])
            means = map(np.mean, np.split(right, [len(s.y_novel)]))
            self.history.append({"system": name, "corrections": n} | dict(zip(KINDS, means)))

    def stream(self, n=50):
        """Let ``n`` stream items pass; all are corrected where the first system errs. Returns the corrections made."""
        s, answer, before = self.scenario, next(iter(self._watches.values())), len(self.corrected)
        if self.streamed == len(s.y_stream):
            raise InputError("the stream is over: start again, or correct by hand")
        for at in range(self.streamed, min(self.streamed + n, len(s.y_stream))):
            if answer(np.array([at]))[0] != s.y_stream[at]:
                self._learn(s.X_stream[at], int(s.y_stream[at]))
            self.streamed += 1
        return len(self.corrected) - before

    @property
    def ledger(self):
        """The ledger of the first system that keeps one."""
        kept = [getattr(system, "entries", None) for system in self.systems.values()]
        found = next((entries for entries in kept if isinstance(entries, Ledger)), None)
        if found is None:
            raise InputError("none of these systems keeps a ledger: choose substrate or ledger_plda")
        return found

    def damage(self, kind, entry):
        """Damage an entry in a copy of the ledger, see ``DAMAGES``; the systems keep the whole one."""
        ledger, places = self.ledger, list(range(self.ledger.size))
        pick("damage", kind, DAMAGES)
        if entry not in places:
            raise InputError(f"there is no entry {entry!r}: give 0 to {ledger.size - 1}")
        labels, keep = ledger.y.copy(), places[:entry] + places[entry + (kind == "remove") :]
        labels[entry] = (labels[entry] + 1) % len(self.ids)
        self.copy, self._end = Ledger(ledger.X[keep], labels[keep]), min(len(keep), entry + 3)
        for name in () if kind == "rewrite" else ("ids", "previous", "hashes"):
            setattr(self.copy, name, [getattr(ledger, name)[place] for place in keep])
        self.found = "A copy, damaged; the systems keep the whole ledger.", None

    def restore(self):
        """Drop the damaged copy."""
        self.copy, self.found = None, ("", None)

    def verify(self):
        """The first ``Fault`` of the damaged copy, or of the ledger, given the ledger's head; None if all is whole."""
        fault = (self.copy or self.ledger).verify(self.ledger.head)
        place = fault.position if fault and fault.kind != "truncated" else None
        self.found = FINDINGS[fault and fault.kind].format(place), place
        return fault

    # Displays

    def reply(self):
        """The last query and its answers."""
        title = f"“{self.title}”" + (f", in truth {self.truth}" if self.truth else "")
        return HTML(f"<b>{html.escape(title)}</b>{table(self.answers)}")

    def neighbours(self, system):
        """The entries nearest to the last query, of one system; those that vote are filled."""
        near, margin = self.near[system], self.near[system].attrs["margin"]
        edges = [NEW if new else KNOWN for new in near["new"]]
        fills = [edge if inside else "white" for edge, inside in zip(edges, near["inside"])]

        def draw(axes):
            bars = axes.barh(near.index, near["cosine"], 0.6, color=fills, edgecolor=edges, zorder=2)
            axes.bar_label(bars, fmt="%.3f", padding=3, fontsize=7.5)
            axes.set_yticks(near.index, near["class"] + "  (entry " + near["entry"].astype(str) + ")")
            if margin:
                axes.axvspan(near["cosine"].max() - margin, near["cosine"].max(), color="#E6E6E6", label="margin band")
            for colour, label in zip((NEW, KNOWN), KINDS):
                axes.barh(0, 0, color=colour, label=label)
            axes.set(xlabel="cosine to the query", xlim=(min(0, near["cosine"].min()), 1.1))
            how = "filled ones vote" if margin else "shown as they are, without a vote"
            axes.set_title(f"Nearest entries of {system}; {how}", fontsize=8.5, loc="left")
            axes.grid(axis="y", visible=False)
            axes.invert_yaxis()
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=7.5)

        best = ", ".join(f"{label} {cosine:.3f}" for label, cosine in zip(near["class"], near["cosine"]))
        return picture(draw, (style.WIDTH, 0.6 + 0.28 * max(2, len(near))), f"Nearest entries: {best}.")

    def curves(self):
        """Accuracies on test rows over corrections."""
        history = pd.DataFrame(self.history).pivot(index="corrections", columns="system")
        look = dict(color=LINES, marker="o", markevery=[-1], ylabel="accuracy on test rows", legend=False)
        look |= dict(ylim=(-0.03, 1.03), xlim=(-0.5, max(10, 1.03 * history.index[-1])))

        def draw(*panels):
            for axes, kind in zip(panels, KINDS):
                history[kind][[*self.systems]].plot(ax=axes, title=kind, **look)
            panels[1].legend(loc="lower right", fontsize=7.5)

        last = history.iloc[-1].unstack(0)[KINDS].round(3)
        ends = "; ".join(f"{name}: new {new}, known {known}" for name, new, known in last.itertuples())
        return picture(draw, (style.WIDTH, 2.2), f"{ends}.", panels=2)

    def chain(self, n=4):
        """The newest ``n`` entries of the ledger, or those around the damage, the head and what ``verify`` found."""
        shown = self.copy or self.ledger
        end = self._end if self.copy else shown.size
        rows = [
            {"entry": place, "id": shown.ids[place], "class": self.data.classes[shown.y[place]]}
            | {"previous": shown.previous[place].hex()[:10], "hash": shown.hashes[place].hex()[:10]}
            for place in range(max(0, end - n), end)
        ]
        said, marked = self.found
        head = f'<div style="overflow-wrap:anywhere">Head, to be noted elsewhere: {self.ledger.head.hex()}</div>'
        return HTML(f"{table(pd.DataFrame(rows).set_index('entry'), marked)}{head}<b>{html.escape(said)}</b>")

    def _repr_html_(self):
        return self.reply().data + "".join(self.neighbours(name).data for name in list(self.near)[:1])


class DeskView(widgets.VBox):
    """Widgets around a ``Desk``; the last line of a cell shows them."""

    def __init__(self, desk):
        self.desk, self._drawn, wide = desk, None, {"width": "32em", "max_width": "98%"}
        first, *others = [*desk.systems, NONE, NONE][: len(LINES)]
        self.systems = [widgets.Dropdown(description="Systems", options=CHOICES, value=first)]
        short = dict(description="and", style={"description_width": "3em"}, layout={"width": "16em"})
        self.systems += [widgets.Dropdown(options=(NONE, *CHOICES), value=name, **short) for name in others]
        kinds = [("any new class", {"new": True}), ("any known class", {"new": False})]
        kinds += [(f"{name} (new)", {"label": name}) for name in sorted(desk.new)]
        kinds += [(name, {"label": name}) for name in desk.ids if name not in desk.new]
        self.query = widgets.Text(description="Query", placeholder="type a sentence", layout=wide)
        self.query.continuous_update = False  # Enter asks
        self.rows = widgets.Dropdown(description="or a row of", options=kinds, layout=wide)
        self.label = widgets.Combobox(description="It is", placeholder="the right class", layout=wide)
        self.label.options = list(desk.ids)
        self.source = widgets.ToggleButtons(description="Entries of")
        self.entry = widgets.IntText(description="Entry", layout={"width": "13em"})
        self.kind = widgets.Dropdown(description="Damage", options=[(title, kind) for kind, title in DAMAGES.items()])
        self.line, self.reply, self.near, self.curves, self.chain = (widgets.HTML() for _ in range(5))
        self.ask = self._button("Ask", "asking", lambda: self._ask(self.query.value), "primary")
        self.draw = self._button("Take a test row", "asking", lambda: self._ask(desk.draw(**self.rows.value)))
        self.correct = self._button("Correct", "correcting", lambda: desk.correct(self.label.value.strip()), "primary")
        self.again = self._button("Ask again", "asking again", desk.again)
        self.stream = self._button("Stream 50", "streaming", desk.stream)
        self.restart = self._button("Start again", "fitting anew", desk.restart)
        damage = lambda: desk.damage(self.kind.value, self.entry.value)
        self.damage = self._button("Damage a copy", "damaging a copy", damage, "warning")
        self.verify = self._button("Verify", "verifying", desk.verify)
        self.restore = self._button("Restore", "restoring", desk.restore)
        row = partial(widgets.HBox, layout={"flex_flow": "row wrap"})
        super().__init__(
            [
                row(self.systems),
                row([self.query, self.ask]),
                row([self.rows, self.draw]),
                row([self.label, self.correct, self.again]),
                *(self.line, self.reply, self.source, self.near),
                widgets.HTML("<b>Accuracy on test rows</b>"),
                row([self.stream, self.restart]),
                self.curves,
                widgets.HTML("<b>The ledger's chain</b>"),
                row([self.entry, self.kind, self.damage, self.verify, self.restore]),
                self.chain,
            ],
            layout={"max_width": "66em"},
        )
        self.query.observe(lambda change: self.ask.click() if change["new"].strip() else None, "value")
        self.source.observe(lambda _: self._show_neighbours(), "value")
        for control in self.systems:
            control.observe(lambda _: self._do("fitting", self._choose), "value")
        if desk.missing:
            self.query.disabled = self.ask.disabled = True
            self.query.placeholder = f"{desk.missing}: take a test row"
        self._show()

    def _button(self, text, what, action, style=""):
        button = widgets.Button(description=text, button_style=style, layout={"width": "auto", "min_width": "9em"})
        button.on_click(lambda _: self._do(what, action))
        return button

    def _do(self, what, action):
        """Act while the controls wait, then show the desk; an error is said in the line, where it can be seen."""
        controls = [*self.systems, self.ask, self.draw, self.correct, self.again, self.stream, self.restart]
        controls = [control for control in controls if not control.disabled]
        self._say(f"{what} …")
        for control in controls:
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
            for control in controls:
                control.disabled = False

    def _say(self, text, role="status"):
        colour = f"color:{NEW}" if role == "alert" else "font-style:italic"
        self.line.value = f'<div role="{role}" style="{colour}; min-height:1.4em">{html.escape(text)}</div>'

    def _choose(self):
        self.desk.compare(list(dict.fromkeys(control.value for control in self.systems if control.value != NONE)))

    def _ask(self, query):
        if isinstance(query, str) and not self.desk.model:
            self._say("asking; the encoder is loaded first, which takes some seconds …")
        self.desk.ask(query)
        self.label.value = self.desk.truth or self.label.value

    def _show(self):
        desk = self.desk
        self.reply.value = "" if desk.answers is None else desk.reply().data
        if self.source.options != tuple(desk.near):
            self.source.options, self.source.index = tuple(desk.near), 0 if desk.near else None
        self.source.layout.display = "" if len(desk.near) > 1 else "none"
        self._show_neighbours()
        if self._drawn != (drawn := (*desk.systems, len(desk.history))):
            self.curves.value, self._drawn = desk.curves().data, drawn
        try:
            self.chain.value = desk.chain().data
            self.entry.value = self.entry.value if desk.copy else desk.ledger.size - 1
        except InputError as error:  # there is no ledger
            self.chain.value = str(error)

    def _show_neighbours(self):
        near = self.desk.near and self.desk.neighbours(self.source.value or next(iter(self.desk.near))).data
        self.near.value = near or ""
