"""A file appears whole or not at all, whoever else writes it and whatever was left there."""

import os
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from adagq.core.atomic import draft_of, is_draft, replacing
from adagq.core.errors import OutputError


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    with replacing(path) as file:
        file.write(b"old")
        assert not path.exists()
    with pytest.raises(KeyboardInterrupt), replacing(path) as file:
        _interrupted(file)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


def _interrupted(file: BinaryIO) -> None:
    file.write(b"half")
    raise KeyboardInterrupt


def test_what_a_killed_process_left_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    draft_of(path).write_bytes(b"a longer draft than the file")
    assert is_draft(draft_of(path))
    with replacing(path) as file:
        file.write(b"short")
    assert path.read_bytes() == b"short"
    assert list(tmp_path.iterdir()) == [path]


def test_writers_take_turns(tmp_path: Path) -> None:
    path, texts = tmp_path / "file", [bytes([65 + k]) * 50_000 for k in range(4)]

    def write(text: bytes) -> None:
        for _ in range(10):
            with replacing(path) as file:
                file.write(text[:20_000])
                file.flush()
                file.write(text[20_000:])
            assert path.read_bytes() in texts

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in texts
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", "utf-8")
    with pytest.raises(OutputError, match="choose another place"), replacing(tmp_path / "file" / "below"):
        pass
    assert os.listdir(tmp_path) == ["file"]
