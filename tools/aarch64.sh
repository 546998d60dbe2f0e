#!/usr/bin/env bash
# Builds the extension for aarch64 and runs tests of it in an emulator, so that the kernels' NEON code is tested on any
# machine:
#
#     tools/aarch64.sh [pytest's arguments]    # default: the tests of the kernels
#
# Needs Debian or Ubuntu with `apt-get install g++-aarch64-linux-gnu qemu-user`, and PYTHON with pip, pybind11, cmake and
# ninja (JOBS compilers at once). Python for aarch64 comes from the distribution, numpy, OpenBLAS and pytest from PyPI;
# all is unpacked into build/aarch64, nothing is installed. Figures say nothing: the emulator takes 20 times as long.
set -euo pipefail
cd "$(dirname "$0")/.."

host=${PYTHON:-python3}
build=$PWD/build/aarch64
root=$build/root
mkdir -p "$build"

# A Python of that architecture with what it depends on, as apt resolves it for a machine on which nothing is installed.
if [[ ! -f $build/root.done ]]; then
  echo "Fetching Python for aarch64"
  rm -rf "$root" "$build/apt"
  mkdir -p "$root" "$build/apt/lists/partial" "$build/apt/archives/partial"
  options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root -o Debug::NoLocking=1
    -o APT::Install-Recommends=0 -o Dir::State::Lists="$build/apt/lists" -o Dir::State::status=/dev/null
    -o Dir::Cache="$build/apt" -o Dir::Cache::archives="$build/apt/archives")
  apt-get "${options[@]}" update
  apt-get "${options[@]}" install --yes --download-only python3-minimal libpython3-dev libstdc++6 >/dev/null
  for package in "$build"/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
  touch "$build/root.done"
fi

# An interpreter to CMake, to us and to tests that start one: the emulator with that Python and what PyPI has for it. The
# CPU is one with NEON alone: on one with all that can be emulated, OpenBLAS takes kernels for SME, whose products in
# double are wrong there.
python=$build/python
cat >"$python" <<END
#!/bin/sh
exec qemu-aarch64 -cpu cortex-a72 -L "$root" -0 "$python" -E PYTHONHOME="$root/usr" \\
  -E PYTHONPATH="\${PYTHONPATH:+\$PYTHONPATH:}$build/site:$build/packages" "$root/usr/bin/python3" "\$@"
END
unset PYTHONPATH  # of this machine's Python
chmod +x "$python"
if [[ ! -f $build/packages.done ]]; then
  "$host" -m pip install --quiet --target "$build/packages" --upgrade --only-binary=:all: --implementation cp \
    --python-version "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" \
    --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 \
    numpy 'scipy-openblas32<0.4' pytest hypothesis
  touch "$build/packages.done"
fi

launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
if [[ ! -f $build/build.ninja ]]; then
  # Python's configuration stands in a folder of the architecture's, behind the cross compiler's own headers.
  cmake -S . -B "$build" -G Ninja -DSKBUILD_PROJECT_VERSION="$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)" \
    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
    -DCMAKE_CXX_FLAGS="-idirafter $root/usr/include -Wno-psabi" -DPython_EXECUTABLE="$python" \
    -DPython_INCLUDE_DIR="$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')" \
    -Dpybind11_DIR="$("$host" -m pybind11 --cmakedir)" "${launcher[@]}" \
    -DCMAKE_BUILD_RPATH="$("$python" -c 'import scipy_openblas32 as b; print(b.get_lib_dir())')" >"$build/cmake.log"
fi
cmake --build "$build" --parallel "${JOBS:-$(nproc)}"

tools/lay_out.sh "$build"

# The kernels by themselves give the bits of every other level.
cmake --build "$build" --target kernel_hashes_baseline
qemu-aarch64 -cpu cortex-a72 -L "$root" "$build/kernel_hashes_baseline" | diff <(grep -v '^#' tests/bits/kernels.txt) -

tests=("$@")
if [[ ${#tests[@]} -eq 0 ]]; then tests=(tests/ops tests/nn/test_gru.py tests/test_optim.py tests/bits); fi
PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider "${tests[@]}"
