// What runs in the pods of the real nodes.
module kruise-ds.test/agent

go 1.24.0
