"""Hold one supervised, persistent session per configured MCP server.

The way of a call, top down:

    tool.McpTool             a LangChain tool, valid however often its server reconnects
    plane.ToolPlane          all servers of a process: which connection, which caller (`current` is where graphs find
                             it, `callers` has the connections of single callers)
    call.carry_out           the one place where a call's policies meet and every failure becomes a result: schema
                             (`registry`), permit (`breaker`), attempts, record (`observation`)
    connection               one attempt within its deadline, raced against the loss of the session (`sessions.link`)
    sessions.session         the request itself; from here on the MCP libraries are loaded (`sessions.loading`)

The way of a connection: `connection` owns it, holds one session from opening to end and watches it, `sessions.session`
opens it over `stdio` or `http`, `oauth` gets its tokens.

Low modules: `context` (who calls, and what was asked and answered), `registry` (what servers list, under which names),
`results` (what models read of a result or failure), `status` (what operators read of a server), `redaction`.
"""
