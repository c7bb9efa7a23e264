"""Which of how many processes this one is."""

import os
import sys

from headstart.core.errors import HeadstartError, check_count


def replicas(num_replicas: int | None, rank: int | None) -> tuple[int, int]:
    """(number of replicas, rank): as given, else those of torch.distributed, else (1, 0).

    Under Accelerate exactly one party deals out batches, and that is Accelerate.
    """
    if (num_replicas is None) != (rank is None):
        raise HeadstartError(f"num_replicas={num_replicas!r}, rank={rank!r}: give both or neither")
    if num_replicas is None or rank is None:
        num_replicas, rank = _group()
    check_count("PhasedBatchSampler", "num_replicas", num_replicas)
    check_count("PhasedBatchSampler", "rank", rank, minimum=0)
    if rank >= num_replicas:
        raise HeadstartError(f"rank={rank}: of num_replicas={num_replicas} the ranks are 0 .. {num_replicas - 1}")
    return num_replicas, rank


def _group() -> tuple[int, int]:
    """The replicas of this process, as far as it belongs to a group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        accelerate = sys.modules.get("accelerate.state")
        if accelerate is not None and accelerate.PartialState._shared_state:
            return 1, 0
        return distributed.get_world_size(), distributed.get_rank()
    world = os.environ.get("WORLD_SIZE", "1").strip()
    if not world.isdecimal():
        raise HeadstartError(f"WORLD_SIZE={world!r}: set it to the number of processes, or unset it")
    if int(world) > 1:
        raise HeadstartError(
            f"WORLD_SIZE={world} but torch.distributed is not initialised: call "
            "torch.distributed.init_process_group() first, or give num_replicas and rank"
        )
    return 1, 0
