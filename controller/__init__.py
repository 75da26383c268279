"""The controller of the Advanced DaemonSet. The packages, in the order in which an event passes through them:

`api`        the objects as they are read, and what every client of the CRD has to agree on; pure
`kube`       requests to an API server and their answers: decoding, errors, throttle, credentials
`runtime`    watches, stores, work queue, workers, lease; independent of DaemonSets
`reconcile`  one pass over one DaemonSet: triggers, inputs, plan, writes, status
`planner`    world in, plan out: every decision about a DaemonSet; pure
`inplace`    what an update in place changes, and the patches for it; pure
`imagepull`  the same for ImagePullJobs, and the jobs that a rollout wants
`observe`    metrics, log lines, and the HTTP server for probes and metrics
`wiring`     makes the caches, queues and workers of a process; `app` starts and stops them
"""
