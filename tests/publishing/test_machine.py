"""What the package asks of a machine: no name that only POSIX has, and no connection to anywhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

# In a new process: modules of headstart, and no others, are given `os` and `signal` without what Windows lacks.
WITHOUT_POSIX = """
import builtins, importlib, os, pkgutil, signal, types

LACKING = {
    "os": "fork forkpty getuid geteuid getgid getegid kill killpg setsid getpgid sysconf getloadavg nice chown lchown "
          "mkfifo statvfs uname wait WNOHANG register_at_fork sched_getaffinity O_NOFOLLOW O_NONBLOCK O_DIRECTORY",
    "signal": "SIGHUP SIGKILL SIGALRM SIGUSR1 SIGUSR2 SIGQUIT SIGPIPE SIGCHLD SIGCONT SIGSTOP pause alarm setitimer "
              "pthread_sigmask sigwait siginterrupt",
}
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog", "readline", "curses"}
usual = builtins.__import__

def without(module):
    less = types.ModuleType(module.__name__)
    vars(less).update({k: v for k, v in vars(module).items() if k not in LACKING[module.__name__].split()})
    return less

GIVEN = {"os": without(os), "signal": without(signal)}

def checked(name, globals=None, locals=None, fromlist=(), level=0):
    asker = (globals or {}).get("__name__", "")
    if asker.split(".")[0] == "headstart":
        if name.split(".")[0] in MODULES:
            raise ModuleNotFoundError(f"{asker} imports {name}, which only POSIX has")
        if name in GIVEN:
            return GIVEN[name]
    return usual(name, globals, locals, fromlist, level)

builtins.__import__ = checked
import headstart
names = [found.name for found in pkgutil.walk_packages(headstart.__path__, "headstart.")]
for name in names:
    if not name.endswith("__main__"):
        try:
            importlib.import_module(name)
        except headstart.HeadstartError as error:  # an extra that is not installed
            assert "pip install" in str(error), error
print(len(names))
"""

# Python imports a module of this name when it starts, in child processes too.
NO_CONNECTION = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname", "socket.bind"):
        where = arguments[-1] if event in ("socket.connect", "socket.sendto", "socket.bind") else arguments[0]
        if isinstance(where, (str, bytes)) and event in ("socket.connect", "socket.bind"):
            return  # a socket of the file system, between processes of this machine
        with open({told!r}, "a") as told:
            print(event, arguments, file=told)
        raise OSError(f"{{event}} {{where}}: no connections in this test")

sys.addaudithook(refuse)
"""

STUDY = """
import sys
from headstart.cli import main
import headstart.integrations
if __name__ == "__main__":
    main(["run", "less_data/no_gap", "--preset", "smoke", "--jobs", "2"])
    main(["show", "less_data/no_gap"])
"""


def python(code, tmp_path, **env):
    (tmp_path / "script.py").write_text(code)
    env = os.environ | env
    return subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=env, capture_output=True, text=True)


@pytest.mark.slow
def test_every_module_imports_where_names_that_only_posix_has_are_missing(tmp_path):
    done = python(WITHOUT_POSIX, tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


@pytest.mark.parametrize("line", ["import fcntl", "from os import fork", "import signal; signal.SIGHUP"])
def test_a_name_that_only_posix_has_would_be_seen(line, tmp_path):
    """The test above can fail."""
    code = WITHOUT_POSIX.partition("import headstart\n")[0] + f"exec({line!r}, {{'__name__': 'headstart.lab.store'}})"
    assert re.search("only POSIX has|cannot import name 'fork'|no attribute 'SIGHUP'", python(code, tmp_path).stderr)


def watched(tmp_path):
    """An environment whose Python processes refuse connections, and the file that says which were tried."""
    told = tmp_path / "told.txt"
    (tmp_path / "sitecustomize.py").write_text(NO_CONNECTION.format(told=str(told)))
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2] / "src")])
    return {"PYTHONPATH": path, "HEADSTART_STORE": str(tmp_path / "store.sqlite")}, told


@pytest.mark.slow
def test_a_study_runs_and_is_shown_with_every_connection_refused(tmp_path):
    env, told = watched(tmp_path)
    done = python(STUDY, tmp_path, **env)
    assert done.returncode == 0, done.stderr
    assert not told.exists(), told.read_text()


def test_a_connection_would_be_seen(tmp_path):
    """The test above can fail."""
    env, told = watched(tmp_path)
    done = python("import urllib.request; urllib.request.urlopen('http://localhost:9')", tmp_path, **env)
    assert done.returncode != 0
    assert "getaddrinfo" in told.read_text()
