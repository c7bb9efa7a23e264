"""A real Ray on this machine: the same numbers, whoever is killed on the way."""

import io
import json
import os
import signal
import subprocess
import time
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from small_runs import Powers, numbered_run, parity_run

import headstart as hs
from headstart.cli import main
from headstart.engines import Job, choose
from headstart.lab.backends import Ray, ray_workers
from headstart.lab.backends.greeting import Greeting, edition
from headstart.lab.computed import Computation
from headstart.lab.runner import execute
from headstart.lab.workers import Group, Serial, advanced

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # read when Ray is imported: it listens on loopback alone
pytest.importorskip("ray", reason='Ray is not installed: pip install "headstart[ray]"')
pytestmark = [
    pytest.mark.slow,
    # Of Ray's own: sockets and processes that it leaves to the collector of garbage.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
STUDY = Path(__file__).parents[1] / "cli" / "halving_study.py"
LONG = parity_run(model=hs.MLP(width=32), budget=hs.Budget(steps=200_000, record_every=200))


@pytest.fixture
def store(tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as opened:
        yield opened


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
    return found


def same(traces, run):
    plain = hs.train(run, seeds=[trace.seed for trace in traces])
    for one, two in zip(traces, plain, strict=True):
        for name in two.values:
            assert np.array_equal(one[name], two[name]), name


def group_of(store, *runs):
    return Group(choose(runs[0]).engine, [Job(run, checkpoint=store.checkpoint_path(run)) for run in runs], 2.0)


def busy(pool):
    """The actors that were given something."""
    return [pool.actors[name] for name, tasks in dict(pool.dealer.given).items() if tasks and name in pool.actors]


def claims(path, *more):
    out = io.StringIO()
    with redirect_stdout(out):
        main(["run", str(STUDY), "--preset", "smoke", "--jobs", "2", "--json", "--store", str(path), *more])
    report = json.loads(out.getvalue())
    return report["claims"], report["choices"]


def test_a_study_on_ray_has_the_claims_and_choices_of_this_machine(tmp_path):
    assert claims(tmp_path / "far.sqlite", "--on", "ray") == claims(tmp_path / "near.sqlite")


def test_workers_that_are_killed_are_replaced_and_the_numbers_are_the_same(store):
    with ray_workers(store, Ray(), 2) as pool:
        # Its bar adds up.
        pool.submit(group_of(store, *(parity_run().at(seed) for seed in range(4)))).result(timeout=120)
        assert advanced(pool.messages()) == pytest.approx(4 * 2.0)
        # Threads, processes and computations of here are all actors there.
        execute([numbered_run().at(3)], store, pool)
        assert np.array_equal(pool.call(Computation(Powers(3.0))).result(timeout=60)["power"], 3.0 ** np.arange(4))
        calls = [pool.submit(group_of(store, LONG.at(seed))) for seed in range(3)]
        for actor in until(lambda: busy(pool)):
            pid = pool.ray.get(actor.hello.remote())[1]
            os.kill(pid, signal.SIGKILL)
        same([call.result(timeout=200)[0].trace for call in calls], LONG)
        assert pool.num_made >= 3
    same(store.cell_traces(numbered_run().cell), numbered_run())


def test_a_stop_writes_checkpoints_and_the_next_command_goes_on_from_them(store):
    class Stopping:
        def begin(self, title, total): ...

        def update(self, done, text=""):
            if done:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), ray_workers(store, Ray(), 1) as pool:
        execute([LONG], store, pool, progress=Stopping())
    assert store.checkpoint_path(LONG).exists()
    assert execute([LONG], store, Serial()) == 1
    same(store.cell_traces(LONG.cell), LONG)


def test_a_worker_of_another_version_is_refused_and_the_command_says_so(store):
    from headstart.lab.backends.ray_actors import RayWorkers

    older = Greeting(edition={**edition(), "numpy": "1.0"})
    with RayWorkers(Ray(), 1, older) as pool, pytest.raises(hs.HeadstartError, match="is not the coordinator's 1"):
        execute([parity_run()], store, pool)


def test_a_ray_without_gpus_says_so(store):
    with pytest.raises(hs.HeadstartError, match="GPUs; ask for fewer"), ray_workers(store, Ray(gpus=0.5)):
        pass


def test_an_address_where_no_ray_is_says_so(store):
    with (
        pytest.raises(hs.HeadstartError, match=r"--on ray://auto: Ray cannot be used"),
        ray_workers(store, Ray("auto")),
    ):
        pass


def test_a_ray_of_our_own_listens_for_this_machine_alone(store):
    with ray_workers(store, Ray(), 1) as pool:
        pool.call(int).result(timeout=120)
        listening = subprocess.run(["ss", "-tlnpH"], capture_output=True, text=True, check=True).stdout
    ours = [line for line in listening.splitlines() if "ray" in line or "gcs_server" in line]
    assert ours
    assert all("127.0.0.1" in line.split()[3] for line in ours), ours


def test_a_node_that_is_removed_takes_nothing_with_it(store):
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        node = cluster.add_node(num_cpus=1)
        with ray_workers(store, Ray(cluster.address)) as pool:
            assert pool.slots == 2
            calls = [pool.submit(group_of(store, LONG.at(seed))) for seed in range(4)]
            until(lambda: len(busy(pool)) == 2)
            cluster.remove_node(node, allow_graceful=False)
            same([call.result(timeout=300)[0].trace for call in calls], LONG)
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_shares_of_a_gpu_are_asked_of_ray(store):
    """A GPU that is only said to be there: what is tried is the placing, two workers on one, and not the training."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "num_gpus": 1, "include_dashboard": False})
    try:
        with ray_workers(store, Ray(cluster.address, gpus=0.5)) as pool:
            assert pool.slots == 2
            until(lambda: len(pool.dealer.given) == 2)
            assert ray.available_resources().get("GPU", 0) == 0
            assert execute([parity_run()], store, pool) == 1
    finally:
        ray.shutdown()
        cluster.shutdown()
