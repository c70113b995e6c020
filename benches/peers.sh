#!/bin/bash
# The same load through LiteLLM's proxy and Portkey's gateway, side by side with ours: `benches/peers.sh [FOLDER]`.
# Both are installed into FOLDER (a throw-away one without it; about 700 MB), from PyPI and npm, each as one process with
# its own defaults. They commit nothing; ours commits every job twice. `CLIENTS`, `SECONDS_EACH` and `ROUNDS` change the
# length. Needs python3 with venv, node 18 or newer, npm, and what `cargo bench --bench durable` needs.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"
processes=()
end() {
    for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
    [ -n "${kept:-}" ] || rm -rf "$folder"
}
kept=${1:-}
trap end EXIT

[ -x venv/bin/litellm ] || { python3 -m venv venv && venv/bin/pip install --quiet 'litellm[proxy]'; }
[ -d node_modules/@portkey-ai/gateway ] || npm install --no-audit --no-fund --silent @portkey-ai/gateway

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
mock=$(free_port) litellm=$(free_port) portkey=$(free_port)

cat > litellm.yaml <<YAML
model_list:
  - model_name: support
    litellm_params: {model: openai/m, api_base: "http://127.0.0.1:$mock/v1", api_key: x}
YAML
LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY=true LITELLM_LOG=ERROR LITELLM_LOCAL_MODEL_COST_MAP=True venv/bin/litellm --config litellm.yaml --host 127.0.0.1 --port "$litellm" --num_workers 1 > litellm.log 2>&1 &
processes+=($!)
litellm_process=$!
TRUSTED_CUSTOM_HOSTS=127.0.0.1,localhost PORT=$portkey node node_modules/@portkey-ai/gateway/build/start-server.js --headless --port="$portkey" > portkey.log 2>&1 &
processes+=($!)
portkey_process=$!
for port in "$litellm" "$portkey"; do
    for _ in $(seq 240); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
        sleep 0.5
    done
done

cd "$top"
for clients in ${CLIENTS:-1 16 64}; do
    cargo bench --bench durable -- --clients "$clients" --seconds "${SECONDS_EACH:-3}" --rounds "${ROUNDS:-3}" --mock-at "127.0.0.1:$mock" \
        --peer "LiteLLM|127.0.0.1:$litellm|$litellm_process|authorization: Bearer x" \
        --peer "Portkey|127.0.0.1:$portkey|$portkey_process|authorization: Bearer x|x-portkey-provider: openai|x-portkey-custom-host: http://127.0.0.1:$mock/v1"
done
