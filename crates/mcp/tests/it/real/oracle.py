"""Prints what Google's McpToolset declares for a server, and the answers of its tools, as JSON.

Reads {"stdio": {…}} or {"http": {…}} and "calls" from standard input.
"""

import asyncio
import json
import logging
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from google.adk.tools.mcp_tool.mcp_session_manager import (  # noqa: E402
    StdioConnectionParams,
    StreamableHTTPConnectionParams,
)
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset  # noqa: E402


class Context:
    """The part of a ToolContext that a call needs."""

    function_call_id = "call"
    tool_confirmation = None

    def render_ui_widget(self, widget):
        pass


async def answer(asked):
    if "stdio" in asked:
        params = StdioConnectionParams(**asked["stdio"])
    else:
        params = StreamableHTTPConnectionParams(**asked["http"])
    toolset = McpToolset(connection_params=params)
    tools = await toolset.get_tools()
    dump = {"exclude_none": True, "mode": "json", "by_alias": True}
    declared = [tool._build_fenced_declaration().model_dump(**dump) for tool in tools]
    by_name = {tool.name: tool for tool in tools}
    answers = []
    for name, args in asked["calls"]:
        answers.append(await by_name[name].run_async(args=args, tool_context=Context()))
    await toolset.close()
    return {"declared": declared, "answers": answers}


# Libraries may print; stdout carries answers only.
out, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    print(json.dumps(asyncio.run(answer(json.loads(line)))), file=out, flush=True)
