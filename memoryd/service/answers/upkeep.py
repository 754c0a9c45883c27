"""The methods that are jobs of one root or of all, and what was done by them: when, and how it is taken back."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from memoryd.control.answering import Answer
from memoryd.core.dates import iso
from memoryd.disk.journal import Entry
from memoryd.engine.jobs import Job
from memoryd.engine.worker import Worker
from memoryd.errors import ConflictError, NotFoundError, UsageError
from memoryd.service.answers.asked import Host, Params, Table
from memoryd.service.gather import gather
from memoryd.service.report import shown_job

if TYPE_CHECKING:
    from memoryd.service.daemon import Daemon
    from memoryd.service.roots import Broken


def _failed(root: Broken) -> Future[dict[str, Any]]:
    answer: Future[dict[str, Any]] = Future()
    answer.set_exception(root.error())
    return answer


def upkeep_handlers(daemon: Daemon) -> Table:
    host = UpkeepHandlers(daemon)
    return {
        "sync": host.sync,
        "check": host.check,
        "plan": host.plan,
        "archive": host.changing("archive"),
        "repair": host.changing("repair"),
        "dedupe": host.changing("dedupe"),
        "reindex": host.changing("reindex"),
        "backup.list": host.listing("backup.list", "backups"),
        "backup.create": host.listing("backup.create", "backups", "created"),
        "backup.verify": host.listing("backup.verify", "backups"),
        "backup.restore": host.restore,
        "lock.list": host.listing("lock.list", "locks"),
        "lock.clear": host.lock_clear,
        "jobs.list": host.jobs_list,
        "jobs.run": host.jobs_run,
        "history.list": host.history,
        "undo": host.undo,
    }


class UpkeepHandlers(Host):
    def _each(self, params: Params, job: str, **more: Any) -> dict[str, Future[dict[str, Any]]]:
        passed = {key: value for key, value in params.items() if key != "root"} | more
        asked = {worker.name: worker.submit(Job(job, passed)) for worker in self._roots.named(params.get("root"))}
        return asked | {each.name: _failed(each) for each in self._roots.broken(params.get("root"))}

    def sync(self, params: Params) -> Answer:
        timeout_s = params.get("timeout_ms", 60_000) / 1000
        futures = self._each({"root": params.get("root")}, "sync", timeout_s=timeout_s)
        return gather(futures, lambda results: {"roots": results}, strict=True)

    def check(self, params: Params) -> Answer:
        def merge(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
            findings = [finding for result in results.values() for finding in result["findings"]]
            counts = [result["summary"] for result in results.values()]
            summary = {key: sum(c[key] for c in counts) for key in ("error", "warning", "info")}
            return {"findings": findings, "summary": summary}

        return gather(self._each(params, "check"), merge)

    def plan(self, params: Params) -> Answer:
        def merge(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
            return {
                "roots": [
                    {"name": name, "actions": result["actions"], "due": self._due(name)}
                    for name, result in results.items()
                ]
            }

        return gather(self._each(params, "plan"), merge)

    def _due(self, name: str) -> dict[str, str | None]:
        rows = self._roots.job_rows(self._roots.named(name)[0])
        return {row["name"]: iso(row["next_run"]) if row["next_run"] else None for row in rows}

    def changing(self, job: str) -> Callable[[Params], Answer]:
        """A job that answers with a plan and, when it was carried out, a receipt."""
        return lambda params: gather(self._each(self._placed(params), job), _merge_plans)

    def _placed(self, params: Params) -> Params:
        """Memories named by id without a root: the root is the one that is there, or has to be named."""
        if params.get("ids") and params.get("root") is None and len(self._roots.all()) > 1:
            raise UsageError("in which root are these ids?", hint="name it with --root")
        return params

    def listing(self, job: str, *keys: str) -> Callable[[Params], Answer]:
        """A job that answers with lists, each element naming its root."""

        def merge(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
            return {
                key: [{"root": name, **each} for name, result in results.items() for each in result.get(key, ())]
                for key in keys
            }

        return lambda params: gather(self._each(params, job), merge)

    def restore(self, params: Params) -> Answer:
        roots = self._roots.named(params.get("root"))
        if len(roots) > 1:
            raise UsageError("which root is to be restored?", hint="name it: memoryd backup restore ROOT --file F")
        return gather(self._each(params, "backup.restore"), _merge_plans)

    def lock_clear(self, params: Params) -> Answer:
        def merge(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
            locks = [{"root": name, **each} for name, result in results.items() for each in result["locks"]]
            gone = [each["path"] for each in locks if each.get("action") in ("removed", "emptied")]
            return {"locks": locks, "cleared": gone}

        wanted = params
        path = params.get("path")
        if path is not None and params.get("root") is None:
            owner = [w.name for w in self._roots.all() if os.path.abspath(path).startswith(f"{w.status.path}/")]
            wanted = params | ({"root": owner[0]} if owner else {})
        return gather(self._each(wanted, "lock.clear"), merge)

    def jobs_run(self, params: Params) -> Answer:
        name = params["name"]
        workers = self._roots.named(params.get("root"))
        futures = {worker.name: worker.run_now(name) for worker in workers}

        def merge(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
            rows = [row for w in workers for row in self._roots.job_rows(w) if row["name"] == name]
            return {"jobs": [shown_job(row) for row in rows], **_merge_plans(results), "results": results}

        return gather(futures, merge)

    def undo(self, params: Params) -> Answer:
        receipt = params["receipt"]
        owners = [w for w in self._roots.named(params.get("root")) if _entry(w, receipt)]
        if not owners:
            raise NotFoundError(f"no root has a change {receipt}", hint="`memoryd history` lists the receipts")
        if len(owners) > 1:
            names = ", ".join(worker.name for worker in owners)
            raise ConflictError(f"{receipt} is in more than one root: {names}", hint="name it with --root")
        return gather(self._each({**params, "root": owners[0].name}, "undo"), _merge_plans)

    # --- what was done, and when

    def jobs_list(self, params: Params) -> Answer:
        wanted = params.get("name")
        rows = [row for worker in self._roots.named(params.get("root")) for row in self._roots.job_rows(worker)]
        return {"jobs": [shown_job(row) for row in rows if wanted in (None, row["name"])]}

    def history(self, params: Params) -> Answer:
        limit, wanted = params.get("limit", 50), params.get("receipt")
        entries: list[tuple[Worker, Entry]] = []
        for worker in self._roots.named(params.get("root")):
            journal = worker.store.journal
            found = journal.entries(limit) if wanted is None else _entry(worker, wanted)
            entries += [(worker, entry) for entry in found]
        if wanted is not None and not entries:
            raise NotFoundError(f"no root has a change {wanted}", hint="`memoryd history` lists the receipts")
        entries.sort(key=lambda pair: pair[1].at, reverse=True)
        return {"entries": [{"root": w.name, **entry.public()} for w, entry in entries[:limit]]}


def _entry(worker: Worker, receipt: str) -> list[Entry]:
    try:
        return [worker.store.journal.entry(receipt)]
    except NotFoundError:
        return []


def _merge_plans(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Plans of several roots as one; `receipt` is there when just one change was made."""
    actions = [
        {"root": name, **action}
        for name, result in results.items()
        for action in result.get("plan", {}).get("actions", ())
    ]
    receipts = {name: result["receipt"] for name, result in results.items() if "receipt" in result}
    more = {
        key: value for result in results.values() for key, value in result.items() if key not in ("plan", "receipt")
    }
    answer: dict[str, Any] = {"plan": {"actions": actions}}
    if len(results) == 1:
        answer |= more
    if len(receipts) == 1:
        answer["receipt"] = next(iter(receipts.values()))
    if len(receipts) > 1:
        answer["receipts"] = receipts
    return answer
