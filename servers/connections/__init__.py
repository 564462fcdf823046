"""Hold one supervised, persistent session per configured MCP server.

The path of a tool call, outermost first:

    tool.McpTool             a LangChain tool that stays valid when its server reconnects
    plane.ToolPlane          all servers of a process: selects the connection for the server and the caller (graphs get
                             the plane from `plane_slot`; `callers` has the connections of single callers)
    call.execute_call        applies the policies of a call and turns every failure into a result: schema (`registry`),
                             permit (`breaker`), attempts, record (`observability`)
    connection               makes one attempt within its deadline; ends it if the session is lost (`sessions.monitor`)
    sessions.session         sends the request; this module and those below it import the MCP libraries
                             (`sessions.loading`)

The path of a connection: `connection` opens, monitors and closes one session at a time, `sessions.session` opens it
over `stdio` or `http`, `oauth` gets its tokens.

Shared modules: `context` (the caller, and the questions and answers of a call), `registry` (listed tools and their
names), `results` (what models read of a result or failure), `status` (what operators read of a server), `redaction`.
"""
