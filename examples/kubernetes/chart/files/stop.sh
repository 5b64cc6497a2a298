#!/bin/sh
# preStop: the node drains, and this ends with the server. Kubernetes sends its own signal only after that; a second QUIT would
# cut the delay short.
pid=$(cat /tmp/nginx.pid) || exit 0
kill -QUIT "$pid"
while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
done
