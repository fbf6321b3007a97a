"""The correction desk and the explorer of results, for JupyterLab.

Models (``desk``, ``results``) know nothing of widgets; ``desk_view`` and ``results_view`` put ipywidgets around
them, and ``desk_script`` plays the same steps without a browser.
"""
