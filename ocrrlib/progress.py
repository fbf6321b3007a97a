"""What is being done while something takes long: a bar, or a line on stderr now and then."""

import sys
import threading
import time

from tqdm import tqdm

BAR, LINES = 1, 30  # seconds between two looks


class Progress:
    """A sign of life; a thread keeps it moving while whatever was said last goes on.

    Parameters
    ----------
    title : str
        What it is about.
    total : int, optional
        Seeds that will be done; without it, no bar but what is being done, once it takes longer than a second.
    how : bool or str
        A bar, nothing, or ``"lines"`` for where no bar can be drawn.
    """

    def __init__(self, title, total=None, how=True):
        self.title, self.how, self.doing, self.start, self.over = title, how, "", time.monotonic(), threading.Event()
        shape = {"unit": "seed"} if total else {"bar_format": "{desc} [{elapsed}]", "leave": False, "delay": BAR}
        self.bar = tqdm(total=total, desc=title, disable=how is not True, **shape)
        self.total = total

    def says(self, what):
        """What is done from now on; cheap enough for every checkpoint."""
        self.doing = what
        if self.total:
            self.bar.set_postfix_str(what, refresh=False)
        else:
            self.bar.set_description_str(f"{self.title}: {what}", refresh=False)

    def done(self):
        """One more of the total."""
        self.bar.update()

    def show(self):
        """Show what is being done now, as the thread does from time to time."""
        if self.how is True:
            self.bar.refresh()
        elif self.how:
            print(f"... {self.title}: {self.doing}, {time.monotonic() - self.start:.0f} s", file=sys.stderr)

    def __enter__(self):
        if self.how:
            threading.Thread(target=self._live, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.bar.close()

    def _live(self):
        while not self.over.wait(BAR if self.how is True else LINES):
            self.show()
