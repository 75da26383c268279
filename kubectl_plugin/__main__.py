"""`python -m kubectl_plugin`, for where the program is not on the path."""

from kubectl_plugin.main import main

main()
