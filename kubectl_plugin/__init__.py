"""`kubectl kruise-ds`: looks at rollouts and steers them from the terminal. A tour, from the words that were typed:

`main`, `program`    the two programs that kubectl finds; the root and the verbs, each built when it is called
`verb_table`, `…options`, `flags`   every verb, its arguments and flags; nothing heavy is imported up to here
`host`               environment, streams, clock, event loop, network: handed down from `main`
`running`            one verb from its flags to the exit code; what goes wrong becomes one line
`verbs`              what a verb does: ask the cluster, let the pure part decide, print or write
`cluster`            all I/O with the API server
`report`, `edits`    pure: what is told of a rollout; what a change writes
`forecast`           pure: what a rollout will do, by playing the planner's passes on
`paint`              how a report looks on a terminal

A client of `controller.api` and `controller.kube` that may ask `controller.planner` what comes next, and of nothing
else (see the import contracts in pyproject.toml).
"""
