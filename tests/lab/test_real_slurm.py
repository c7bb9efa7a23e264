"""A Slurm of one node on this machine, from Debian's packages: opt in with `make test-slurm`, as root.

It needs slurmd, slurmctld, slurm-client and munge. The daemons listen for this machine alone, and end with the test.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time

import numpy as np
import pytest
from small_runs import parity_run

import headstart as hs
from headstart.engines import Job, choose
from headstart.lab.backends import Slurm, slurm_workers
from headstart.lab.backends.slurm_session import sessions
from headstart.lab.runner import execute
from headstart.lab.workers import Group

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue")
pytestmark = pytest.mark.skipif(
    os.environ.get("HEADSTART_TEST_SLURM") != "1"
    or os.geteuid() != 0
    or not all(shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") for program in PROGRAMS),
    reason="opt in with `make test-slurm`, as root, where Debian's slurmd, slurmctld, slurm-client and munge are",
)
CONFIG = """
ClusterName=headstart
SlurmctldHost={host}(127.0.0.1)
SlurmctldParameters=enable_configless
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={control}
SlurmdPort={node}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
KillWait=10
MinJobAge=60
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=2000 State=UNKNOWN
PartitionName=short Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""
LONG = parity_run(model=hs.MLP(width=32), budget=hs.Budget(steps=3_000_000, record_every=1000))


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(condition, seconds=180):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """munged, slurmctld and slurmd; ends them, and what they still run."""
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    settings = {"host": socket.gethostname(), "folder": folder, "control": free_port(), "node": free_port()}
    (folder / "slurm.conf").write_text(CONFIG.format(**settings))
    (folder / "cgroup.conf").write_text("CgroupPlugin=autodetect\n")
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket"]
    munge += [f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"]
    commands = (munge, ["slurmctld", "-D", "-f", str(folder / "slurm.conf")], ["slurmd", "-D"])
    daemons = []
    patch = pytest.MonkeyPatch()
    patch.setenv("SLURM_CONF", environment["SLURM_CONF"])
    try:
        for command in commands:
            with (folder / f"{command[0]}.out").open("wb") as out:
                daemons.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
            time.sleep(1.0)
        until(lambda: b"idle" in subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True).stdout)
        yield folder
        subprocess.run(["scancel", "--user", pwd.getpwuid(os.geteuid()).pw_name])
        time.sleep(2.0)
    finally:
        for daemon in reversed(daemons):
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(30)
        patch.undo()


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    with hs.open_store(tmp_path / "s.sqlite") as opened:
        yield opened


def same(traces, run):
    plain = hs.train(run, seeds=[trace.seed for trace in traces])
    for one, two in zip(traces, plain, strict=True):
        for name in two.values:
            assert np.array_equal(one[name], two[name]), name


def group_of(store, *runs):
    return Group(choose(runs[0]).engine, [Job(run, checkpoint=store.checkpoint_path(run)) for run in runs], 2.0)


def the_worker(pool):
    """The one that is here and has taken all that it was given."""
    here = [w for name, w in dict(pool.workers).items() if not w.gone and pool.dealer.given.get(name)]
    waiting = list((pool.session.folder / "inbox").rglob("*.task"))
    return here[0].hello if here and not waiting else None


def test_runs_on_a_real_slurm_have_the_numbers_of_this_machine(slurm, store):
    with slurm_workers(store, Slurm("short", minutes=10, memory=0.5), 2) as pool:
        assert execute([parity_run().at(seed) for seed in range(6)], store, pool) == 6
    same(store.cell_traces(parity_run().cell), parity_run())
    assert list(sessions(store.path).iterdir()) == []


def test_a_job_that_is_cancelled_or_killed_is_replaced(slurm, store):
    with slurm_workers(store, Slurm("short", minutes=10, memory=0.5), 1) as pool:
        call = pool.submit(group_of(store, LONG))
        worker = until(lambda: the_worker(pool))
        os.kill(worker.pid, signal.SIGKILL)
        until(lambda: (found := the_worker(pool)) and found.pid != worker.pid)
        subprocess.run(["scancel", the_worker(pool).job], check=True)
        same([call.result(timeout=300)[0].trace], LONG)


def test_near_the_time_limit_slurm_signals_and_the_job_is_queued_again(slurm, store):
    with slurm_workers(store, Slurm("short", minutes=10, memory=0.5), 1) as pool:
        call = pool.submit(group_of(store, LONG.at(1)))
        worker = until(lambda: the_worker(pool))
        time.sleep(1.0)
        subprocess.run(["scancel", "--signal", "USR2", worker.job], check=True)  # what --signal=USR2@120 sends
        until(lambda: store.checkpoint_path(LONG.at(1)).exists())
        same([call.result(timeout=300)[0].trace], LONG)
        assert {w.hello.job for w in pool.workers.values()} == {worker.job}


def test_the_daemons_listen_for_this_machine_alone(slurm):
    listening = subprocess.run(["ss", "-tlnpH"], capture_output=True, text=True, check=True).stdout
    ours = [line for line in listening.splitlines() if "slurm" in line]
    assert ours
    assert all(line.split()[3].startswith("127.0.0.1:") for line in ours), ours


def test_a_refusal_of_sbatch_is_one_line(slurm, store):
    said = pytest.raises(hs.HeadstartError, match=r"sbatch refused: .*partition")
    with said, slurm_workers(store, Slurm("nowhere", minutes=10), 1) as pool:
        execute([parity_run()], store, pool)
