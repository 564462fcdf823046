"""langgraph.json is read as the official tools read it, and unsupported keys are errors or warnings."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.config.langgraph_json import (
    CheckpointerTtl,
    CorsRules,
    GraphEntry,
    LangGraphJson,
    StoreEntry,
    StoreIndexEntry,
    StoreTtl,
    WebhookUrlRules,
    load_langgraph_json,
)
from toolweave.errors import ConfigError

pytestmark = pytest.mark.requirement("S-02")

ROOT = Path(__file__).parents[2]
SECRET = "s3cr3t-9f8e7d"
GRAPHS = {"g": "./g.py:graph"}


def written(folder: Path, value: Any) -> Path:
    file = folder / "langgraph.json"
    file.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return file


def load(folder: Path, **keys: Any) -> LangGraphJson:
    return load_langgraph_json(written(folder, {"graphs": GRAPHS, **keys}))


def test_our_own_file_names_graphs_and_application_by_module() -> None:
    config = load_langgraph_json(ROOT / "langgraph.json")
    assert {name: entry.target for name, entry in config.graphs.items()} == {
        "agent_loop": "toolweave.graphs.served:agent_loop",
        "todo_agent": "toolweave.graphs.served:todo_agent",
        "workflow": "toolweave.graphs.served:workflow",
        "script_writer": "toolweave.graphs.served:script_writer",
    }
    assert all(entry.description for entry in config.graphs.values())
    assert config.http.app == "toolweave.api.app:app"
    assert config.dependencies == (str(ROOT),)
    assert config.warnings == ()


def test_graphs_are_given_as_text_or_with_a_description_and_paths_become_absolute(tmp_path: Path) -> None:
    graphs = {
        "a": "./a.py:graph",
        "b": {"path": "package/b.py:make", "description": "The second"},
        "c": "package.module:graph",
        "d": "d.py:graph",
    }
    config = load(tmp_path, graphs=graphs, http={"app": "./web.py:app"}, dependencies=[".", "./lib", "requests"])
    assert config.graphs == {
        "a": GraphEntry(target=f"{tmp_path}/a.py:graph"),
        "b": GraphEntry(target=f"{tmp_path}/package/b.py:make", description="The second"),
        "c": GraphEntry(target="package.module:graph"),
        "d": GraphEntry(target=f"{tmp_path}/d.py:graph"),
    }
    assert config.http.app == f"{tmp_path}/web.py:app"
    assert config.dependencies == (str(tmp_path), f"{tmp_path}/lib", "requests")
    assert config.path == tmp_path / "langgraph.json"


def test_variables_of_a_map_are_set_where_they_are_not_set_yet(tmp_path: Path) -> None:
    environ = {"A": "shell", "EMPTY": ""}
    load(tmp_path, env={"A": "file", "B": "file", "EMPTY": "file", "PORT": 8123}).apply_env(environ)
    assert environ == {"A": "shell", "B": "file", "EMPTY": "", "PORT": "8123"}


def test_variables_of_an_env_file_are_read_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "settings.env").write_text("# note\nexport A=1\nB='two words' # note\nC\nD=\n", encoding="utf-8")
    config = load(tmp_path, env="settings.env")
    assert config.env == {"A": "1", "B": "two words", "D": ""}
    assert config.warnings == ()


def test_an_absent_dot_env_is_no_matter_and_another_absent_file_is_warned_of(tmp_path: Path) -> None:
    assert load(tmp_path, env=".env").warnings == ()
    config = load(tmp_path, env="prod.env")
    assert config.env == {}
    assert config.warnings == (f"{tmp_path}/langgraph.json:5: the env file 'prod.env' does not exist",)


def test_an_env_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=\xff\n")
    with pytest.raises(ConfigError, match=r"\.env: cannot be read as UTF-8 text"):
        load(tmp_path, env=".env")


@pytest.mark.parametrize("empty", [{}, {"env": None, "http": None, "dependencies": None}, {"env": {}, "http": {}}])
def test_only_graphs_are_required(tmp_path: Path, empty: dict[str, Any]) -> None:
    config = load(tmp_path, **empty)
    assert (config.env, config.http.app, config.dependencies, config.warnings) == ({}, None, (), ())
    assert (config.store.index, config.store.ttl, config.checkpointer.ttl, config.auth) == (None, None, None, None)
    assert config.webhooks.url.require_https
    assert config.webhooks.url.disable_loopback


@pytest.mark.parametrize(
    ("value", "line", "problem"),
    [
        ([], 1, "must be an object"),
        ({}, 1, "graphs is required"),
        ({"graphs": {}}, 2, "graphs must hold 1 or more"),
        ({"graphs": {"g": "./g.py"}}, 3, "graphs.g.path must be of the form ./file.py:name or package.module:name"),
        ({"graphs": {"g": "g.py:a graph"}}, 3, "graphs.g.path must be of the form"),
        ({"graphs": {"g": "./g.ts:graph"}}, 3, "graphs.g.path must name Python code"),
        ({"graphs": {"g": {"description": "no path"}}}, 3, "graphs.g.path is required"),
        ({"graphs": GRAPHS, "http": {"app": "web"}}, 6, "http.app must be of the form"),
        ({"graphs": GRAPHS, "dependencies": "."}, 5, "dependencies must be a list"),
        ({"graphs": GRAPHS, "env": {"A": None}}, 6, "env.A must be a string"),
        ({"graphs": GRAPHS, "auth": {"disable_studio_auth": True}}, 5, "auth.path is required"),
        ({"graphs": GRAPHS, "auth": {"path": "./auth.js:auth"}}, 6, "auth.path must name Python code"),
        ({"graphs": GRAPHS, "auth": "./auth.py:auth"}, 5, "auth must be an object"),
        ({"graphs": GRAPHS, "priority": {}}, 5, "priority.path is required"),
        ({"graphs": GRAPHS, "priority": {"path": "./priority.py"}}, 6, "priority.path must be of the form"),
        ({"graphs": GRAPHS, "store": {"index": {"embed": "openai:x"}}}, 6, "store.index.dims is required"),
        ({"graphs": GRAPHS, "store": {"index": {"embed": "openai:x", "dims": 0}}}, 8, "must be greater than 0"),
        ({"graphs": GRAPHS, "checkpointer": {"ttl": {"strategy": "forget"}}}, 7, "must be 'delete' or 'keep_latest'"),
        ({"graphs": GRAPHS, "store": {"ttl": {"default_ttl": 1e999}}}, 7, "must be a finite number"),
        ({"graphs": GRAPHS, "webhooks": {"headers": {"A": 1}}}, 7, "webhooks.headers.A must be a string"),
        ({"graphs": GRAPHS, "http": {"mount_prefix": "api"}}, 6, "must be a path that begins with /"),
        ({"graphs": GRAPHS, "http": {"cors": {"allow_origin_regex": "("}}}, 7, "must be a regular expression"),
        ({"graphs": GRAPHS, "http": {"middleware_order": "last"}}, 6, "http.middleware_order must be 'auth_first'"),
        ({"graphs": GRAPHS, "encryption": {"path": "./e.py:e"}}, 5, "'encryption' is not supported"),
    ],
)
def test_a_broken_file_is_an_error_with_file_line_and_fix(tmp_path: Path, value: Any, line: int, problem: str) -> None:
    file = written(tmp_path, value)
    with pytest.raises(ConfigError) as raised:
        load_langgraph_json(file)
    assert raised.value.source == f"{file}:{line}"
    assert problem in str(raised.value)
    assert raised.value.fix


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"langgraph\.json: the file does not exist"):
        load_langgraph_json(tmp_path / "langgraph.json")


def test_keys_without_effect_are_warned_of_and_those_for_images_are_not(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        python_version="3.12",
        image_distro="wolfi",
        graph={},
        ui={"agent": "./ui.tsx"},
        store={"ttl": {"refresh": True}, "index": None},
        checkpointer={"serde": {}, "ttls": {}},
        http={"disable_stores": True, "cors": {"origins": []}, "configurable_headers": {"include": ["x-*"]}},
        graphs={"g": {"path": "./g.py:graph", "descripton": "x"}},
    )
    assert [warning.split(": ", 1)[1] for warning in config.warnings] == [
        "unknown key 'graph' is ignored (did you mean 'graphs'?)",
        "'ui' has no effect: user interface components are not served",
        "'checkpointer.serde' has no effect: values in checkpoints are read by LangGraph's own rules",
        "http: unknown key 'disable_stores' is ignored (did you mean 'disable_store'?)",
        "http.cors: unknown key 'origins' is ignored",
        "store.ttl: unknown key 'refresh' is ignored",
        "checkpointer: unknown key 'ttls' is ignored (did you mean 'ttl'?)",
        "graph 'g': unknown key 'descripton' is ignored (did you mean 'description'?)",
    ]


def test_sections_are_read_as_the_official_schema_writes_them(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        store={
            "index": {"embed": "./embed.py:vectors", "dims": 3, "fields": ["title"]},
            "ttl": {"default_ttl": 1.5, "refresh_on_read": False, "sweep_interval_minutes": 5},
        },
        checkpointer={"ttl": {"strategy": "keep_latest", "default_ttl": 10, "sweep_interval_minutes": None}},
        webhooks={"url": {"disable_loopback": False, "allowed_domains": ["*.a.org"]}, "env_prefix": "HOOK_"},
        http={"mount_prefix": "/api/", "cors": {"allow_origins": ["https://a.org"]}, "disable_store": True},
    )
    assert config.store == StoreEntry(
        index=StoreIndexEntry(embed=f"{tmp_path}/embed.py:vectors", dims=3, fields=("title",)),
        ttl=StoreTtl(default_ttl=1.5, refresh_on_read=False, sweep_interval_minutes=5),
    )
    assert config.checkpointer.ttl == CheckpointerTtl(strategy="keep_latest", default_ttl=10)
    assert config.webhooks.url == WebhookUrlRules(disable_loopback=False, allowed_domains=("*.a.org",))
    assert (config.http.mount_prefix, config.http.disable_store, config.http.disable_threads) == ("/api", True, False)
    assert config.http.cors == CorsRules(allow_origins=("https://a.org",))
    assert config.warnings == ()


@pytest.mark.parametrize("embed", ["ollama:family/model:7b", "package.module:embed"])
def test_an_embedding_that_is_no_file_stays_as_written(tmp_path: Path, embed: str) -> None:
    index = load(tmp_path, store={"index": {"embed": embed, "dims": 3}}).store.index
    assert index is not None
    assert index.embed == embed


def test_webhook_headers_are_filled_from_variables_with_the_prefix(tmp_path: Path) -> None:
    headers = {"authorization": "Bearer ${{ env.LG_WEBHOOK_TOKEN }}", "x-static": "1"}
    webhooks = load(tmp_path, webhooks={"headers": headers}).webhooks
    environ = {"LG_WEBHOOK_TOKEN": SECRET}
    assert webhooks.resolved_headers(environ) == {"authorization": f"Bearer {SECRET}", "x-static": "1"}
    with pytest.raises(ConfigError, match="needs 'LG_WEBHOOK_TOKEN', which is not set"):
        webhooks.resolved_headers({})
    other = load(tmp_path, webhooks={"headers": {"a": "${{env.OTHER}}"}}).webhooks
    with pytest.raises(ConfigError, match="may not read 'OTHER'") as raised:
        other.resolved_headers({"OTHER": SECRET})
    assert SECRET not in str(raised.value)


def test_variables_show_neither_in_the_form_of_the_file_nor_in_errors(tmp_path: Path) -> None:
    assert SECRET not in repr(load(tmp_path, env={"KEY": SECRET}))
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, env={"KEY": [SECRET]})
    assert SECRET not in str(raised.value)


KEYS = st.sampled_from(["graphs", "env", "http", "dependencies", "path", "warnings", "store", "webhooks", "x"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["./g.py:g", "m:g", ".", ".env", ""])
    | st.text(max_size=3),
    lambda items: (
        st.lists(items, max_size=2) | st.dictionaries(st.sampled_from(["app", "path", "g"]), items, max_size=2)
    ),
    max_leaves=4,
)


@given(st.dictionaries(KEYS, VALUES))
def test_any_object_is_read_or_refused_with_a_configuration_error(tmp_path: Path, value: dict[str, Any]) -> None:
    file = written(tmp_path, value)
    try:
        config = load_langgraph_json(file)
    except ConfigError:
        return
    assert config.graphs
    assert config.path == file
