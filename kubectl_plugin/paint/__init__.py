"""How a report looks on a terminal: the only place that knows of colours, icons and columns."""
