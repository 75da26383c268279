"""`kubectl kruise-ds`. The packages, in the order in which a command passes through them:

`main`       the process: typer's tree of verbs, `--help`, <TAB>
`options`, `flags`   the flags of the verbs; those of all verbs, and what <TAB> offers for their values
`runner`     the table of verbs; runs one from its flags to its exit code
`terminal`, `host`                 standard streams, colours and prompts; the clock, PATH and other programs
`commands`   the verbs: what each reads, writes and prints; below those that write are `change_flow` and `consent`,
             below those that watch `screens`; what waits, waits as `status`
`cluster`    requests to the API server: reads, watches, guarded writes
`rollout`    what is known of a rollout: nodes, reasons, status, history, differences; pure
`changes`    the edits of a DaemonSet that the verbs make, and their effects; pure
`forecast`   the waves of an update, played with the controller's own planner; pure
`migrate`    the steps between a native DaemonSet and an Advanced one; pure
`render`     tables and screens
`errors`, `wording`, `kubectl_yaml`   exit codes; words that several verbs use; YAML as kubectl reads and writes it

A command on its way: docs/design/life-of-a-verb.md.
"""
