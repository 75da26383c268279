"""`make bench`: ours beside the native DaemonSet controller, on the same API server and the same kwok nodes.

Absolute times say more about the machine than about a controller, so every figure stands beside the peer's
figure, or beside a plain script's, from the same run.
"""
