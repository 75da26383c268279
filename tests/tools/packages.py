"""The sdist and the wheel, as the package index wants them. The wheel is made of the sdist, which so has all.

make packages
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = ("pyproject.toml", "README.md", "LICENSE", "controller", "kubectl_plugin")
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def packages(into: Path) -> list[Path]:
    """Make both in the folder `into`, from a copy of the sources beside which nothing lies."""
    with tempfile.TemporaryDirectory() as folder:
        for name in OURS:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(ROOT / name, Path(folder, name))
        code = "from setuptools.build_meta import build_sdist; build_sdist('sdist')"
        subprocess.run([sys.executable, "-c", code], cwd=folder, stdout=subprocess.DEVNULL, check=True)
        (sdist,) = Path(folder, "sdist").iterdir()
        wheel = ["wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}/wheel", str(sdist)]
        subprocess.run([*PIP, *wheel], check=True)
        into.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(made, into)) for made in (sdist, *Path(folder, "wheel").iterdir())]


if __name__ == "__main__":
    print("".join(f"{path}\n" for path in packages(ROOT / "dist")), end="")
