#!/usr/bin/env bash
set -euo pipefail

LIMIT=10

load() {
  local path=$1
  if [ -n "$path" ]; then
    echo "$path"
  fi
}

function hidden {
  echo x
}

function both() {
  inner() {
    echo 1
  }
  inner
}

load "$@"
