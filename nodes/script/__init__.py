"""Make a video script of a page: fetch it, tell its article from the rest, write, validate (A-04).

Where to look, in the order of a job (`graphs/script_writer.py` draws it):

- the job: `begin` reads what it is to do; `script_state` is what the nodes tell each other, `page` a page's article.
- `fetching`, by plain HTTP: `fetch_plain` asks, `visit` follows redirects, `robots` reads what the site allows.
- `fetching`, by an agent: `graphs/fetch_agent.py` runs it on `fetch_prompts`, `fetch_dialogue` follows it,
  `tool_content` makes a page of what its tools returned, with `tool_results`, `tool_parts` and `tool_document`.
- `reading`, for both ways: `extraction` starts a process, in which `extracting` calls `article`; that reads HTML with
  the `html_` files, `page_facts` and `standfirst`, markdown with `markdown_page`.
- `writing`: `write` asks the model, of a long article from `notes` of its `chunking`; `script_plan` says what the
  script is to be like, `prompts` has every word that the model is told, `prompting` every call, `script_model` which
  model it is; `model_script` reads the answer. `validate` checks by `script_rules`, and has it corrected once.
- the end: `script_file` writes the script as YAML.
"""
