"""What is installed: CRD, controller, versions and rights."""
