"""The explorer of results with widgets around it."""

import ipywidgets as widgets

from ocrrlib.explore import results_pictures as pictures
from ocrrlib.explore.busy import Busy
from ocrrlib.explore.looks import image, table
from paper.style import POLICY_TITLES, title_of

ALL = "all"  # seeds; None would be no choice at all


class ResultsView:
    """Widgets on ``Results``; shows itself as the last line of a cell.

    Parameters
    ----------
    results : Results
        What is shown.
    dataset, policy : str
        The cell to begin with; by default the first.
    systems : sequence of str
        The systems to begin with.
    seed : int, optional
        The seed to begin with; by default all.

    Attributes
    ----------
    box : VBox
        All of it.
    """

    def __init__(self, results, dataset=None, policy=None, systems=("substrate",), seed=None):
        self.results = results
        self._make_controls(dataset, policy, systems, seed)
        self.busy = Busy([self.dataset, self.policy, self.systems, self.seed, self.system, self.look])
        self.overview, self.finals = widgets.HTML(), widgets.HTML()
        self.parts = {name: widgets.HTML() for name in ("Classes", "Confusion", "Corrected rows")}
        self.box = self._arranged()
        for control in (self.dataset, self.policy, self.systems, self.seed):
            control.observe(self._chosen, "value")
        self.system.observe(self._clear, "value")
        self.look.on_click(lambda _: self.busy(f"streaming {self.system.value}, seed {self._seed}", self._look))
        self._show()

    def _make_controls(self, dataset, policy, systems, seed):
        found = self.results
        titles = [(title_of(name), name) for name in found.datasets]
        self.dataset = widgets.ToggleButtons(options=titles, value=dataset or found.datasets[0], description="Dataset")
        policies = [(POLICY_TITLES.get(name, name), name) for name in found.policies]
        self.policy = widgets.ToggleButtons(
            options=policies, value=policy or found.policies[0], description="Corrected"
        )
        listed = [*systems, *(name for name in found.systems if name not in systems)]
        self.systems = widgets.SelectMultiple(
            options=listed, value=tuple(systems), rows=8, description="Systems", layout={"width": "20em"}
        )
        seeds = [("all, their mean", ALL), *((str(one), one) for one in found.seeds)]
        value = ALL if seed is None else seed
        self.seed = widgets.Dropdown(options=seeds, value=value, description="Seed", layout={"width": "20em"})
        self.system = widgets.Dropdown(options=self.systems.value, description="System", layout={"width": "20em"})
        self.look = widgets.Button(description="Look inside", button_style="primary")

    def _arranged(self):
        self.inside = widgets.Tab(list(self.parts.values()), titles=tuple(self.parts))
        controls = widgets.VBox([self.dataset, self.policy, self.seed])
        return widgets.VBox(
            [
                widgets.HBox([controls, self.systems]),
                widgets.HTML("<small>Several systems, eight at most: hold Ctrl (⌘) and click.</small>"),
                self.busy.line,
                self.overview,
                widgets.Accordion([self.finals], titles=("All systems of this cell",)),
                widgets.HTML("<b>Inside one run</b>, streamed now from the committed vectors"),
                widgets.HBox([self.system, self.look]),
                self.inside,
            ],
            layout={"max_width": "64em"},
        )

    @property
    def _cell(self):
        return self.dataset.value, self.policy.value

    @property
    def _seed(self):
        """The seed to look inside of: where all are chosen, the first."""
        return self.results.seeds[0] if self.seed.value == ALL else self.seed.value

    def _chosen(self, change):
        chosen = len(self.systems.value)
        if not 1 <= chosen <= pictures.MOST:
            many = f"{chosen} systems are chosen, more than can be told apart: choose {pictures.MOST} at most."
            self.busy.say(many if chosen else "No system is chosen: click on one.", "alert")
            return
        kept = self.system.value
        self.system.options = self.systems.value
        self.system.value = kept if kept in self.systems.value else self.systems.value[0]
        self.busy("drawing", self._show)

    def _show(self):
        systems, seed = self.systems.value, None if self.seed.value == ALL else self.seed.value
        figure = pictures.overview(self.results, *self._cell, systems, seed)
        finals = self.results.finals(*self._cell, seed)
        ends = (
            f"{name}: new {finals.at[name, 'novel']:.3f}, known {finals.at[name, 'original']:.3f}" for name in systems
        )
        self.overview.value = image(figure, f"Curves and final accuracies. {'; '.join(ends)}.")
        self.finals.value = table(pictures.standings(finals))
        self._clear()

    def _clear(self, change=None):
        """Show the run that is chosen if it is at hand; else ask for it."""
        if self.results.is_ready(*self._cell, self.system.value, self._seed):
            self._look()
            return
        for part in self.parts.values():
            part.value = f"Look inside {self.system.value}, seed {self._seed}: a second or two, longer for some."

    def _look(self):
        dataset, policy = self._cell
        run = self.results.inside(dataset, policy, self.system.value, self._seed)
        told = f"<div>{pictures.run_line(run)}</div>"
        shown = {
            "Classes": image(pictures.classes(run), "Accuracy of classes before the stream and after it."),
            "Confusion": image(pictures.confusion(run), "Test rows of new classes by answer.")
            + table(run.kinds)
            + table(run.mixed_up().set_index("class")),
            "Corrected rows": image(pictures.corrections(run), "Stream items: right, corrected, left wrong.")
            + f'<div style="max-height:20em; overflow:auto">{table(pictures.corrected(run, dataset))}</div>',
        }
        for name, text in shown.items():
            self.parts[name].value = told + text

    def _repr_mimebundle_(self, **more):
        return self.box._repr_mimebundle_(**more)
