#!/bin/bash
# Real kube-apiserver (1.20.2 from Debian's source) + etcd on 127.0.0.1 for tests.
#   start.sh start DIR    start; prints DIR/env and returns when /readyz is ok
#   start.sh stop  DIR    SIGTERM by pid, wait, SIGKILL after 10 s; rm -rf state
#   start.sh api-down DIR | api-up DIR    an API outage: same port, same etcd, watch cache lost
# Env: APISERVER_GOGC (400: less GC for more RAM) APISERVER=path KCM=path (empty: no controller-manager) ETCD=path, KLOG=v-level (0),
#      ETCD_TMPFS=1 (data dir in /dev/shm), EXTRA="--flag ..." (extra apiserver flags)
set -euo pipefail
cmd=${1:?start|stop|api-down|api-up}; D=$(realpath -m "${2:?state dir}")
CACHE=${KUBE_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ostler/kube-test}   # where build.sh puts bin/
APISERVER=${APISERVER:-$CACHE/bin/kube-apiserver}
KCM=${KCM-}
ETCD=${ETCD:-$( [ -x "$CACHE/bin/etcd" ] && echo "$CACHE/bin/etcd" || command -v etcd || true)}
RESTRICTED_USER=${RESTRICTED_USER:-restricted}

# kube-apiserver 1.20 drains open watches for up to 60 s on SIGTERM; its state is all in etcd: kill it hard.
stop_pid() { # file [signal]
  local p; [ -f "$1" ] || return 0; p=$(cat "$1")
  kill "-${2:-TERM}" "$p" 2>/dev/null || { rm -f "$1"; return 0; }
  for _ in $(seq 200); do kill -0 "$p" 2>/dev/null || { rm -f "$1"; return 0; }; sleep .05; done
  kill -KILL "$p" 2>/dev/null || true; rm -f "$1"
}
wait_ready() {
  local i; for i in $(seq 600); do
    kill -0 "$(cat "$D/apiserver.pid")" 2>/dev/null || { tail -n 20 "$D/apiserver.log" >&2; echo "kube-apiserver died" >&2; return 1; }
    kill -0 "$(cat "$D/etcd.pid")" 2>/dev/null || { tail -n 20 "$D/etcd.log" >&2; echo "etcd died" >&2; return 1; }
    [ "$(curl -s -m 2 --cacert "$D/pki/ca.crt" -H "Authorization: Bearer $(cut -d, -f1 "$D/tokens.csv" | head -n1)" "$(cat "$D/url")/readyz" || true)" = ok ] && return 0
    sleep .1
  done; echo "not ready in 60 s" >&2; tail -n 20 "$D/apiserver.log" >&2; return 1
}
api_up() { setsid "$D/run-apiserver" </dev/null >>"$D/apiserver.log" 2>&1 & echo $! >"$D/apiserver.pid"; wait_ready; }
case $cmd in
  api-down) stop_pid "$D/apiserver.pid" "${3:-KILL}"; exit 0;;
  api-up) api_up; exit $?;;
esac
if [ "$cmd" = stop ]; then
  stop_pid "$D/kcm.pid" KILL; stop_pid "$D/apiserver.pid" KILL; stop_pid "$D/etcd.pid"
  [ -L "$D/etcd" ] && rm -rf "$(readlink "$D/etcd")"; rm -rf "$D"; exit 0
fi

if [ -z "$ETCD" ]; then   # no root, no service, no /etc: unpack the .deb only
  c=$CACHE/etcd; mkdir -p "$c"
  [ -x "$c/usr/bin/etcd" ] || (cd "$c" && apt-get download -q etcd-server && dpkg -x etcd-server_*.deb . && rm -f ./*.deb)
  ETCD=$c/usr/bin/etcd
fi
mkdir -p "$D/pki"; chmod 700 "$D"; cd "$D"
free_ports() { python3 - "$1" <<'P'
import socket,sys
s=[socket.socket() for _ in range(int(sys.argv[1]))]
[x.bind(("127.0.0.1",0)) for x in s]
print(*[x.getsockname()[1] for x in s])
P
}
read -r EC EP API KCMP < <(free_ports 4)

# --- pki (P-256: fast to make, fast to handshake) ---------------------------------
cd pki
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1" 2>/dev/null; }
key ca.key
openssl req -x509 -new -key ca.key -subj /CN=test-ca -days 3650 -out ca.crt -sha256 \
  -addext keyUsage=critical,keyCertSign,digitalSignature,cRLSign 2>/dev/null
cert() { # name subject extfile-content
  key "$1.key"
  openssl req -new -key "$1.key" -subj "$2" -out "$1.csr" 2>/dev/null
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -set_serial "$RANDOM$RANDOM" -days 3650 -sha256 \
    -extfile <(printf '%s\n' "$3") -out "$1.crt" 2>/dev/null; rm -f "$1.csr"; }
SAN='subjectAltName=IP:127.0.0.1,IP:10.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc'
cert apiserver /CN=kube-apiserver "$SAN
extendedKeyUsage=serverAuth"
cert kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client extendedKeyUsage=clientAuth
cert kubelet '/O=system:nodes/CN=system:node:fake-node' "subjectAltName=IP:127.0.0.1,DNS:localhost
extendedKeyUsage=serverAuth,clientAuth"      # for the fake kubelet's HTTPS endpoint
cert admin /O=system:masters/CN=admin extendedKeyUsage=clientAuth
openssl genrsa -out sa.key 2048 2>/dev/null
cd ..
rnd() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }
AT=$(rnd); RT=$(rnd); KT=$(rnd)
umask 077
cat > tokens.csv <<T
$AT,admin,admin,"system:masters"
$RT,$RESTRICTED_USER,$RESTRICTED_USER,"testers"
$KT,system:kube-controller-manager,kcm,"system:masters"
T
kubeconfig() { # file token namespace
  cat > "$1" <<K
apiVersion: v1
kind: Config
clusters: [{name: t, cluster: {server: "https://127.0.0.1:$API", certificate-authority-data: $(base64 -w0 < pki/ca.crt)}}]
users: [{name: u, user: {token: "$2"}}]
contexts: [{name: c, context: {cluster: t, user: u, namespace: $3}}]
current-context: c
K
}
kubeconfig admin.kubeconfig "$AT" default
kubeconfig restricted.kubeconfig "$RT" default
kubeconfig kcm.kubeconfig "$KT" default

# --- etcd ---------------------------------------------------------------------------
if [ "${ETCD_TMPFS:-0}" = 1 ]; then ln -s "$(mktemp -d /dev/shm/etcd.XXXXXX)" etcd; else mkdir etcd; fi
setsid "$ETCD" --name t --data-dir "$D/etcd" --unsafe-no-fsync \
  --listen-client-urls "http://127.0.0.1:$EC" --advertise-client-urls "http://127.0.0.1:$EC" \
  --listen-peer-urls "http://127.0.0.1:$EP" --initial-advertise-peer-urls "http://127.0.0.1:$EP" \
  --initial-cluster "t=http://127.0.0.1:$EP" --initial-cluster-state new \
  --quota-backend-bytes 4294967296 --auto-compaction-mode=revision --auto-compaction-retention=100000 \
  --logger=zap --log-level=error </dev/null >etcd.log 2>&1 & echo $! >etcd.pid

# --- kube-apiserver -----------------------------------------------------------------
# endpoint-reconciler none + advertise-address: lets a loopback-only server run;
# ServiceAccount admission needs a controller-manager making default/ SAs, so off without KCM.
DIS=TaintNodesByCondition,Priority,StorageObjectInUseProtection,PersistentVolumeClaimResize
[ -z "$KCM" ] && DIS=$DIS,ServiceAccount
echo "https://127.0.0.1:$API" >url
cat >run-apiserver <<R
#!/bin/sh
cd "$D" && exec env GOGC=${APISERVER_GOGC:-400} "$APISERVER" --etcd-servers=http://127.0.0.1:$EC \\
  --bind-address=127.0.0.1 --secure-port=$API --advertise-address=127.0.0.1 --endpoint-reconciler-type=none \\
  --tls-cert-file=pki/apiserver.crt --tls-private-key-file=pki/apiserver.key --client-ca-file=pki/ca.crt \\
  --token-auth-file=tokens.csv --authorization-mode=Node,RBAC \\
  --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=pki/sa.key \\
  --service-account-signing-key-file=pki/sa.key --api-audiences=https://kubernetes.default.svc \\
  --service-cluster-ip-range=10.0.0.0/24 --disable-admission-plugins=$DIS \\
  --kubelet-certificate-authority=pki/ca.crt --kubelet-client-certificate=pki/kubelet-client.crt \\
  --kubelet-client-key=pki/kubelet-client.key --kubelet-preferred-address-types=InternalIP \\
  --allow-privileged=true --profiling=false --event-ttl=1h --cert-dir="$D/pki" --v=${KLOG:-0} ${EXTRA:-}
R
chmod 700 run-apiserver
api_up

if [ -n "$KCM" ]; then
  setsid "$KCM" --kubeconfig=kcm.kubeconfig --bind-address=127.0.0.1 --secure-port="$KCMP" --port=0 --cert-dir="$D/pki" \
    --controllers=namespace,serviceaccount,serviceaccount-token,garbagecollector,podgc --leader-elect=false \
    --use-service-account-credentials=false --service-account-private-key-file=pki/sa.key --root-ca-file=pki/ca.crt \
    --profiling=false --v="${KLOG:-0}" </dev/null >kcm.log 2>&1 & echo $! >kcm.pid
fi
cat > env <<V
export KUBECONFIG=$D/admin.kubeconfig
export KUBE_ADMIN=$D/admin.kubeconfig
export KUBE_RESTRICTED=$D/restricted.kubeconfig
export KUBE_URL=https://127.0.0.1:$API
export KUBE_ETCD=http://127.0.0.1:$EC
export KUBE_PKI=$D/pki
V
cat env
