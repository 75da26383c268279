"""A native DaemonSet becomes one of ours, or one of ours a native one, and its pods run on. Pure.

`observed`       what there is of the two, and of their pods and revisions
`forms`       the one as the other
`step`        what can be done next
`to_ours`, `to_native`   the next step from what there is: nothing is remembered between two steps, so whoever is
              interrupted goes on by asking again, and turns back by asking for the other direction
`outlook`     what a person should know before
`manifest`    the new object for a repository
"""
