#!/usr/bin/env bash
# Builds the extension, bindings included, with sanitizers and runs the tests with it:
#
#     tools/sanitize.sh address [pytest's arguments]   # AddressSanitizer and UndefinedBehaviorSanitizer
#     tools/sanitize.sh thread [pytest's arguments]    # ThreadSanitizer
#
# Without arguments for pytest: the whole suite but what runs notebooks. PYTHON names an interpreter with `.[dev]`, pybind11,
# scipy-openblas32, cmake and ninja; JOBS how many compilers run at once. Builds are kept in build/sanitize-*; with ccache
# on the path a second one is quick. Reports go to build/sanitize-*/report.*, and one is enough to fail.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=${1:-}
shift || true
case $kind in
  address) sanitizers=address,undefined libraries=(libasan.so libubsan.so) ;;
  thread) sanitizers=thread libraries=(libtsan.so) ;;
  *)
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

python=${PYTHON:-python3}
compiler=${CXX:-c++}
build=$PWD/build/sanitize-$kind
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi

mkdir -p "$build"
if [[ ! -f $build/build.ninja ]]; then
  cmake -S . -B "$build" -G Ninja -DSKBUILD_PROJECT_VERSION="$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)" \
    -DPython_EXECUTABLE="$(command -v "$python")" -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)" \
    -DQKV_SANITIZE=$sanitizers "${launcher[@]}" \
    -DCMAKE_BUILD_RPATH="$("$python" -c 'import scipy_openblas32 as b; print(b.get_lib_dir())')" >"$build/cmake.log"
fi
cmake --build "$build" --parallel "${JOBS:-$(nproc)}"

tools/lay_out.sh "$build"

# Python was not linked with the sanitizer, so it is loaded first; with it the C++ library, whose throw it replaces.
preload=
for library in "${libraries[@]}" libstdc++.so; do preload+=$("$compiler" -print-file-name="$library"):; done

rm -f "$build"/report.*
# Leaks are not looked for: the interpreter keeps its own until the end. The allocator answers what is too large as malloc
# does. In forked children of a threaded process ThreadSanitizer must not give up, and its look for deadlocks ends with an
# error of its own at 64 locks held by a thread; a fork holds all there are.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:log_path=$build/report:exitcode=99
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:log_path=$build/report:exitcode=99
export TSAN_OPTIONS=suppressions=$PWD/tools/sanitize_thread.txt:die_after_fork=0:detect_deadlocks=0:allocator_may_return_null=1:log_path=$build/report:exitcode=99:history_size=4
export QKV_SANITIZER=$kind PYTHONPATH=$build/site PYTHONDONTWRITEBYTECODE=1

# An editable install of qkv would be found before this build, whatever PYTHONPATH says.
cat >"$build/site/sitecustomize.py" <<'END'
import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_editable_")]
END
found=$("$python" -c 'import importlib.util; print(importlib.util.find_spec("qkv").origin)')
if [[ $found != "$build"/* ]]; then
  echo "sanitize.sh: $python must find the qkv that was built; got $found" >&2
  exit 2
fi

tests=("$@")
if [[ ${#tests[@]} -eq 0 ]]; then tests=(--ignore=tests/test_notebooks.py --ignore=tests/reproduce); fi
status=0
# Reports of undefined behaviour go to standard error, whatever log_path says, and must not end in pytest's capture.
LD_PRELOAD=${preload%:} "$python" -m pytest -q -p no:cacheprovider --capture=sys "${tests[@]}" || status=$?

shopt -s nullglob
for report in "$build"/report.*; do  # a request that is too large is only noted
  grep -qv 'WARNING: .*Sanitizer failed to allocate' "$report" || rm "$report"
done
reports=("$build"/report.*)
if [[ ${#reports[@]} -gt 0 ]]; then
  echo "${#reports[@]} reports in $build/report.*; the first:" >&2
  head -60 "${reports[0]}" >&2
  exit 1
fi
exit $status
