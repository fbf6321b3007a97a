"""How well systems at the desk do on test rows, correction by correction."""

import numpy as np
import pandas as pd


class Accuracies:
    """Accuracies of systems on the test rows of a scenario, measured now and whenever one says so.

    Parameters
    ----------
    systems : dict of str to System
        Fitted systems.
    scenario : Scenario
        Whose queries are answered.

    Attributes
    ----------
    watches : dict of str to callable
        Of each system, what answers rows of ``scenario.queries`` by their numbers.
    """

    def __init__(self, systems, scenario):
        self.watches = {name: system.watch(scenario.queries) for name, system in systems.items()}
        self._scenario, self._measured = scenario, []
        self.measure(corrections=0)

    def measure(self, corrections):
        """Note where all systems stand after so many corrections."""
        s = self._scenario
        rows = np.arange(len(s.y_stream), len(s.queries))
        for name, answer in self.watches.items():
            novel, original = np.split(answer(rows), [len(s.y_novel)])
            accuracies = {"novel": np.mean(novel == s.y_novel), "original": np.mean(original == s.y_original)}
            self._measured.append({"corrections": corrections, "system": name} | accuracies)

    @property
    def history(self):
        """One row per measurement and system: ``corrections``, ``system``, ``novel``, ``original`` (fractions)."""
        return pd.DataFrame(self._measured)
