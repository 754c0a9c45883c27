"""The parameters of a request as a client sends them."""

from __future__ import annotations

from typing import Any

from memoryd.control.methods.method_types import Request


def given(request: Request) -> dict[str, Any]:
    """Return the parameters that were given, by name."""
    values = {name: getattr(request, name) for name in request.__struct_fields__}
    return {name: value for name, value in values.items() if value is not None and value is not False}
