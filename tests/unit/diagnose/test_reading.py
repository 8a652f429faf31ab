"""Files as they come: packed, cut, in other encodings, without line ends; and what the command makes of them."""

import errno
import gzip
import json
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.cli.main import main
from preflight.diagnose.gather import Gathered
from preflight.diagnose.judge import diagnosis
from preflight.diagnose.reading import Unread, read, sources
from preflight.model.errors import UsageError

ERROR = "[rank3]: 2026-03-04 10:00:00 OSError: [Errno 116] Stale file handle: '/data/x'\n"
BLOCK = 1 << 20


def found_in(path: Path) -> tuple[list[str], Unread | None]:
    """The signs and lines of a file, and whether it was read."""
    gathered = Gathered()
    unread = [why for source in sources([path]) if (why := read(source, gathered))]
    found = diagnosis(gathered)
    groups = ([found.cause] if found.cause else []) + list(found.others + found.echoes)
    return [f"{seen.sign.id}:{seen.number}" for group in groups for seen in group.seen], next(iter(unread), None)


@pytest.mark.parametrize(
    "data",
    [
        b"a\nb\n" + ERROR.encode(),
        b"a\r\nb\r\n" + ERROR.encode().replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbfa\nb\n" + ERROR.encode(),
        ("a\nb\n" + ERROR).encode("utf-16"),
        ("a\nb\n" + ERROR).encode("utf-16-le"),
        ("a\nb\n" + ERROR).encode("utf-16-be"),
        "错误\n训练\n".encode("gb18030") + ERROR.encode(),
        b"\xff\xfe\xfd"[2:] + b"a\nb\n" + ERROR.encode(),
        b"\0" * 5000 + b"a\nb\n" + ERROR.encode(),
        b"a\nb\n" + ERROR.encode().strip(),
        b"a\n" + b"50%\r60%\r70%\r" * 9 + b"\n" + ERROR.encode(),
        b"a\n" + b"x" * (3 * BLOCK) + b"\n" + ERROR.encode(),
        b"a\nb\n" + b"\x1b[31m" + ERROR.encode().strip() + b"\x1b[0m\n",
    ],
    ids=["lines", "crlf", "bom", "utf-16", "utf-16-le", "utf-16-be", "gb18030", "latin", "nuls-of-log-rotation",
         "no-line-end", "progress-bar", "a-line-of-3-MiB", "escapes"],
)  # fmt: skip
def test_the_line_is_found(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(data)
    assert found_in(tmp_path / "job.log") == (["file-system:3"], None)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_what_a_program_died_of_stands_at_the_end_of_its_log(encoding: str, tmp_path: Path) -> None:
    steps = "step 7 loss 2.31\n" * 20_000
    (tmp_path / "job.log").write_text(f"{steps}ValueError: torn\n", encoding=encoding)
    assert found_in(tmp_path / "job.log") == (["ValueError:20001"], None)
    (tmp_path / "job.log").write_text(f"ValueError: torn\n{steps}", encoding=encoding)
    assert found_in(tmp_path / "job.log") == ([], None)


def test_an_error_inside_a_line_of_three_mebibytes_is_found(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(b"x" * (2 * BLOCK) + b" " + ERROR.strip().encode() + b" " + b"x" * BLOCK)
    assert found_in(tmp_path / "job.log") == (["file-system:1"], None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(before=st.integers(BLOCK - 200, BLOCK + 200), data=st.binary(max_size=50))
def test_a_line_across_two_blocks_is_found_once(before: int, data: bytes, tmp_path: Path) -> None:
    lines = (b"x" * 99 + b"\n") * (before // 100)
    (tmp_path / "job.log").write_bytes(lines + b"y" * (before % 100) + b"\n" + ERROR.encode() + b"\n")
    assert found_in(tmp_path / "job.log") == ([f"file-system:{before // 100 + 2}"], None)
    (tmp_path / "job.log").write_bytes(data)
    found_in(tmp_path)  # whatever it is, it ends


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"\x7fELF\2\1\1\0" + bytes(range(32)) * 90, "not text"), (b"BZh91AY", "compressed with bzip2"), (b"", None)],
)
def test_what_is_no_log_is_said_or_empty(data: bytes, why: str | None, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(data)
    signs, unread = found_in(tmp_path)
    assert signs == []
    assert (unread.why if unread else None) == why or (unread and why and why in unread.why)


def test_packed_logs_are_refused_by_name_and_passed_over_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(ERROR.encode()))
    (tmp_path / "b.log").write_text(ERROR)
    with pytest.raises(UsageError, match=r"compressed with gzip\. Unpack it first: gunzip -k .*a\.log\.gz"):
        found_in(tmp_path / "a.log.gz")
    signs, unread = found_in(tmp_path)
    assert signs == ["file-system:1"]
    assert unread
    assert "gzip" in unread.why


def test_programs_and_pipes_in_a_folder_are_no_logs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise OSError('Stale file handle')\n" + ERROR)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "again").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="no logs in"):
        sources([tmp_path])
    (tmp_path / "job.log").write_text("well\n")
    assert [source.path.name for source in sources([tmp_path, tmp_path / "job.log"])] == ["job.log"]


def test_what_is_not_there_is_said_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(tmp_path / "no.log")]) == 2
    assert "no such file or folder" in capsys.readouterr().err


def test_of_several_folders_each_is_of_the_host_that_it_is_named_for(tmp_path: Path) -> None:
    folders = [tmp_path / host / "ascend" / "log" for host in ("node1", "node2")]
    for folder in folders:
        (folder / "debug" / "plog").mkdir(parents=True)
        (folder / "debug" / "plog" / "plog-1_2.log").write_text("well\n")
    assert [source.about.host for source in sources(folders)] == ["node1", "node2"]
    assert [source.about.host for source in sources(folders[:1])] == [""]


def test_a_device_is_no_log_and_a_pipe_is_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a regular file"):
        sources([Path("/dev/zero")])
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text("x\n" + ERROR))
    writer.start()
    assert found_in(tmp_path / "pipe") == (["file-system:2"], None)
    writer.join()


def test_of_many_kinds_of_errors_the_first_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "[rank{0}]: 2026-03-04 10:00:{0:02} {1}Error: x\n"
    (tmp_path / "a.log").write_text("".join(line.format(rank, "X" + "a" * rank) for rank in range(9)))
    assert main(["diagnose", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert out.count("THEN ") == 6
    assert "3 more kinds of errors" in out


def test_what_may_not_be_read_leaves_the_verdict_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.bin.log").write_bytes(bytes(range(9)) * 200)
    assert main(["diagnose", str(tmp_path)]) == 3
    out = capsys.readouterr().out
    assert "a.bin.log: not text" in " ".join(out.split())
    assert out.splitlines()[-1].startswith("next: ")


def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shut").mkdir()
    (tmp_path / "a.log").write_text(ERROR)
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    signs, unread = found_in(tmp_path)
    assert signs == ["file-system:1"]
    assert unread == Unread(str(tmp_path / "shut"), "the folder cannot be listed")


def test_a_healthy_log_ends_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text("well\n")
    assert main(["diagnose", str(tmp_path)]) == 0
    assert "no error found" in capsys.readouterr().out


def test_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text("x\n" + ERROR * 3)
    assert main(["diagnose", str(tmp_path), "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "preflight.diagnosis/1"
    assert document["exit"] == 1
    cause = document["cause"]
    assert (cause["error"], cause["kind"], cause["checks"]) == ("file-system", "own", ["HST120"])
    seen = cause["seen"][0]
    assert (seen["rank"], seen["line"], seen["count"]) == (3, 2, 3)
    assert seen["time"] == "2026-03-04 10:00:00.000"
    assert {"others", "echoes", "named", "silent_ranks", "hints", "notes", "unread", "files"} < set(document)


def test_what_is_printed_is_harmless_and_80_columns_wide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;title\x07\x9b31m" + ERROR.strip() + "\u202e \x1b[2J" + "x" * 500 + "\n"
    folder = tmp_path / "a\x1b[31mb"
    folder.mkdir()
    (folder / "job.log").write_text(evil, encoding="utf-8")
    assert main(["diagnose", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in out)
    assert "next: preflight explain HST120" in out
    quoted = [line for line in out.splitlines() if line.startswith("    | ")]
    assert quoted
    assert max(map(len, quoted)) <= 80


def test_the_command_writes_nothing_beside_the_logs(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(ERROR)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path, tmp_path / "a.log")}
    assert main(["diagnose", str(tmp_path)]) == 1
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert stat.S_ISREG((tmp_path / "a.log").stat().st_mode)
