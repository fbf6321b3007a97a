"""What the order of the initial rows decides: sorted by class, as in the training files, or shuffled."""

import pandas as pd
from joblib import Parallel, delayed

from ocrrlib.embeddings import load
from ocrrlib.errors import pick
from ocrrlib.experiments import PROFILES, SEEDS, parse_seeds
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario, shuffled
from ocrrlib.stream import run_stream
from ocrrlib.systems import make


def in_both_orders(system, dataset, encoder, seed, profile="paper"):
    """Stream one system over both orders (storage sweep's draw, every mistake corrected): two dicts."""
    size = pick("profile", profile, PROFILES)
    scenario, rows = make_scenario(load(dataset, encoder), seed, draw="continued", **size), []
    for order, stream in {"file": scenario, "shuffled": shuffled(scenario)}.items():
        first, *_, last = run_stream(make(system, seed=seed), stream, POLICIES["oracle"])
        row = {"start_novel": first.novel_acc, "start_original": first.original_acc}
        row |= {"novel": last.novel_acc, "original": last.original_acc, "corrections": last.corrections}
        rows.append({"system": system, "order": order, "seed": seed} | row)
    return rows


def compare_orders(systems, dataset, encoder, seeds=SEEDS, profile="paper", jobs=1):
    """The same for several systems and seeds, as a table."""
    plan = [(system, dataset, encoder, seed, profile) for system in systems for seed in parse_seeds(seeds)]
    return pd.DataFrame(sum(Parallel(n_jobs=jobs)(delayed(in_both_orders)(*one) for one in plan), []))
