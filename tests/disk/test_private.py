"""The directory of the state is the daemon's own, and nobody else's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from memoryd.disk.daemon_lock import prepare_private
from memoryd.errors import DeniedError


def test_it_is_made_private_also_behind_a_link(tmp_path: Path) -> None:
    place, link = tmp_path / "deep/state", tmp_path / "link"
    prepare_private(str(place))
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    place.chmod(0o777)
    link.symlink_to(place)
    prepare_private(str(link))
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_that_of_another_user_is_refused_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "state"
    place.mkdir()
    place.chmod(0o755)
    if os.geteuid() == 0:  # only root can give it away; for anybody else the daemon's user changes instead
        os.chown(place, 12345, -1)
    else:
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(DeniedError, match="belongs to user"):
        prepare_private(str(place))
    assert stat.S_IMODE(place.stat().st_mode) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(0o700)
    (tmp_path / "link").symlink_to(tmp_path / "state")
    os.chown(tmp_path / "link", 12345, -1, follow_symlinks=False)
    with pytest.raises(DeniedError, match="belongs to user 12345"):
        prepare_private(str(tmp_path / "link"))
