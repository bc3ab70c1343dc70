# mypy: ignore-errors
counters = {"stats": {"calls_captured": 0, "unique_graphs": 0}, "graph_break": {}}
