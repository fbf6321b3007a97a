"""The correction desk with widgets around it."""

import html

import ipywidgets as widgets

from ocrrlib.explore import desk_pictures as pictures
from ocrrlib.explore.busy import Busy
from ocrrlib.explore.damage import TITLES
from ocrrlib.explore.desk import CHOICES, MOST
from ocrrlib.explore.looks import image, table

NONE = "–"
AT_ONCE = 50  # stream items
WIDE, FITTING = dict(width="32em"), dict(width="auto", flex="0 0 auto")


class DeskView:
    """Widgets on a ``Desk``; shows itself as the last line of a cell.

    Parameters
    ----------
    desk : Desk
        What is shown and changed.

    Attributes
    ----------
    box : VBox
        All of it.
    """

    def __init__(self, desk):
        self.desk = desk
        self._make_controls()
        self.busy = Busy([*self.systems, self.ask, self.draw, self.correct, self.again, self.stream, self.restart])
        self.reply, self.near = widgets.HTML(), widgets.HTML()
        self.accuracies, self.chain = widgets.HTML(), widgets.HTML()
        self._replied = None
        self.box = self._arranged()
        self._connect()
        self._show_accuracies()
        self._show_chain()
        if desk.typed.missing:
            self.query.disabled = self.ask.disabled = True
            self.query.placeholder = "no text encoder here: take a test row"
            self.busy.say(f"No text can be encoded here ({desk.typed.missing}); take test rows.")

    def _make_controls(self):
        desk, names = self.desk, [*self.desk.systems]
        rest = [name for name in desk.data.classes if name not in desk.new]
        self.systems = [
            widgets.Dropdown(
                options=CHOICES if at == 0 else (NONE, *CHOICES),
                value=names[at] if at < len(names) else NONE,
                description="Systems" if at == 0 else "",
                layout={"width": "17em" if at == 0 else "11em"},
            )
            for at in range(MOST)
        ]
        self.query = widgets.Text(
            description="Query", placeholder="type a sentence", continuous_update=False, layout=WIDE
        )
        self.ask = widgets.Button(description="Ask", button_style="primary")
        kinds = [("any new class", ("kind", True)), ("any known class", ("kind", False))]
        classes = [(f"{name} (new)", ("class", name)) for name in sorted(desk.new)]
        classes += [(name, ("class", name)) for name in rest]
        self.rows = widgets.Dropdown(options=kinds + classes, description="or a row of", layout=WIDE)
        self.draw = widgets.Button(description="Take a test row")
        self.source = widgets.ToggleButtons(description="Entries of", layout={"display": "none"})
        self.label = widgets.Combobox(
            options=desk.data.classes, description="It is", placeholder="the right class", layout=WIDE
        )
        self.correct = widgets.Button(description="Correct", button_style="primary")
        self.again = widgets.Button(description="Ask again")
        self.stream = widgets.Button(
            description=f"Stream {AT_ONCE}", tooltip="stream items pass; where the first system errs, all are corrected"
        )
        self.restart = widgets.Button(description="Start again", tooltip="forget all corrections")
        self.kind = widgets.Dropdown(
            options=[(title, kind) for kind, title in TITLES.items()], layout={"width": "22em"}
        )
        self.entry = widgets.IntText(description="Entry", layout={"width": "13em", "flex": "0 0 auto"})
        self.damage = widgets.Button(description="Damage a copy", button_style="warning", layout=FITTING)
        self.verify = widgets.Button(description="Verify", layout=FITTING)
        self.restore = widgets.Button(description="Restore", layout=FITTING)

    def _arranged(self):
        heading = "<b>{}</b>".format
        return widgets.VBox(
            [
                widgets.HBox(self.systems),
                widgets.HBox([self.query, self.ask]),
                widgets.HBox([self.rows, self.draw]),
                widgets.HBox([self.label, self.correct, self.again]),
                self.busy.line,
                self.reply,
                self.source,
                self.near,
                widgets.HTML(heading("Accuracy on test rows")),
                widgets.HBox([self.stream, self.restart]),
                self.accuracies,
                widgets.HTML(heading("The ledger's chain")),
                widgets.HBox([self.entry, self.kind, self.damage, self.verify, self.restore]),
                self.chain,
            ],
            layout={"max_width": "66em"},
        )

    def _connect(self):
        self.query.observe(self._typed, "value")
        self.source.observe(self._show_near, "value")
        for control in self.systems:
            control.observe(self._chosen, "value")
        for button, what, action in (
            (self.ask, "asking", lambda: self._show(self.desk.ask(self.query.value))),
            (self.draw, "asking", self._take),
            (self.again, "asking again", lambda: self._show(self.desk.again())),
            (self.correct, "correcting", self._correct),
            (self.stream, "streaming", self._stream),
            (self.restart, "fitting anew", self._restart),
            (self.damage, "damaging a copy", self._damage),
            (self.verify, "verifying", self._verify),
            (self.restore, "restoring", self._restore),
        ):
            button.on_click(lambda _, what=what, action=action: self.busy(self._first(what), action))

    def _first(self, what):
        """The first typed query takes longer, and says so."""
        slow = what == "asking" and self.query.value.strip() and not self.desk.typed.loaded
        return "asking; the encoder is loaded first, which takes some seconds" if slow else what

    def _typed(self, change):
        if change["new"].strip():
            self.ask.click()

    def _take(self):
        kind, value = self.rows.value
        row = self.desk.draw(**{"new" if kind == "kind" else "label": value})
        self._show(self.desk.ask(row))

    def _show(self, reply):
        if reply.truth is not None:
            self.label.value = reply.truth
        said = f"<div><b>{html.escape(pictures.title(reply))}</b></div>"
        self.reply.value = f"{said}{table(pictures.answers(reply))}"
        self._replied, kept, names = reply, self.source.value, tuple(reply.neighbours)
        if names != self.source.options:
            self.source.options = names
            self.source.value = kept if kept in names else names[0] if names else None
        self.source.layout.display = "none" if len(names) < 2 else ""
        self._show_near()

    def _show_near(self, change=None):
        """Neighbours of the system that is chosen among those that keep entries."""
        if self._replied is None:
            return
        near = self._replied.neighbours.get(self.source.value)
        rows = () if near is None else near[["class", "cosine"]].itertuples(False)
        best = ", ".join(f"{name} {cosine:.3f}" for name, cosine in rows) or "none"
        self.near.value = image(pictures.neighbours(self._replied, self.source.value), f"Nearest entries: {best}.")

    def _forget(self):
        """Show no reply."""
        self._replied, self.reply.value, self.near.value = None, "", ""
        self.source.layout.display = "none"

    def _correct(self):
        self.desk.correct(self.label.value.strip())
        self._show_accuracies()
        self._show_chain()

    def _stream(self):
        self.desk.stream(AT_ONCE)
        self._show_accuracies()
        self._show_chain()

    def _restart(self):
        self.desk.restart()
        self._forget()
        self._show_accuracies()
        self._show_chain()

    def _chosen(self, change):
        names = [control.value for control in self.systems if control.value != NONE]
        if not self.busy("fitting", lambda: self.desk.compare(dict.fromkeys(names))):
            return
        self._forget()
        self._show_accuracies()
        self._show_chain()

    def _damage(self):
        self.desk.chain.damage(self.kind.value, self.entry.value)
        self._show_chain("A copy, damaged; the systems keep the whole ledger.")

    def _verify(self):
        verdict = self.desk.chain.verify()
        self._show_chain(verdict.sentence, verdict.named)

    def _restore(self):
        self.desk.chain.restore()
        self._show_chain()

    def _show_accuracies(self):
        history = self.desk.history
        self.accuracies.value = image(pictures.accuracies(history), f"{pictures.accuracy_line(history)}.")

    def _show_chain(self, said="", named=None):
        if not self.desk.chain.is_there:
            self.chain.value = "None of these systems keeps a ledger: choose substrate or ledger_plda."
            return
        if self.desk.chain.copy is None:
            self.entry.value = self.desk.chain.ledger.size - 1
        links = table(pictures.chain(self.desk.chain.links(), named), pictures.MARK)
        self.chain.value = f"{links}<div><b>{html.escape(said)}</b></div>"

    def _repr_mimebundle_(self, **more):
        return self.box._repr_mimebundle_(**more)
