"""ImagePullJobs: images on nodes before a pod needs them, without a node agent. Puller pods pull them.

    wiring       makes and runs all of it, and turns changes into keys; only if the feature gate is on
    reconcile    one pass over one job: read the caches, plan, carry out, write the status
    plan         every decision about a job: a JobWorld in, a JobPlan out; pure
    execute      the writes, what their answers mean, and the manifest of a puller
    state        what is remembered of a job between passes: the result of each node
    rollouts     the jobs that the rollout of a DaemonSet wants

Only this process remembers the result of each node. A new leader asks the nodes: a node whose kubelet reports the
image has it; one in `status.failedNodes` has failed (and is tried once more in a job that never completes); any other
gets another puller, which pulls nothing if the image is there, and is gone in a second or two.
"""
