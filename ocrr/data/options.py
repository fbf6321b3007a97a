"""Options of commands that read a file."""

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
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of the file; by default its mark, else UTF-8.")
]
Separator = Annotated[
    str | None, typer.Option(help="Separator of columns, as ';' or tab; by default what fits.")
]
NoHeader = Annotated[
    bool, typer.Option("--no-header", help="The first line is a row; columns are 0, 1, ...")
]
NoQuotes = Annotated[
    bool, typer.Option("--no-quotes", help="Quotes are part of the texts, each of one line.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(help="Only rows with this value in a column, as answer=accept; repeatable."),
]
