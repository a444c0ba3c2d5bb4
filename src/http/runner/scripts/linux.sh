#!/bin/bash
# Makes this machine a runner: unpacks the runner unless the image has it, fetches its credentials,
# starts it under a supervisor, and tells how far it is. Safe to run again until the runner was started:
# what is done is not done twice.
set -Eeu -o pipefail

RUNNER_USER="${RUNNER_USER:-runner}"
RUNNER_HOME="${RUNNER_HOME:-/home/$RUNNER_USER/actions-runner}"
# An image may bring the runner along: as a folder named after its version, as `latest`, or packed.
RUNNER_CACHE="${RUNNER_CACHE:-/opt/cache/actions-runner}"
SERVICES="${SERVICES:-/etc/systemd/system}"
SYSTEMD="${SYSTEMD:-/run/systemd/system}"
# Below it lies what belongs to the supervisor; no job can write there.
SUPERVISORS="${SUPERVISORS:-/run}"

work="$(mktemp -d)" folder=
trap 'rm -rf "$work"' EXIT
(umask 077 && printf 'header = "Authorization: Bearer %s"\n' "$BEARER_TOKEN" >"$work/auth")

# Calls home; what the server says while it is away is asked for again.
call() {
    curl --silent --show-error --fail --location --max-time 60 --retry 5 --retry-delay 5 \
        --retry-connrefused --config "$work/auth" "$@"
}

tell() {
    message="$(printf '%s' "$2" | tr -d '\\"' | tr '\000-\037' ' ' | head -c 1000)"
    call --header 'Content-Type: application/json' --output /dev/null \
        --data "$(printf '{"status":"%s","message":"%s"}' "$1" "$message")" "$CALLBACK_URL/status"
}

step() {
    echo "$1"
    tell installing "$1" || true
}

fail() {
    trap - ERR
    echo "$1" >&2
    tell failed "$1" || true
    exit 1
}

trap 'fail "line $LINENO of the install script failed: $BASH_COMMAND"' ERR

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n -- "$@"
    fi
}

has() {
    command -v "$1" >/dev/null 2>&1
}

trust_certificates() {
    [ -n "$CA_BUNDLE" ] || return 0
    printf '%s' "$CA_BUNDLE" | base64 -d >"$work/ca.pem"
    if has update-ca-certificates; then
        as_root install -m 0644 "$work/ca.pem" /usr/local/share/ca-certificates/ostler.crt
        as_root update-ca-certificates >/dev/null
    elif has update-ca-trust; then
        as_root install -m 0644 "$work/ca.pem" /etc/pki/ca-trust/source/anchors/ostler.pem
        as_root update-ca-trust
    else
        fail "this image has no way to trust the certificates of \`ca\`"
    fi
}

make_user() {
    id -u "$RUNNER_USER" >/dev/null 2>&1 || as_root useradd --create-home --shell /bin/bash "$RUNNER_USER"
}

# Everything is laid out beside its place and moved there whole: a reboot leaves nothing half done.
unpack_runner() {
    if [ -x "$RUNNER_HOME/run.sh" ]; then
        step "the image has a runner in $RUNNER_HOME"
        return 0
    fi
    draft="$RUNNER_HOME.new"
    as_root rm -rf "$draft"
    as_root mkdir -p "$draft"
    if [ -x "$RUNNER_CACHE/$RUNNER_VERSION/run.sh" ]; then
        step "taking runner $RUNNER_VERSION from the image's cache"
        as_root cp -a "$RUNNER_CACHE/$RUNNER_VERSION/." "$draft/"
    elif [ -x "$RUNNER_CACHE/latest/run.sh" ]; then
        step "taking the latest runner of the image's cache"
        as_root cp -a "$RUNNER_CACHE/latest/." "$draft/"
    elif [ -f "$RUNNER_CACHE/$RUNNER_FILE" ]; then
        step "unpacking $RUNNER_FILE of the image's cache"
        as_root tar -xzf "$RUNNER_CACHE/$RUNNER_FILE" -C "$draft"
    else
        step "downloading $RUNNER_URL"
        curl --silent --show-error --fail --location --retry 5 --retry-delay 5 --output "$work/runner" \
            "$RUNNER_URL" || fail "cannot download $RUNNER_URL"
        as_root tar -xzf "$work/runner" -C "$draft"
        # Images that lack libraries get them; those without a network keep what they have.
        if [ -x "$draft/bin/installdependencies.sh" ]; then
            as_root "$draft/bin/installdependencies.sh" >/dev/null 2>&1 || true
        fi
    fi
    [ -x "$draft/run.sh" ] || fail "there is no run.sh in what was unpacked"
    as_root chown -R "$RUNNER_USER:" "$draft"
    as_root rm -rf "$RUNNER_HOME"
    as_root mv "$draft" "$RUNNER_HOME"
    if has selinuxenabled && selinuxenabled; then
        as_root chcon -R -t bin_t "$RUNNER_HOME" || true
    fi
}

# The files of a runner that is registered already; no other user can read them.
fetch_credentials() {
    step "fetching credentials"
    for file in runner credentials credentials_rsaparams; do
        (umask 077 && call --output "$work/$file" "$METADATA_URL/credentials/$file") ||
            fail "cannot fetch the file \`$file\` of the runner's credentials"
        as_root install -o "$RUNNER_USER" -m 0600 "$work/$file" "$RUNNER_HOME/.$file"
    done
}

# The runner's variables. The hooks of its jobs become ours, which call the user's own.
write_env() {
    printf '%s' "$RUNNER_ENV" | base64 -d >"$work/env"
    if [ -n "$SUPERVISOR" ]; then
        for event in started completed; do
            write_hook "$event" "ACTIONS_RUNNER_HOOK_JOB_$(printf '%s' "$event" | tr '[:lower:]' '[:upper:]')"
        done
        grep -v '^ACTIONS_RUNNER_HOOK_JOB_\(STARTED\|COMPLETED\)=' "$work/env" >"$work/env.ours" || true
        for event in started completed; do
            printf 'ACTIONS_RUNNER_HOOK_JOB_%s=%s\n' \
                "$(printf '%s' "$event" | tr '[:lower:]' '[:upper:]')" "$folder/job_$event.sh" >>"$work/env.ours"
        done
        mv "$work/env.ours" "$work/env"
    fi
    as_root install -o "$RUNNER_USER" -m 0600 "$work/env" "$RUNNER_HOME/.env"
}

# Writes a hook that tells the supervisor of a job, within two seconds whatever happens, and then runs the
# user's own hook: that of the pool's `env`, of the image's runner, or of the environment.
write_hook() {
    own="$(sed -n "s/^$2=//p" "$work/env" | tail -n 1)"
    if [ -z "$own" ] && [ -e "$RUNNER_HOME/.env" ]; then
        own="$(as_root sed -n "s/^$2=//p" "$RUNNER_HOME/.env" | tail -n 1)"
    fi
    [ -n "$own" ] || own="${!2:-}"
    # One of ours, from a first try.
    case "$own" in */ostler-??????/job_*.sh) own= ;; esac
    {
        echo '#!/bin/bash'
        printf 'timeout 2 /bin/bash -c '\''echo job_%s >"$0"'\'' %q >/dev/null 2>&1 || true\n' \
            "$1" "$folder/hooks"
        case "$own" in
            '') ;;
            *.ps1) printf 'exec pwsh -NoProfile -File %q\n' "$own" ;;
            *) printf 'exec bash -e %q\n' "$own" ;;
        esac
        echo 'exit 0'
    } >"$work/hook"
    as_root install -m 0755 "$work/hook" "$folder/job_$1.sh"
}

# Lays out what the supervisor needs, in a folder that only root writes.
lay_out_supervisor() {
    [ -n "$SUPERVISOR" ] || return 0
    folder="$(as_root mktemp -d "$SUPERVISORS/ostler-XXXXXX")"
    as_root chmod 0755 "$folder"
    as_root mkdir -m 0700 "$folder/private"
    as_root mkfifo -m 0600 "$folder/private/events"
    as_root mkfifo "$folder/hooks"
    as_root chmod 0622 "$folder/hooks"
    printf '%s' "$SUPERVISOR" | base64 -d >"$work/supervisor"
    as_root install -m 0755 "$work/supervisor" "$folder/supervisor.sh"
    {
        printf 'BEARER_TOKEN=%q REPORT_URL=%q RUNNER_USER=%q RUNNER_HOME=%q\n' \
            "$BEARER_TOKEN" "$REPORT_URL" "$RUNNER_USER" "$RUNNER_HOME"
        printf 'AGENT_ENV=%q\n' "$AGENT_ENV"
        for name in http_proxy https_proxy no_proxy; do
            [ -z "${!name:-}" ] || printf 'export %s=%q\n' "$name" "${!name}"
        done
    } >"$work/settings"
    as_root install -m 0600 "$work/settings" "$folder/private/settings"
    rm -f "$work/settings"
}

# Starts the supervisor, which starts the runner. It exchanges our token: from here on ours is worthless.
start_supervisor() {
    step "starting the runner under its supervisor"
    if has systemctl && [ -d "$SYSTEMD" ]; then
        service="$(call "$METADATA_URL/system/service-name").service"
        {
            printf '[Unit]\nDescription=GitHub Actions Runner (%s)\n' "$RUNNER_NAME"
            printf 'After=network-online.target\nWants=network-online.target\n\n[Service]\n'
            printf 'ExecStart=/bin/bash %s/supervisor.sh %s\n' "$folder" "$folder"
            printf 'Restart=no\nKillMode=process\nTimeoutStopSec=5min\n'
        } >"$work/unit"
        as_root install -m 0644 "$work/unit" "$SERVICES/$service"
        as_root systemctl daemon-reload
        # Started, and not enabled: a runner is never started again.
        as_root systemctl start "$service"
    else
        as_root setsid /bin/bash "$folder/supervisor.sh" "$folder" >/dev/null 2>&1 </dev/null &
    fi
    # Four minutes: it tries each of its two calls for two.
    for _ in $(seq 1 480); do
        if as_root test -e "$folder/private/started"; then
            return 0
        fi
        if as_root test -s "$folder/private/failed"; then
            fail "$(as_root cat "$folder/private/failed")"
        fi
        sleep 0.5
    done
    fail "the supervisor did not start"
}

start_runner() {
    step "starting the runner"
    if has systemctl && [ -d "$SYSTEMD" ]; then
        service="$(call "$METADATA_URL/system/service-name").service"
        call --output "$work/unit" "$METADATA_URL/systemd/unit-file?runAsUser=$RUNNER_USER"
        as_root install -m 0644 "$work/unit" "$SERVICES/$service"
        as_root systemctl daemon-reload
        as_root systemctl enable --now "$service"
    elif [ "$(id -un)" = "$RUNNER_USER" ]; then
        # shellcheck disable=SC2086 # one word a variable
        (cd "$RUNNER_HOME" && exec setsid env $AGENT_ENV ./run.sh >runner.log 2>&1 </dev/null) &
    else
        (cd "$RUNNER_HOME" && as_root setsid su -s /bin/bash "$RUNNER_USER" \
            -c "exec env $AGENT_ENV ./run.sh" >"$work.log" 2>&1 </dev/null) &
    fi
}

tell_system() {
    name="$(uname -s)" version="$(uname -r)"
    if [ -r /etc/os-release ]; then
        # shellcheck disable=SC1091 # every distribution has its own
        name="$(. /etc/os-release && echo "${NAME:-$name}")"
        # shellcheck disable=SC1091
        version="$(. /etc/os-release && echo "${VERSION_ID:-$version}")"
    fi
    call --header 'Content-Type: application/json' --output /dev/null \
        --data "$(printf '{"os_name":"%s","os_version":"%s"}' "$name" "$version")" \
        "$CALLBACK_URL/system-info" || true
}

# shellcheck disable=SC2153 # written above by who serves this script
step "setting up $RUNNER_NAME"
trust_certificates
make_user
unpack_runner
fetch_credentials
lay_out_supervisor
write_env
tell_system
if [ -n "$SUPERVISOR" ]; then
    start_supervisor
else
    start_runner
    # The forge may have seen the runner first; then this is not waited for any more.
    tell idle "the runner was started" || true
fi
