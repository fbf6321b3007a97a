"""Results files of single studies: the columns that name a row, and how a row is run again."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ocrrlib.files import ROOT
from ocrrlib.runs import made_where, path_of, published, read_about, write_results
from ocrrlib.tasks import Task, run_tasks


def _nothing(setting: dict) -> dict:
    return {}


@dataclass(frozen=True)
class Study:
    """One results file, ``data/results/<name>.parquet``."""

    name: str
    key: tuple[str, ...]  #: columns that name a row
    timed: bool = False  #: its file says on what machine, with what libraries and when it was made
    #: Makes the outcomes of one setting, a dict by column: one dict, or a list of several rows.
    run_one: Callable[..., dict | list[dict]] | None = None
    settings: tuple[str, ...] = ()  #: columns that ``run_one`` is given; by default ``key``
    #: What decides outcomes beside the setting, such as versions and fingerprints, as JSON.
    about: Callable[[dict], dict] = _nothing
    together: tuple[str, ...] = ()  #: one process does the runs that agree in these columns
    cost: str | None = None  #: column that run times grow with

    def run(self, settings: Iterable[dict], *options, **how) -> pd.DataFrame:
        """Run settings, dicts by column, and return their rows in order.

        ``options`` are further arguments of ``run_one``, ``how`` those of ``run_tasks``.
        """
        settings = list(settings)
        tasks = [self._task(setting, options) for setting in settings]
        rows = []
        for setting, found in zip(settings, run_tasks(self.run_one, tasks, **how)):
            rows += [setting | outcomes for outcomes in _as_list(found)]
        return pd.DataFrame(rows)

    def _task(self, setting, options):
        known_by = setting | self.about(setting) | {"options": options}
        group = tuple(setting[name] for name in self.together) or None
        cost = setting[self.cost] if self.cost else 1
        return Task(known_by, (setting, *options), group, cost)

    def rerun(self, row: Mapping) -> dict:
        """Outcomes by column of a published row, from the settings in its own columns.

        NaN for a column that does not come out.
        """
        names = self.settings or self.key
        found = _as_list(self.run_one({name: row[name] for name in names}))
        others = [name for name in self.key if name not in names]
        (again,) = (one for one in found if all(one[name] == row[name] for name in others))
        return {name: again.get(name, np.nan) for name in row if name not in names}

    def publish(self, fresh: pd.DataFrame, out: Path = ROOT, keep: bool = True) -> pd.DataFrame:
        """Write rows and return them: the fresh ones and, with ``keep``, the published ones.

        A fresh row takes the place of a published one of the same ``key``. A timed study's file
        says where rows that are kept were made.
        """
        rows = fresh
        if keep:
            earlier = published(self.name)
            rows = pd.concat([fresh, earlier], ignore_index=True) if len(fresh) else earlier
        key = list(self.key)
        rows = rows.drop_duplicates(key).sort_values(key, kind="stable", ignore_index=True)
        about = made_where() if self.timed else {}
        if self.timed and len(rows) > len(fresh):
            about["kept"] = read_about(path_of(self.name))
        write_results(rows, path_of(self.name, out), about)
        return rows


def _as_list(found):
    return found if isinstance(found, list) else [found]
