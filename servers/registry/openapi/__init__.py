"""Make ToolConfigs of OpenAPI documents (W-01).

`document` reads JSON or YAML, `importing` goes through the operations; `requests` reads what a request is made of,
`schemas` writes references out within a budget.
"""
