"""A file is written whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from advisor.errors import TransferError
from advisor.foundation.files.writing import write_whole

OLD = "old\n"


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_usual_rights(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "new.txt", "né\n")
    finally:
        os.umask(before)

    assert (tmp_path / "new.txt").read_bytes() == b"n\xc3\xa9\n"
    assert stat.S_IMODE((tmp_path / "new.txt").stat().st_mode) == 0o640
    assert left_behind(tmp_path) == ["new.txt"]


def test_an_older_file_keeps_its_rights_and_its_links(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text(OLD)
    (tmp_path / "old.txt").chmod(0o604)
    (tmp_path / "link.txt").symlink_to("old.txt")

    write_whole(tmp_path / "link.txt", "new\n")

    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "old.txt").read_text() == "new\n"
    assert stat.S_IMODE((tmp_path / "old.txt").stat().st_mode) == 0o604


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_that_fails_leaves_the_older_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    (tmp_path / "old.txt").write_text(OLD)
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(TransferError, match=f"{os.strerror(code)}.*What stood there before"):
        write_whole(tmp_path / "old.txt", "new\n")

    assert (tmp_path / "old.txt").read_text() == OLD
    assert left_behind(tmp_path) == ["old.txt"]


def test_an_interrupt_leaves_the_older_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise KeyboardInterrupt

    (tmp_path / "old.txt").write_text(OLD)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "old.txt", "new\n")

    assert (tmp_path / "old.txt").read_text() == OLD
    assert left_behind(tmp_path) == ["old.txt"]


def test_a_full_device_says_so() -> None:
    with pytest.raises(TransferError, match=r"'/dev/full' cannot be written \(No space left"):
        write_whole(Path("/dev/full"), "text")
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TransferError, match="cannot be written"):
        write_whole(tmp_path / "pipe", "text")

    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "Is a directory"),
        ("missing/x", "No such file"),
        ("file/x", "Not a directory"),
        ("n" * 300, "File name too long"),
        ("a\0b", "null"),
        ("circle", "Too many levels|Symlink loop"),
    ],
)
def test_a_place_that_takes_no_file_is_told(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").write_text(OLD)
    (tmp_path / "circle").symlink_to("circle")
    before = left_behind(tmp_path)
    with pytest.raises(TransferError, match=why):
        write_whole(tmp_path / name, "text")

    assert left_behind(tmp_path) == before
    assert (tmp_path / "file").read_text() == OLD


def test_a_protected_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old.txt").write_text(OLD)
    (tmp_path / "old.txt").chmod(0o400)
    # Root may write anything: the answer of another user is put in its place.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(TransferError, match="Permission denied"):
        write_whole(tmp_path / "old.txt", "new\n")

    assert (tmp_path / "old.txt").read_text() == OLD


def test_what_utf8_cannot_hold_is_a_question_mark(tmp_path: Path) -> None:
    write_whole(tmp_path / "x", "a\ud800b")

    assert (tmp_path / "x").read_text() == "a?b"
