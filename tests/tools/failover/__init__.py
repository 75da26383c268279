"""A leader that ends in the middle of a rollout, in every way that there is, on the real API server.

`pair`       two controllers, one Lease, one DaemonSet on nodes of its own; many pairs side by side
`ways`       how a leader ends, or is cut off
`rounds`     one rollout with one end in its middle, and what must hold then
`evidence`   who wrote what and when, by the API server's audit log
`table`      many rounds as one table

`python -m tests.tools.failover` plays fifty rounds (`make test-failover`); test_failover.py plays one of each way.
"""
