#!/bin/bash
# Makes this machine a runner: unpacks the runner unless the image has it, fetches its credentials,
# starts it, and tells how far it is. Safe to run again: what is done is not done twice.
set -Eeu -o pipefail

RUNNER_USER="${RUNNER_USER:-runner}"
RUNNER_HOME="${RUNNER_HOME:-/home/$RUNNER_USER/actions-runner}"
# An image may bring the runner along: as a folder named after its version, as `latest`, or packed.
RUNNER_CACHE="${RUNNER_CACHE:-/opt/cache/actions-runner}"
SERVICES="${SERVICES:-/etc/systemd/system}"

work="$(mktemp -d)"
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
    printf '%s' "$RUNNER_ENV" | base64 -d >"$work/env"
    as_root install -o "$RUNNER_USER" -m 0600 "$work/env" "$RUNNER_HOME/.env"
}

start_runner() {
    step "starting the runner"
    if has systemctl && [ -d /run/systemd/system ]; then
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
start_runner
tell_system
# The forge may have seen the runner first; then this is not waited for any more.
tell idle "the runner was started" || true
