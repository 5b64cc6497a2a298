#!/bin/sh
# Reloads when the ConfigMap has changed and `nginx -t` accepts it. A ConfigMap is mounted as a link, ..data, to a directory
# that is replaced as a whole. Runs beside the server, with the same user, the same /tmp and its processes in sight.
folder=${1:-/etc/nginx/portunus}
known=$(readlink "$folder/..data")
while sleep "${RELOAD_INTERVAL:-2}"; do
    now=$(readlink "$folder/..data")
    [ "$now" != "$known" ] || continue
    known=$now
    if nginx -t -q -e stderr -c "$folder/nginx.conf"; then
        echo "reload.sh: $now is taken"
        kill -HUP "$(cat /tmp/nginx.pid)"
    else
        echo "reload.sh: $now is refused, the former configuration stays"
    fi
done
