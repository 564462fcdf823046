"""Make ToolConfigs of OpenAPI documents (W-01).

Reading (JSON or YAML, yaml_documents) → importing → operations, each of parameters, bodies, security and
servers; schemas and references are written out within a budget.
"""
