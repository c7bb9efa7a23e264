"""Calls drawn at random, with a fixed seed: each answers, or says in one line what is wrong; none ends in a traceback.

What is drawn is wrong more often than right: values of other types, far too large, not finite, empty, from elsewhere.
The Python calls here are those of Runs and their parts, of training and of stores.
"""

import contextlib
import io
import json
import random
import shutil
import sqlite3
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import headstart as hs
from headstart.cli import main
from headstart.core.encoding import decode, encode
from headstart.run import Run

NUM_CLI, NUM_PYTHON = 300, 500
FLAGS = {
    "list": "--store --json",
    "show": "--store --preset --json",
    "figure": "--store --preset --format",
    "check": "--store --strict --json",
    "export": "--store --to",
    "report": "--store --preset --readme",
    "explain": "--store --preset --only --seeds --set --jobs --json",
    "probe": "--steps --seeds --json",
    "gc": "--store --states",
    "check-store": "--store --json",
    "run": "--store --preset --only --seeds --set --jobs --device --json",
}
REQUIRED = {"figure": ["--out"], "export": ["--out"], "report": ["--out"]}
STUDY = "less_data/mini_and_full_batch_mlp"
FILES = {
    "fuzz_raises.py": "raise RuntimeError('no')\n",
    "fuzz_syntax.py": "def (:\n",
    "fuzz_empty.py": "x = 1\n",
    "fuzz_factory.py": "def none(): return None\ndef fails(): raise KeyError('x')\ndef wrong(): return {'model': 3}\n",
    "letter.txt": "dear friend\n",
}
NUMBERS = ["0", "-1", "1", "2", "3.5", "1e400", "nan", str(10**11), str(2**63), str(10**30), "", "x", "[1", "null", "é"]
WORDS = ["", " ", "x", "\x1b[31m", "[/red]", "../..", "~", "a b", "--", "0", "less_data", "smoke", "laptop", "\u202e"]


def some(rng, options):
    return options[rng.randrange(len(options))]


def studies(rng, folder):
    return some(
        rng, [STUDY, STUDY, "less_data/no_gap", *[str(folder / name) for name in FILES], *WORDS, "less_data/nope"]
    )


def stores(rng, folder):
    names = [
        "whole",
        "whole",
        "damaged",
        "newer",
        "unrelated.sqlite",
        "letter.txt",
        "missing",
        "",
        "x" * 300,
        "whole/x",
    ]
    return str(folder / some(rng, names))


def options(rng, verb, folder):
    """A few flags, most of them of this command, with values, some of them no value that anybody should give."""
    knobs = ["width", "num_seeds", "gd_parity_samples", "sgd_index_steps", "gd_parity_degree", "first_seed", "nothing"]
    made = {
        "--store": lambda: stores(rng, folder),
        "--preset": lambda: some(rng, ["smoke", "laptop", "paper", *WORDS]),
        "--set": lambda: f"{some(rng, knobs)}{some(rng, ['=', '=', '', '=='])}{some(rng, NUMBERS)}",
        "--seeds": lambda: some(rng, NUMBERS),
        "--jobs": lambda: some(rng, NUMBERS),
        "--only": lambda: some(rng, ["mlp", *WORDS]),
        "--out": lambda: str(folder / "out" / some(rng, ["x.csv", "x.png", "x.gif", "", "..", "x" * 300, "y.parquet"])),
        "--to": lambda: some(rng, ["csv", "parquet", "xml", ""]),
        "--format": lambda: some(rng, ["png", "gif", ""]),
        "--readme": lambda: some(rng, ["", "/", str(folder / "letter.txt"), "nowhere.md"]),
        "--device": lambda: some(rng, ["cpu", "cuda", "abacus", ""]),
        "--steps": lambda: some(rng, ["0", "-1", "x", "2"]),
    }
    own = [flag for flag in FLAGS[verb].split() if flag in made]
    for flag in rng.sample(own, min(len(own), rng.randrange(0, 4))):
        yield from (flag, made[flag]())
    for flag in REQUIRED.get(verb, ()):
        if rng.random() < 0.9:
            yield from (flag, made[flag]())
    if rng.random() < 0.1:
        yield some(rng, sorted(made))
    yield from [flag for flag in ("--json", "--strict", "--states") if flag in FLAGS[verb] and rng.random() < 0.3]


def command(rng, folder):
    """The words of a call."""
    verb = some(
        rng, ["list", "show", "figure", "check", "export", "report", "explain", "probe", "gc", "check-store", "run"]
    )
    words = [verb]
    if verb == "probe":
        names = [
            "fuzz_factory:none",
            "fuzz_factory:fails",
            "fuzz_factory:wrong",
            ".fuzz_factory:none",
            "x:",
            ":x",
            "os:getcwd",
        ]
        words.append(some(rng, [*names, "fuzz_syntax:x", "fuzz_raises.py:x", "json:loads", *WORDS]))
    elif verb == "run":  # what trains is tested elsewhere; here nothing gets so far
        words.append(some(rng, [str(folder / name) for name in FILES] + ["less_data/nope", *WORDS[:8]]))
    elif verb not in ("list", "gc", "check-store") and rng.random() < 0.9:
        words.append(studies(rng, folder))
    return [*words, *options(rng, verb, folder)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A whole store, a damaged one, one of a newer format, a database of something else, and files that fail."""
    folder = tmp_path_factory.mktemp("fuzz")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main(["run", STUDY, "--preset", "smoke", "--jobs", "1", "--store", str(folder / "whole")])
    for name in ("damaged", "newer"):
        shutil.copy(folder / "whole", folder / name)
    with sqlite3.connect(folder / "newer") as db:
        db.execute("UPDATE meta SET value = '77'")
    db.close()
    data = bytearray((folder / "damaged").read_bytes())
    data[9000:30000] = random.Random(0).randbytes(21000)
    (folder / "damaged").write_bytes(data)
    with sqlite3.connect(folder / "unrelated.sqlite") as db:
        db.execute("CREATE TABLE meta (other TEXT)")
    db.close()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def check_calls(seeds, folder, monkeypatch, capsys):
    """Every call ends with an exit code; with 2, standard error has said one line, or tyro its own box."""
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HEADSTART_STORE", str(folder / "default.sqlite"))
    codes = []
    for seed in seeds:
        words = command(random.Random(seed), folder)
        code = 0
        try:
            main(words)
        except SystemExit as stop:
            code = stop.code or 0
        except BaseException as error:
            pytest.fail(f"call {seed}, {words}: {error!r}")
        _, err = capsys.readouterr()
        codes.append(code)
        assert code in (0, 1, 2), (words, code)
        assert "Traceback" not in err, words
        if code == 2 and err.startswith("headstart: "):
            assert err.count("\n") == 1, (words, err)
            assert "\x1b" not in err, words
    return codes


def test_calls_of_the_command_line_answer_or_say_what_is_wrong(folder, monkeypatch, capsys):
    codes = check_calls(range(NUM_CLI // 10), folder, monkeypatch, capsys)
    assert {0, 2} <= set(codes)


@pytest.mark.slow
def test_three_hundred_calls_of_the_command_line_answer_or_say_what_is_wrong(folder, monkeypatch, capsys):
    check_calls(range(1000, 1000 + NUM_CLI), folder, monkeypatch, capsys)


# Python.

RUN = hs.Run(
    hs.Parity(6, 2),
    hs.MLP(4),
    hs.Online(),
    hs.MSE(),
    hs.SGD(0.1),
    hs.Batch(8),
    budget=hs.Budget(steps=4, record_every=2),
)
VALUES = [
    None, True, False, 0, 1, 2, -1, 3.5, float("nan"), float("inf"), 10**11, 2**63, 10**30, "", "x", b"x", (), (1,),
    [], [0.5], {}, {"input": 1}, {1, 2}, object(), int, np.float64(2.0), np.int64(3), np.array([1, 2]), RUN,
    hs.Parity(6, 2), hs.MLP(4), hs.Online(), hs.MSE(), hs.SGD(0.1), hs.Batch(4), hs.FullBatch(), hs.Step(2),
    hs.Reaches("test_loss", 0.1), hs.Fresh(), hs.Parity, lambda *a, **k: 1, "input", "relu", "float64", range(3),
    Path("x"), "test_accuracy", (RUN, RUN), hs.Phase(size=8),
]  # fmt: skip
PARTS = [
    hs.Run, hs.From, hs.First, hs.Best, hs.Carry, hs.Step, hs.Reaches, hs.Batch, hs.Budget, hs.Parity, hs.SingleIndex,
    hs.MLP, hs.Transformer, hs.Split, hs.ModularArithmetic, hs.InContextRegression, hs.SGD, hs.AdamW, hs.Adafactor,
    hs.Cosine, hs.WarmUp, hs.StepDecay, hs.Online, hs.Fixed, hs.Sweep, hs.Axis, hs.Signature,
]  # fmt: skip
# A right value for fields that have no default, so that a call may get farther than its first mistake.
RIGHT = {
    "task": RUN.task, "model": RUN.model, "plan": RUN.plan, "loss": RUN.loss, "optimizer": RUN.optimizer, "run": RUN,
    "lr": 0.1, "dim": 6, "degree": 2, "width": 4, "size": 8, "step": 2, "metric": "test_loss", "value": 0.5,
    "runs": (RUN,), "attempts": 2, "at": hs.Reaches("test_loss", 0.1), "score": "test_loss", "lowest": 0.1,
    "highest": 0.2, "inputs": (4,), "train": 8, "modulus": 5, "steps": 4, "max_value": 5,
    "axes": (hs.Axis("optimizer.lr", 0.1, 0.2),), "path": "optimizer.lr",
}  # fmt: skip


def build_part(rng):
    kind = some(rng, PARTS)
    names = [f.name for f in fields(kind) if f.init]
    given = {name: RIGHT[name] for name in names if name in RIGHT}
    for name in rng.sample(names, min(len(names), rng.randrange(0, 3))):
        given[name] = some(rng, VALUES)
    made = kind(**given)
    repr(made)
    return made


def build_run(rng):
    part = build_part(rng)
    place = some(rng, [f.name for f in fields(hs.Run)])
    run = hs.Run(**{f.name: getattr(RUN, f.name) for f in fields(hs.Run)} | {place: part})
    return run.cell


def train(rng):
    run = RUN if rng.random() < 0.8 else some(rng, VALUES)
    given = {name: some(rng, VALUES) for name in ("seeds", "jobs", "device", "progress") if rng.random() < 0.3}
    if isinstance(given.get("jobs"), int) and given["jobs"] > 1:  # processes are tested elsewhere
        del given["jobs"]
    return hs.train(run, **given).to_pandas()


def read_store(rng, folder):
    path = folder / some(rng, ["whole", "damaged", "newer", "unrelated.sqlite", "letter.txt", "missing"])
    with hs.open_store(path if rng.random() < 0.8 else some(rng, [3, None, b"x", "x" * 300, [], folder])) as store:
        calls = [
            lambda: store.seeds(some(rng, VALUES)),
            lambda: store.traces(study=some(rng, [STUDY, *WORDS]), arm=some(rng, [None, *WORDS])),
            lambda: store.cell_traces(RUN.cell, seeds=some(rng, [None, [0], [-1], ["x"], range(3)])),
            lambda: store.summaries(RUN.cell),
            lambda: store.run_of(some(rng, [RUN.cell, *WORDS])),
            lambda: [store.run_of(trace.cell) for trace in store.traces()[:2]],
            lambda: store.states.get(RUN, hs.Step(some(rng, [0, 2]))),
            lambda: store.damage(),
            lambda: store.studies.reports(),
            lambda: store._repr_html_(),
        ]
        return some(rng, calls)()


def decode_junk(rng):
    data = json.loads(json.dumps(encode(RUN)))
    for _ in range(rng.randrange(1, 4)):
        where = data
        while isinstance(where, dict) and where and rng.random() < 0.6:
            nested = [value for value in where.values() if isinstance(value, dict)]
            where = some(rng, nested) if nested else where
            if not nested:
                break
        junk = [
            None,
            3,
            "x",
            [],
            {},
            {"type": "os:system"},
            {"type": 3},
            "subprocess:run",
            -1,
            1e300,
            [[]],
            {"type": []},
        ]
        where[some(rng, [*where, "type", "new"])] = some(rng, junk)
    return decode(data, some(rng, [Run, Run, hs.Parity, int]))


def trace_junk(rng):
    trace = hs.Trace("cell", 0, np.arange(3), np.arange(3), np.arange(3.0), {"test_loss": np.arange(3.0)})
    traces = hs.Traces((trace,) * rng.randrange(0, 3))
    calls = [
        lambda: trace.axis(some(rng, ["steps", "time", "", "samples"])),
        lambda: trace[some(rng, ["test_loss", "x", ""])],
        lambda: traces.stack(some(rng, ["test_loss", "x"])),
        lambda: traces.grid(),
        lambda: (traces.to_pandas(), repr(traces), traces._repr_html_(), trace._repr_html_()),
        lambda: traces + some(rng, [traces, 3, [trace]]),
    ]
    return some(rng, calls)()


def check_python(seeds, folder):
    answered = 0
    for seed in seeds:
        rng = random.Random(seed)
        kinds = [build_part] * 4 + [build_run] * 3 + [train, decode_junk, trace_junk, lambda r: read_store(r, folder)]
        call = some(rng, kinds)
        try:
            call(rng)
            answered += 1
        except hs.HeadstartError as error:
            said = str(error)
        except Exception as error:
            pytest.fail(f"call {seed} of {getattr(call, '__name__', 'read_store')}: {type(error).__name__}: {error}")
        else:
            continue
        assert said, seed
    return answered


def test_calls_in_python_answer_or_say_what_is_wrong(folder):
    assert 5 < check_python(range(NUM_PYTHON // 10), folder) < NUM_PYTHON // 10


@pytest.mark.slow
def test_five_hundred_calls_in_python_answer_or_say_what_is_wrong(folder):
    check_python(range(5000, 5000 + NUM_PYTHON), folder)
