"""Names of the targets that a package is compiled for."""

KFP, VERTEX = "kfp", "vertex"
TARGETS = (KFP, VERTEX)
