"""Whether the scatter of rows around their class means says how rows vary, or is mere rounding."""

LEAST = 1e-6  # rows of a class that differ by less than a thousandth of their length are taken for copies


def is_known(scatter, free, square=1.0):
    """Whether rows of one class are known to vary.

    Parameters
    ----------
    scatter : float
        Squared distances of rows to the mean of their class, added up.
    free : int
        Degrees of freedom: rows, less the classes that have any.
    square : float
        Mean squared length of the rows.
    """
    return scatter > LEAST * free * square
