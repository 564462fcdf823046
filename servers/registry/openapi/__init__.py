"""Make ToolConfigs of OpenAPI documents, and a document of ToolConfigs (W-01).

Import: reading (JSON or YAML, yaml_documents) → importing → operations, each of parameters, bodies, security and
servers; schemas and references are written out within a budget. Export: exporting, with export_*.
"""
