#!/usr/bin/env bash
# Official clients against the gateway: bash tests/clients/run.sh
#
# Installs the locked requirements into target/clients (PyPI, npm), builds the gateway, and runs both folders' tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
place="$PWD/${CARGO_TARGET_DIR:-target}"
[ -z "${CARGO_TARGET_DIR:-}" ] || place="$(realpath -m "$CARGO_TARGET_DIR")"
tests="$PWD/tests/clients"
mkdir -p "$place/clients"

if ! cmp -s "$tests/python/requirements.txt" "$place/clients/venv/installed"; then
    python3 -m venv --clear "$place/clients/venv"
    "$place/clients/venv/bin/pip" install --quiet --disable-pip-version-check -r "$tests/python/requirements.txt"
    cp "$tests/python/requirements.txt" "$place/clients/venv/installed"
fi
mkdir -p "$place/clients/node"
cp "$tests"/node/*.json "$tests"/node/*.js "$place/clients/node/"
if ! cmp -s "$tests/node/package-lock.json" "$place/clients/node/installed"; then
    npm ci --prefix "$place/clients/node" --silent --no-audit --no-fund
    cp "$tests/node/package-lock.json" "$place/clients/node/installed"
fi

cargo build --locked --quiet
export INTERLOCK="${INTERLOCK:-$place/debug/interlock}"
python="$place/clients/venv/bin/python"

# Translated answers, judged by the official SDKs' own models.
INTERLOCK_TRANSLATED="$place/clients/translated.jsonl" \
    cargo test --locked --quiet -p interlock-providers --lib translated::
"$python" "$tests/python/translated.py" "$place/clients/translated.jsonl"

"$python" "$tests/world.py" "$python" -m pytest -q -p no:cacheprovider "$tests/python"
"$python" "$tests/world.py" node --test "$place/clients/node/"
