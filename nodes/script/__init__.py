"""Make a video script of a page: fetch it, tell its article from the rest, write, validate (A-04).

Where to look, in the order of a job (`graphs/script_writer.py` draws it):

- the job: `begin` reads what it is to do; `script_state` and `writing_state` are what the nodes tell each other.
- the page by plain HTTP: `fetch_plain` asks, `visit` follows redirects, `robots` reads what the site allows.
- the page by an agent: `graphs/fetch_agent.py` runs it on `fetch_prompts`, `fetch_dialogue` follows it, `tool_content`
  makes a page of what its tools returned, with `tool_results`, `tool_parts` and `tool_document`.
- the article, for both ways: `extraction` starts a process, in which `extracting` calls `article`; that reads HTML with
  the `html_` files, `page_facts` and `standfirst`, markdown with `markdown_page`. `page` is what comes out.
- the script: `write` asks the model, of a long article from `notes` of its `chunking`; `script_plan` says what the
  script is to be like, `prompts` has every word that the model is told, `prompting` every call, `script_model` which
  model it is; `model_script` reads the answer.
- the end: `validate` checks by `script_rules`, and has it corrected once; `script_file` keeps it as `script_yaml`.
"""
