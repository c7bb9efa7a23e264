"""A study's stored curves as TensorBoard's event files, for people who have a tracker. Needs the extra `tensorboard`.

One folder per run, <arm>/seed <seed>, with every metric as a scalar against the optimizer step; the settings of the run
are a text. Wall times are not known record by record, so all records have the time of the export.
"""

import json
import struct
import time
from pathlib import Path
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.core.files import inside, replacing_tree
from headstart.core.trace import Trace
from headstart.lab import Store

_MARK = "headstart-tensorboard.txt"


def export_events(store: Store, study: str, folder: Path) -> int:
    """Write the claim runs of a study's last edition into a folder; returns how many. An earlier export is replaced."""
    try:
        from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError as error:
        raise HeadstartError(
            f"--to tensorboard: {error.name} is missing; install it: pip install 'headstart[tensorboard]'"
        ) from None
    traces = store.traces(study=study)
    if not len(traces):
        raise HeadstartError(f"{study} trains nothing and has no traces to export")
    at = time.time()

    def summary(tag: str, plugin: str, tensor: Any) -> Any:
        data = summary_pb2.SummaryMetadata.PluginData(plugin_name=plugin)
        return summary_pb2.Summary.Value(tag=tag, tensor=tensor, metadata=summary_pb2.SummaryMetadata(plugin_data=data))

    def event(step: int, values: list[Any]) -> bytes:
        made = event_pb2.Event(wall_time=at, step=step, summary=summary_pb2.Summary(value=values))
        return bytes(made.SerializeToString())

    def number(value: float) -> Any:
        return tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, tensor_content=struct.pack("<f", value))

    def write(trace: Trace, place: Path) -> None:
        place.mkdir(parents=True)
        with (place / f"events.out.tfevents.{int(at)}.headstart.v2").open("wb") as file:
            writer = RecordWriter(file)
            writer.write(event_pb2.Event(wall_time=at, file_version="brain.Event:2").SerializeToString())
            said = json.dumps(dict(trace.settings), indent=1).encode()
            text = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[b"```\n" + said + b"\n```"])
            writer.write(event(0, [summary("settings", "text", text)]))
            for row, step in enumerate(trace.steps.tolist()):
                scalars = [summary(_tag(n), "scalars", number(float(v[row]))) for n, v in trace.values.items()]
                writer.write(event(step, scalars))
            writer.close()

    try:
        with replacing_tree(folder, _MARK) as root:
            for trace in traces:
                write(trace, inside(root, f"{trace.labels['arm']}/seed {trace.seed}", ""))
    except OSError as error:
        raise HeadstartError(f"--out {folder}: {error}; name a folder that is new or empty") from None
    return len(traces)


def _tag(name: str) -> str:
    """test_accuracy is test/accuracy, so that TensorBoard groups what belongs together."""
    return name.replace("_", "/", 1)
