"""Stored parts are built again, and nothing else is: a store that somebody sent runs no code of its choosing."""

import json
import os
from dataclasses import dataclass
from enum import Enum

import pytest

import headstart as hs
from headstart.core.encoding import decode, encode, settings
from headstart.core.errors import HeadstartError
from headstart.run import Run

RUN = hs.Run(
    hs.Parity(6, 2),
    hs.MLP(4),
    hs.Phases((hs.Phase(size=32, steps=5), hs.Phase())),
    hs.MSE(),
    hs.AdamW(1e-3, schedule=hs.Cosine()),
    methods=(hs.LayerScale(rate={"input": 0.1}),),
)
STARTED = hs.Run(
    hs.Parity(6, 2), hs.MLP(4), hs.Online(), hs.MSE(), hs.SGD(0.1), start=hs.From(hs.Best((RUN,), "test_loss"))
)


@dataclass
class Melting:
    """Not frozen."""

    dim: int = 1


@dataclass(frozen=True)
class Cold:
    """Frozen, and no part of a Run."""

    dim: int = 1


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize("run", [RUN, STARTED], ids=["phases", "search"])
def test_a_run_comes_back(run):
    assert decode(json.loads(run.json), Run) == run.at(0)


@pytest.mark.parametrize(
    "written",
    [
        "subprocess:run",
        "subprocess:Popen",
        "os:system",
        "builtins:eval",
        "headstart.lab.store:os.mkdir",
        "headstart.lab.store:os.system",
        "headstart.lab.provenance:subprocess.run",
        "headstart.lab.store:Path",
        "headstart.core.files:replacing",
        "headstart.core.encoding:decode",
        "headstart:train",
        "headstart.lab.store:Store",
        "headstart.core.trace:Traces.to_pandas",
        "headstart:Parity",  # it calls itself headstart.tasks.parity:Parity
        "headstart.run:Parity",
        "headstart.core.trace:Status",
        "headstartle:Parity",
        "../headstart:Parity",
        ".headstart:Parity",
        "headstart.",
        "headstart",
        ":",
    ],
)
@pytest.mark.parametrize("where", ["whole", "task", "methods", "plan", "phase"])
def test_what_is_no_part_is_never_called(tmp_path, monkeypatch, written, where):
    monkeypatch.chdir(tmp_path)
    evil = {"type": written, "args": ["touch", "here"], "path": "here", "command": "touch here", "cmd": "touch here"}
    data = json.loads(RUN.json)
    if where == "methods":
        data["methods"].append(evil)
    elif where == "phase":
        data["plan"]["phases"][0] = evil
    else:
        data[where] = evil
    with pytest.raises(HeadstartError, match="stored part"):
        decode(evil if where == "whole" else data, Run)
    assert os.listdir(tmp_path) == []


def test_a_module_that_is_not_trusted_is_not_even_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sent_along.py").write_text("open('ran', 'w').close()\nimport headstart as hs\n")
    data = {**json.loads(RUN.json), "task": {"type": "sent_along:Task"}}
    with pytest.raises(HeadstartError, match=r"trust=\['sent_along'\]"):
        decode(data, Run)
    assert not (tmp_path / "ran").exists()
    with pytest.raises(HeadstartError, match="no attribute 'Task'"):
        decode(data, Run, trust=["sent_along"])
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("kind", [Melting, Cold, Colour])
def test_trust_lets_frozen_parts_of_a_run_through_and_nothing_else(kind):
    data = {**json.loads(RUN.json), "task": {"type": f"{__name__}:{kind.__name__}"}}
    with pytest.raises(HeadstartError, match=r"no frozen dataclass|not what its place asks for, Task"):
        decode(data, Run, trust=[__name__])


def test_a_part_stands_only_where_its_type_may():
    data = json.loads(RUN.json)
    data["task"], data["model"] = data["model"], data["task"]
    with pytest.raises(HeadstartError, match="not what its place asks for"):
        decode(data, Run)
    with pytest.raises(HeadstartError, match="not what its place asks for, Run"):
        decode(encode(hs.Parity(6, 2)), Run)
    deep = {"type": "headstart.run:From", "run": encode(RUN)}
    with pytest.raises(HeadstartError, match="not what its place asks for, int"):
        decode({**encode(hs.Parity(6, 2)), "dim": deep})


def test_trust_is_a_list():
    with pytest.raises(HeadstartError, match=r"trust='abc'.*\['abc'\]"):
        decode({}, trust="abc")


def test_nesting_without_end_is_refused():
    data = encode(hs.Parity(6, 2))
    for _ in range(3000):
        data = {"type": "headstart.run:From", "run": data}
    with pytest.raises(HeadstartError, match=r"nested too deeply|stored part"):
        decode(data)


def test_settings_are_one_flat_dict():
    flat = settings(json.loads(RUN.json))
    assert (flat["optimizer"], flat["optimizer.lr"], flat["plan.phases.0.size"]) == ("AdamW", 1e-3, 32)
    assert not {"format", "semantics"} & {name.rpartition(".")[2] for name in flat}
