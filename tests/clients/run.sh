#!/usr/bin/env bash
# Official clients against the gateway: bash tests/clients/run.sh
#
# Installs the locked requirements into target/clients (PyPI, npm), builds the gateway, and runs each folder's tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
place="$PWD/${CARGO_TARGET_DIR:-target}"
[ -z "${CARGO_TARGET_DIR:-}" ] || place="$(realpath -m "$CARGO_TARGET_DIR")"
tests="$PWD/tests/clients"
mkdir -p "$place/clients"

# Google's client wants older versions of what the others use, and schemathesis newer ones: folders with requirements of
# their own.
for folder in python google openapi; do
    if ! cmp -s "$tests/$folder/requirements.txt" "$place/clients/$folder/installed"; then
        python3 -m venv --clear "$place/clients/$folder"
        "$place/clients/$folder/bin/pip" install --quiet --disable-pip-version-check -r "$tests/$folder/requirements.txt"
        cp "$tests/$folder/requirements.txt" "$place/clients/$folder/installed"
    fi
done
mkdir -p "$place/clients/node"
cp "$tests"/node/*.json "$tests"/node/*.js "$place/clients/node/"
if ! cmp -s "$tests/node/package-lock.json" "$place/clients/node/installed"; then
    npm ci --prefix "$place/clients/node" --silent --no-audit --no-fund
    cp "$tests/node/package-lock.json" "$place/clients/node/installed"
fi

cargo build --locked --quiet
export INTERLOCK="${INTERLOCK:-$place/debug/interlock}"

# Translated answers, judged by the official SDKs' own models.
INTERLOCK_TRANSLATED="$place/clients/translated.jsonl" \
    cargo test --locked --quiet -p interlock-providers --lib translated::
"$place/clients/python/bin/python" "$tests/python/translated.py" "$place/clients/translated.jsonl"

for folder in python google; do
    python="$place/clients/$folder/bin/python"
    "$python" "$tests/world.py" "$python" -m pytest -q -p no:cacheprovider "$tests/$folder"
done
# One file after the other: they count a provider's calls.
"$python" "$tests/world.py" node --test --test-concurrency=1 "$place/clients/node/"
"$python" "$tests/world.py" bash "$tests/openapi/check.sh" "$place/clients/openapi/bin/schemathesis"
