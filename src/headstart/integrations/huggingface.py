"""Hugging Face's Trainer on a schedule: the extra `huggingface`.

trainer = PhasedTrainer(model=model, args=args, train_dataset=data, schedule=PhaseSchedule.geometric(steps=6000))
trainer.train(resume_from_checkpoint=True)
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from headstart.core.errors import HeadstartError
from headstart.core.files import replacing
from headstart.integrations.accuracy import BatchAccuracy
from headstart.methods.param_groups import GivenRoles, Rules, parameter_scales
from headstart.plans import PhasedBatchSampler, PhaseSchedule, Relabel
from headstart.plans.loader import relabelled

STATE_FILE = "phase_schedule.json"
BatchMetric = Callable[[Any, Any], float]


class PhasedTrainerMixin:
    """Give any Trainer a schedule: `class MyTrainer(PhasedTrainerMixin, SomeTrainer): ...`.

    `schedule` decides the batches of the whole training, which is one epoch of as many steps as the schedule has; steps
    are optimizer steps, whatever the processes and accumulation. `rules` and `roles` are those of `param_groups`:
    factors on rates, within the groups the Trainer makes, and on the initial values. `relabel` gives the first phase
    random labels.

    An auto schedule is told `metric(outputs, inputs)` of every training batch, by default its accuracy: of classes, of
    masked tokens, or of next tokens, as the model's loss has it; a model of which that is not known needs a metric of
    yours. The Trainer's logs, and so TensorBoard and W&B, have the `phase` and the fraction of `rows_seen`. Resuming
    from a checkpoint gives exactly the remaining batches. The sampler does not know of processes: Accelerate deals its
    batches out.
    """

    def __init__(
        self,
        *args: Any,
        schedule: PhaseSchedule,
        rules: Rules | None = None,
        roles: GivenRoles | None = None,
        relabel: Relabel | int | Sequence[float] | None = None,
        metric: BatchMetric | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.schedule, self.relabel, self.metric = schedule, relabel, metric
        me: Any = self
        if me.args.accelerator_config.split_batches:
            raise HeadstartError("PhasedTrainer: accelerator_config split_batches=True splits the steps; leave it out")
        self.phase_sampler = self._sampler()
        steps = self.phase_sampler.route.steps
        if me.args.max_steps <= 0:
            me.args.max_steps = steps
        elif me.args.max_steps > steps:
            raise HeadstartError(
                f"TrainingArguments(max_steps={me.args.max_steps}): the schedule has {steps} steps; give at most that"
            )
        self._scales = {}
        if rules:
            scales = parameter_scales(me.model, rules, roles)
            with torch.no_grad():
                for name, parameter in me.model.named_parameters():
                    if scales[name].init != 1.0:
                        parameter.mul_(scales[name].init)
                    self._scales[id(parameter)] = scales[name].rate
        self._metrics: list[float] = []
        self._accuracy = BatchAccuracy()
        me.add_callback(_PhaseCallback(self))

    def _sampler(self) -> PhasedBatchSampler:
        me: Any = self
        if me.train_dataset is None:
            raise HeadstartError("PhasedTrainer(train_dataset=None): a schedule needs a data set")
        return PhasedBatchSampler(
            me.train_dataset,
            self.schedule,
            me._train_batch_size,
            me.args.data_seed if me.args.data_seed is not None else me.args.seed,
            num_replicas=1,
            rank=0,
            accumulate=me.args.gradient_accumulation_steps * me.args.world_size,
        )

    def get_train_dataloader(self) -> Any:
        """One loader over the whole schedule, prepared by Accelerate."""
        from transformers.trainer_utils import seed_worker

        me: Any = self
        self.phase_sampler = self._sampler()
        dataset, collate = me.train_dataset, me.data_collator
        if _is_hf_dataset(dataset):
            dataset = me._remove_unused_columns(dataset, description="training")
        else:
            collate = me._get_collator_with_removed_columns(collate, description="training")
        batches: Any = self.phase_sampler
        if self.relabel is not None:
            dataset, batches = relabelled(dataset, self.phase_sampler, self.relabel)
        workers = me.args.dataloader_num_workers

        def seeded(worker: int) -> None:
            seed_worker(worker, workers, me.args.process_index)

        loader: DataLoader[Any] = DataLoader(
            dataset,
            batch_sampler=batches,
            collate_fn=collate,
            num_workers=workers,
            pin_memory=me.args.dataloader_pin_memory,
            persistent_workers=me.args.dataloader_persistent_workers,
            prefetch_factor=me.args.dataloader_prefetch_factor,
            worker_init_fn=seeded if workers else None,
        )
        return me.accelerator.prepare(loader)

    def create_optimizer(self, *args: Any, **options: Any) -> Any:
        """The Trainer's optimizer, its groups split by the factors of the rules."""
        me: Any = self
        fresh = me.optimizer is None
        optimizer = super().create_optimizer(*args, **options)  # type: ignore[misc]
        if fresh and self._scales:
            groups = []
            for group in optimizer.param_groups:
                by_factor: dict[float, list[Any]] = {}
                for parameter in group["params"]:
                    by_factor.setdefault(self._scales.get(id(parameter), 1.0), []).append(parameter)
                groups += [{**group, "params": p, "lr": group["lr"] * f} for f, p in by_factor.items()]
            optimizer.param_groups[:] = groups
        return optimizer

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **options: Any) -> Any:
        """The Trainer's loss; an auto schedule also takes the batch's metric from the same forward pass."""
        if self.schedule.target is None or not model.training:
            return super().compute_loss(model, inputs, return_outputs, **options)  # type: ignore[misc]
        kept = dict(inputs)  # the Trainer may take the labels out
        loss, outputs = super().compute_loss(model, inputs, True, **options)  # type: ignore[misc]
        value = self._accuracy(loss, outputs, kept) if self.metric is None else self.metric(outputs, kept)
        if value is not None:
            self._metrics.append(float(value))
        return (loss, outputs) if return_outputs else loss

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)  # type: ignore[misc]
        path = None if checkpoint is None else Path(checkpoint) / STATE_FILE
        if path is not None and path.exists():
            # The Trainer skips the batches it has seen itself, so the pass begins at the first.
            self.phase_sampler.load_state_dict({**json.loads(path.read_text()), "batch": 0})

    def log(self, logs: dict[str, Any], *args: Any, **options: Any) -> None:
        """The Trainer's logs, with the phase of the last step and the fraction of rows seen beside its loss."""
        sampler, step = self.phase_sampler, cast(Any, self).state.global_step
        if "loss" in logs and step:
            logs["phase"] = sampler.phase_of(step * sampler.accumulate - 1)
            logs["rows_seen"] = sampler.rows_seen_of(step * sampler.accumulate - 1)
        super().log(logs, *args, **options)  # type: ignore[misc]

    def step_is_over(self, step: int) -> None:
        """Report the mean metric of the step that is over, the same on every process."""
        me: Any = self
        if self.schedule.target is None:
            return
        mine = torch.tensor([[sum(self._metrics), len(self._metrics)]], device=me.args.device)
        self._metrics.clear()
        total, count = me.accelerator.gather(mine).sum(dim=0).tolist()
        if count:  # of a batch whose labels are all masked there is nothing to say
            sampler = self.phase_sampler
            sampler.report(total / count, sampler.phase_of(step * sampler.accumulate - 1))


class PhasedTrainer(PhasedTrainerMixin, Trainer):  # type: ignore[misc]
    """Hugging Face's `Trainer` on a schedule; see `PhasedTrainerMixin` for what it takes beside Trainer's arguments."""


class _PhaseCallback(TrainerCallback):
    """Reports metrics, and keeps the schedule's state in every checkpoint."""

    def __init__(self, trainer: PhasedTrainerMixin) -> None:
        self.trainer = trainer

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """An optimizer step is done."""
        self.trainer.step_is_over(state.global_step)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """A checkpoint was written."""
        if state.is_world_process_zero:
            path = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}" / STATE_FILE
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(self.trainer.phase_sampler.state_dict()))


def _is_hf_dataset(dataset: Any) -> bool:
    # Whoever has one has imported it.
    datasets: Any = sys.modules.get("datasets")
    return datasets is not None and isinstance(dataset, datasets.Dataset)
