"""The paper's tables."""

import numpy as np
import pandas as pd

from ocrrlib.datasets import DATASETS
from ocrrlib.metrics import final, summarise
from ocrrlib.report.style import cell_title
from ocrrlib.report.table import Table, accuracies, levels, megabytes, spread, titles
from ocrrlib.systems import SYSTEMS


def headline(full_sweep, storage_pareto, lora=None):
    """Table 1: Banking77, oracle; all experiments, each row saying which it is from."""
    parts, experiments = [], {"full sweep": full_sweep, "storage sweep": storage_pareto, "LoRA": lora}
    for title, results in experiments.items():
        if results is None:
            continue
        cell = results[(results["dataset"] == "banking77") & (results["policy"] == "oracle")]
        parts.append(summarise(cell).assign(experiment=title))
    summary = pd.concat(parts, ignore_index=True)
    text = {
        "System": summary["system"],
        "Experiment": summary["experiment"],
        "Entries": [f"{n:.0f}" for n in summary["stored_entries"]],
        "MB": megabytes(summary["storage_bytes"]),
    }
    text |= accuracies(summary) | levels(summary)
    caption = (
        "Banking77, oracle policy: final accuracies (mean ± SD over seeds), what is stored at the end, and corrections "
        "until N % novel accuracy is first seen (mean over the seeds that reach it; how many, if not all). The full "
        "sweep draws test rows and stream order differently from the others, so a system may have two rows."
    )
    return Table("table1_headline", caption, summary, pd.DataFrame(text))


def six_cells(full_sweep):
    """The same for every dataset and policy of the full sweep."""
    summary = summarise(full_sweep)
    text = titles(summary) | accuracies(summary)
    text |= {"Corrections": [f"{n:.0f}" for n in summary["corrections"]]} | levels(summary)
    caption = (
        "Full sweep, all datasets, policies and systems: final accuracies (mean ± SD over seeds), corrections made in "
        "all, and until N % novel accuracy is first seen (as in the headline table)."
    )
    return Table("table_six_cells", caption, summary, pd.DataFrame(text))


def sparse_policies(full_sweep):
    """Section 5.3: what is left when few mistakes are corrected."""
    summary = summarise(full_sweep[full_sweep["policy"] != "oracle"])
    text = {"System": list(dict.fromkeys(summary["system"]))}
    for (dataset, policy), cell in summary.groupby(["dataset", "policy"], sort=False):
        place = cell_title(dataset, policy)
        text[f"{place}: novel"] = spread(cell["novel"], cell["novel_std"])
        text[f"{place}: original"] = spread(cell["original"], cell["original_std"])
    caption = "Sparse correction policies: final novel and original accuracy, mean ± SD over seeds."
    return Table("table_sparse_policies", caption, summary, pd.DataFrame(text))


def ranking(full_sweep):
    """Section 5.4: rank by final novel accuracy under the oracle, and the substrate's lead in points."""
    summary = summarise(full_sweep[full_sweep["policy"] == "oracle"])
    by_cell = summary.groupby("dataset", sort=False)
    summary["rank"] = by_cell["novel"].rank(ascending=False, method="min").astype(int)
    leader = summary[summary["system"] == "substrate"].set_index("dataset")["novel"]
    summary["lead_pp"] = 100 * (summary["dataset"].map(leader) - summary["novel"])
    numbers = summary[["dataset", "system", "novel", "rank", "lead_pp"]]
    text = {"System": list(dict.fromkeys(summary["system"]))}
    for dataset, cell in numbers.groupby("dataset", sort=False):
        title = DATASETS[dataset].title
        text[f"{title}: novel"] = [f"{value:.3f}" for value in cell["novel"]]
        text[f"{title}: rank"] = cell["rank"].tolist()
        text[f"{title}: lead (pp)"] = [f"{value:+.1f}" for value in cell["lead_pp"]]
    caption = (
        "Across datasets, oracle policy: final novel accuracy, its rank among the systems, and by how many percentage "
        "points the substrate leads."
    )
    return Table("table_ranking", caption, numbers, pd.DataFrame(text))


def vote_ablation(results):
    """Section 5.6: the substrate's vote rule, taken apart."""
    summary = summarise(results)
    text = {"Variant": summary["system"], **accuracies(summary)}
    text |= {"Corrections": [f"{n:.0f}" for n in summary["corrections"]]} | levels(summary)
    caption = "Vote-rule ablation, Banking77, oracle policy: final accuracies (mean ± SD) and corrections to N % novel."
    return Table("table_vote_ablation", caption, summary, pd.DataFrame(text))


def file_order(rows):
    """What first-in-first-out memories know, by the order of the initial rows."""
    columns = ["start_original", "novel", "original", "corrections"]
    groups = rows.groupby(["system", "order"], sort=False)[columns]
    numbers = groups.mean().join(groups.std(ddof=0).add_suffix("_std")).reset_index()
    text = {
        "System": numbers["system"],
        "Initial rows": numbers["order"].map({"file": "sorted by class", "shuffled": "shuffled"}),
        "Original at the start": spread(numbers["start_original"], numbers["start_original_std"]),
        **accuracies(numbers),
        "Corrections": [f"{n:.0f}" for n in numbers["corrections"]],
    }
    caption = (
        "First-in-first-out memories on Banking77, oracle policy, with the initial rows in the order of the training "
        "file, which is sorted by class, and shuffled: mean ± SD over seeds."
    )
    return Table("table_file_order", caption, numbers, pd.DataFrame(text))


def parameters(counted):
    """Section 4.5: parameters of adapted backbones, by part."""
    numbers = counted.drop(columns="made_by", errors="ignore")
    text = numbers.assign(**{name: [f"{count:,}" for count in numbers[name]] for name in list(numbers)[1:]})
    caption = "Parameters of the backbone, of the adapters and of the head for 77 classes, counted in the models."
    return Table("table_parameters", caption, numbers, text.rename(columns=str.capitalize))


def constraints(results):
    """Section 3.1: what each system holds before and after the stream, and whether it grows."""
    oracle = results[(results["dataset"] == "banking77") & (results["policy"] == "oracle")]
    start = oracle[oracle["step"] == 0].groupby("system", sort=False)
    end = final(oracle).groupby("system", sort=False)
    numbers = pd.DataFrame(
        {
            "start_entries": start["stored_entries"].mean(),
            "end_entries": end["stored_entries"].mean(),
            "start_bytes": start["storage_bytes"].mean(),
            "end_bytes": end["storage_bytes"].mean(),
        }
    ).reset_index()
    numbers["grows"] = numbers["end_entries"] > numbers["start_entries"]
    numbers["learns"] = ~numbers["system"].str.startswith("static_")
    text = pd.DataFrame(
        {
            "System": numbers["system"],
            "Sequential arrival": "yes",
            "One update step per correction": np.where(numbers["learns"], "yes", "no update at all"),
            "Bounded memory": np.where(numbers["grows"], "no, one entry per correction", "yes"),
            "Entries, start → end": [
                f"{a:.0f} → {b:.0f}" for a, b in zip(numbers["start_entries"], numbers["end_entries"])
            ],
            "MB, start → end": [
                f"{a} → {b}" for a, b in zip(megabytes(numbers["start_bytes"]), megabytes(numbers["end_bytes"]))
            ],
        }
    )
    caption = "Streaming constraints: sequence and single steps hold by construction; memory is measured (Banking77)."
    return Table("table_constraints", caption, numbers, text)


def hyperparameters():
    """Appendix B, from the registry that the code itself runs."""
    rows = [
        {"System": name, "Hyperparameters": ", ".join(f"{key} = {value}" for key, value in entry.params.items())}
        for name, entry in SYSTEMS.items()
    ]
    frame = pd.DataFrame(rows)
    caption = "Hyperparameters of all registered systems, as the code sets them."
    return Table("table_hyperparameters", caption, frame, frame)


def datasets(embedded):
    """Sizes, licences and origins of the embedded datasets."""
    rows = [
        {
            "Dataset": DATASETS[data.dataset].title,
            "Classes": len(data.classes),
            "Train rows": len(data.y_train),
            "Test rows": len(data.y_test),
            "Encoder": data.encoder,
            "Dimension": data.X_train.shape[1],
            "Licence": DATASETS[data.dataset].licence,
            "Source": DATASETS[data.dataset].citation,
        }
        for data in embedded
    ]
    frame = pd.DataFrame(rows)
    return Table("table_datasets", "The datasets as they are used.", frame, frame)
