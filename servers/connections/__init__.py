"""Hold one supervised, persistent session per configured MCP server.

The way of a call, top down:

    tool.McpTool             a LangChain tool, valid however often its server reconnects
    plane.ToolPlane          all servers of a process; `current` is where served graphs find it, `served_plane` opens it
    callers, caller_*        which session: the shared one, or the caller's own where headers differ
    calls.carry              the one place where a call's policies meet and every failure becomes a result
      checks/                do arguments and structured results fit the listed schemas?
      breaker, retries       may it leave, and may it leave again? (D-5, D-6)
    connection               one attempt, raced against the loss of the connection and the deadline
    session                  the request itself; from here on the MCP libraries are loaded (`loading`)

The way of a connection: `connection` owns it, `supervision` holds one session from opening to end, `watch` and `link`
notice that it is lost, `backoff` and `pace` say when it is tried again, `supervised_client` opens it over `transport/`,
`oauth/` gets its tokens.

What is seen of both: `call_record` goes to `call_log` and `figures`; `health`, `status` and `details` are what an
operator reads, without what `redaction` knows. What servers say is cleaned by `untrusted`, `listed_tools`, `contents`.
"""
