"""Write a video script from a web page: fetch the page, extract its article, write, validate (A-04).

The modules in the order of a job (`graphs/script_writer.py` has the graph):

- `state`: the job's state, and the first node, which reads its settings; `page`: a page's article and its parts.
- `fetching`: `fetch_plain` fetches by plain HTTP, `pages_from_tools` builds a page from tool results.
- `extraction` starts the process `page_reader`, which reads markdown, and HTML with trafilatura.
- `prompts` plans the script and has all prompts, `write` calls the model.
- `validate` checks the script, and lets the model correct it once; `script_file` writes it as YAML.
"""

from toolweave.extras import require_extra

require_extra("script")
