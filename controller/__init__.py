"""The controller of the Advanced DaemonSet. A tour, in the order in which an event travels:

`api`        the objects as we read them, and what all clients of the CRD have to agree on; pure
`kube`       bytes to and from an API server: requests, decoding, errors, throttle, credentials
`runtime`    watches, stores, work queue, workers, lease; knows no DaemonSet
`informers`  one watch for each kind, and the caches that they fill
`daemonset`  from a change to a key (`triggers`), a key to a world (`world_of`), a plan to writes (`execute`)
`planner`    world in, plan out: the only place where anything is decided; pure
`imagepull`  the same way for ImagePullJobs, and which of them a rollout wants
`instrumentation`, `pass_log`, `telemetry`   what is logged and counted of all that; the metrics
`serve`, `fence`       probes and metrics for others; no write without the Lease
`app`        the scopes, one inside the other; `assembly` makes what runs in them
"""
