"""`make bench`: ours beside the native DaemonSet controller, on the same API server and the same kwok nodes; beside
OpenKruise's, too, where `$KRUISE_MANAGER` is its binary.

Absolute times say more about the machine than about a controller, so every figure stands beside the peer's
figure, or beside a plain script's, from the same run.
"""
