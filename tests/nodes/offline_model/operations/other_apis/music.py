"""Songs, playlists and concerts; for tuning only, with no held-back half."""

from tests.nodes.offline_model.operations.other_apis.operations import DAY, flag, operation, text, whole

MUSIC = (
    operation(
        "search_songs",
        "GET /songs",
        "Search songs.",
        artist=text("Who performs it"),
        title=text(),
        album=text("Name of the album"),
        year=whole("Year of release"),
    ),
    operation(
        "create_playlist",
        "POST /playlists",
        "Create a playlist.",
        {"name": text("Name of the playlist")},
        public=flag("Whether others can see it"),
    ),
    operation(
        "add_song",
        "POST /playlists/{playlist_id}/songs",
        "Add a song to a playlist.",
        {"playlist_id": whole(), "song_id": whole()},
    ),
    operation(
        "remove_song",
        "DELETE /playlists/{playlist_id}/songs/{song_id}",
        "Remove a song from a playlist.",
        {"playlist_id": whole(), "song_id": whole()},
    ),
    operation(
        "find_concerts", "GET /concerts", "Find concerts.", city=text("Where"), artist=text("Who plays"), date=DAY
    ),
    operation("follow_artist", "POST /follows", "Follow an artist.", {"artist": text("Name of the artist")}),
)
