"""An issue tracker: issues with their assignees, projects, comments."""

from tests.nodes.offline_model.operations.other_apis.operations import one_of, operation, text

ISSUE = {"issue_key": text("Key of the issue, such as WEB-12")}
PRIORITY = one_of("low", "medium", "high")
ASSIGNEE = text("Who works on it")

TRACKER = (
    operation(
        "search_issues",
        "GET /issues",
        "Search issues.",
        query=text("Words to look for in title and description"),
        status=one_of("open", "in_progress", "closed"),
        priority=PRIORITY,
        assignee=ASSIGNEE,
        project=text("Name of the project"),
    ),
    operation(
        "create_issue",
        "POST /issues",
        "Create an issue in a project.",
        {"project": text("Name of the project"), "title": text("What is wrong, in a few words")},
        description=text("What is wrong, at length"),
        priority=PRIORITY,
        assignee=ASSIGNEE,
    ),
    operation("get_issue", "GET /issues/{issue_key}", "Show one issue.", ISSUE),
    operation(
        "assign_issue",
        "PUT /issues/{issue_key}/assignee",
        "Assign an issue to somebody.",
        ISSUE | {"assignee": ASSIGNEE},
    ),
    operation(
        "close_issue",
        "POST /issues/{issue_key}/close",
        "Close an issue.",
        ISSUE,
        resolution=one_of("fixed", "duplicate", "wont_fix"),
    ),
    operation(
        "add_comment",
        "POST /issues/{issue_key}/comments",
        "Add a comment to an issue.",
        ISSUE | {"text": text("The comment")},
    ),
    operation(
        "list_projects", "GET /projects", "List the projects.", owner=text("Only projects that this person owns")
    ),
)
