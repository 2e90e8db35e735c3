#!/bin/bash
# Host a of the tests on two hosts: runs gpurdma-server with a configuration, and does what host b asks for by files in
# $LAB_SHARED. Arguments: the server program, the configuration.
#   server.log  what the server logs                ready   appears when the server is ready
#   resources   the kernel's counts, kept fresh     signal  name of a signal: sent to the server, then removed
#   status      the server's exit status            done    b has ended: so do we
set -u
head -c 32M /dev/zero | tr '\0' a >"$LAB_SHARED/changing"
"$1" --config "$2" 2>"$LAB_SHARED/server.log" &
server=$!
until grep -q server_ready "$LAB_SHARED/server.log"; do
  kill -0 $server 2>/dev/null || { cat "$LAB_SHARED/server.log"; touch "$LAB_SHARED/failed"; exit 1; }
  sleep 0.1
done
touch "$LAB_SHARED/ready"
status=
while ! [ -e "$LAB_SHARED/done" ]; do
  rdma resource show >"$LAB_SHARED/resources.new" && mv "$LAB_SHARED/resources.new" "$LAB_SHARED/resources"
  if [ -e "$LAB_SHARED/signal" ]; then
    kill "-$(cat "$LAB_SHARED/signal")" $server
    rm "$LAB_SHARED/signal"
  fi
  if [ -z "$status" ] && ! kill -0 $server 2>/dev/null; then
    wait $server
    status=$?
    echo $status >"$LAB_SHARED/status.new" && mv "$LAB_SHARED/status.new" "$LAB_SHARED/status"
  fi
  sleep 0.1
done
if [ -z "$status" ]; then
  kill -TERM $server
  wait $server
  status=$?
fi
cp "$LAB_SHARED/server.log" "$LAB_LOGS/" 2>/dev/null
echo "server ended with status $status"
exit "$status"
