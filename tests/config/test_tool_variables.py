"""TOOLWEAVE_TOOL_ENV says which variables tool configurations may use, and for which host."""

import pytest

from toolweave.config.settings import Settings, load_settings
from toolweave.config.variables import ToolVariables
from toolweave.errors import ConfigError, MissingVariable


def allowing(setting: str) -> ToolVariables:
    return load_settings({"TOOLWEAVE_TOOL_ENV": setting}).tool_env


def allows(setting: str, name: str, authority: str = "api.example") -> bool:
    return not allowing(setting).reference_problems({"auth.value": f"{{env:{name}}}"}, authority)


def test_without_a_setting_variables_that_begin_with_tool_may_be_used_for_every_host() -> None:
    for variables in (Settings().tool_env, load_settings({"TOOLWEAVE_TOOL_ENV": " "}).tool_env):
        assert variables.reference_problems({"auth.value": "{env:TOOL_KEY}"}, "any.example:81") == []
        for name in ("OPENAI_API_KEY", "TOOLWEAVE_TOKEN_KEY", "TOOL", "tool_key", "MY_TOOL_KEY"):
            assert variables.reference_problems({"auth.value": f"{{env:{name}}}"}, "any.example")


@pytest.mark.parametrize(
    ("setting", "name", "allowed"),
    [
        ("SHOP_*", "SHOP_KEY", True),
        ("SHOP_*", "XSHOP_KEY", False),
        ("Shop_Key", "SHOP_KEY", False),
        ("SHOP_?", "SHOP_A", True),
        ("SHOP_?", "SHOP_AB", False),
        ("*_KEY", "OTHER_KEY", True),
        ("SHOP_KEY", "SHOP_KEY", True),
        ("A_*, B_* ,,C_*", "B_X", True),
        ("A_*,B_*", "TOOL_X", False),
        (",", "TOOL_X", False),
    ],
)
def test_names_are_globs_in_which_case_counts(setting: str, name: str, allowed: bool) -> None:
    assert allows(setting, name) is allowed


@pytest.mark.parametrize(
    ("setting", "authority", "allowed"),
    [
        ("K@api.example", "api.example", True),
        ("K@API.Example.", "api.example", True),
        ("K@api.example", "sub.api.example", False),
        ("K@api.example", "api.example.evil.example", False),
        ("K@api.example", "api.example:8443", False),
        ("K@api.example:8443", "api.example:8443", True),
        ("K@api.example:443", "api.example", True),
        ("K@api.example:80", "api.example", True),
        ("K@10.0.0.5", "10.0.0.50", False),
        ("K@[fd00::1]", "[fd00::1]", True),
        ("K@FD00:0:0::1", "[fd00::1]", True),
        ("K@[fd00::0:1]:81", "[fd00::1]:81", True),
        ("K@[fd00::1]:81", "[fd00::1]", False),
        ("K@one.example,K@two.example", "two.example", True),
        ("K@one.example,K", "two.example", True),
    ],
)
def test_a_variable_bound_to_a_host_goes_to_no_other_host_and_port(setting: str, authority: str, allowed: bool) -> None:
    assert allows(setting, "K", authority) is allowed


@pytest.mark.parametrize(
    "entry",
    [
        "TOOL-KEY",
        "[AB]*",
        "{env:KEY}",
        "KEY@",
        "KEY@api.example:0",
        "KEY@api.example/path",
        "KEY@user@api.example",
        "KEY@10.0.0.0/8",
        "KEY@[fd00::1%eth0]",
    ],
)
def test_another_entry_is_an_error_that_repeats_nothing_of_the_setting(entry: str) -> None:
    with pytest.raises(ConfigError, match=r"TOOLWEAVE_TOOL_ENV (?:must be variable names|the text after @)") as raised:
        allowing(f"SECRET_NAME,{entry}")
    assert "SECRET_NAME" not in str(raised.value)
    assert entry not in str(raised.value)


def test_a_refusal_names_the_place_the_variable_and_the_host() -> None:
    problems = allowing("SHOP_*@shop.example").reference_problems(
        {"auth.value": "{env:SHOP_KEY}:{env:OTHER}:{env:OTHER}", "headers.X-A": "plain"}, "evil.example"
    )
    assert problems == [
        "auth.value refers to SHOP_KEY, which TOOLWEAVE_TOOL_ENV does not allow for evil.example.",
        "auth.value refers to OTHER, which TOOLWEAVE_TOOL_ENV does not allow for evil.example.",
    ]


@pytest.mark.parametrize(
    "text", ["{env:MY-VAR}", "{env:}", "{env:TOOL_A", "${input:TOOL_A}", "x{env:1}", "{env:A:-{}}"]
)
def test_a_reference_of_another_form_is_a_problem(text: str) -> None:
    (problem, *_) = ToolVariables().reference_problems({"auth.value": text}, "api.example")
    assert problem == "auth.value holds a reference that is not of the form {env:NAME}."
    with pytest.raises(ConfigError, match="of the form"):
        ToolVariables().resolve(text, "api.example", {"TOOL_A": "hunter2"})


def test_variables_are_filled_in_wherever_they_stand() -> None:
    environ = {"TOOL_A": "1", "TOOL_B": "{env:TOOL_A}", "TOOL_EMPTY": ""}
    variables = ToolVariables()
    assert variables.resolve("{env:TOOL_A}:{env:TOOL_B}", "h.example", environ) == "1:{env:TOOL_A}"
    assert variables.resolve("{env:TOOL_EMPTY:-x} {env:TOOL_A:-y}", "h.example", environ) == "x 1"
    assert variables.resolve("no reference {at} all", "h.example", environ) == "no reference {at} all"
    assert variables.env_values("{env:TOOL_A} {env:TOOL_EMPTY:-x} {env:TOOL_B}", environ) == ("1", "{env:TOOL_A}")


def test_missing_and_forbidden_variables_are_named_without_any_value() -> None:
    environ = {"TOOL_A": "hunter2", "OTHER": "hunter3"}
    with pytest.raises(MissingVariable, match="TOOL_NONE, TOOL_NO are not set") as missing:
        ToolVariables().resolve("{env:TOOL_A}{env:TOOL_NONE}{env:TOOL_NO}", "h.example", environ)
    with pytest.raises(ConfigError, match=r"OTHER, which .* does not allow for h\.example") as refused:
        ToolVariables().resolve("{env:TOOL_A}{env:OTHER}", "h.example", environ)
    assert "hunter" not in f"{missing.value}{refused.value}"
