"""The controller of the Advanced DaemonSet. A tour, in the order in which an event travels:

`api`        the objects as we read them, and what any client of the CRD must agree on; pure
`kube`       bytes to and from an API server: requests, decoding, errors, throttle, credentials
`runtime`    watches, stores, work queue, workers, lease; knows no DaemonSet
`informers`  one watch for each kind, and the caches that they fill
`daemonset`  from a change to a key (`triggers`), a key to a world (`world_of`), a plan to writes (`execute`)
`planner`    world in, plan out: the only place with an opinion; pure
`imagepull`  the same way for ImagePullJobs, and which of them a rollout wants
`instrumentation`, `pass_log`, `telemetry`   what is logged and counted of all that; how a metric is called
`serve`, `fence`       probes and metrics for others; nobody writes without the lease
`app`        the scopes, one inside the other; `assembly` makes what runs in them
"""
