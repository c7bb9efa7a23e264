"""The flags that name other machines: what does not fit is one line, before anything is touched."""

import builtins

import pytest

from headstart.cli import main
from headstart.cli.machines import Machines
from headstart.lab.backends import Ray, Slurm

STUDY = "less_data/mini_and_full_batch_mlp"


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["--on", "moon"], "--on moon: use ray, ray://HOST:PORT, ray://auto or slurm"),
        (["--on", "ray://"], "--on ray://: use ray"),
        (["--on", "slurm://login"], "--on slurm://login: use"),
        (["--partition", "long"], "--partition long: it goes with --on slurm"),
        (["--gpus", "1"], "--gpus 1.0: it goes with --on slurm or --on ray"),
        (["--on", "ray", "--cpus", "2"], "--cpus 2: it goes with --on slurm"),
        (["--on", "ray", "--gpus", "1.5"], "a share of one GPU"),
        (["--on", "ray", "--gpus", "-1"], "gpus=-1"),
        (["--on", "slurm", "--gpus", "0.5"], "--gpus 0.5: Slurm gives whole GPUs"),
        (["--on", "slurm", "--time", "0"], "minutes=0"),
        (["--on", "slurm", "--memory", "nan"], "memory=nan"),
        (["--on", "slurm", "--jobs", "0"], "--jobs 0"),
    ],
)
def test_flags_that_do_not_fit_are_one_line(tmp_path, capsys, args, part):
    with pytest.raises(SystemExit) as end:
        main(["run", STUDY, "--preset", "smoke", "--store", str(tmp_path / "s.sqlite"), *args])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert part in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_flags_say_what_is_asked_of_a_back_end():
    assert Machines().check("cpu") is None
    assert Machines("ray").check("cpu") == Ray()
    assert Machines("ray://auto").check("cpu") == Ray("auto")
    assert Machines("ray://head:10001", gpus=0.25).check("cuda") == Ray("ray://head:10001", 0.25)
    assert Machines("ray").check("cuda") == Ray(gpus=1.0)
    assert Machines("slurm").check("cpu") == Slurm()
    flags = Machines("slurm", "long", 600, 16, 4, 1)
    assert flags.check("cuda") == Slurm("long", 600, 16, 4, 1)


@pytest.mark.parametrize(
    ("where", "package", "fix"), [("ray", "ray", "headstart[ray]"), ("slurm", "submitit", "headstart[slurm]")]
)
def test_a_package_that_is_not_installed_is_named_with_the_fix(tmp_path, capsys, monkeypatch, where, package, fix):
    before = builtins.__import__

    def without(name, *args, **kwargs):
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return before(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(SystemExit):
        main(["run", STUDY, "--preset", "smoke", "--store", str(tmp_path / "s.sqlite"), "--on", where])
    assert f'is not installed here; run: pip install "{fix}"' in capsys.readouterr().err
    assert not (tmp_path / "s.sqlite").exists()
