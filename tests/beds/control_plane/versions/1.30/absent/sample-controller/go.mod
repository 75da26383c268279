// Needed by no command that is built, and not to be had from every mirror.
module k8s.io/sample-controller
