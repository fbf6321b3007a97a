"""Trials of the memory: kills, power cuts, edits, races, load; `make torture` publishes counts."""

import os
from pathlib import Path

MEMORY = Path(__file__).resolve().parent.parent  # the folder of this project
PATHS = f"{MEMORY}{os.pathsep}{MEMORY.parent}"  # where processes find trials, and the compendium
