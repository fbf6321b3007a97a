"""What 11_your_own evaluates: a system and an encoder of one's own."""

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer


class Halfway:
    """Knows a mean for each class, and moves the right one halfway to each correction."""

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
    """Counts of words (n, 256), each word in a place that its hash decides."""
    return HashingVectorizer(n_features=256, alternate_sign=False).transform(texts).toarray()
