"""List what the endpoints of the server itself must do."""

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "GET /ok": (
        "200 says that the server is up, with check_db that its database can be written",
        "422 refuses a check_db that is no boolean",
        "503 says with check_db why nothing can be stored",
    ),
    "GET /": (
        "200 says that the server is up",
        "422 refuses a check_db that is no boolean",
        "503 says with check_db why nothing can be stored",
    ),
    "GET /openapi.json": ("200 describes the API and the application beside it",),
    "GET /docs": ("200 lets a browser try requests, with files of this server only",),
    "POST /ui/{graph}": (
        "404 says in plain text that a graph has no user interface",
        "422 refuses a body that is no JSON",
    ),
    "GET /info": ("200 names the version of the API and the parts that are there",),
    "GET /metrics": (
        "200 counts and times requests by route and status, never by path",
        "200 shows runs that wait, execute and have ended, and what workers are free",
        "200 gives the same figures as JSON with format=json",
        "422 refuses a format that is none",
    ),
}
