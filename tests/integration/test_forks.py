"""`os.fork`: gunicorn with --preload, multiprocessing. Real processes on one file."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from oncue import Scheduler

WORKERS = """
import os, sys, threading
from pathlib import Path
from oncue import Scheduler

folder = Path(sys.argv[1])
cue = Scheduler(f"sqlite:///{folder}/jobs.db")
cue.set_queue("work", max_attempts=1)
cue.run_loops()  # threads of the parent, which the children do not have

@cue.handler("work")
def work(job):
    with open(folder / f"did-{os.getpid()}", "a") as did:
        did.write(job.payload + "\\n")

over = threading.Event()
def beside():
    while not over.is_set():
        cue.schedule(queue="beside", delay=3600)
        cue.stats("beside")
busy = threading.Thread(target=beside)
busy.start()
cue.schedule("parent-before", queue="work")
children = []
for child in range(4):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for n in range(50):
                cue.schedule(f"{child}-{n}", queue="work")
            cue.work(until_empty=True)
            cue.close()
            code = 0
        finally:
            os._exit(code)
    children.append(pid)
cue.schedule("parent-after", queue="work")
codes = [os.waitpid(pid, 0)[1] for pid in children]
over.set()
busy.join()
cue.schedule("parent-last", queue="work")
cue.work(until_empty=True)
cue.close()
assert codes == [0] * 4, codes
"""


def run(script: str, folder: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", script, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr


def test_four_forked_workers_share_a_file_and_do_everything_once(tmp_path: Path) -> None:
    run(WORKERS, tmp_path)
    wanted = {f"{child}-{n}" for child in range(4) for n in range(50)}
    wanted |= {"parent-before", "parent-after", "parent-last"}
    did = Counter(line for log in tmp_path.glob("did-*") for line in log.read_text().split())
    assert did == Counter(wanted)
    with Scheduler(f"sqlite:///{tmp_path}/jobs.db") as cue:
        assert Counter(str(job.state) for job in cue.jobs(queue="work")) == {"succeeded": 203}
        with cue.store.db.reading() as tx:  # type: ignore[attr-defined]
            assert tx.execute("PRAGMA integrity_check").get == "ok"


CLOSING = """
import os, signal, sys, threading
from oncue import Scheduler

with Scheduler(f"sqlite:///{sys.argv[1]}/jobs.db") as cue:
    cue.run_loops()
    over = threading.Event()
    def beside():
        while not over.is_set():
            cue.schedule("x", delay=3600)
            cue.stats("default")
    busy = [threading.Thread(target=beside) for _ in range(3)]
    for thread in busy:
        thread.start()
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            cue.telemetry.count("jobs_created", 1)
            cue.close()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0, "a child hung or failed"
    over.set()
    for thread in busy:
        thread.join()
    kept = cue.telemetry.totals().counts["jobs_created"]
    assert sum(cue.stats("default").counts.values()) == kept
with Scheduler(f"sqlite:///{sys.argv[1]}/jobs.db") as again:
    assert sum(again.stats("default").counts.values()) == kept
    with again.store.db.reading() as tx:
        assert tx.execute("PRAGMA integrity_check").get == "ok"
"""


def test_close_in_a_child_never_hangs_and_leaves_the_parents_file_alone(tmp_path: Path) -> None:
    run(CLOSING, tmp_path)


INSIDE = """
import os, sys
from oncue import Scheduler, StoreError
from oncue.stores.sqlite import fork
fork.FORK_SECONDS = 60.0

cue = Scheduler(f"sqlite:///{sys.argv[1]}/jobs.db")
def forked(ask):
    pid = os.fork()
    if pid == 0:
        try:
            ask()
        except StoreError as error:
            try:
                Scheduler(f"sqlite:///{sys.argv[1]}/jobs.db")
            except StoreError as again:
                cue.close()
                os._exit(0 if "Fork outside" in str(error) and str(again) == str(error) else 2)
        os._exit(3)
    assert os.waitpid(pid, 0)[1] == 0
cue.store.db.write(lambda tx: forked(cue.schedule))
with cue.store.db.reading():
    forked(cue.queues)
cue.schedule()
cue.close()
"""


def test_a_child_forked_inside_a_transaction_or_a_read_is_refused_at_once(tmp_path: Path) -> None:
    run(INSIDE, tmp_path)


MEMORY = """
import os, signal, threading
from oncue import Scheduler

cue = Scheduler("memory:")
cue.run_loops()
over = threading.Event()
def beside():
    while not over.is_set():
        cue.schedule("x", delay=3600)
busy = [threading.Thread(target=beside) for _ in range(2)]
for thread in busy:
    thread.start()
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        cue.schedule()
        cue.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
over.set()
for thread in busy:
    thread.join()
"""


def test_a_store_in_memory_can_be_forked_too(tmp_path: Path) -> None:
    run(MEMORY, tmp_path)


CARRIED = """
import os, sys, threading
from pathlib import Path
from oncue.stores.sqlite.database import Database, READERS_KEPT
from oncue.stores.sqlite.connection import Handle

path = Path(sys.argv[1]) / "jobs.db"
def carried():
    for name in os.listdir("/proc/self/fd"):
        try:
            if "jobs.db" in os.readlink(f"/proc/self/fd/{name}"):
                return True
        except OSError:
            pass
    return False
def forked():
    pid = os.fork()
    if pid == 0:
        os._exit(carried())
    return os.waitpid(pid, 0)[1]
"""

SURPLUS = f"""{CARRIED}
db = Database(path)
reading = threading.Barrier(READERS_KEPT + 1)
closing, over = threading.Event(), threading.Event()
close = Handle.close
def slowly(handle, **how):
    if threading.current_thread() is not threading.main_thread():
        closing.set()
        over.wait(1.0)  # the fork is waiting for this, or has come in between
    close(handle, **how)
Handle.close = slowly
def read():
    with db.reading():
        reading.wait()
readers = [threading.Thread(target=read) for _ in range(READERS_KEPT + 1)]
for thread in readers:
    thread.start()
closing.wait()
assert not forked(), "the child has a file of the database open"
over.set()
for thread in readers:
    thread.join()
db.close()
"""


def test_a_reader_that_is_being_closed_does_not_cross_a_fork(tmp_path: Path) -> None:
    run(SURPLUS, tmp_path)


OPENING = f"""{CARRIED}
over = threading.Event()
def opening():
    while not over.is_set():
        Database(path).close()
busy = threading.Thread(target=opening)
busy.start()
failed = sum(bool(forked()) for _ in range(100))
over.set()
busy.join()
assert not failed, f"{{failed}} children had a file of the database open"
"""


def test_a_store_that_is_being_opened_does_not_cross_a_fork(tmp_path: Path) -> None:
    run(OPENING, tmp_path)


INTERRUPTED = """
import os, signal, sys, threading
from oncue import Scheduler

cue = Scheduler(f"sqlite:///{sys.argv[1]}/jobs.db")
reading, over = threading.Event(), threading.Event()
def read():
    with cue.store.db.reading():
        reading.set()
        over.wait()
busy = threading.Thread(target=read)
busy.start()
reading.wait()
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    over.set()
threading.Timer(0.2, interrupt).start()
me = os.getpid()
try:
    if os.fork() == 0:
        signal.alarm(20)
        cue.schedule()
        os._exit(0)
    os.write(2, b"Ctrl-C was lost")
    os._exit(1)
except KeyboardInterrupt:
    assert os.getpid() == me
assert os.wait()[1] == 0, "the child cannot use the store"
signal.alarm(20)
cue.schedule()
assert cue.stats("default").counts["scheduled"] == 2
cue.close()
"""


def test_ctrl_c_during_a_fork_comes_after_it_and_harms_nothing(tmp_path: Path) -> None:
    run(INTERRUPTED, tmp_path)
