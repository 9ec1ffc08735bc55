"""A video is encoded in three steps by workers that are killed twice. No finished step is repeated.

Two workers are killed with `kill -9`: the first while it transcodes, the second while it uploads.
After a lease of two seconds the job is reclaimed, and the next worker takes it. The interrupted
step continues at its last reported progress.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from oncue import HandledJob, Scheduler

PARTS = 4


def download(url: str) -> str:
    say(f"downloading {url}")
    return "raw.mov"


def transcode(job: HandledJob, video: str) -> str:
    known = job.operation("transcode")
    done = int(known.percent or 0) * PARTS // 100 if known is not None else 0
    for part in range(done + 1, PARTS + 1):
        say(f"transcoding {video}, part {part} of {PARTS}")
        time.sleep(0.1)
        job.progress(100 * part // PARTS, f"part {part} of {PARTS}", step="transcode")
    return "film.mp4"


def upload(film: str) -> str:
    say(f"uploading {film}")
    time.sleep(0.5)
    say("uploaded")
    return f"https://example.org/{film}"


def say(text: str) -> None:
    print(f"  {text}", flush=True)


def work(store: str) -> None:
    """Run the handler; this is the main function of each worker process."""
    with Scheduler(store) as cue:

        @cue.handler("videos")
        def encode(job: HandledJob) -> str:
            say(f"attempt {job.attempt}")
            video = job.step("download", lambda: download(job.payload["url"]))
            film = job.step("transcode", lambda: transcode(job, video))
            return job.step("upload", lambda: upload(film))

        cue.work()


def worker_until(line: str, store: str) -> subprocess.Popen[str]:
    """Start a worker process and return when it has printed `line`."""
    command = [sys.executable, __file__, store]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    for printed in worker.stdout:
        print(printed, end="")
        if line in printed:
            break
    return worker


def main(store: str) -> None:
    with Scheduler(store) as cue:
        cue.set_queue("videos", lease_seconds=2)
        job = cue.schedule({"url": "https://example.org/raw.mov"}, queue="videos")
        for name, line in (("first", "part 3"), ("second", "uploading")):
            print(f"The {name} worker:")
            with worker_until(line, store) as worker:
                worker.kill()
                say("… killed")
        print("The third worker:")
        with worker_until("uploaded", store) as worker:
            worker.terminate()
        print(f"The video {cue.job(job.id).state}: {cue.job(job.id).result}")
        for attempt in cue.history(job.id).attempts:
            say(f"attempt {attempt.attempt} {attempt.outcome}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"sqlite:///{Path(folder, 'videos.db')}")
