"""How a report looks on a terminal: colours, icons and columns are known here only."""
