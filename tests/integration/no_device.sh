#!/bin/bash
# In a guest whose RDMA device is taken away: both programs say so and how they end. Argument: the folder of the build.
set -u
[ "${LAB_IN_VM:-}" = 1 ] || { echo "only in the lab's VM: this test deletes the RDMA device"; exit 1; }
here=$(cd "$(dirname "$0")" && pwd)
failed=0
# expect STATUS TEXT COMMAND...
expect() {
  local wanted=$1 text=$2 output status
  shift 2
  output=$("$@" 2>&1)
  status=$?
  if [ $status = "$wanted" ] && [[ $output == *"$text"* ]]; then
    echo "passed: $1"
  else
    echo "FAILED: $* ended with $status, not $wanted, or without '$text': $output"
    failed=1
  fi
}
rdma link delete rxe0 || exit 1
expect 3 "this machine has no RDMA device" "$1/daemon/gpurdma-server" --config "$here/../../config/example-host.yaml"
expect 6 "modprobe -a crc32_generic rdma_rxe" "$1/daemon/gpurdma-server" --doctor
expect 6 "this machine has none" "$1/daemon/gpurdma-server" --doctor --json
expect 2 "this machine has no RDMA device" "$1/client/gpurdma-read" "$LAB_SELF/demo"
expect 0 "" "$1/daemon/gpurdma-server" --config "$here/../../config/example-host.yaml" --check-config
exit $failed
