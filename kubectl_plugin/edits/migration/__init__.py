"""A native DaemonSet becomes an Advanced one, or the other way round, and its pods keep running. Pure.

In this package "ours" is the Advanced DaemonSet, "native" the one of apps/v1, and a "side" either of them.

`observed`    what the server has: both sides, their pods and revisions
`both_kinds`  each side written as the other
`managers`    the field managers of each side, which go along
`step`        what can be done next
`to_ours`, `to_native`   the next step, worked out from `observed` alone: nothing is remembered between two steps, so
              an interrupted migration goes on when it is called again, and turns back in the other direction
`preview`     what a person should know before
`manifest`    the new object for a repository
"""
