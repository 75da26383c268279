"""`kubectl kruise-ds`: pause, resume, set-partition, status and rollback from the terminal. Not there yet: until then
`kubectl edit`, `patch` and `apply` do what it will do.

It will be a client of `controller.api` and `controller.kube` that may ask `controller.planner` what comes next, and
of nothing else (see the import contracts in pyproject.toml).
"""
