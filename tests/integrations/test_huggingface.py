"""The Trainer on a schedule: its batches, its steps, its groups and exact resume, on a tiny random model."""

import json

import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, TrainerCallback, TrainingArguments

import headstart as hs
from headstart.integrations.huggingface import STATE_FILE, PhasedTrainer

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning"),
]
ROWS, LENGTH = 96, 6
SCHEDULE = hs.PhaseSchedule([hs.Phase(size=16, steps=6)], everything=8)
AUTO = hs.PhaseSchedule.auto(1 / 6, 2 / 3, 3, steps=14, target=0.5, max_epochs=2, everything=2)


class Sentences(Dataset):
    """Random token ids whose label is whether the first is odd; the row is in the last token."""

    def __init__(self):
        tokens = torch.randint(1, 30, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0))
        self.tokens = torch.cat([tokens, torch.arange(ROWS)[:, None] + 30], dim=1)

    def __len__(self):
        return ROWS

    def __getitem__(self, row):
        return {"input_ids": self.tokens[row], "labels": int(self.tokens[row, 0]) % 2}


def bert():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=200, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_labels=2
    )
    return BertForSequenceClassification(config)


class Recorder(PhasedTrainer):
    """Keeps the rows of every training batch."""

    def training_step(self, model, inputs, *args, **kwargs):
        self.__dict__.setdefault("rows", []).append((inputs["input_ids"][:, -1] - 30).tolist())
        self.__dict__.setdefault("labels", []).append(inputs["labels"].tolist())
        return super().training_step(model, inputs, *args, **kwargs)


def trainer(folder, schedule=SCHEDULE, accumulate=1, callbacks=(), model=None, arguments=None, **options):
    args = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=accumulate,
        save_steps=5,
        logging_steps=1,
        learning_rate=0.01,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **(arguments or {}),
    )
    return Recorder(
        model=model or bert(),
        args=args,
        train_dataset=Sentences(),
        schedule=schedule,
        callbacks=list(callbacks),
        **options,
    )


class StopAt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = control.should_training_stop or state.global_step == self.step
        return control


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_trainer_sees_the_batches_of_the_schedule(tmp_path, accumulate):
    run = trainer(tmp_path, accumulate=accumulate)
    run.train()
    sampler = hs.PhasedBatchSampler(ROWS, SCHEDULE, 4, seed=run.args.seed, accumulate=accumulate)
    assert run.rows == list(sampler)
    assert run.state.global_step == 14
    phases = {entry["step"]: entry["phase"] for entry in run.state.log_history if "phase" in entry}
    assert phases == {step: int(step > 6) for step in range(1, 15)}
    seen = {entry["step"]: entry["rows_seen"] for entry in run.state.log_history if "rows_seen" in entry}
    rows = 4 * accumulate
    assert seen[1] == pytest.approx(rows / ROWS)
    assert seen[14] == pytest.approx((16 + 8 * rows * 80 / 96) / ROWS)


@pytest.mark.parametrize("schedule", [SCHEDULE, AUTO], ids=["explicit", "auto"])
def test_a_resumed_training_is_the_uninterrupted_one_bit_for_bit(tmp_path, schedule):
    whole = trainer(tmp_path / "whole", schedule)
    whole.train()
    first = trainer(tmp_path / "cut", schedule, callbacks=[StopAt(7)])
    first.train()
    second = trainer(tmp_path / "cut", schedule)
    second.train(resume_from_checkpoint=str(tmp_path / "cut" / "checkpoint-5"))
    assert whole.rows[:7] == first.rows
    assert whole.rows[5:] == second.rows
    one, two = weights(whole.model), weights(second.model)
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_an_auto_schedule_advances_by_the_training_accuracy_and_says_so_in_its_checkpoint(tmp_path):
    run = trainer(tmp_path, AUTO, metric=lambda outputs, inputs: 1.0)
    run.train()
    state = json.loads((tmp_path / "checkpoint-14" / STATE_FILE).read_text())
    # An epoch of 16 rows is 4 steps; the loader fetches one batch ahead of the report.
    assert state["stretches"] == [[0, 0], [1, 4], [3, 12]]
    never = trainer(tmp_path, AUTO, metric=lambda outputs, inputs: 0.0)
    never.train()
    assert never.phase_sampler.state_dict()["stretches"] == [[0, 0], [1, 8], [3, 12]]


def test_a_metric_that_is_no_number_is_named(tmp_path):
    with pytest.raises(hs.HeadstartError, match=r"report\(metric=nan\): give one finite number"):
        trainer(tmp_path, AUTO, metric=lambda outputs, inputs: float("nan")).train()


def test_rules_split_the_trainers_own_groups(tmp_path):
    model = bert()
    before = weights(model)
    rules = {"query_key": 3.0, "readout": hs.Scale(init=2.0), "*LayerNorm*": 0.5, "input": 7.0}
    options = {"rules": rules, "roles": {"bert.pooler.dense.weight": "input"}, "arguments": {"weight_decay": 0.1}}
    run = trainer(tmp_path, model=model, **options)
    run.create_optimizer()
    names = {id(p): name for name, p in model.named_parameters()}
    rate = {names[id(p)]: (g["lr"], g["weight_decay"]) for g in run.optimizer.param_groups for p in g["params"]}
    assert len(rate) == len(names)
    query = "bert.encoder.layer.0.attention.self.query"
    assert rate[f"{query}.weight"] == (pytest.approx(0.03), 0.1)
    assert rate["bert.pooler.dense.weight"] == (pytest.approx(0.07), 0.1)
    assert rate[f"{query}.bias"] == (pytest.approx(0.01), 0.0)
    assert rate["bert.embeddings.LayerNorm.weight"] == (pytest.approx(0.005), 0.0)
    assert torch.equal(model.classifier.weight, 2 * before["classifier.weight"])
    run.train()
    assert run.state.global_step == 14


def test_the_first_phase_may_have_random_labels(tmp_path):
    run = trainer(tmp_path, relabel=2)
    run.train()
    true = {row: run.train_dataset[row]["labels"] for row in range(ROWS)}
    agrees = [
        [label == true[row] for row, label in zip(rows, labels, strict=True)]
        for rows, labels in zip(run.rows, run.labels, strict=True)
    ]
    assert all(map(all, agrees[6:]))
    assert not all(map(all, agrees[:6]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arguments": {"max_steps": 15}}, "max_steps=15.*the schedule has 14 steps"),
        ({"schedule": hs.PhaseSchedule([hs.Phase(size=97, steps=1)])}, "97 samples, the data set has 96"),
        ({"rules": {"decoder.*": 2.0}}, r"'decoder\.\*' matches no parameter"),
    ],
)
def test_what_does_not_fit_is_met_before_training(tmp_path, options, message):
    with pytest.raises(hs.HeadstartError, match=message):
        trainer(tmp_path, **options)


def test_fewer_steps_than_the_schedule_has_stop_early(tmp_path):
    run = trainer(tmp_path, arguments={"max_steps": 3})
    run.train()
    assert len(run.rows) == 3


def test_accelerate_deals_out_batches_so_that_a_step_is_of_one_phase():
    from accelerate.data_loader import BatchSamplerShard

    sampler = hs.PhasedBatchSampler(ROWS, SCHEDULE, 2, num_replicas=1, rank=0, accumulate=2)
    alone = hs.PhasedBatchSampler(ROWS, SCHEDULE, 4)
    shards = [list(BatchSamplerShard(sampler, 2, rank)) for rank in range(2)]
    assert [a + b for a, b in zip(*shards, strict=True)] == list(alone)
