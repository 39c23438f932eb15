"""Files that a port read and that its certificate does not cover."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from paralign.verification.outside import Outside
from paralign.worker.process.files import fingerprint


def capture(*deeds):
    return SimpleNamespace(manifest=SimpleNamespace(settings={"deeds": list(deeds)}))


@pytest.fixture
def place(tmp_path):
    port = tmp_path / "port"
    port.mkdir()
    old, new, own = tmp_path / "old.txt", tmp_path / "new.txt", port / "own.txt"
    for file in (old, own):
        file.write_text("x")
    time.sleep(0.05)
    began = time.time()
    time.sleep(0.05)
    new.write_text("x")
    return SimpleNamespace(port=port, old=str(old), new=str(new), own=str(own), began=began, before={str(own): fingerprint(str(own))})


def added(place, *deeds, handed=()):
    found = Outside()
    found.add([capture(*deeds)], set(handed), place.began, place.before)
    return found


def test_what_was_there_before_is_a_weakness(place):
    found = added(place, f"outside {place.old}", f"outside {place.own}")
    assert found.reasons() == []
    assert found.weaknesses(place.port) == [f"it read files outside of its folder, which the certificate does not cover: {place.old}"]


def test_what_another_process_made_meanwhile_is_a_reason(place):
    assert added(place, f"outside {place.new}").reasons() == [f"it read files that another process made while it was judged: {place.new}"]
    Path(place.old).unlink()
    assert added(place, f"outside {place.old}").reasons()


def test_a_file_of_its_own_that_another_process_changed_is_a_reason(place):
    Path(place.own).write_text("xy")
    assert added(place, f"outside {place.own}").reasons()
    assert not added(place, f"made {place.own}", f"outside {place.own}").reasons()


def test_what_it_wrote_itself_or_was_handed_is_neither(place):
    assert added(place, f"change {place.new}", f"outside {place.new}").reasons()  # it only removed it
    for found in (
        added(place, f"made {place.new}", f"outside {place.new}"),
        added(place, f"outside {place.new}", handed=[str(Path(place.new).parent)]),
    ):
        assert (found.reasons(), found.weaknesses(place.port)) == ([], [])
