#!/usr/bin/env bash
# Three servers on one PostgreSQL. Each reads what the others have stored, and any may be killed.
#
#   examples/replicas.sh [postgresql://…]
#
# Without a URI, the script starts a temporary PostgreSQL. RETAIN names the program to run; the
# default is `retain`.
set -euo pipefail

if [[ $# -eq 0 ]]; then
  services=$(cd "$(dirname "${BASH_SOURCE[0]}")/../scripts" && pwd)/services
  # shellcheck disable=SC2016 # the other shell expands it
  exec "$services" --dir "$(mktemp -d)" run bash -c '"$0" "$TEST_POSTGRES_URL"' "$0"
fi
url=$1
work=$(mktemp -d)
declare -a pids=() at=()
cleanup() {
  kill "${pids[@]}" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap cleanup EXIT

start() { # NUMBER
  : >"$work/$1"
  (
    cd "$work"
    exec "${RETAIN:-retain}" serve --port 0 --model offline --session-service-uri "$url"
  ) >"$work/$1" 2>"$work/$1.log" &
  pids[$1]=$!
  for _ in {1..300}; do
    at[$1]=$(grep -oE -m1 'http://127\.0\.0\.1:[0-9]+' "$work/$1" || true)
    if [[ -n ${at[$1]} ]]; then return; fi
    sleep 0.1
  done
  cat "$work/$1.log" >&2
  exit 1
}

tell() { # NUMBER TEXT
  curl -sS --fail-with-body "${at[$1]}/run" -H 'Content-Type: application/json' -d '{
    "appName": "assistant", "userId": "ada", "sessionId": "monday",
    "newMessage": {"role": "user", "parts": [{"text": "'"$2"'"}]}}' >/dev/null
}

for number in 1 2 3; do start "$number"; done
echo "three servers: ${at[*]}"

follow=/api/v1/apps/assistant/users/ada/sessions/monday/tail
tell 1 'My favorite tea is Earl Grey.'
curl -sSN "${at[3]}$follow" >"$work/tail" &
listener=$!

echo 'the first server is killed; the second continues the same session'
kill -KILL "${pids[1]}"
wait "${pids[1]}" 2>/dev/null || true
tell 2 'What is my favorite tea?'

echo 'the first server restarts and has every event'
start 1
tell 1 'Thank you.'

echo 'the client that follows the session at the third server received every event, in order:'
for _ in {1..100}; do
  if [[ $(grep -c '^id: ' "$work/tail") -ge 6 ]]; then break; fi
  sleep 0.1
done
kill "$listener"
sed -nE 's/^id: /  position /p' "$work/tail"
[[ $(sed -n 's/^id: //p' "$work/tail" | tr '\n' ' ') == '1 2 3 4 5 6 ' ]]
