"""The examples and the demonstration run, end by themselves and do what they say."""

from __future__ import annotations

from pathlib import Path

from .documents import ROOT, run_python, without_measures


def example(name: str, folder: Path) -> list[str]:
    printed = run_python(folder, str(ROOT / "examples" / f"{name}.py"))
    return without_measures(printed).splitlines()


def test_there_is_a_test_for_every_example() -> None:
    examples = {"demo", "encode", "reminder", "sink", "steps", "tour"}
    assert {path.stem for path in ROOT.glob("examples/*.py")} == examples


def test_the_reminder_comes(tmp_path: Path) -> None:
    assert example("reminder", tmp_path)[-1] == "The tea is ready. (# ms late)"


def test_a_finished_step_is_not_repeated_after_its_worker_was_killed(tmp_path: Path) -> None:
    lines = [line.strip() for line in example("steps", tmp_path)]
    assert [line for line in lines if line.startswith("attempt")] == ["attempt 1", "attempt 2"]
    assert lines.count("charging 42 euros") == 1
    assert lines.count("packing for receipt 1001") == 2
    assert lines[-1] == "The order succeeded: parcel 7."


def test_a_video_is_encoded_by_workers_that_are_killed_twice(tmp_path: Path) -> None:
    lines = [line.strip() for line in example("encode", tmp_path)]
    attempts = [line for line in lines if line.startswith("attempt") and len(line) == 9]
    assert attempts == ["attempt 1", "attempt 2", "attempt 3"]
    assert lines.count("… killed") == 2
    assert lines.count("downloading https://example.org/raw.mov") == 1
    parts = [line.partition("part ")[2] for line in lines if line.startswith("transcoding")]
    assert parts[0] == "1 of 4"
    assert parts[3] in ("3 of 4", "4 of 4"), "it goes on where it was"
    assert parts[-1] == "4 of 4"
    assert lines.count("uploading film.mp4") == 2
    assert "The video succeeded: https://example.org/film.mp4" in lines
    ends = ["attempt 1 reclaimed", "attempt 2 reclaimed", "attempt 3 succeeded"]
    assert lines[-3:] == ends


def test_a_queue_with_a_sink_delivers_all_but_the_cancelled_job(tmp_path: Path) -> None:
    first, *delivered = example("sink", tmp_path)
    assert first.endswith("was cancelled in time and not delivered.")
    assert [line.split(":")[0] for line in delivered] == [f"invoice {n}" for n in range(1, 10)]


def test_the_demonstration_shows_a_retry_and_a_job_that_outlives_its_worker(
    tmp_path: Path,
) -> None:
    printed = run_python(tmp_path, str(ROOT / "examples" / "demo.py"))
    assert "\033" not in printed, "colour is for terminals"
    for line in (
        "one-off  succeeded after 1 attempt, by ada",
        "delayed  succeeded after 1 attempt, by ada",
        "flaky    succeeded after 2 attempts, by ada",
        "long     succeeded after 2 attempts, by bob",
    ):
        assert line in printed
    assert "What to try next:" in printed
