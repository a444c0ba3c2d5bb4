#!/bin/sh
# A provider in shell: the same protocol, the same files as provider.rs, and nothing else.
set -eu
state="$(sed -n 's/^state=//p' "$GARM_PROVIDER_CONFIG_FILE")"
mkdir -p "$state/machines"
cd "$state/machines"

show() {
    { read -r name; read -r _; read -r _; read -r status; } <"$1"
    printf '{"provider_id":"%s","name":"%s","status":"%s"}' "$1" "$name" "$status"
}

find_one() {
    for id in *; do
        [ -f "$id" ] || continue
        read -r name <"$id"
        if [ "$id" = "$GARM_INSTANCE_ID" ] || [ "$name" = "$GARM_INSTANCE_ID" ]; then
            echo "$id"
            return
        fi
    done
}

case "$GARM_COMMAND" in
CreateInstance)
    name="$(sed -n 's/^{"name":"\([^"]*\)".*/\1/p')"
    id="sh-$name-$$"
    printf '%s\n%s\n%s\nrunning\n' "$name" "$GARM_POOL_ID" "$GARM_CONTROLLER_ID" >"../.$id"
    mv "../.$id" "$id"
    show "$id"
    ;;
DeleteInstance)
    id="$(find_one)"
    [ -z "$id" ] || rm -f "$id"
    ;;
GetInstance)
    id="$(find_one)"
    [ -n "$id" ] || { echo "no such machine" >&2; exit 1; }
    show "$id"
    ;;
ListInstances)
    comma=''
    printf '['
    for id in *; do
        [ -f "$id" ] || continue
        { read -r _; read -r pool; } <"$id"
        [ "$pool" = "$GARM_POOL_ID" ] || continue
        printf '%s' "$comma"
        show "$id"
        comma=','
    done
    printf ']'
    ;;
*)
    echo "unknown GARM_COMMAND: $GARM_COMMAND" >&2
    exit 1
    ;;
esac
