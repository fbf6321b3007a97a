"""Options that several commands have in common."""

from typing import Annotated, Any

import typer

PLAIN: dict[str, Any] = {
    "no_args_is_help": True,
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}
TextColumn = Annotated[str, typer.Option("--text", help="Column of the texts.")]
LabelColumn = Annotated[str, typer.Option("--label", help="Column of the labels.")]
