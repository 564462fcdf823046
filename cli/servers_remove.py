"""Take an MCP server out of mcp.jsonc: `toolweave servers remove`."""

from typing import Annotated

import typer

from toolweave.cli.servers import AsJson, ConfigFile, DataFolder, read_servers
from toolweave.cli.servers_edit import change, restart_hint
from toolweave.cli.terminal import compact
from toolweave.config.mcp import mcp_place
from toolweave.config.mcp_editing import names_in, ready_made, switched, without_entry


def remove(
    name: Annotated[str, typer.Argument(help="The server's name in mcp.jsonc.")],
    keep_entry: Annotated[bool, typer.Option("--keep-entry", help="Only disable it.")] = False,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Take a server's entry out of mcp.jsonc; all else in the file stays as it is.

    Only the file is changed: a server's program, its data and its tokens stay. `servers logout` deletes the tokens; run
    it before this command if they are in a keyring.
    """
    servers = read_servers(config, data_dir)
    servers.expect(name)
    known = ready_made().get(name)

    def edit(text: str) -> str:
        if name not in names_in(text):
            return text
        if keep_entry:
            return switched(text, name, on=False)
        return without_entry(text, name, above=known.text.above if known else "")

    changed = change(servers, edit)
    hint = restart_hint(servers.settings) if changed else None
    file = str(mcp_place(servers.settings).path)
    if as_json:
        print(compact({"name": name, "file": file, "changed": changed, "restart": hint}))
        return
    done = f"{name} is disabled in {file}" if keep_entry else f"{name} is removed from {file}"
    print(f"{done}{'' if changed else ' already'}.")
    if hint:
        print(hint)
