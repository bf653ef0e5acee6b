"""Build sdist and wheel into `dist/`, check them, and try the wheel on the oldest and the newest Python at hand.

Run it with ``make wheel``. The Python versions are those of the package's classifiers. A version is at hand if a
`python3.X` on the path, or one that pyenv installed, runs and can make an environment.
"""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
SMOKE = Path(__file__).with_name("wheel_smoke.py")
CLASSIFIER = "Programming Language :: Python :: 3."
REQUIRED = ("pais/py.typed", "pais/data/covertype-sample.parquet")


def build() -> Path:
    """Build both archives, the wheel from the sdist, and return the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", DIST, ROOT], check=True, stdout=subprocess.DEVNULL)
    archives = sorted(DIST.iterdir())
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *archives], check=True)
    (wheel,) = DIST.glob("*.whl")
    return wheel


def check_content(wheel: Path) -> list[str]:
    """Check the files of the wheel, and return the Python versions in its metadata, oldest first."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata_name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(metadata_name))
    info = metadata_name.removesuffix("METADATA")
    source = ROOT / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in (source / "pais").rglob("*.*")
        if path.suffix in (".py", ".html", ".css")
    }
    missing = (files | {*REQUIRED, info + "licenses/LICENSE", info + "entry_points.txt"}) - names
    foreign = {name for name in names if not name.startswith(("pais/", info))}
    if missing or foreign:
        sys.exit(f"{wheel.name} lacks {sorted(missing)}, and has {sorted(foreign)} besides the package")
    classifiers = metadata.get_all("Classifier", [])
    minors = sorted(int(name.removeprefix(CLASSIFIER)) for name in classifiers if name.startswith(CLASSIFIER))
    return [f"3.{minor}" for minor in minors]


def interpreters(version: str) -> Iterator[Path]:
    """All files that may be the Python of a version. Some may not run: pyenv's shims stand for versions not in use."""
    for directory in os.get_exec_path():
        yield Path(directory) / f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from sorted(pyenv.glob(f"{version}.*/bin/python{version}"), reverse=True)


def find_python(version: str) -> Path | None:
    """Return the first Python of a version that runs and can make environments, or None if there is none at hand."""
    for interpreter in interpreters(version):
        try:
            subprocess.run([interpreter, "-c", "import ensurepip, venv"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return interpreter
    return None


def try_wheel(wheel: Path, interpreter: Path, home: Path) -> None:
    """Run the smoke test in a new environment with the wheel alone, in the directory `home` outside the checkout."""
    subprocess.run([interpreter, "-m", "venv", home / "environment"], check=True)
    python = home / "environment" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, wheel], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run([python, "-I", SMOKE], check=True, cwd=home, env=environment)


def main() -> None:
    wheel = build()
    versions = check_content(wheel)
    pythons = {version: find_python(version) for version in versions}
    at_hand = [version for version, python in pythons.items() if python is not None]
    absent = [version for version in versions if version not in at_hand]
    print(f"Python at hand: {', '.join(at_hand) or 'none'}; not at hand: {', '.join(absent) or 'none'}")
    if not at_hand:
        sys.exit("the wheel was not tried: no supported Python is at hand")
    for version in dict.fromkeys((at_hand[0], at_hand[-1])):
        interpreter = pythons[version]
        assert interpreter is not None
        print(f"{wheel.name} on Python {version}", flush=True)
        with tempfile.TemporaryDirectory(prefix="pais-wheel-") as home:
            try_wheel(wheel, interpreter, Path(home))
    if len(at_hand) == 1:
        print(f"no second Python is at hand: the wheel was tried on {at_hand[0]} alone")


if __name__ == "__main__":
    main()
