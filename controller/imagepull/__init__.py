"""ImagePullJobs: puller pods get images onto nodes before a pod needs them, without a node agent.

`parts` runs the rest, if the feature gate is on. `job_reconcile` makes one pass over one job: `job_plan` decides, and
`job_state` remembers results between passes. `rollouts` makes the jobs that rollouts of DaemonSets want. `wanted` has
the manifests of jobs and pullers.

Results of nodes are lost with the process. A new leader takes them from the images that kubelets report and from
`status.failedNodes`; other nodes get a puller again, which ends in a second or two if the image is there.
"""
