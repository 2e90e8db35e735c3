#!/bin/bash
# Formatting and static analysis of the sources; run by `./quickstart lint`. Arguments: the files, if not all.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -e build/release/compile_commands.json ] || cmake --preset release >/dev/null
mapfile -t all < <(git ls-files -- '*.cpp' '*.hpp' '*.cu')
clang-format --dry-run -Werror "${all[@]}"
mapfile -t files < <(if [ $# -gt 0 ]; then printf '%s\n' "$@"; else
  git ls-files -- 'protocol/*.cpp' 'memory/*.cpp' 'rdma/*.cpp' 'daemon/*.cpp' 'client/*.cpp' | grep -v rdma/asio.cpp; fi)
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p build/release
echo "lint: clean"
