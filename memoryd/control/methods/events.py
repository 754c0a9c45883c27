"""Methods that turn a connection into a stream of events."""

from __future__ import annotations

from memoryd.control.methods.table import TOPICS, Field, Method, Param

METHODS: tuple[Method, ...] = (
    Method(
        "subscribe",
        None,
        "Receive `event` notifications on this connection.",
        "Notifications are `event {topic, at, root?, ...}`. A slow reader loses the oldest events; the next "
        "one then carries `dropped`, their number.",
        '{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"topics":["change"]}}',
        (Param("topics", "list", "the topics (default: all)", choices=TOPICS),),
        (Field("topics", "list", "every topic this connection now receives"),),
        "control",
        False,
    ),
    Method(
        "unsubscribe",
        None,
        "Stop receiving events of these topics.",
        "Without topics: of all.",
        '{"jsonrpc":"2.0","id":2,"method":"unsubscribe","params":{}}',
        (Param("topics", "list", "the topics (default: all)", choices=TOPICS),),
        (Field("topics", "list", "every topic this connection still receives"),),
        "control",
        False,
    ),
)
