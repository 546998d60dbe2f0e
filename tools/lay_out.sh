#!/usr/bin/env bash
# Lays out the package as it is installed, with the extension that a build folder holds, in that folder:
#
#     tools/lay_out.sh FOLDER    # FOLDER/_core*.so, python/qkv and the notebooks to FOLDER/site/qkv
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf "$1/site"
mkdir -p "$1/site"
cp -r python/qkv "$1/site/qkv"
rm -f "$1"/site/qkv/_core*.so
cp "$1"/_core*.so "$1/site/qkv/"
"${PYTHON:-python3}" cmake/notebooks.py notebooks "$1/site/qkv/notebooks"
