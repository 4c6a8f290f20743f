#!/usr/bin/env bash
# Runs a test with the Python that sees Debian's packages, as tests/run.sh chooses it.
#
#   tests/deploy/debian.sh TEST [ARGUMENT]...
set -euo pipefail
exec "${PYTHON:-/usr/bin/python3}" "$@"
