"""Make a video script of a page: fetch it, tell its article from the rest, write, validate (A-04).

Where to look, in the order of a job (`graphs/script_writer.py` draws it):

- `state`: the job's fields, and the first node, which reads what it is to do; `page`: a page's article.
- `fetching`: `fetch_plain` asks by plain HTTP, `pages_from_tools` makes a page of what an agent's tools returned.
- `extraction` starts a process, `page_reader`, which reads markdown, and HTML with trafilatura.
- `article_parts` divides the article, `prompts` plans the script and has all prompts, `write` calls the model.
- `validate` checks the script, and has it corrected once; `script_file` writes it as YAML.
"""
