"""A system and an encoder, for notebook 11_your_own."""

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer


class Halfway:
    """Nearest class mean; each correction moves the right mean halfway to the example."""

    def fit(self, X, y, classes):
        self.means = np.zeros((len(classes), X.shape[1]))
        for label in np.unique(y):
            self.means[label] = X[y == label].mean(axis=0)

    def predict(self, X):
        return (X @ self.means.T).argmax(axis=1)

    def correct(self, x, y):
        self.means[y] += (x - self.means[y]) / 2


halfway = Halfway()


def hashed_words(texts):
    """Hashed word counts (n, 256)."""
    return HashingVectorizer(n_features=256, alternate_sign=False).transform(texts).toarray()
