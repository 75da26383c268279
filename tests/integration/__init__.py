"""One module with what a machine really has: processes, sockets, terminals, and the time that these take."""
