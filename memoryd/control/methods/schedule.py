"""Methods about the schedule."""

from __future__ import annotations

from memoryd.control.methods.shared import JOBS, ROOT
from memoryd.control.methods.table import JOB_NAMES, Method, Param

METHODS: tuple[Method, ...] = (
    Method(
        "jobs.list",
        ("jobs", "list"),
        "Show the schedule: last run, result and next run.",
        "Missed and failed runs stay visible here.",
        "memoryd jobs",
        (
            Param("name", "str", "only this job", cli="--name", choices=JOB_NAMES),
            ROOT,
        ),
        (JOBS,),
        "read",
        False,
    ),
    Method(
        "jobs.run",
        ("jobs", "run"),
        "Run one scheduled job now.",
        "The same work the schedule would start, with the same safety, and its result in the reply.",
        "memoryd jobs run archive agents",
        (
            Param("name", "str", "the job", cli="argument", required=True, choices=JOB_NAMES),
            ROOT,
        ),
        (JOBS,),
        "job",
        True,
        waits_s=600,
    ),
)
