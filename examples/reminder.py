"""A reminder two seconds from now, and how late it came."""

from oncue import HandledJob, Scheduler

with Scheduler("sqlite:///oncue.db") as cue:

    @cue.handler("reminders")
    def remind(job: HandledJob) -> None:
        late = job.lateness_seconds * 1000
        print(f"{job.payload['text']} ({late:.0f} ms late)")

    cue.schedule({"text": "The tea is ready."}, queue="reminders", delay=2)
    print("Waiting for the tea …")
    cue.work(until_empty=True)
