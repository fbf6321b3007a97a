"""Whether texts have terms enough for the lexical encoder, which would say so in the words of scikit-learn."""

from collections import Counter

from sklearn.feature_extraction.text import TfidfVectorizer

from ocrrlib.encoders import DEFAULT_ENCODER, LEXICAL_ENCODER
from ocrrlib.errors import InputError
from ocrrlib.lexical import DIMENSIONS

# As ``Lexical`` has them; pieces count that are in two texts at least.
WORDS = {"ngram_range": (1, 2)}
PIECES = {"analyzer": "char_wb", "ngram_range": (3, 5)}


def count_terms(sentences):
    """Terms that ``Lexical`` finds: how many words and pairs of words, and how many pieces of words."""
    words, pieces = (TfidfVectorizer(**settings).build_analyzer() for settings in (WORDS, PIECES))
    within = Counter(piece for sentence in sentences for piece in set(pieces(sentence)))
    return len({word for sentence in sentences for word in words(sentence)}), sum(n > 1 for n in within.values())


def check_vocabulary(sentences, path):
    """Go on only if the lexical encoder can be fitted on these training texts of a file.

    Raises
    ------
    InputError
        If they have fewer different terms than its rows are long, or none of a kind.
    """
    words, pieces = count_terms(sentences)
    if not words or not pieces or words + pieces < DIMENSIONS:
        raise InputError(
            f"{path}: the training texts have {words + pieces} different terms, of which {words} are words or pairs of "
            f"words and {pieces} pieces of words that two texts share; the encoder {LEXICAL_ENCODER!r} needs "
            f"{DIMENSIONS}, some of both kinds: give more texts, or another encoder, as {DEFAULT_ENCODER!r}"
        )
