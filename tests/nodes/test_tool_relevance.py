"""The right tool is among the best ranked for what people say, in any script, quickly and always in the same way."""

from functools import partial

import pytest
from langchain_core.tools import StructuredTool

from tests.fixtures.counting import calls_in
from tests.nodes.many_tools import many_tools
from toolweave.nodes.tool_selection import ToolIndex

TOOLS = many_tools()
TOP = 20

# Written as people speak, before the index was tried on them.
REQUESTS = {
    "What's the weather going to be like in Lisbon this weekend?": "weather_get_forecast",
    "Please email Anna that I will be late tomorrow": "gmail_send_message",
    "Set up a meeting with Tom on Friday at 3": "calendar_create_event",
    "When are Tom, Ana and I all free next week?": "calendar_find_free_time",
    "Remind me to buy milk": "todo_create_todo",
    "Which of my tasks are still open?": "todo_list_todos",
    "I finished the dentist task, tick it off": "todo_update_todo",
    "There's a crash when I log in, can you file a bug on the acme/web repository?": "github_create_issue",
    "Merge PR 42 please": "github_merge_pull_request",
    "Did the last CI workflow run pass?": "github_list_workflow_runs",
    "commit my staged changes with the message 'fix typo'": "git_commit",
    "What did I change but not stage yet?": "git_diff_unstaged",
    "switch to the develop branch": "git_checkout",
    "rename report.txt to report-2026.txt": "filesystem_move_file",
    "how large is the file backup.tar?": "filesystem_get_file_info",
    "show me everything in the downloads folder": "filesystem_list_directory",
    "Tell the #general channel that lunch is ready": "slack_post_message",
    "What was said in #support lately?": "slack_get_channel_history",
    "How many users signed up? Run select count(*) from users": "supabase_execute_sql",
    "Scrape https://example.com/pricing": "firecrawl_scrape",
    "Look up news about the elections": "brave_news_search",
    "Find a good pizza place nearby": "brave_local_search",
    "What time is it in Tokyo?": "time_get_current_time",
    "Convert 200 dollars to euros": "currency_convert",
    "How do I get from the station to the museum on foot?": "maps_directions",
    "I need a flight from Berlin to Rome on May 4": "flights_search",
    "Book me a room in that hotel for two nights": "hotels_book",
    "Give customer 77 their money back for the last payment": "stripe_refund_payment",
    "Restart the api deployment": "k8s_rollout_restart",
    "We need five replicas of the worker": "k8s_scale_deployment",
    "show the logs of the nginx container": "docker_container_logs",
    "clean up unused docker data, the disk is full": "docker_prune",
    "How much did AWS cost us last month?": "aws_get_cost_report",
    "Translate 'good morning' into Japanese": "translate_text",
    "What does this scanned letter say? Recognise its text": "image_ocr",
    "Join the three PDFs into one document": "pdf_merge",
    "play some jazz on the kitchen speaker": "spotify_play",
    "make it 21 degrees warm in the bedroom": "home_set_thermostat",
    "turn the lights off in the living room": "home_turn_off_light",
    "who is on call for payments?": "pagerduty_who_is_on_call",
    "What's Maria's phone number?": "contacts_search",
    "text Peter that I'm on my way": "sms_send",
    "What is Apple's share price right now?": "stocks_get_quote",
    "Find papers about diffusion models": "arxiv_search",
    "assign PROJ-12 to Lea": "jira_assign_ticket",
    "what is 17% of 2450?": "math_calculate",
    "take a screenshot of the whole page": "browser_take_screenshot",
    "Transcribe the interview recording": "audio_transcribe",
    "remove the entity 'old office' from the knowledge graph": "memory_delete_entities",
    "undo the rollout, go back to the former version": "k8s_rollback_deployment",
}


def place_of(index: ToolIndex, request: str, name: str) -> int | None:
    ranked = [TOOLS[place].name for place in index.rank([(request, 1.0)])]
    return ranked.index(name) if name in ranked else None


def test_most_natural_requests_have_their_tool_among_the_best_twenty() -> None:
    assert len(TOOLS) >= 200
    assert len({tool.name for tool in TOOLS}) == len(TOOLS)
    index = ToolIndex(TOOLS)
    places = {request: place_of(index, request, name) for request, name in REQUESTS.items()}
    missed = [request for request, place in places.items() if place is None or place >= TOP]
    rate = 1 - len(missed) / len(REQUESTS)
    assert rate >= 0.9, f"{rate:.0%} of {len(REQUESTS)} among the best {TOP} of {len(TOOLS)}; missed: {missed}"


def test_the_ranking_is_always_the_same() -> None:
    request = [("send the report to the team", 1.0), ("find it first", 0.5)]
    rankings = {tuple(ToolIndex(TOOLS).rank(request)) for _ in range(3)}
    assert len(rankings) == 1


@pytest.mark.parametrize(
    ("name", "description", "request_text"),
    [
        ("createSpaceship", "Build one", "I am creating spaceships"),
        ("HTTPServerErrors", "Show what failed", "any server error?"),
        ("f1", "Größe Ändern", "größe ändern"),
        ("f2", "удалить файл", "Файл удалить!"),
        ("f3", "天気予報", "明日の天気"),
        ("f4", "half a pair: \ud800 zebra", "zebra"),
    ],
)
def test_words_are_found_in_any_form_and_script(name: str, description: str, request_text: str) -> None:
    tool = StructuredTool.from_function(func=lambda: "", name=name, description=description)
    index = ToolIndex([*TOOLS, tool])
    assert index.rank([(request_text, 1.0)])[0] == len(TOOLS)


def test_a_word_of_the_same_meaning_finds_a_tool() -> None:
    index = ToolIndex(TOOLS)
    assert TOOLS[index.rank([("erase the todo", 1.0)])[0]].name == "todo_delete_todo"


def test_a_request_that_fits_nothing_ranks_nothing() -> None:
    assert ToolIndex(TOOLS).rank([("zzz qqq", 1.0)]) == []
    assert ToolIndex(TOOLS).rank([('🎉 — \x00 " …', 1.0)]) == []
    assert ToolIndex([]).rank([("anything", 1.0)]) == []


def test_a_question_to_a_thousand_tools_costs_little_beside_making_the_index() -> None:
    tools, index = TOOLS * 4, ToolIndex(TOOLS * 4)
    making = calls_in(lambda: ToolIndex(tools))
    for request in REQUESTS:
        assert calls_in(partial(index.rank, [(request, 1.0)])) < making / 100, request
