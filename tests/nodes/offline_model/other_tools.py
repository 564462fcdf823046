"""Offer tools of many kinds, so that the model is judged on tools it was not thought of for."""

from typing import Literal

from langchain_core.tools import BaseTool, tool


@tool
def get_current_time(timezone: str | None = None) -> str:
    """Get the current time, in UTC or in the given IANA time zone."""
    return "2026-03-04T09:30:00+00:00"


@tool
def read_file(path: str) -> str:
    """Read the complete contents of a text file from the file system."""
    return f"contents of {path}"


@tool
def echo(text: str) -> str:
    """Repeat the given text back unchanged."""
    return text


@tool
def fetch(url: str, max_length: int = 5000) -> str:
    """Fetch a URL from the internet and return the page as Markdown."""
    return f"# Page at {url}"


@tool
def brave_web_search(query: str, count: int = 10) -> str:
    """Search the web for general information, news and articles."""
    return f"1. A page about {query}"


@tool
def get_weather(city: str, units: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """Get the current weather for a city."""
    return f"Sunny in {city}, 20 degrees {units}"


@tool
def add_numbers(a: float, b: float) -> float:
    """Add two numbers and return their sum."""
    return a + b


@tool
def send_email(to: str, subject: str, body: str) -> str:
    """Send an email message to a recipient."""
    return f"sent to {to}"


OTHER_TOOLS: list[BaseTool] = [
    get_current_time,
    read_file,
    echo,
    fetch,
    brave_web_search,
    get_weather,
    add_numbers,
    send_email,
]
