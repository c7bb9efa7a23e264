"""Lightning on a schedule: the extra `lightning`.

data = PhasedDataModule(dataset, PhaseSchedule.geometric(steps=6000), batch_size=64)
trainer = lightning.Trainer(max_epochs=1, use_distributed_sampler=False, callbacks=[PhaseCallback()])
trainer.fit(model, datamodule=data, ckpt_path=path_or_none)
"""

from collections.abc import Mapping, Sequence
from typing import Any

import lightning
import torch

from headstart.core.errors import HeadstartError
from headstart.plans import PhasedLoader, PhaseSchedule, Relabel

_OTHERS = ("prepare_data", "setup", "val_dataloader", "test_dataloader", "predict_dataloader", "teardown")


class PhasedDataModule(lightning.LightningDataModule):
    """Training data on a schedule; everything else is asked of `other`, a data module of yours.

    One epoch is the whole schedule. `accumulate` must be the Trainer's `accumulate_grad_batches`, so that phases count
    optimizer steps. The state is in every checkpoint: a run that resumes in the middle of its epoch sees exactly the
    batches it has not seen. Under several processes the loader deals out rows itself, so use
    `Trainer(use_distributed_sampler=False)`. Further options go to torch's `DataLoader`.
    """

    def __init__(
        self,
        dataset: Any,
        schedule: PhaseSchedule,
        batch_size: int = 32,
        seed: int = 0,
        *,
        accumulate: int = 1,
        relabel: Relabel | int | Sequence[float] | None = None,
        other: lightning.LightningDataModule | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.dataset, self.schedule = dataset, schedule
        self.options: dict[str, Any] = {
            "batch_size": batch_size,
            "seed": seed,
            "accumulate": accumulate,
            "relabel": relabel,
            **options,
        }
        self.loader: PhasedLoader | None = None
        self._state: Mapping[str, Any] | None = None
        for name in _OTHERS if other is not None else ():
            # On the instance, so that Lightning sees no validation data where there is none.
            setattr(self, name, getattr(other, name))

    def train_dataloader(self) -> PhasedLoader:
        """The loader over the whole schedule, where the checkpoint left it."""
        callbacks = [] if self.trainer is None else getattr(self.trainer, "callbacks", [])
        if self.schedule.target is not None and not any(isinstance(one, PhaseCallback) for one in callbacks):
            raise HeadstartError(
                "PhasedDataModule: an auto schedule must be told a metric; give the Trainer callbacks="
                "[PhaseCallback('train_accuracy')], with the name of what training_step returns or logs"
            )
        self.loader = PhasedLoader(self.dataset, self.schedule, **self.options)
        if self._state is not None:
            # Lightning loads a loader's state itself, but not when `estimated_stepping_batches` was asked first.
            self.loader.load_state_dict(self._state)
            self._state = None
        return self.loader

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands."""
        return {} if self.loader is None else {"loader": self.loader.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The next loader begins where that one stood."""
        self._state = state_dict.get("loader")


class PhaseCallback(lightning.Callback):
    """Checks that the Trainer fits the schedule, logs where it stands, and tells an auto schedule its metric.

    Any logger of the Trainer, TensorBoard's and W&B's too, gets the `phase` and the fraction of `rows_seen`.

    `metric` is a key of what `training_step` returns, or of what it logs, higher being better; it is averaged over the
    processes. A schedule that is not automatic needs none.
    """

    def __init__(self, metric: str = "train_accuracy", log_phase: bool = True) -> None:
        self.metric, self.log_phase = metric, log_phase

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Meet a Trainer that would repeat the schedule, or count its steps differently."""
        loader = _loader(trainer)
        if trainer.max_epochs != 1 and not 0 < trainer.max_steps <= loader.sampler.route.steps:
            raise HeadstartError(
                f"Trainer(max_epochs={trainer.max_epochs}, max_steps={trainer.max_steps}): one epoch is the whole "
                f"schedule of {loader.sampler.route.steps} steps; use Trainer(max_epochs=1)"
            )
        if trainer.accumulate_grad_batches != loader.sampler.accumulate:
            raise HeadstartError(
                f"Trainer(accumulate_grad_batches={trainer.accumulate_grad_batches}): the loader has accumulate="
                f"{loader.sampler.accumulate}; give both the same number"
            )

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Report the metric and log the phase of the batch that is done."""
        loader = _loader(trainer)
        if self.log_phase:
            pl_module.log("phase", float(loader.phase), on_step=True, on_epoch=False)
            pl_module.log("rows_seen", loader.rows_seen, on_step=True, on_epoch=False)
        if loader.sampler.schedule.target is None:
            return
        found = outputs if isinstance(outputs, Mapping) and self.metric in outputs else trainer.callback_metrics
        if self.metric not in found:
            known = [*trainer.callback_metrics, *(outputs if isinstance(outputs, Mapping) else [])]
            raise HeadstartError(
                f"PhaseCallback(metric={self.metric!r}): training_step neither returns nor logs it; there are "
                f"{', '.join(map(str, known))}"
            )
        value = torch.as_tensor(found[self.metric], dtype=torch.float32, device=pl_module.device)
        loader.report(float(trainer.strategy.reduce(value, reduce_op="mean")))


def _loader(trainer: lightning.Trainer) -> PhasedLoader:
    loader = trainer.train_dataloader
    if not isinstance(loader, PhasedLoader):
        raise HeadstartError(f"PhaseCallback: the training loader is a {type(loader).__name__}; use PhasedDataModule")
    return loader
