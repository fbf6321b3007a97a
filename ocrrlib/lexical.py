"""A lexical encoder, for comparison: sentences as the words and letters that they consist of."""

from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline, make_union

DIMENSIONS = 256  # for neighbours as good as more


class Lexical:
    """TF-IDF of words, pairs of words and pieces of words, reduced by a truncated SVD (Deerwester et al. 1990).

    Parameters
    ----------
    sentences : list of str
        What it is fitted on: of a dataset, the training sentences of all its classes, without labels.
    dimensions : int
        Length of a row.
    """

    def __init__(self, sentences, dimensions=DIMENSIONS):
        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        pieces = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), min_df=2, sublinear_tf=True)
        svd = TruncatedSVD(dimensions, n_iter=7, random_state=0)
        self.model = make_pipeline(make_union(words, pieces), svd).fit(sentences)

    def encode(self, sentences, **_):
        """Rows (n, dimensions), not of unit length; further arguments are those of other encoders."""
        return self.model.transform(sentences)
