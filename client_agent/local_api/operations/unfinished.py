"""What goes on in the background, and what the server does not have yet."""

from __future__ import annotations

from typing import Any

from client_agent.errors import UserError
from client_agent.journal.outbox import Outbox
from client_agent.journal.records import Post, PostKind, PostState
from client_agent.local_api.house import House
from client_agent.local_api.operations.operation import Args, ById, Nothing, Table, read_journal
from client_agent.local_api.shown import show_post, show_process


class OfPost(Args, frozen=True):
    workspace: str
    kind: PostKind
    target: str


class UnfinishedOperations:
    """`dead_posts` is how many of the posts were given up, when they were last read."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.dead_posts = 0
        self.table: Table = {
            "processes.list": (Nothing, self._list_processes),
            "processes.end": (ById, self._end_process),
            "outbox.list": (Nothing, self._list_outbox),
            "outbox.retry": (OfPost, self._retry),
            "outbox.drop": (OfPost, self._drop),
        }

    def processes(self, workspace: str) -> list[dict[str, Any]]:
        processes = self._house.inside[workspace].processes
        return [show_process(workspace, each) for each in processes.known] if processes is not None else []

    async def read_posts(self) -> list[Post]:
        """Those not delivered, of every workspace."""
        posts = await read_journal(self._house, lambda reader: reader.posts_not_delivered())
        self.dead_posts = sum(post.state is PostState.DEAD for post in posts)
        return posts

    async def _list_processes(self, args: Nothing, by: str) -> Any:
        return {"processes": [row for name in self._house.inside for row in self.processes(name)]}

    async def _end_process(self, args: ById, by: str) -> Any:
        running = [
            (processes, each.handle)
            for inside in self._house.inside.values()
            if (processes := inside.processes) is not None
            for each in processes.known
            if each.process.is_running and args.id and each.handle.startswith(args.id)
        ]
        if len(running) != 1:
            problem = f"several processes begin with {args.id!r}" if running else f"no process {args.id!r} is running"
            raise UserError(problem, code="ambiguous" if running else "no_such_process")
        processes, handle = running[0]
        return {"process_id": handle, "ended": processes.end(handle)}

    async def _list_outbox(self, args: Nothing, by: str) -> Any:
        return {"posts": [show_post(post) for post in await self.read_posts()]}

    async def _retry(self, args: OfPost, by: str) -> Any:
        outbox = self._outbox(args.workspace)
        return {"done": outbox is not None and outbox.retry(args.kind, args.target)}

    async def _drop(self, args: OfPost, by: str) -> Any:
        outbox = self._outbox(args.workspace)
        return {"done": outbox is not None and outbox.drop(args.kind, args.target)}

    def _outbox(self, workspace: str) -> Outbox | None:
        return self._house.inside[workspace].outbox if workspace in self._house.inside else None
