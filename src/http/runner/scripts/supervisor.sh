#!/bin/bash
# Runs the agent of this machine as its child and reports what happens here, until the agent is over.
# It is started once, by the install script, as another user than the job; the agent is never started
# again. The token with which it reports lives in its memory only: it is in no file, no argument and no
# environment. What a job can write to, its own hooks, decides nothing: whether a worker lives is read
# from the process tree.
set -um

folder="$1"
private="$folder/private"
# shellcheck disable=SC1091 # written by the install script: where to report, for which runner
. "$private/settings"
rm -f "$private/settings"
token="$BEARER_TOKEN"
unset BEARER_TOKEN

interval=30
challenge=
answered=
pending=
agent=

# Sends the file `body` to an address; sets `code` and `answer`, which is in no file either.
send() {
    answer="$(printf 'header = "Authorization: Bearer %s"\n' "$token" |
        curl --silent --max-time 30 --config - --header 'Content-Type: application/json' \
            --header 'Expect:' --data-binary "@$private/body" --write-out ' %{http_code}' "$1" \
            2>"$private/curl.log")" || answer="$answer 000"
    code="${answer##* }"
}

# Returns a field of the last answer.
field() {
    printf '%s\n' "$answer" | sed -n "s/.*\"$1\":\"\{0,1\}\([A-Za-z0-9._-]*\).*/\1/p" | head -n 1
}

# Returns whether a process descends from the agent.
descends() {
    local pid="$1" stat
    while [ "$pid" -gt 1 ] 2>/dev/null; do
        [ "$pid" = "$agent" ] && return 0
        { read -r stat <"/proc/$pid/stat"; } 2>/dev/null || return 1
        # Behind the name, which may hold anything: state and parent.
        stat="${stat##*) }"
        stat="${stat#* }"
        pid="${stat%% *}"
    done
    return 1
}

# Sets `worker`: whether a worker of our agent lives. Where its parent died before it, its path tells.
# The scan must find this very process, or it has shown nothing.
look() {
    local file pid command is_complete=
    worker=false
    for file in $(grep -alsE 'Runner[.]Worker|supervisor[.]sh' /proc/[0-9]*/cmdline 2>/dev/null); do
        pid="${file#/proc/}"
        pid="${pid%/cmdline}"
        [ "$pid" = "$$" ] && is_complete=1
        command="$(tr '\0' ' ' 2>/dev/null <"$file")"
        case "$command" in
            *"$RUNNER_HOME/"*Runner.Worker*) worker=true ;;
            *Runner.Worker*) if descends "$pid"; then worker=true; fi ;;
        esac
    done
    if [ "$worker" = false ] && [ -z "$is_complete" ]; then worker=null; fi
}

# Reports an event, with more fields. Fails where it was not taken.
report() {
    local echoed=
    [ -n "$challenge" ] && echoed=",\"challenge\":\"$challenge\""
    look
    printf '{"event":"%s","worker":%s%s%s}' "$1" "$worker" "$echoed" "${2:-}" >"$private/body"
    answered="$challenge"
    send "$REPORT_URL/report"
    case "$code" in
        200)
            interval="$(field interval)"
            challenge="$(field challenge)"
            case "$interval" in '' | *[!0-9]*) interval=30 ;; esac
            ;;
        # No report is expected any more: the machine is about to go.
        401) token= ;;
        *)
            interval=10
            return 1
            ;;
    esac
}

# Tries for two minutes; says why it gave up.
insist() {
    local try
    for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do
        "$@"
        case "$code" in
            200) return 0 ;;
            4??) break ;;
        esac
        [ "$try" = 24 ] || sleep 5
    done
    echo "the supervisor cannot report: HTTP $code $(head -c 300 "$private/curl.log")" >"$private/failed"
    exit 1
}

# Exchanges the token that came with the machine.
exchange() {
    printf '{}' >"$private/body"
    send "$REPORT_URL/token"
    [ "$code" = 200 ] || return 1
    token_of_reports="$(field token)"
}

# shellcheck disable=SC2086 # one word a variable
run_agent() {
    cd "$RUNNER_HOME" || exit 1
    if [ "$(id -un)" = "$RUNNER_USER" ]; then
        exec env $AGENT_ENV ./run.sh
    elif command -v setpriv >/dev/null 2>&1; then
        export USER="$RUNNER_USER" LOGNAME="$RUNNER_USER"
        HOME="$(getent passwd "$RUNNER_USER" | cut -d: -f6)"
        export HOME
        exec setpriv --reuid="$RUNNER_USER" --regid="$(id -g "$RUNNER_USER")" --init-groups -- \
            env $AGENT_ENV ./run.sh
    else
        exec su -s /bin/bash "$RUNNER_USER" -c "exec env $AGENT_ENV ./run.sh"
    fi
}

# Waits for the agent and says how it ended; a request to stop is passed on.
keep_agent() {
    run_agent >"$private/agent.log" 2>&1 </dev/null 3>&- 4>&- &
    local child=$! status
    trap 'kill -TERM "$child" 2>/dev/null' TERM
    while :; do
        wait "$child"
        status=$?
        kill -0 "$child" 2>/dev/null || break
    done
    echo "exited $status" >&3
}

# Passes on what the hooks of a job say, once each; anything else that a job writes there is dropped.
relay() {
    local line started= completed=
    while read -r -n 64 line <&4; do
        case "$line" in
            job_started) [ -n "$started" ] || { started=1 && echo "$line" >&3; } ;;
            job_completed) [ -n "$completed" ] || { completed=1 && echo "$line" >&3; } ;;
        esac
    done
}

insist exchange
token="$token_of_reports"
unset token_of_reports
exec 3<>"$private/events" 4<>"$folder/hooks"
# From this report on the first token is worthless: only now the agent may start.
insist report heartbeat

relay &
relay_pid=$!
keep_agent &
agent=$!
trap 'kill -TERM "$agent" 2>/dev/null' TERM
touch "$private/started"
pending=agent_started
status=
while [ -z "$status" ]; do
    while [ -n "$pending" ] && [ -n "$token" ]; do
        report "${pending%% *}" || break
        case "$pending" in *' '*) pending="${pending#* }" ;; *) pending= ;; esac
    done
    # A challenge is answered with a look that begins after it came.
    while [ -n "$token" ] && [ -n "$challenge" ] && [ "$challenge" != "$answered" ]; do
        report heartbeat || break
    done
    if read -r -t "$interval" line <&3; then
        case "$line" in
            exited\ *) status="${line#exited }" ;;
            *) pending="${pending:+$pending }$line" ;;
        esac
    elif [ -n "$token" ] && [ -z "$pending" ]; then
        report heartbeat || true
    fi
done
kill "$relay_pid" 2>/dev/null

# The end is what the daemon must know most: it is reported for an hour.
tail_of_log="$(tail -n 200 "$private/agent.log" | tail -c 65536 | base64 | tr -d '\n')"
for wait in 1 2 5 10 20 30 $(seq 1 60 | sed 's/.*/60/'); do
    [ -n "$token" ] || break
    report agent_exited ",\"exit_code\":$status,\"log_tail\":\"$tail_of_log\"" && break
    sleep "$wait"
done
exit 0
