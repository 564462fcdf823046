"""List what the endpoints of assistants must do."""

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "POST /assistants/search": (
        "200 finds the system assistant of every graph",
        "200 pages, sorts and selects, and says where the next page is",
        "200 filters by graph and by part of the name in any case",
        "200 takes JSON of any content type",
        "404 refuses a graph that is not served",
        "422 refuses a bad page, sorting or selection, and a body that is no JSON",
    ),
    "GET /assistants/{assistant_id}": (
        "200 gives an assistant with all its fields",
        "404 refuses an unknown id",
        "422 refuses an id that is no UUID, a graph's name included",
    ),
    "POST /assistants/count": (
        "200 counts what a search would find",
        "404 refuses a graph that is not served",
        "422 refuses a body that is no JSON or of wrong types",
    ),
    "GET /assistants/{assistant_id}/graph": (
        "200 draws a graph by its assistant's id or its own name",
        "200 opens subgraphs with xray",
        "404 refuses an unknown id or name",
        "422 refuses a bad xray",
    ),
    "GET /assistants/{assistant_id}/schemas": (
        "200 describes input, output, state and context",
        "404 refuses an unknown id",
        "422 refuses an id that is no UUID",
    ),
    "GET /assistants/{assistant_id}/subgraphs": (
        "200 describes subgraphs by namespace",
        "404 refuses an unknown id",
        "422 refuses an id that is no UUID and a bad recurse",
    ),
    "GET /assistants/{assistant_id}/subgraphs/{namespace}": (
        "200 describes one subgraph, or nothing for an unknown namespace",
        "404 refuses an unknown id",
        "422 refuses an id that is no UUID",
    ),
    "POST /assistants": (
        "200 creates version 1, named Untitled, with an id of the server's",
        "200 shows the context as config.configurable and the other way round",
        "200 gives the one that exists with if_exists do_nothing",
        "400 refuses context and config.configurable together",
        "404 refuses a graph that is not served",
        "409 refuses an id that exists",
        "422 refuses a body without a graph or of wrong types",
    ),
    "PATCH /assistants/{assistant_id}": (
        "200 makes a new version, also of nothing; metadata is merged",
        "400 refuses context and config.configurable together",
        "404 refuses an unknown assistant or graph",
        "422 refuses wrong types and ids that are no UUID",
    ),
    "POST /assistants/{assistant_id}/versions": (
        "200 lists versions newest first, paged and filtered by metadata",
        "404 refuses an unknown assistant",
        "422 refuses an empty body, a bad page and ids that are no UUID",
    ),
    "POST /assistants/{assistant_id}/latest": (
        "200 makes an earlier version the active one",
        "404 refuses an unknown assistant or version, and a missing one",
        "422 refuses a version that is no integer and ids that are no UUID",
    ),
    "DELETE /assistants/{assistant_id}": (
        "204 deletes the assistant and leaves its threads",
        "204 deletes its threads on request and stops their runs",
        "404 refuses an unknown assistant",
        "422 refuses ids that are no UUID and a delete_threads that is no boolean",
    ),
}
