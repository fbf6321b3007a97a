"""Results as tidy parquet files that carry what they came from."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ocrrlib.errors import InputError
from ocrrlib.files import atomic
from ocrrlib.provenance import digest


def _seal(frame, provenance):
    """Hash of all content: parquet by itself does not notice a changed bit."""
    return digest([provenance, frame.to_csv(index=False)])


def write(frame, provenance, path):
    """Write a frame and its provenance; the same content gives the same bytes."""
    about = {"ocrr": json.dumps({"provenance": provenance, "sha256": _seal(frame, provenance)}, sort_keys=True)}
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(about)
    with atomic(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read(path):
    """The frame and the provenance that ``write`` was given.

    Raises
    ------
    InputError
        If the file is missing or damaged.
    """
    try:
        table = pq.read_table(path)
        about = json.loads(table.schema.metadata[b"ocrr"])
        frame, provenance = pd.DataFrame(table.to_pandas()), about["provenance"]
        if about["sha256"] != _seal(frame, provenance):
            raise ValueError("the content is not what was written")
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing: make it with `make paper`") from error
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}): make it anew with `make paper`") from error
    return frame, provenance
