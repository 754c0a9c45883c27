"""A configuration that others could change is not followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memoryd.config.load import read_text
from memoryd.errors import ConfigError


@pytest.mark.parametrize("mode", [0o666, 0o660, 0o602])
def test_a_configuration_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "config.toml"
    path.write_text("")
    path.chmod(mode)
    with pytest.raises(ConfigError, match=f"writable by others \\(mode {mode:03o}\\)") as refused:
        read_text(str(path))
    assert refused.value.exit_code == 78
    path.chmod(0o644)
    assert read_text(str(path)) == ""


def test_a_configuration_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.toml"
    path.write_text("")
    owner = os.stat(path).st_uid
    if owner == 0:  # only root can give a file away; for anybody else the reader changes instead
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(ConfigError, match="belongs to user"):
        read_text(str(path))
