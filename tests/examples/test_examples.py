"""The examples run, and show what they say they show."""

import importlib.util
import math
from pathlib import Path

import pytest
import torch

import headstart as hs

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        yield
    torch.set_num_threads(threads)


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_subsets_first_learn_parity_sooner_from_every_seed(capsys):
    curves = example("parity").main(seeds=3)
    last = {name: [accuracy for *_, (_, accuracy) in each] for name, each in curves.items()}
    assert min(last["subsets first"]) > 0.95
    assert sum(last["all rows"]) / 3 < 0.9
    assert "   600 " in capsys.readouterr().out


def test_digits_are_probed(capsys):
    pytest.importorskip("sklearn")
    module = example("digits")
    outcome = module.main(steps=60, seeds=2)
    assert isinstance(outcome, hs.Probe)
    assert outcome.verdict is not hs.ProbeVerdict.NOTHING_LEARNED
    assert "Cost: " in capsys.readouterr().out


def test_the_character_model_learns_and_a_stop_in_the_middle_changes_nothing():
    module = example("characters")
    losses = module.main(steps=40)
    assert len(losses) == 40
    assert sum(losses[-5:]) / 5 < 0.85 * losses[0]
    assert losses[0] < 1.3 * math.log(len(module.Windows("".join(module.topics.values())).alphabet))
    data = module.Windows("".join(module.topics.values()))
    torch.manual_seed(0)
    model = module.Model(len(data.alphabet))
    optimizer = torch.optim.AdamW(hs.param_groups(model, {"query_key": 2.0}, lr=3e-3))
    schedule = hs.PhaseSchedule.geometric(first=1 / 320, last=1 / 50, phases=3, steps=40, everything=20)
    whole = module.train(model, optimizer, hs.PhasedLoader(data, schedule, batch_size=32), stop=40)
    assert whole == losses
