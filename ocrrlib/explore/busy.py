"""A line that says what is being done, while buttons wait; what goes wrong is said there, too."""

import html

import ipywidgets as widgets

from ocrrlib.errors import InputError
from paper.style import PALETTE


class Busy:
    """A status line over some controls.

    Parameters
    ----------
    controls : sequence of widgets
        They are disabled while something is being done.
    """

    def __init__(self, controls):
        self.controls, self.line = controls, widgets.HTML()

    def __call__(self, what, action):
        """Do something and say so; whether it could be done."""
        free = [control for control in self.controls if not control.disabled]
        self.say(f"{what} …", "status")
        for control in free:
            control.disabled = True
        try:
            action()
            self.say("")
        except InputError as error:
            self.say(str(error), "alert")
            return False
        except Exception as error:  # a callback's error would be seen nowhere else
            self.say(f"{type(error).__name__}: {error}", "alert")
            raise
        finally:
            for control in free:
                control.disabled = False
        return True

    def say(self, text, role="status"):
        """Show a text; an ``alert`` in a colour of its own."""
        colour = f"color:{PALETTE['vermilion']}" if role == "alert" else "font-style:italic"
        self.line.value = f'<div role="{role}" style="{colour}; min-height:1.4em">{html.escape(text)}</div>'
