"""The tools over the Model Context Protocol, on standard input and output.

They need the package ``mcp`` (the extra ``mcp``).
"""

from __future__ import annotations

import json
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from paralign import __version__
from paralign.agents.tools import OFFERS, SCHEME
from paralign.errors import ParalignError, UsageError

if TYPE_CHECKING:
    from paralign.agents.tools import Tools

INSTRUCTIONS = (
    "Port a model from PyTorch to Paddle and prove it. scan the reference, explain what differs, convert a draft, then check the project: "
    "mend the first fault of the first stage that is not aligned, and check again; repair tries edits on a copy and shows a patch. "
    "Never loosen tolerances or leave stages out to pass: `underpowered` and `not tested` are no success. verify judges the finished port."
)


def available() -> None:
    """See that the protocol's package is there.

    Raises:
        UsageError: it is not, or is of the first generation.
    """
    if find_spec("mcp") is None:
        raise UsageError("the package mcp is not installed", hint="pip install 'paralign[mcp]'")
    if find_spec("mcp_types") is None:
        raise UsageError("the package mcp is older than 2.0", hint="pip install --upgrade 'paralign[mcp]'")


def serve(tools: Tools) -> None:
    """Answer until standard input ends.

    Raises:
        UsageError: the package mcp is not there.
    """
    available()
    import anyio
    from mcp.server.stdio import stdio_server

    async def run() -> None:
        server = made(tools)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(run)


def made(tools: Tools) -> Any:
    """The protocol's server, which hands every call to the tools."""
    from anyio import to_thread
    from mcp import types
    from mcp.server.lowlevel.server import Server

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(offer) for offer in OFFERS])

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            answer = await to_thread.run_sync(partial(tools.call, params.name, params.arguments))
        except ParalignError as fault:
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(fault))], is_error=True)
        text = json.dumps(answer, ensure_ascii=False, indent=1)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=answer)

    async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
        found = [types.Resource(name=path.parent.name, uri=uri, mime_type="text/markdown") for uri, path in tools.reports.items()]
        return types.ListResourcesResult(resources=found)

    async def list_templates(_: Any, __: Any) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            name="report", uri_template=f"{SCHEME}{{+folder}}", description="the report of a check", mime_type="text/markdown"
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(_: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        from mcp import MCPError

        try:
            text = await to_thread.run_sync(partial(tools.report, str(params.uri)))
        except ParalignError as fault:
            raise MCPError(types.INVALID_PARAMS, str(fault)) from fault
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, mime_type="text/markdown", text=text)])

    return Server(
        "paralign",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _tool(offer: Any) -> Any:
    from mcp import types

    hints = types.ToolAnnotations(read_only_hint=not offer.writes, destructive_hint=False, open_world_hint=offer.runs)
    return types.Tool(
        name=offer.name, description=offer.about, input_schema=offer.schema(), output_schema={"type": "object"}, annotations=hints
    )
