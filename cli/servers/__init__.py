"""The commands of `toolweave servers`: list, add, import, remove, check, tools, login and logout."""
