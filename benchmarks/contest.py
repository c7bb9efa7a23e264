"""One workload's contest: every contestant at its best set-up, then repeats in turn."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.peer import Setup, setups
from benchmarks.workers import GEMM_SIZE, Failed, Worker, gather, has_jax
from benchmarks.workloads import Workload

Say = Callable[[str], None]


@dataclass(frozen=True)
class Effort:
    """How long to measure: repeats of about `seconds`, set-ups compared over `probe` seconds; `quick` tries fewer.

    Ours takes longer, `seconds_ours`, since its time is the difference of two.
    """

    repeats: int = 9
    seconds: float = 1.0
    seconds_ours: float = 2.0
    probe: float = 0.25
    quick: bool = False


@dataclass(frozen=True)
class Result:
    """Rates in model-steps a second, one a repeat, and the GEMM's in FLOP/s, measured in the same turns."""

    workload: Workload
    engine: str
    rates: dict[str, list[float]]
    gemm: list[float]
    peak_memory: float
    added_memory: float
    seconds_apart: float
    setups: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Our median rate."""
        return float(np.median(self.rates["ours"]))

    @property
    def fraction_of_gemm(self) -> float:
        """The median over repeats of our dense FLOP/s over the GEMM's."""
        return float(np.median(np.array(self.rates["ours"]) * self.workload.flops / np.array(self.gemm)))

    def ratio(self, peer: str) -> tuple[float, float, float]:
        """Median and the ends of the central 95% of our rate over the peer's, repeat by repeat."""
        ratios = np.array(self.rates["ours"]) / np.array(self.rates[peer])
        low, high = np.percentile(ratios, [2.5, 97.5])
        return float(np.median(ratios)), float(low), float(high)


class Arena:
    """The processes: one for ours, two of one thread for torch, and for JAX two on a core each and one on all."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.ours = Worker()
        self.torch = [Worker() for _ in range(cores)]
        self._jax: dict[int, list[Worker]] = {}

    def workers(self, peer: str, processes: int) -> list[Worker]:
        """The processes of a peer."""
        if peer != "jax":
            return self.torch[:processes]
        if processes not in self._jax:
            self._jax[processes] = [Worker(core if processes > 1 else None) for core in range(processes)]
        return self._jax[processes]

    def close(self, now: bool = False) -> None:
        """End them all."""
        for worker in (self.ours, *self.torch, *(w for team in self._jax.values() for w in team)):
            worker.close(now)


class Contestant:
    """A peer at one set-up, its members split over its processes; or ours, or the GEMM."""

    def __init__(self, key: str, workers: list[Worker]) -> None:
        self.key, self.workers = key, workers
        self.pace = 0.0  # steps of all members a second

    def run(self, num_steps: int) -> tuple[int, float]:
        """(model-steps, seconds of the slowest process)."""
        for worker in self.workers:
            worker.ask("advance", self.key, num_steps)
        answers = gather(self.workers)
        return sum(done for done, _ in answers), max(seconds for _, seconds in answers)

    def probe(self, seconds: float) -> float:
        """The better rate of two runs of about so many seconds; sets the pace."""
        steps = 1
        while True:
            _, taken = self.run(steps)
            if taken > seconds / 2:
                break
            steps = max(steps + 1, int(steps * min(8.0, seconds / max(taken, 1e-6))))
        done, again = self.run(steps)
        self.pace = steps / again
        return done / min(taken, again)

    def rate(self, seconds: float) -> float:
        """Model-steps a second in a run of about so many seconds, one step at least."""
        done, taken = self.run(max(1, round(self.pace * seconds)))
        return done / taken

    def drop(self) -> None:
        """Free its memory."""
        for worker in self.workers:
            worker.call("drop", self.key)


def contest(workload: Workload, arena: Arena, effort: Effort, say: Say) -> Result:
    """Measure the workload."""
    arena.ours.call("ours", "reset_peak_memory")
    idle = arena.ours.call("ours", "peak_memory")
    engine = arena.ours.call("prepare_ours", "ours", workload)
    arena.torch[0].call("prepare_gemm", "gemm", arena.cores)
    contestants = {"ours": Contestant("ours", [arena.ours]), "gemm": Contestant("gemm", [arena.torch[0]])}
    contestants["ours"].probe(effort.seconds_ours)
    contestants["gemm"].probe(effort.probe)
    chosen, absent = {}, {}
    for peer in workload.peers:
        say(f"{workload.name}: warming up {peer}")
        try:
            contestants[peer], chosen[peer] = _best(peer, workload, arena, effort)
        except Failed as reason:
            absent[peer] = str(reason)
            say(f"{workload.name}: {peer} is absent: {reason}")
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for repeat in range(effort.repeats):
        say(f"{workload.name}: repeat {repeat + 1} of {effort.repeats}")
        for name, contestant in contestants.items():
            rates[name].append(contestant.rate(effort.seconds_ours if name == "ours" else effort.seconds))
    peak = arena.ours.call("ours", "peak_memory")
    apart = float(np.median(arena.ours.call("seconds_apart")[-effort.repeats :]))
    for contestant in contestants.values():
        contestant.drop()
    gemm = [rate * 2 * GEMM_SIZE**3 for rate in rates.pop("gemm")]
    return Result(workload, engine, rates, gemm, peak, peak - idle, apart, chosen, absent)


def _best(peer: str, workload: Workload, arena: Arena, effort: Effort) -> tuple[Contestant, str]:
    """The fastest of the peer's set-ups, and its name."""
    if peer == "jax" and not has_jax():
        raise Failed("JAX is not installed")
    ways = setups(peer, workload, effort.quick)
    best, best_rate, name, reason = None, 0.0, "", ""
    for way in ways:
        try:
            contestant = _prepared(peer, workload, way, arena)
            rate = contestant.probe(effort.probe)
        except Failed as failed:
            reason = str(failed)
            continue
        if rate > best_rate:
            if best is not None:
                best.drop()
            best, best_rate, name = contestant, rate, str(way)
        else:
            contestant.drop()
    if best is None:
        raise Failed(reason)
    return best, name


def _prepared(peer: str, workload: Workload, way: Setup, arena: Arena) -> Contestant:
    processes = min(way.processes, arena.cores)
    workers = arena.workers(peer, processes)
    share = -(-workload.members // processes) if peer != "loop" else 1
    key = f"{peer} {way}"
    for number, worker in enumerate(workers):
        members = max(1, min(share, workload.members - number * share))
        worker.ask("prepare_peer", key, peer, workload, number * share, members, way)
    contestant = Contestant(key, workers)
    try:
        gather(workers)
    except Failed:
        contestant.drop()
        raise
    return contestant
