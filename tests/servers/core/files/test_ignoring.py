"""Secrets, the internals of tools and files that the operator or a project ignores are not shown."""

import random
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.core.files.file_client import FileClient, file_client, tree
from toolweave.servers.core.files.reading import CallBudget
from toolweave.servers.core.files.roots import Roots, match_rules, parse_rule
from toolweave.servers.core.files.tools import FileSearch

HIDDEN = [
    ".env",
    ".env.local",
    ".ENV",
    "docs/.Env.production",
    "app/.envrc",
    "keys/server.pem",
    "keys/SERVER.PEM",
    "keys/server.key",
    "id_rsa",
    "id_rsa.old",
    "keys/id_ed25519",
    ".ssh/config",
    ".git/config",
    ".GIT/config",
    "sub/.git/HEAD",
    ".aws/credentials",
    ".netrc",
    ".npmrc",
    ".toolweave/app.db",
    "node_modules/a/index.js",
    "sub/.venv/x.py",
    "__pycache__/x.txt",
    "new\nline/.env",
    "terraform.tfstate",
    ".env~",
    ".env-production",
    ".env.local.bak~",
    "#.env#",
    "deploy/production.env",
    "keys/server.key.old",
    "keys/server.pem.orig",
    ".netrc.save",
    ".git.bak/config",
    ".bash_history",
    ".\u200benv",
    ".ſsh/config",
    "．ssh/config",
]


@pytest.mark.parametrize("path", HIDDEN)
async def test_a_usually_secret_file_gives_the_error_of_an_absent_one(root: Path, files: FileClient, path: str) -> None:
    missing = await files.refusal("read_file", path=path)
    tree(root, {path: "needle"})
    assert await files.refusal("read_file", path=path) == missing
    assert missing["code"] == "not_found"
    assert await files.paths("needle", content=True) == []
    assert path not in await files.paths("**")


async def test_a_hidden_folder_cannot_be_searched_nor_passed_through(root: Path, files: FileClient) -> None:
    tree(root, {".git/config": "needle"})
    for directory in (".git", "./.git/", "docs/../.git"):
        error = await files.refusal("search_files", pattern="*", directory=directory)
        assert error["code"] == "not_found"
    assert await files.code(".git/../readme.md") == "not_found"


@pytest.mark.parametrize(
    ("link", "target"), [("notes.txt", ".env"), ("open", ".git"), (".env", "readme.md"), ("node_modules", "docs")]
)
async def test_a_link_shows_nothing_hidden_and_is_hidden_by_its_own_name(
    root: Path, files: FileClient, link: str, target: str
) -> None:
    tree(root, {".git/config": "x"} | ({} if link == ".env" else {".env": "x"}))
    (root / link).symlink_to(target)
    assert await files.code(link) == "not_found"
    assert await files.code(f"{link}/config") == "not_found"


async def test_an_example_of_a_secret_file_and_a_file_with_a_similar_name_are_shown(
    root: Path, files: FileClient
) -> None:
    shown = [".env.example", "environment.md", "keys.txt", "my_id_rsa.txt", "git/config", ".github/ci.yml", "key"]
    shown += ["notes.md~", "#notes#", "~", "key.old", "überblick.md"]
    tree(root, dict.fromkeys(shown, "needle"))
    assert await files.paths("needle", content=True) == sorted(shown, key=lambda path: path.split("/"))


async def test_the_operators_rules_come_after_the_usual_ones_and_may_undo_them(root: Path) -> None:
    named = ["a.bak", "drafts/x.md", "docs/drafts/y.md", "public.pem", "private.pem", "keep.bak", "public.pem~"]
    tree(root, dict.fromkeys(named, "x"))
    rules = ("*.bak", "!keep.bak", "/drafts/", "!public.pem", "docs/deep")
    async with file_client(root, file_ignore=rules) as files:
        assert await files.paths("*") == [
            "docs/drafts/y.md",
            "docs/setup.md",
            "keep.bak",
            "public.pem",
            "public.pem~",
            "readme.md",
            "src/empty.py",
            "src/main.py",
        ]
        for path in ("a.bak", "drafts/x.md", "private.pem", "docs/deep/er/notes.md"):
            assert await files.code(path) == "not_found"
        assert await files.read("docs/drafts/y.md") == "x"


async def test_the_data_folder_is_hidden_under_every_name_and_is_no_root(root: Path) -> None:
    tree(root, {"state/app.txt": "needle"})
    (root / "alias").symlink_to("state")
    async with file_client(root) as files:
        assert await files.read("state/app.txt") == "needle"
    async with file_client(root, data_dir=root / "state") as files:
        for path in ("state/app.txt", "alias/app.txt", "state"):
            assert await files.code(path) == "not_found"
        assert await files.paths("needle", content=True) == []
    for roots in ([root / "state"], [root, root / "state"]):
        async with file_client(*roots, data_dir=root / "state") as files:
            assert await files.code(str(root / "state" / "app.txt")) == "not_configured"
            assert not (await files.call("search_files", pattern="needle", content=True)).get("data")


async def test_a_search_skips_the_files_of_gitignore_and_a_read_does_not(root: Path, files: FileClient) -> None:
    tree(
        root,
        {
            ".gitignore": "*.log\nbuild/\n!keep.log\ndrafts/**\n!drafts/final.md\n",
            "a.log": "needle",
            "keep.log": "needle",
            "build/out.txt": "needle",
            "docs/.gitignore": "!b.log\n/top.md\n",
            "docs/b.log": "needle",
            "docs/top.md": "needle",
            "docs/deep/top.md": "needle",
            "drafts/first.md": "needle",
            "drafts/final.md": "needle",
        },
    )
    assert await files.paths("needle", content=True) == [
        *("docs/b.log", "docs/deep/top.md", "drafts/final.md", "keep.log")
    ]
    assert await files.paths("*.log", directory="docs") == ["docs/b.log"]
    assert await files.paths("top.md", directory="docs/deep") == ["docs/deep/top.md"]
    assert await files.read("a.log") == "needle"
    # A call that names an ignored folder searches it.
    assert await files.paths("*", directory="build") == ["build/out.txt"]


async def test_a_gitignore_that_cannot_be_used_changes_nothing(root: Path, files: FileClient) -> None:
    (root / ".gitignore").mkdir()
    tree(root, {"docs/.gitignore": b"\xff\xfe\0*\n", "src/.gitignore": "!\n[z-a]\n[[a]\n\\\n"})
    (root / "docs/deep/.gitignore").symlink_to("/etc/passwd")
    assert set(await files.paths("*.*")) >= {"docs/deep/er/notes.md", "docs/setup.md", "readme.md", "src/main.py"}


async def test_a_gitignore_made_to_be_slow_is_not(root: Path, files: FileClient) -> None:
    slow = "*a" * 60 + "b\n" + "**/a/" * 30 + "b\n" + "*" * 60 + "b\n"
    tree(root, {".gitignore": slow * 500, "a" * 250: "", "a/" * 30 + "a": ""})
    answer = await files.search("*")
    assert answer["metadata"]["truncated"] is False
    assert "a" * 250 in [match["path"] for match in answer["data"]]


@given(st.text("ab/*?[]!-^\\(){}|#. &~é\u2028", max_size=8), st.text("ab[]é.", min_size=1))
def test_any_line_is_a_rule_or_refused(line: str, name: str) -> None:
    with suppress(ValueError):
        assert match_rules(parse_rule(line), (name, name), is_folder=True) in {True, False, None}


NAMES = ["a", "b", "ab", "c.x", "d.x", "a.y", "build", "Keep", "x y", "#h", "!i", ".h"]
RULES = [
    *("a", "b/", "/a", "*.x", "!c.x", "a/b", "build/", "build/*", "!build/Keep", "**/ab", "a/**", "a/**/b", "!a/", "*"),
    *("!*/", "!*.x", "[ab]", "?", "\\#h", "\\!i", "*.x ", "/build/**", "# c", "", "a*", "b/**/c.x", "**", "!**/Keep"),
]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("seed", range(8))
def test_a_search_lists_what_git_would_list(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    folders = [tmp_path]
    for _ in range(10):
        if not (folder := chance.choice(folders) / chance.choice(NAMES)).exists():
            folder.mkdir()
            folders.append(folder)
    for _ in range(60):
        if not (path := chance.choice(folders) / chance.choice(NAMES)).exists():
            path.touch()
    for folder in chance.sample(folders, 3):
        (folder / ".gitignore").write_text("\n".join(chance.choices(RULES, k=5)) + "\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    listing = ["git", "-C", str(tmp_path), "-c", "core.excludesFile=", "ls-files", "-o", "--exclude-standard", "-z"]
    expected = subprocess.run(listing, check=True, capture_output=True, text=True, encoding="utf-8").stdout.split("\0")
    roots = Roots([str(tmp_path)], private_folder=tmp_path / "none")
    budget = CallBudget(seconds=60, files=10_000, content_bytes=0)
    found = FileSearch(roots=roots, budget=budget, max_bytes=0, pattern="*", limit=10_000).run()
    assert sorted(match["path"] for match in found) == sorted(filter(None, expected))
