"""Lightning on a schedule: its batches, exact resume in the middle of the epoch, and a Trainer that does not fit."""

from pathlib import Path

import pytest

pytest.importorskip("lightning")

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import TensorDataset

import headstart as hs
from headstart.integrations.lightning import PhaseCallback, PhasedDataModule

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*smaller than the logging interval.*"),
    pytest.mark.filterwarnings("ignore:.*litlogger.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*Checkpoint directory.*"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),
    pytest.mark.filterwarnings("ignore:.*GPU available but not used.*"),
    pytest.mark.filterwarnings("ignore:.*You're resuming from a checkpoint that ended before the epoch.*"),
    pytest.mark.filterwarnings("ignore:.*redirects are currently not supported.*"),
]
ROWS = 96
SCHEDULE = hs.PhaseSchedule([hs.Phase(size=16, steps=6)], everything=8)
AUTO = hs.PhaseSchedule.auto(1 / 6, 2 / 3, 3, steps=14, target=0.5, max_epochs=2, everything=2)


class Regression(lightning.LightningModule):
    """Keeps the rows of every batch; asks for the number of steps first if told to."""

    def __init__(self, asks=False, metric=None):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.asks, self.metric, self.rows = torch.nn.Linear(3, 1), asks, metric, []

    def training_step(self, batch, batch_idx):
        rows, x = batch
        self.rows.append(rows.tolist())
        out = {"loss": ((self.layer(x) - 1) ** 2).mean()}
        return out if self.metric is None else {**out, "train_accuracy": self.metric}

    def configure_optimizers(self):
        if self.asks:
            assert self.trainer.estimated_stepping_batches == 14
        return torch.optim.Adam(self.parameters(), lr=0.1)


class StopAt(lightning.Callback):
    def __init__(self, step):
        self.step = step

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        trainer.should_stop = trainer.global_step == self.step


def data(schedule=SCHEDULE, **options):
    x = torch.linspace(-1, 1, 3 * ROWS).reshape(ROWS, 3)
    return PhasedDataModule(TensorDataset(torch.arange(ROWS), x), schedule, batch_size=4, **options)


def fit(model, module, folder, resume=None, stop=None, **options):
    saving = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=5, save_top_k=-1)
    trainer = lightning.Trainer(
        **{"max_epochs": 1, "logger": False, **options},
        accelerator="cpu",
        use_distributed_sampler=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[PhaseCallback(), saving, *([StopAt(stop)] if stop else [])],
        default_root_dir=folder,
    )
    trainer.fit(model, datamodule=module, ckpt_path=resume, weights_only=False)
    return model


@pytest.mark.parametrize("accumulate", [1, 2])
def test_lightning_sees_the_batches_of_the_schedule(tmp_path, accumulate):
    model = fit(Regression(), data(accumulate=accumulate), tmp_path, accumulate_grad_batches=accumulate)
    assert model.rows == list(hs.PhasedBatchSampler(ROWS, SCHEDULE, 4, accumulate=accumulate))


@pytest.mark.parametrize("asks", [False, True], ids=["plain", "asks for the number of steps first"])
@pytest.mark.parametrize("schedule", [SCHEDULE, AUTO], ids=["explicit", "auto"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_resumed_epoch_sees_what_the_first_did_not(tmp_path, schedule, asks, num_workers):
    metric, options = 0.9 if schedule is AUTO else None, {"num_workers": num_workers}
    whole = fit(Regression(asks, metric), data(schedule, **options), tmp_path / "whole")
    first = fit(Regression(asks, metric), data(schedule, **options), tmp_path / "cut", stop=7)
    second = Regression(asks, metric)
    fit(second, data(schedule, **options), tmp_path / "cut", resume=str(tmp_path / "cut" / "step=5.ckpt"))
    assert first.rows == whole.rows[:7]
    assert second.rows == whole.rows[5:]
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), second.parameters(), strict=True))


def test_an_auto_schedule_advances_by_what_the_step_returns(tmp_path):
    module = data(AUTO)
    fit(Regression(metric=0.9), module, tmp_path)
    assert module.loader.state_dict()["stretches"] == [[0, 0], [1, 4], [3, 12]]


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        (data(), {"max_epochs": 2}, r"max_epochs=2, max_steps=-1.*use Trainer\(max_epochs=1\)"),
        (data(), {"accumulate_grad_batches": 2}, "accumulate_grad_batches=2.*accumulate=1"),
        (data(AUTO), {}, "metric='train_accuracy'.*neither returns nor logs"),
    ],
)
def test_a_trainer_that_does_not_fit_is_refused(tmp_path, module, options, message):
    with pytest.raises(hs.HeadstartError, match=message):
        fit(Regression(), module, tmp_path, **options)


def test_the_callback_needs_a_phased_loader(tmp_path):
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[PhaseCallback()]
    )
    loader = torch.utils.data.DataLoader(data().dataset, batch_size=4)
    with pytest.raises(hs.HeadstartError, match="DataLoader; use PhasedDataModule"):
        trainer.fit(Regression(), loader)


def test_an_auto_schedule_without_the_callback_that_tells_it_a_metric_is_refused():
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_progress_bar=False)
    with pytest.raises(hs.HeadstartError, match=r"auto schedule must be told a metric.*PhaseCallback"):
        trainer.fit(Regression(metric=0.9), datamodule=data(AUTO))


def test_a_metric_that_is_no_number_is_named(tmp_path):
    with pytest.raises(hs.HeadstartError, match=r"report\(metric=nan\)"):
        fit(Regression(metric=float("nan")), data(AUTO), tmp_path)


def test_any_logger_gets_the_phase_and_the_rows_seen(tmp_path):
    logger = lightning.pytorch.loggers.CSVLogger(tmp_path)
    fit(Regression(), data(), tmp_path, logger=logger, log_every_n_steps=1)
    lines = (Path(logger.log_dir) / "metrics.csv").read_text().splitlines()
    entries = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
    assert [float(entry["phase"]) for entry in entries] == [0.0] * 6 + [1.0] * 8
    assert [float(entry["rows_seen"]) for entry in entries[:6]] == pytest.approx(
        [4 / 96, 8 / 96, 12 / 96] + [16 / 96] * 3
    )


def test_other_data_comes_from_another_module():
    class Other(lightning.LightningDataModule):
        def val_dataloader(self):
            return ["validation"]

    assert data(other=Other()).val_dataloader() == ["validation"]
