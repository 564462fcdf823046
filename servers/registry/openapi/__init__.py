"""Create ToolConfigs from OpenAPI documents (W-01).

`document` parses JSON or YAML, `importing` converts the operations, `requests` reads the parts of their requests, and
`schemas` inlines references within a budget.
"""

from toolweave.extras import require_extra

require_extra("server")
