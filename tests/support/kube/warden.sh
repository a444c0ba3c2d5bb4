#!/bin/bash
# Stops the shared API server when no test has used it for a while.
#   warden.sh HOME     HOME/server is the server's state, HOME/users holds a file named by each user's process
set -u
H=${1:?home}; here=$(dirname "$0"); idle=0
while sleep 1; do
  alive=0; for f in "$H"/users/*; do p=${f##*/}; [ "$p" != '*' ] && [ -d "/proc/$p" ] && alive=1; done
  if [ $alive = 1 ]; then idle=0; continue; fi
  idle=$((idle + 1)); [ $idle -lt 20 ] && continue
  exec 9>"$H/lock"; flock 9                # no test joins while it is decided
  for f in "$H"/users/*; do p=${f##*/}; [ "$p" != '*' ] && [ -d "/proc/$p" ] && idle=0; done
  if [ $idle -gt 0 ]; then "$here/start.sh" stop "$H/server"; rm -rf "$H/users"; exit 0; fi
  exec 9>&-
done
