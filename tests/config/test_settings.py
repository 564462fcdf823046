"""Settings come from a given environment, and a wrong one is named without being shown."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from toolweave.config.mcp import mcp_variables
from toolweave.config.settings import Settings, load_settings, unknown_variables, variable_name
from toolweave.errors import ConfigError

SECRET = "sk-9f8e7d6c5b4a"
ENV_EXAMPLE = Path(__file__).parents[2] / ".env.example"


def test_an_empty_environment_gives_the_documented_defaults() -> None:
    settings = load_settings({})
    assert settings == Settings()
    assert (settings.host, settings.port, settings.data_dir) == ("127.0.0.1", 2024, Path(".toolweave"))
    assert (settings.max_iterations, settings.on_iteration_limit) == (10, "end")
    assert settings.model is None
    assert settings.mcp_config is None


def test_variables_fill_the_fields_in_their_types() -> None:
    settings = load_settings(
        {
            "TOOLWEAVE_MODEL": "offline",
            "TOOLWEAVE_PORT": "8123",
            "TOOLWEAVE_MODEL_TIMEOUT_S": "2.5",
            "TOOLWEAVE_ALLOW_INSECURE_BIND": "true",
            "TOOLWEAVE_CORS_ORIGINS": "https://a.example, http://b.example:3000/",
            "TOOLWEAVE_TODO_ENV": '{"TZ": "UTC"}',
            "TOOLWEAVE_LOG_LEVEL": "debug",
            "TOOLWEAVE_MCP_CONFIG": "~/mcp.jsonc",
            "OPENROUTER_API_KEY": SECRET,
            "OPENAI_BASE_URL": "http://127.0.0.1:11434/v1",
        }
    )
    assert (settings.model, settings.port, settings.model_timeout_s) == ("offline", 8123, 2.5)
    assert settings.allow_insecure_bind is True
    assert settings.cors_origins == ("https://a.example", "http://b.example:3000")
    assert settings.todo_env == {"TZ": "UTC"}
    assert settings.log_level == "DEBUG"
    assert settings.mcp_config == Path.home() / "mcp.jsonc"
    assert settings.openrouter_api_key is not None
    assert settings.openrouter_api_key.get_secret_value() == SECRET
    assert settings.openai_base_url == "http://127.0.0.1:11434/v1"


def test_the_process_environment_is_read_only_by_load_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLWEAVE_PORT", "4711")
    assert load_settings().port == 4711
    assert Settings().port == 2024
    assert load_settings({}).port == 2024


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_variable_counts_as_unset(empty: str) -> None:
    environ = {variable_name(field): empty for field in Settings.model_fields}
    assert load_settings(environ) == Settings()


def test_overrides_win_over_the_environment_and_none_overrides_nothing() -> None:
    environ = {"TOOLWEAVE_PORT": "1", "TOOLWEAVE_HOST": "::1", "GEMINI_API_KEY": "environment"}
    settings = load_settings(environ, port=2, host=None, gemini_api_key="override")
    assert (settings.port, settings.host) == (2, "::1")
    assert settings.gemini_api_key is not None
    assert settings.gemini_api_key.get_secret_value() == "override"


@pytest.mark.parametrize(
    ("variable", "value", "expectation"),
    [
        ("TOOLWEAVE_PORT", "http", "must be a whole number"),
        ("TOOLWEAVE_PORT", "65536", "must be at most 65535"),
        ("TOOLWEAVE_PORT", "9" * 5000, "must be a smaller number"),
        ("TOOLWEAVE_MODEL_TIMEOUT_S", "0", "must be greater than 0"),
        ("TOOLWEAVE_MODEL_TIMEOUT_S", "soon", "must be a number"),
        ("TOOLWEAVE_TODO_TIMEOUT_S", "inf", "must be a finite number"),
        ("TOOLWEAVE_ALLOW_INSECURE_BIND", "perhaps", "must be true or false"),
        ("TOOLWEAVE_LOG_LEVEL", "loud", "must be 'TRACE', 'DEBUG'"),
        ("TOOLWEAVE_ON_ITERATION_LIMIT", "stop", "must be 'end', 'error' or 'summarize'"),
        ("TOOLWEAVE_CORS_ORIGINS", "https://example.org/page", "each origin must be"),
        ("TOOLWEAVE_TODO_ENV", '{"A": 1}', "must be a JSON object of strings"),
        ("TOOLWEAVE_TODO_COMMAND", "python 'open", "every quotation closed"),
        ("TOOLWEAVE_DATA_DIR", "what?", "without '?'"),
        ("OPENAI_BASE_URL", "localhost:11434", "must be an http:// or https:// URL"),
        ("OPENAI_BASE_URL", "http://[::1", "must be an http:// or https:// URL"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_variable_and_expectation(
    variable: str, value: str, expectation: str
) -> None:
    with pytest.raises(ConfigError, match=f"{variable} .*{re.escape(expectation)}") as raised:
        load_settings({variable: value})
    assert "unset it to use the default" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_all_wrong_variables_are_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"TOOLWEAVE_PORT must .*TOOLWEAVE_MAX_CONCURRENT_RUNS must "):
        load_settings({"TOOLWEAVE_PORT": "x", "TOOLWEAVE_MAX_CONCURRENT_RUNS": "x"})


def test_a_wrong_override_is_named_as_it_was_given() -> None:
    with pytest.raises(ConfigError, match=r"settings: port must be at most 65535\."):
        load_settings({}, port=70000)
    with pytest.raises(ConfigError, match=r"settings: prot is not known\."):
        load_settings({}, prot=1)


@pytest.mark.parametrize("field", sorted(Settings.model_fields))
def test_no_error_repeats_the_value_it_complains_about(field: str) -> None:
    try:
        shown = repr(load_settings({variable_name(field): SECRET}))
    except ConfigError as error:
        shown = f"{error!r} {error} {error.__cause__}"
    free_text = {"model", "data_dir", "mcp_config", "config_path", "mcp_config_path", "host", "outbound_allow"}
    assert (SECRET in shown) == (field in free_text)


def test_urls_that_may_hold_a_password_are_not_shown() -> None:
    settings = load_settings(
        {
            "OPENAI_BASE_URL": f"https://user:{SECRET}@h/v1",
            "TOOLWEAVE_API_URL": f"https://user:{SECRET}@h/",
            "TOOLWEAVE_TODO_DATABASE_URL": f"postgresql+psycopg://user:{SECRET}@h/todos",
        }
    )
    assert settings.openai_base_url == f"https://user:{SECRET}@h/v1"
    assert SECRET not in f"{settings} {settings!r}"


def test_one_database_holds_todos_and_tools_unless_they_have_their_own() -> None:
    shared = {"TOOLWEAVE_DATABASE_URL": f"postgresql://user:{SECRET}@h/all"}
    settings = load_settings(shared)
    assert settings.todo_database_url == settings.tools_database_url == settings.database_url
    assert mcp_variables(settings, {})["TOOLWEAVE_TODO_DATABASE_URL"] == settings.database_url
    assert SECRET not in repr(settings)
    own = load_settings({**shared, "TOOLWEAVE_TODO_DATABASE_URL": "sqlite:///own.db"})
    assert (own.todo_database_url, own.tools_database_url) == ("sqlite:///own.db", own.database_url)


def test_all_origins_are_allowed_only_by_a_star() -> None:
    assert load_settings({"TOOLWEAVE_CORS_ORIGINS": "*"}).cors_origins == ("*",)
    assert load_settings({"TOOLWEAVE_CORS_ORIGINS": " , "}).cors_origins == ()


def test_settings_built_directly_hide_wrong_input_too() -> None:
    with pytest.raises(ValidationError) as raised:
        Settings(openai_base_url=SECRET)
    assert SECRET not in str(raised.value)


def test_unknown_variables_are_listed_by_name_with_the_nearest_known_one() -> None:
    environ = {
        "TOOLWEAVE_MODLE": SECRET,
        "TOOLWEAVE_UNLIKE_ANY": SECRET,
        "TOOLWEAVE_PORT": "1",
        "TOOLWEAVE_PYTHON": "/usr/bin/python3",
        "PATH": "/bin",
    }
    assert unknown_variables(environ) == ("TOOLWEAVE_MODLE (did you mean TOOLWEAVE_MODEL?)", "TOOLWEAVE_UNLIKE_ANY")


def test_the_example_file_has_a_valid_value_for_every_variable_and_no_other() -> None:
    lines = re.findall(r"^#([A-Z][A-Z0-9_]*)=(.*)$", ENV_EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(name for name, _ in lines) == sorted(variable_name(field) for field in Settings.model_fields)
    assert load_settings(dict(lines)).model == "offline"
