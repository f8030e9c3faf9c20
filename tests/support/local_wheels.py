"""Wheels of distributions that are installed here, in a folder: a package index for a test without a network."""

from __future__ import annotations

import zipfile
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement


def write_wheels(folder: Path, name: str, extras: tuple[str, ...] = (), *, itself: bool = True) -> None:
    """Write the wheels of a distribution and of all that it requires; without `itself`, of the latter only."""
    found = distribution(name)
    tags = [line[5:].split("-") for line in (found.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    tag = "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))
    wheel = folder / f"{found.metadata['Name'].replace('-', '_')}-{found.version}-{tag}.whl"
    if wheel.exists():
        return
    if itself:
        with zipfile.ZipFile(wheel, "w") as archive:
            for file in found.files or ():
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    archive.write(str(file.locate()), str(file))
    for line in found.requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            write_wheels(folder, wanted.name, tuple(wanted.extras), itself=wanted.name != name)


def write_wheel(folder: Path, name: str, code: str) -> None:
    """Write the wheel of a package that is one module, version 1.0."""
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", code)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
