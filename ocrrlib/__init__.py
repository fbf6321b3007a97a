"""OCRR: online correction recovery under distribution shift.

Data flow one way: texts -> embeddings -> scenario -> stream loop -> results -> tables and figures.
``ocrrlib.stream`` is the benchmark on one screen; the package ``ocrr`` runs it on your system, data
or encoder. ``docs/map.md`` shows the rooms of the library, and what to read first.
"""

__version__ = "0.1.0"
