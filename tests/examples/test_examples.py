"""The examples run, and show what they say they show."""

import importlib.util
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import headstart as hs
from headstart.data.directory import rows_folder

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


def test_digits_are_probed(capsys, monkeypatch):
    pytest.importorskip("sklearn")
    module = example("digits")
    monkeypatch.setattr(hs, "probe", partial(hs.probe, max_seeds=4, selection_seeds=1))  # enough to see that it runs
    outcome = module.main(steps=40, seeds=2)
    assert isinstance(outcome, hs.Probe)
    assert outcome.verdict is not hs.ProbeVerdict.NOTHING_LEARNED
    assert "Cost: " in capsys.readouterr().out


def test_a_loop_of_ones_own_is_looked_at_and_goes_on_after_a_stop(capsys, tmp_path):
    pytest.importorskip("sklearn")
    module = example("stability")
    report = module.main(steps=12, pairs=2, store=str(tmp_path))
    assert report.deterministic
    assert report.cost.num_trainings == 2 * 2 * 3 + 1 + 3 * 3 + 1  # a third copy has an S of its own
    assert any(each.values["distance"] > 0 for each in report.pairs)  # not every row is seen in so few steps
    assert all(each.values["distance"] > 1 for each in report.reordered if each.change.step == 0)
    assert module.main(steps=12, pairs=2, store=str(tmp_path)).cost.num_trainings == 0
    assert "Deterministic: " in capsys.readouterr().out


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


def test_a_weak_embedding_is_compared_with_scratch_and_a_shuffled_one_at_equal_tries(capsys, monkeypatch):
    module = example("weak_embedding")
    for name, small in {"WEAK_WIDTH": 4, "WIDTH": 16, "WINDOW": 8, "VOCABULARY": 60}.items():
        monkeypatch.setattr(module, name, small)
    ratios = module.main(module.Sizes(8, 10, 2, (100,), (0, 1)))
    printed = capsys.readouterr().out
    assert "verdict: " in printed
    assert ratios["from scratch"].value == 1
    for arm in set(module.ARMS) - {module.SCRATCH}:
        assert ratios[arm].low <= ratios[arm].value <= ratios[arm].high
        assert f"{arm}, tries counted: " in printed


def test_the_examples_verdict_is_that_of_the_whole_interval():
    verdict = example("weak_embedding").verdict
    assert verdict(hs.Estimate(0.8, 0.7, 0.9)).startswith("yes")
    assert verdict(hs.Estimate(1.2, 1.1, 1.3)).startswith("no")
    assert verdict(hs.Estimate(1.0, 0.9, 1.1)).startswith("undecided")


def test_the_examples_compute_counts_the_weak_model_and_every_try(monkeypatch, capsys):
    module = example("weak_embedding")
    arms, flops = list(module.ARMS), {"weak model": 10}
    steps = {arm: [50, 60] for arm in arms} | {module.SCRATCH: [100, 120]}
    outcome = 3.0, dict.fromkeys([*arms, "weak model"], 0.1), steps, flops | dict.fromkeys(arms, 100)
    monkeypatch.setattr(module, "Text", lambda: None)
    monkeypatch.setattr(module, "compare", lambda text, sizes: outcome)
    ratios = module.main(module.Sizes(steps=200, weak_steps=100, choosing=(7,), seeds=(0, 1)))
    assert ratios[module.WEAK].value == pytest.approx((5500 + 1000) / 11000)
    tries = len(module.RATES)
    assert len(module.WEAK_RATES) == tries
    counted = (6500 + tries * (20000 + 1000)) / (11000 + tries * 20000)
    assert ratios[f"{module.WEAK}, tries counted"].value == pytest.approx(counted)


def test_modular_addition_runs_from_scratch_with_a_weak_table_and_shuffled(capsys, monkeypatch):
    module = example("modular_addition")
    monkeypatch.setattr(module, "MODULUS", 11)
    courses = module.main(epochs=10, weak_epochs=5, attempts=2)
    assert list(courses) == ["from scratch", "weak table", "rows shuffled"]
    printed = capsys.readouterr().out
    assert "2 tried" in printed
    assert "not within 10 epochs" in printed


@pytest.mark.slow
def test_a_weak_table_makes_modular_addition_generalise_as_it_fits_and_shuffled_rows_do_not():
    module = example("modular_addition")
    (scratch,), (weak,), (shuffled,) = module.main(epochs=200).values()
    assert weak.reached - weak.fitted < 50
    assert scratch.fitted < 100
    assert scratch.reached is None
    assert shuffled.reached is None


class Letters:
    """A tokenizer of bytes."""

    def encode(self, text):
        return list(text.encode())


def test_a_llama_grows_by_five_operators_beside_the_one_that_does_not(capsys, monkeypatch):
    transformers = pytest.importorskip("transformers")
    module = example("grow")
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=8, intermediate_size=16, num_hidden_layers=6, num_attention_heads=2
    )
    text = np.frombuffer(b"Once upon a time there was a king. " * 80, dtype=np.uint8)
    books = {"text": text, "starts": np.array([0] * 6 + [len(text)])}  # the example reads the sixth
    monkeypatch.setattr(module, "load_stories", lambda: (transformers.LlamaForCausalLM(config), Letters()))
    monkeypatch.setattr(module, "open_dataset", lambda name: books)
    found = module.main(steps=3, k=2)
    assert [len(child.steps) for child in (*found.children, found.parent)] == [3] * 6
    assert found.steps == 6 * 2
    assert found.grown.model.config.num_hidden_layers == 8
    printed = capsys.readouterr().out
    assert "model.layers: 1 2 3 [3] 4 [4] 5 6; loss " in printed
    assert "not grown" in printed


@pytest.mark.slow
def test_the_pretrained_llama_keeps_its_loss_only_under_an_operator_that_adds_nothing():
    pytest.importorskip("transformers")
    for name in ("stories15m", "gutenberg"):
        if not rows_folder(name).exists():
            pytest.skip(f"headstart data get {name}")
    found = example("grow").main(steps=2, k=2)
    raised = {child.operator.new: child.losses[0] - found.parent.losses[0] for child in found.children}
    assert raised["zero_output"] == pytest.approx(0.0, abs=1e-4)
    assert min(change for new, change in raised.items() if new != "zero_output") > 1e-3
    assert found.parent.score < found.parent.losses[0] < 6.2
