#!/bin/bash
# The main job, shown: run by `./quickstart demo` in the lab, or on an RDMA device of this machine. Argument: the folder
# of the build.
set -euo pipefail
build=$1
folder=$(mktemp -d)
log=$folder/server.log
read_buffer=$build/client/gpurdma-read
ctl() { "$build/daemon/ctl/gpurdma-ctl" --socket "$folder/control.sock" "$@"; }
step() { printf '\n== %s\n' "$*"; }
fail() { echo "demo: $*" && exit 1; }

finish() {
  status=$?
  [ -z "${server:-}" ] || kill "$server" 2>/dev/null || true
  [ "$status" = 0 ] || { echo "demo: failed; the server's log:" && cat "$log"; }
  rm -rf "$folder"
}
trap finish EXIT

# Waits until the server's log has a line that matches.
await() {
  local tries=0
  until grep -q "$1" "$log"; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] && kill -0 "$server" 2>/dev/null || fail "the server did not say '$1'"
    sleep 0.1
  done
}

# Milliseconds that the server has been running on a processor (the kernel's Documentation/scheduler/sched-stats.rst).
processor_ms() { echo $(($(cut -d ' ' -f 1 "/proc/$server/schedstat") / 1000000)); }

step "The RDMA device: $LAB_DEVICE at $LAB_SELF"
rdma link show

step "A file of 256 MiB and 4096 bytes of 'R', served by gpurdma-server"
head -c 256M /dev/urandom >"$folder/weights.bin"
cat >"$folder/server.yaml" <<END
listen: ["$LAB_SELF:7471"]
security: { open: true }
control: { socket: $folder/control.sock }
buffers:
  - { name: demo, memory: host, size: 4KiB, fill: "R" }
  - { name: weights, memory: host, source: $folder/weights.bin }
END
cat "$folder/server.yaml"
"$build/daemon/gpurdma-server" --config "$folder/server.yaml" 2>"$log" &
server=$!
await server_ready
cat "$log"

step "gpurdma-read --list $LAB_SELF"
"$read_buffer" --list "$LAB_SELF"

step "gpurdma-read $LAB_SELF/demo"
"$read_buffer" "$LAB_SELF/demo"

step "A reader in plain C, on librdmacm and libibverbs alone"
"$build/tests/plain_c/plain_reader" "$LAB_SELF" 7471 demo

step "gpurdma-read $LAB_SELF/weights -o copy.bin"
before=$(processor_ms)
"$read_buffer" "$LAB_SELF/weights" -o "$folder/copy.bin"
after=$(processor_ms)
(cd "$folder" && sha256sum weights.bin copy.bin)
cmp "$folder/weights.bin" "$folder/copy.bin" || fail "the copy differs"
echo "processor time of the server meanwhile: $((after - before)) ms"

step "16 readers at once, each 4 MiB of its own"
readers=()
for i in {0..15}; do
  "$read_buffer" "$LAB_SELF/weights" --offset "$((4 * i))MiB" --length 4MiB -o "$folder/part$i" >"$folder/out$i" 2>&1 &
  readers+=($!)
done
for reader in "${readers[@]}"; do
  wait "$reader" || fail "a reader failed: $(cat "$folder"/out*)"
done
sort "$folder"/out* | uniq -c
cat "$folder"/part{0..15} | cmp - <(head -c 64M "$folder/weights.bin") || fail "a part differs"

step "gpurdma-ctl verify: the server checks its own memory"
ctl verify
ctl status

step "The server stops (SIGTERM)"
kill -TERM "$server"
wait "$server" || fail "the server ended with status $?"
server=
grep server_stop "$log"
echo
echo "demo: done"
