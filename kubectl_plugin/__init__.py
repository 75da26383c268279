"""`kubectl kruise-ds`. The packages, in the order in which a command passes through them:

`main`, `runner`  the process, its verbs, and what all verbs share: flags, errors, exit codes
`commands`   the verbs, each in one module: what it reads, what it writes, what it prints; below those that write are
             `change_flow` and `consent`, below those that wait `rollout_watch` and `screens`
`cluster`    requests to the API server: reads, watches, guarded writes
`rollout`    what is known of a rollout: nodes, reasons, status, history, differences; pure
`changes`    the edits of a DaemonSet that the verbs make, and their effects; pure
`forecast`   the waves of an update, played with the controller's own planner; pure
`migrate`    the steps between a native DaemonSet and an Advanced one; pure
`render`     tables and screens
"""
