"""Options that several commands have."""

from typing import Annotated

import typer

PLAIN = {
    "no_args_is_help": True,
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}
TextColumn = Annotated[str, typer.Option("--text", help="Column of the texts.")]
LabelColumn = Annotated[str, typer.Option("--label", help="Column of the labels.")]
