"""What can be set on the command line of the build."""

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path

from ocrrlib.backbones import DEFAULT_ENCODER, load_tokeniser
from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.embeddings import path_of
from ocrrlib.encoders import load_encoder, slug
from ocrrlib.errors import InputError, pick
from ocrrlib.experiments import EXPERIMENTS, PROFILES, SEEDS, parse_seeds
from ocrrlib.files import ROOT
from ocrrlib.workers import check_scheduler
from studies.scale import LIVE, PARTS, cells, check_memory

BUILD = ROOT / "build"
SOURCES = dict.fromkeys(("published", "live"))  # as committed, or run now
# What takes long or measures time is shown as published, unless a target of its own runs it anew.
PUBLISHED = {
    "LORA": ("lora", "parameters"),
    "TIMES": ("scale_costs", "race", "costs", "growth"),
    "BEYOND": ("beyond", "beyond_rows", "variance", "streams"),
    "TUNE": ("search", "tuning"),
}
# Which notebooks that is, several set apart by |, and what is set for it.
ANEW = {
    "lora": ("04_*", {"LORA": "live"}),
    "scale": ("06_*", {"TIMES": "live", "SCALES": ",".join(PARTS)}),
    "compute": ("07_*", {"TIMES": "live"}),
    "beyond": ("09_*|10_*", {"BEYOND": "live"}),
    "tune": ("09_*", {"TUNE": "live"}),
}


@dataclass(frozen=True)
class Settings:
    """All settings, checked before anything runs."""

    ENCODER: str = DEFAULT_ENCODER
    SEEDS: str = ",".join(map(str, SEEDS))
    JOBS: int = os.cpu_count() or 1
    PROFILE: str = "paper"
    DASK: str = ""
    BACKBONE: str = DEFAULT_ENCODER
    LORA: str = "published"
    SCALES: str = LIVE
    TIMES: str = "published"
    BEYOND: str = "published"
    TUNE: str = "published"
    BEYOND_SEEDS: str = ",".join(map(str, EXPERIMENTS["beyond"].seeds))
    OUT: str = ""

    @classmethod
    def parse(cls, words):
        """Settings from ``NAME=value`` words.

        Raises
        ------
        InputError
            If a name is unknown or a value cannot be used.
        """
        given = dict(word.partition("=")[::2] for word in words)
        known = {field.name: field.name for field in fields(cls)}
        for name in given:
            pick("parameter", name, known)
        if not given.get("JOBS", "1").isdecimal() or int(given.get("JOBS", 1)) < 1:
            raise InputError(f"JOBS={given['JOBS']} is out of range: give a number of processes from 1 up")
        for name, usual in {"SEEDS": cls.SEEDS, "BEYOND_SEEDS": cls.BEYOND_SEEDS}.items():
            given[name] = ",".join(map(str, parse_seeds(given.get(name, usual))))
        settings = cls(**given | {"JOBS": int(given.get("JOBS", cls.JOBS))})
        pick("profile", settings.PROFILE, PROFILES)
        if settings.DASK:
            check_scheduler(settings.DASK)
        for name in PUBLISHED:
            pick(f"value of {name}", getattr(settings, name), SOURCES)
        if settings.LORA == "live":
            load_texts("banking77")
            load_tokeniser(settings.BACKBONE)
        check_memory(max((cell.n for cell in cells(settings.SCALES, settings.PROFILE)), default=0))
        for dataset in DATASETS:
            if not path_of(dataset, settings.ENCODER).exists():
                texts = load_texts(dataset)  # they must be encoded, so the texts and the encoder must be there
                load_encoder(settings.ENCODER, texts.train)
        return settings

    @property
    def variant(self):
        """Empty for the published settings; else a name for everything that these settings make."""
        usual = Settings()
        same = ("JOBS", "DASK", "SCALES", "OUT", *PUBLISHED)
        if self == replace(usual, **{name: getattr(self, name) for name in same}):
            return ""
        backbone = "" if self.BACKBONE == usual.BACKBONE else f"_{slug(self.BACKBONE)}"
        seeds = f"_seeds-{self.SEEDS.replace(',', '-')}"
        if self.BEYOND_SEEDS != usual.BEYOND_SEEDS:
            seeds += f"_beyond-{self.BEYOND_SEEDS.replace(',', '-')}"
        return f"{slug(self.ENCODER)}{backbone}{seeds}_{self.PROFILE}"

    @property
    def out(self):
        """Where results, tables and figures go; only the published settings write the published ones."""
        return Path(self.OUT) if self.OUT else BUILD / "variants" / self.variant if self.variant else ROOT
