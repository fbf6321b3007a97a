"""What a query can be made of here: typed text where there is an encoder, test rows always; no network is asked."""

import importlib.util
import os

import pooch

from ocrrlib.datasets import DATASETS, load_texts
from ocrrlib.embeddings import encode, widen
from ocrrlib.encoders import LEXICAL_ENCODER, load_encoder, revision
from ocrrlib.errors import InputError


def texts_at_hand(dataset):
    """The dataset's sentences if they lie on this machine; None where they would have to be downloaded."""
    if dataset not in DATASETS:
        return None
    if not os.environ.get("OCRR_DATA_DIR"):
        kept = pooch.os_cache("ocrr") / dataset
        if not all((kept / name).is_file() for name in DATASETS[dataset].files):
            return None
    try:
        return load_texts(dataset)
    except InputError:
        return None


class Typed:
    """Typed queries as unit rows; the encoder is loaded when the first one comes.

    Parameters
    ----------
    encoder : str or callable
        See ``load_encoder``.
    texts : Texts, optional
        Sentences, on whose training part the lexical encoder is fitted.
    """

    def __init__(self, encoder, texts=None):
        self.encoder, self.texts, self._model, self._rows = encoder, texts, None, {}

    @property
    def missing(self):
        """Why no text can be encoded here; empty if it can, as far as that is known without loading the encoder."""
        if callable(self.encoder):
            return ""
        if self.encoder == LEXICAL_ENCODER:
            return "" if self.texts else f"the texts that {LEXICAL_ENCODER} is fitted on are not on this machine"
        if importlib.util.find_spec("sentence_transformers") is None:
            return "sentence-transformers is not installed"
        try:
            revision(self.encoder)
        except InputError as error:
            return str(error)
        return ""

    @property
    def loaded(self):
        """Whether the next query is encoded at once."""
        return self._model is not None

    def __call__(self, text):
        """The unit row (d,) of a text.

        Raises
        ------
        InputError
            If the text is empty, or there is no encoder here.
        """
        text = text.strip()
        if not text:
            raise InputError("the query is empty: type a sentence, or take a test row")
        if self.missing:
            raise InputError(f"no text can be encoded here ({self.missing}): take a test row")
        if self._model is None:
            self._model = load_encoder(self.encoder, self.texts.train if self.texts else None)
        if text not in self._rows:
            self._rows[text] = widen(encode([text], self.encoder, self._model))[0]
        return self._rows[text]
