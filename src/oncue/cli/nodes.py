"""`oncue nodes`: the processes on a store."""

from __future__ import annotations

import click

from oncue.cli import output
from oncue.cli.app import App, common
from oncue.cli.nouns import answer_list
from oncue.core.nodes import NodeReport
from oncue.wire import nodes as wire
from oncue.wire.converting import written


@click.command()
@common
def nodes(app: App) -> None:
    """List the processes on a store, oldest first: what each runs, since when, and its last sign of
    life. A process that was killed is listed for up to 30 seconds. Workers that work for a server
    (`oncue worker --url`) are not listed: only their server knows them. Nor are programs that send
    captured messages: workers of Celery, and what has a `patient` client of SQS.

    $ oncue nodes
    $ oncue nodes --json | jq -r '.items[] | select(.engine) | .host'
    """
    found, now = app.cue.nodes(), app.cue.clock.now()
    items = wire.Nodes([written(wire.NodeReport, one) for one in found])
    lines = [
        [
            output.clean(one.id),
            one.version,
            output.relative(one.started_at, now),
            output.relative(one.seen_at, now),
            output.clean(runs(one)),
        ]
        for one in found
    ]
    nothing = "No engine runs on this store; `oncue serve` starts one."
    head = ["node", "version", "started", "seen", "runs"]
    if not output.has_room(head, lines):  # the names of hosts may be long
        head, *lines = [[line[0], *line[3:]] for line in [head, *lines]]
    answer_list(app, items, head, output.wrapped(head, lines), nothing)


def runs(node: NodeReport) -> str:
    """What a node runs, in one line."""
    parts = [
        "loops" if node.engine else "",
        f"delivers {', '.join(node.dispatches)}" if node.dispatches else "",
        f"works on {', '.join(node.works)}" if node.works else "",
        node.url or "",
    ]
    return "; ".join(filter(None, parts))
