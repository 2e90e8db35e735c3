#!/bin/bash
# The main job, shown: run by `./quickstart demo` in the lab, or on an RDMA device of this machine. Argument: the folder
# of the build.
set -euo pipefail
build=$1
checkout=$(cd "$(dirname "$0")/.." && pwd)
log=$(mktemp)
step() { printf '\n== %s\n' "$*"; }

finish() {
  status=$?
  [ -z "${server:-}" ] || kill "$server" 2>/dev/null || true
  [ "$status" = 0 ] || { echo "demo: failed; the server's log:"; cat "$log"; }
  rm -f "$log"
}
trap finish EXIT

# Waits until the server's log has a line that matches; the log follows on the screen by itself.
await() {
  local tries=0
  until grep -q "$1" "$log"; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] && kill -0 "$server" 2>/dev/null || { echo "demo: the server did not say '$1'"; return 1; }
    sleep 0.1
  done
}

step "The RDMA device: $LAB_DEVICE at $LAB_SELF"
rdma link show

step "gpurdma-server --config config/example-host.yaml"
"$build/daemon/gpurdma-server" --config "$checkout/config/example-host.yaml" 2>"$log" &
server=$!
await server_ready
cat "$log"

step "gpurdma-read --list $LAB_SELF"
"$build/client/gpurdma-read" --list "$LAB_SELF"

step "gpurdma-read $LAB_SELF/demo"
"$build/client/gpurdma-read" "$LAB_SELF/demo"

step "A reader in plain C, on librdmacm and libibverbs alone"
"$build/tests/plain_c/plain_reader" "$LAB_SELF" 7471 demo

step "The server checks its own memory (SIGUSR1)"
kill -USR1 "$server"
await buffer_verified
grep buffer_verified "$log"

step "The server stops (SIGTERM)"
kill -TERM "$server"
wait "$server"
server=
grep server_stop "$log"
echo
echo "demo: done"
