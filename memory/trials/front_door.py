"""Agent Memory Integrity's other adversary, at the front door: who writes by the memory's own API.

The suite calls it level 2, "write access"; its level 3, "store access", is in ``trials.auditor``.
Texts are ranked by all-MiniLM-L6-v2, as in the rows that the suite publishes.
"""

import tempfile
from pathlib import Path

import numpy as np
from agmi.adapters.semantic_base import Retrieved, SemanticMemoryAdapter
from agmi.attacks.memory_specific import ALL_MEMORY_ATTACKS

from corrigible import CorrectionMemory
from ocrrlib.encoders import DEFAULT_ENCODER, load_encoder

# Words for the verdicts
WORDS = {"safe": "kept out", "VULNERABLE": "surfaced", "n/a": "n/a"}


class Served(SemanticMemoryAdapter):
    """A correction memory whose neighbours are what an agent is served; it has no users."""

    name = "CorrectionMemory"

    def __init__(self, folder):
        self.folder = folder
        self.model = load_encoder(DEFAULT_ENCODER)
        self.vectors = {}
        self.resets = 0
        self.reset()

    def reset(self):
        if self.resets:
            self.memory.close()
        self.resets += 1
        path = Path(self.folder, f"{self.resets}.sqlite")
        self.memory = CorrectionMemory.open(path, self.encode)

    def encode(self, texts):
        """Encode each text once, on its own, whatever asks for it."""
        for text in texts:
            if text not in self.vectors:
                self.vectors[text] = np.asarray(self.model([text]))[0]
        return np.array([self.vectors[text] for text in texts])

    def add_memory(self, item):
        self.memory.correct(item.text, "note", by=item.source, again=True)

    def retrieve(self, query, user_id, k=5):
        nearest = self.memory.predict(query).neighbours[:k]
        return [Retrieved(near.text, user_id, near.cosine) for near in nearest]

    def supports_users(self):
        return False


def front_door():
    """Verdict on each of the suite's six front-door attacks, and how it came about."""
    verdicts = {}
    with tempfile.TemporaryDirectory() as folder:
        memory = Served(folder)
        for attack in ALL_MEMORY_ATTACKS:
            one = attack().run(memory)
            verdicts[one.attack] = f"{WORDS[one.status]}: {one.error or one.detail}"
    return verdicts
