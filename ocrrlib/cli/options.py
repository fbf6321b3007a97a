"""What commands of ``ocrr`` are told, declared once: arguments, options, and what becomes of them."""

import functools
import inspect
import json
import re
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from ocrrlib.cli.curves import can_print
from ocrrlib.cli.failures import VARIABLE, traceback_if
from ocrrlib.cli.names import encoder_of, system_of
from ocrrlib.datasets import DATASETS
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import InputError, pick
from ocrrlib.evaluation.candidates import Candidate
from ocrrlib.evaluation.data import check_sentences
from ocrrlib.evaluation.evaluate import evaluate
from ocrrlib.experiments import parse_seeds
from ocrrlib.own_data.files import ARRAYS
from ocrrlib.policies import POLICIES
from ocrrlib.stream import EVERY

BROKEN, WRONG, STOPPED = 1, 2, 130  # exit statuses

System = Annotated[str, typer.Argument(help="A name in `ocrr systems`, or module:name of your own.")]
Dataset = Annotated[str, typer.Option("--dataset", "-d", help="A name in `ocrr datasets`.")]
Encoder = Annotated[
    str,
    typer.Option(help="What embeds texts: a sentence-transformers name or folder, tfidf-svd, or module:name."),
]
PolicyName = Annotated[str, typer.Option("--policy", "-p", help=f"Who is corrected: {', '.join(POLICIES)}.")]
AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON for programs, and no bar.")]


class Once(TyperCommand):
    """A command that refuses an option that is given twice, since only the last would count."""

    def parse_args(self, ctx, args):
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        given = [one.opts[0] for one in order if one.param_type_name == "option" and not (one.is_flag or one.multiple)]
        for name in (name for name in given if given.count(name) > 1):
            ctx.fail(f"{name} is given {given.count(name)} times: give it once")
        return super().parse_args(ctx, args)


@dataclass(frozen=True)
class Options:
    """On what systems are evaluated, and how: the options of every command that does so."""

    dataset: Dataset = "banking77"
    data: Annotated[
        Path | None,
        typer.Option(help="Instead of a dataset: a CSV, JSON Lines, parquet, .npz or .safetensors file."),
    ] = None
    text: Annotated[str, typer.Option(help="Column of the texts in --data.")] = "text"
    label: Annotated[str, typer.Option(help="Column of the labels in --data.")] = "label"
    split: Annotated[str | None, typer.Option(help="Column of --data that says `train` or `test`.")] = None
    test_share: Annotated[float, typer.Option(help="Share of --data drawn as test rows, without --split.")] = 0.25
    split_seed: Annotated[int, typer.Option(help="Seed of that draw.")] = 0
    encoder: Encoder = DEFAULT_ENCODER
    seeds: Annotated[str, typer.Option("--seeds", "-s", help="Seeds, as 0,1,2 or 0-4.")] = "0-4"
    policy: PolicyName = "oracle"
    held_out: Annotated[
        int | None, typer.Option(help="Classes first met in the stream (default: 10, at most a quarter).")
    ] = None
    every: Annotated[int, typer.Option(help="Stream items between two tests; more are faster.")] = EVERY
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes; results are the same for any number.")] = 1
    name: Annotated[str | None, typer.Option(help="What the system is called, where there is only one.")] = None
    traceback: Annotated[
        bool, typer.Option("--traceback", envvar=VARIABLE, help="Print all of an error that your own code raises.")
    ] = False

    def check(self, given):
        """Refuse options that say nothing beside the others, of those that are ``given`` by name.

        Raises
        ------
        InputError
            If one does.
        """
        useless = {}  # by option, why
        if self.data is None:
            useless |= dict.fromkeys(("text", "label", "split", "test_share", "split_seed"), "without --data")
        else:
            useless["dataset"] = "beside --data"
            if self.data.suffix.lower() in ARRAYS:
                useless |= dict.fromkeys(("text", "label", "encoder"), f"of {self.data}, which has vectors, not texts")
            if self.split is not None:
                useless |= dict.fromkeys(("test_share", "split_seed"), "beside --split, which says what test rows are")
        for name in (name for name in useless if name in given):
            raise InputError(f"--{name.replace('_', '-')} says nothing {useless[name]}: leave it out")

    def named(self, systems):
        """What is evaluated, by its name: all that can be checked before any data is read.

        Parameters
        ----------
        systems : list of str
            As ``system_of`` takes them.

        Returns
        -------
        dict of str to tuple
            As given, and what ``evaluate`` takes. Where two would be called the same, ``module:name`` is called
            ``name``.

        Raises
        ------
        InputError
            If one of them, the seeds or the policy cannot be used, or two have one name.
        """
        parse_seeds(self.seeds), pick("policy", self.policy, POLICIES)
        if self.name is not None and len(systems) > 1:
            raise InputError(f"--name {self.name!r} is for one system, and there are {len(systems)}: leave it out")
        with redirect_stdout(sys.stderr):
            found = [Candidate(system_of(one), self.encoder) for one in systems]
            encoder_of(self.encoder)
            if "sentences" in [candidate.reads for candidate in found]:
                check_sentences(self.dataset if self.data is None else self.data)
        titles = [candidate.title if self.name is None else self.name for candidate in found]
        names = [
            one.partition(":")[2] or title if titles.count(title) > 1 else title for one, title in zip(systems, titles)
        ]
        for name in (name for name in names if names.count(name) > 1):
            raise InputError(f"two systems are called {name!r}: leave one out, or run each alone with a --name")
        return {name: (given, candidate.given) for name, given, candidate in zip(names, systems, found)}

    def stem(self, name):
        """Name of a system's files, without an ending: also of what this is run on, where that is not as usual."""
        data = self.dataset if self.data is None else self.data.name
        words = zip((data, self.encoder, self.policy), (Options.dataset, Options.encoder, Options.policy))
        named = ("text", "label", "split", "test_share", "split_seed", "held_out", "every")
        others = ((one, getattr(self, one)) for one in named)
        parts = [name, *(given for given, usual in words if given != usual)]
        parts += [f"{one}_{given}" for one, given in others if given != getattr(Options, one)]
        return re.sub(r"[^\w.-]+", "-", ".".join(parts))

    def evaluate(self, named, progress, files=None, resume=False):
        """Evaluate what ``named`` gave, one after the other, and yield each ``Evaluation``; texts are encoded once.

        What systems print goes to stderr. Where ``files`` has a place for a system, by name, seeds are kept there.

        Raises
        ------
        InputError
            If something given cannot be used.
        Stopped
            If stopped from the keyboard, once the seeds that were done have been yielded.
        Exception
            Whatever a system raises, likewise.
        """
        with redirect_stdout(sys.stderr):
            encoder = encoder_of(self.encoder)
            dataset, own = self._dataset(encoder, progress), {"encoder": encoder} if self.data is None else {}
        for name, (given, system) in named.items():
            try:
                with redirect_stdout(sys.stderr):
                    found = evaluate(
                        system,
                        dataset,
                        self.seeds,
                        self.policy,
                        held_out=self.held_out,
                        every=self.every,
                        name=name,
                        jobs=self.jobs,
                        progress=progress,
                        keep=files.get(name) if files else None,
                        resume=resume,
                        **own,
                    )
            except BaseException as stop:
                if done := getattr(stop, "finished", None):
                    yield _told(done, given)
                raise
            yield _told(found, given)

    def _dataset(self, encoder, progress):
        """What ``evaluate`` takes as its dataset: a name, or what was read from a file."""
        if self.data is None:
            return pick("dataset", self.dataset, DATASETS) and self.dataset
        from ocrrlib.own_data.reading import read_data

        columns = {"text": self.text, "label": self.label, "split": self.split}
        drawn = {"test_share": self.test_share, "seed": self.split_seed}
        return read_data(self.data, **columns, **drawn, encoder=encoder, progress=progress)


def _told(evaluation, given):
    """An evaluation that says how its system was given to a command, so that its card can say so, too."""
    if ":" in given:
        evaluation.about["system"]["given"] = given
    return evaluation


def with_options(**defaults):
    """Make a command of a function: its parameter ``options`` becomes one option for each field of ``Options``.

    Parameters
    ----------
    **defaults
        What the command takes by default where that is not the field's own default.
    """

    def decorate(function):
        declared = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        for name, parameter in inspect.signature(function).parameters.items():
            if name != "options":
                declared.append(parameter)
                continue
            declared += [
                parameter.replace(name=one.name, default=defaults.get(one.name, one.default), annotation=one.type)
                for one in fields(Options)
            ]

        @functools.wraps(function)
        def command(context, **given):
            options = Options(**{one.name: given.pop(one.name) for one in fields(Options)})
            sources = {one.name: context.get_parameter_source(one.name) for one in fields(Options)}
            options.check({name for name, source in sources.items() if source.name == "COMMANDLINE"})
            with traceback_if(options.traceback):
                return function(options=options, **given)

        command.__signature__ = inspect.Signature(declared)  # typer makes options of what it finds here
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in declared}
        return command

    return decorate


def print_json(value):
    """Print anything that JSON can hold, keys sorted."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)
    typer.echo(text if can_print(text) else json.dumps(value, indent=1, sort_keys=True))
