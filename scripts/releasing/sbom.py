"""The bill of materials: what a release consists of, as CycloneDX JSON. Packages come from the lock, files of others from the tree."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion

from scripts.releasing.source import ReleaseRefused, Source

#: The version of the format.
SPEC = SchemaVersion.V1_6
MODEL = Path("shared/models/all-MiniLM-L6-v2-int8")
_ROW = re.compile(r"^\| `(\S+)` \| (\S+) (\S+) \| \[(\w+)\]\(.*\) \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def bill_of_materials(source: Source, tree: Path, lock: Path) -> str:
    """The document; ReleaseRefused if it does not satisfy the schema of its version."""
    from cyclonedx.validation.json import JsonStrictValidator  # its import takes seconds; only a release needs it

    found = json.loads(_of_lock(source, tree, lock))
    for component in found["components"]:
        del component["description"]  # repeats the lock's line with all its hashes
    found["components"] += [*shipped_scripts(tree), shipped_model(tree)]
    text = json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if error := JsonStrictValidator(SPEC).validate_str(text):
        raise ReleaseRefused(f"The bill of materials does not satisfy the schema of CycloneDX: {error.data}.")
    return text


def _of_lock(source: Source, tree: Path, lock: Path) -> str:
    command = [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements", "--output-reproducible"]
    command += ["--sv", SPEC.to_version(), "--of", "JSON", "--pyproject", str(tree / "pyproject.toml"), str(lock)]
    variables = os.environ | {"SOURCE_DATE_EPOCH": str(source.seconds)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseRefused(f"cyclonedx-py cannot describe {lock.name}: {done.stderr.strip()[-1000:]}")
    return done.stdout


def shipped_scripts(tree: Path) -> list[dict[str, Any]]:
    """The files of features that others wrote, from the tables beside them."""
    tables = sorted(tree.glob("dispatcher/features/*/static/SOURCES.md"))
    return [
        {
            "type": "file",
            "bom-ref": f"{table.parent.relative_to(tree)}/{file}",
            "name": f"{name}: {file}",
            "version": version,
            "purl": f"pkg:npm/{name}@{version}",
            "licenses": [{"license": {"id": licence}}],
            "hashes": [_hash_of(table.parent / file)],
        }
        for table in tables
        for file, name, version, licence, _ in _ROW.findall(table.read_text(encoding="utf-8"))
    ]


def shipped_model(tree: Path) -> dict[str, Any]:
    return {
        "type": "machine-learning-model",
        "bom-ref": f"{MODEL}/model.onnx",
        "name": MODEL.name,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "hashes": [_hash_of(tree / MODEL / "model.onnx")],
    }


def _hash_of(path: Path) -> dict[str, str]:
    return {"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}
