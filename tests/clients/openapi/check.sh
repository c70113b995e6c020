#!/usr/bin/env bash
# What `/openapi.json` says, held against both listeners: no 500, and no answer that it does not describe.
#
#     python world.py bash check.sh SCHEMATHESIS [CASES]      cases for each way in which an operation is asked, 10
set -euo pipefail
schemathesis=$1 cases=${2:-10}

ask() {
    "$schemathesis" run "$1/openapi.json" --header "Authorization: Bearer $2" --max-examples "$cases" --seed 1 \
        --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
        --generation-database none --warnings off --no-color "${@:3}"
}

ask "$GATEWAY" "$GATEWAY_KEY" --exclude-path-regex ^/admin/
ask "$OPERATOR" "$OPERATOR_TOKEN" --include-path-regex ^/admin/
