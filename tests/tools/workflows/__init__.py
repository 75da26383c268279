"""What is looked at in .github/workflows before it can run there: by actionlint, and by rules of our own."""
