"""manifests/chart, made of the same files as the overlays: `variants` builds them with each component and without it,
`conditions` finds out which value of the chart each line hangs on, `templates` writes that down for helm.

Written by hand are Chart.yaml, NOTES.txt and values.schema.json, of which `values` makes the comments in values.yaml.
"""
