"""The built wheel works on a machine that has its dependencies and nothing of the repository."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import headstart

ROOT = Path(__file__).parents[2]

SAMPLER = """
import headstart as hs
sampler = hs.PhasedBatchSampler(6000, hs.PhaseSchedule.geometric(steps=12), batch_size=8)
batches = list(sampler)
print(hs.__file__, len(batches), len({row for batch in batches[:6] for row in batch}) <= 120)
"""


def call(*command, cwd, **more):
    """Run a command without this process's PYTHONPATH; its output."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=env | more, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling", reason="make test installs it")
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    call(*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_its_licence_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"headstart", f"headstart-{headstart.__version__}.dist-info"}
    assert {"headstart/py.typed", "headstart/studies/less_data/no_gap.py"} <= set(names)
    (licence,) = (name for name in names if name.endswith("licenses/LICENSE"))
    assert zipfile.ZipFile(wheel).read(licence).decode() == (ROOT / "LICENSE").read_text()
    source = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == source


@pytest.mark.slow
def test_the_wheel_imports_samples_and_runs_a_study_without_the_repository(wheel, tmp_path):
    machine, away = tmp_path / "machine", tmp_path / "away"
    away.mkdir()
    call(sys.executable, "-m", "venv", "--without-pip", machine, cwd=tmp_path)
    python, command = machine / "bin" / "python", machine / "bin" / "headstart"
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", python)
    call(*pip, "install", "--no-deps", "--no-index", wheel, cwd=away)
    # The dependencies of this environment, without what its own .pth files add: its headstart is an editable one.
    (folder,) = machine.glob("lib/python*/site-packages")
    (folder / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    where, *printed = call(python, "-c", SAMPLER, cwd=away).split()
    assert Path(where).is_relative_to(machine)
    assert printed == ["12", "True"]
    store = {"HEADSTART_STORE": str(away / "store.sqlite")}
    said = call(command, "run", "less_data/no_gap", "--preset", "smoke", "--jobs", "1", cwd=away, **store)
    assert "figure: " in said
    assert (away / "store.sqlite").exists()
    assert str(ROOT) not in said
