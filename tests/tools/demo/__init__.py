"""`make demo`, `make demo-real` and `make cluster`: the controller at work, for people to look at.

`bed`        a simulated cluster or a real control plane, with the controller as a process of its own
`witness`    follows nodes, pods and the DaemonSet on the API server, and judges what it sees
`picture`    what there is to see, as values; `drawing` makes text of it, `screen` shows it
`story`      what is done to the cluster, the same on both beds; `playground` lets you do it yourself
`command`    the command line and its exit codes
"""
