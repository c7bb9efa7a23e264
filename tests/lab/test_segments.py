"""Files between machines: records are whole or not there, and nobody else's are read."""

import os
from errno import EIO, ENOSPC

import platformdirs
import pytest

import headstart as hs
from headstart.lab.backends import segments
from headstart.lab.backends.segments import Appender, Damaged, Reader, sealed, users_key

KEY = bytes(32)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "one.segment"


def test_records_come_in_order_and_each_once(path):
    appender, reader = Appender(path, KEY), Reader(path, KEY)
    assert reader.read() == []
    appender.append({"number": 1})
    appender.append([2.0], sync=False)
    assert reader.read() == [{"number": 1}, [2.0]]
    appender.append("three")
    assert reader.read() == ["three"]
    assert reader.read() == []
    appender.close()


def test_a_segment_that_is_not_there_yet_has_no_records(path):
    assert Reader(path, KEY).read() == []


def test_a_record_that_a_kill_tore_is_never_read_and_those_before_it_are(path):
    whole, torn = sealed("whole", KEY), sealed("torn", KEY)
    for length in range(len(torn)):
        path.write_bytes(whole + torn[:length])
        reader = Reader(path, KEY)
        assert reader.read() == ["whole"]
        path.write_bytes(whole + torn)
        assert reader.read() == ["torn"]


def test_a_changed_byte_is_seen(path):
    data = bytearray(sealed("whole", KEY) + sealed([1, 2, 3], KEY))
    data[-2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(Damaged, match="is damaged at byte"):
        Reader(path, KEY).read()


class Bomb:
    """What unpickles to a call."""

    def __reduce__(self):
        return os.mkdir, ("bombed",)


def test_a_record_that_somebody_else_wrote_is_not_unpickled(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path.write_bytes(sealed(Bomb(), b"another key".ljust(32)))
    with pytest.raises(Damaged, match="somebody else"):
        Reader(path, KEY).read()
    assert not (tmp_path / "bombed").exists()


def test_a_segment_is_never_written_by_two(path):
    Appender(path, KEY).close()
    with pytest.raises(FileExistsError):
        Appender(path, KEY)


def test_on_a_full_disk_a_worker_waits_for_room_and_loses_nothing(path, monkeypatch):
    write, full, said = os.write, [True, True], []

    def short_write(file, data):
        if full:
            write(file, bytes(data[:7]))  # what fitted
            raise OSError(full.pop() and ENOSPC, "No space left on device")
        return write(file, data)

    appender = Appender(path, KEY, said.append)
    appender.append("before")
    monkeypatch.setattr(segments, "_FULL_PAUSE", 0.0)
    monkeypatch.setattr(os, "write", short_write)
    appender.append("after")
    assert Reader(path, KEY).read() == ["before", "after"]
    assert len(said) == 2
    assert "free some space" in said[0]


def test_another_fault_of_the_disk_is_not_waited_for(path, monkeypatch):
    appender = Appender(path, KEY)

    def fail(file, data):
        raise OSError(EIO, "Input/output error")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="Input/output"):
        appender.append("never")


def test_a_user_has_one_key_that_only_they_may_read(tmp_path, monkeypatch):
    monkeypatch.setattr(platformdirs, "user_data_dir", lambda name: str(tmp_path / name))
    key = users_key()
    assert len(key) == 32
    assert users_key() == key
    (file,) = (tmp_path / "headstart").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    file.write_bytes(b"short")
    with pytest.raises(hs.HeadstartError, match=r"damaged.*delete it"):
        users_key()
