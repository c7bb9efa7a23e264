"""`headstart plan`: its answer, its JSON, its figure, data of one's own, and bad input."""

import json

import numpy as np
import pytest

from headstart.cli import main
from headstart.cli.plan import _table
from headstart.core.errors import HeadstartError

SMALL = ("plan", "--dim", "40", "--batches", "16", "64")


def test_a_plan_opens_with_the_best_and_draws_the_curve(tmp_path, capsys):
    main([*SMALL, "--link", "He2", "--out", str(tmp_path / "plan.png")])
    said = capsys.readouterr().out
    assert said.startswith("best: batch ")
    assert "no promise for real data" in said
    assert "squared error" in said
    assert (tmp_path / "plan.png").stat().st_size > 10_000


def test_a_plan_as_json_has_the_choices_of_one_loss_and_seconds(capsys):
    main([*SMALL, "--link", "He2", "--loss", "mse", "--seconds-per-step", "16=0.01,64=0.02", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert list(found["curves"]) == ["mse"]
    assert found["exponent"] == 2
    first = found["curves"]["mse"][0]
    assert first["batch"] == 16
    assert first["seconds"]["median"] == pytest.approx(0.01 * first["steps"]["median"])


def test_data_of_ones_own_say_their_exponent_first(tmp_path, capsys):
    x = np.random.default_rng(3).standard_normal((400, 5))
    np.savez(tmp_path / "rows.npz", x=x, y=x[:, 0] ** 2)
    main(["plan", "--data", str(tmp_path / "rows.npz"), "--batches", "16"])
    assert "information exponent 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--link", "He2"), "--dim"),
        (("--dim", "10"), "--link"),
        (("--link", "cube", "--dim", "10"), "cube"),
        (("--data", "none.npz"), "none.npz"),
        (("--link", "He2", "--dim", "10", "--seconds-per-step", "fast"), "fast"),
    ],
)
def test_a_mistake_is_named_with_the_fix(flags, words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["plan", *flags])
    assert words in capsys.readouterr().err


def test_a_table_is_read_from_a_file_too(tmp_path):
    (tmp_path / "seconds.csv").write_text("batch,seconds\n64,0.5\n128,0.75\n")
    assert _table(str(tmp_path / "seconds.csv")) == _table("64=0.5,128=0.75") == {64: 0.5, 128: 0.75}
    with pytest.raises(HeadstartError, match=r"64=0\.01"):
        _table("64")
