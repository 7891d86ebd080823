# Sourced by scripts/run, scripts/test and scripts/check: leaves the working folder at the root of the checkout and `.venv`
# ready. The lock file and pyproject.toml are stamped into `.venv` after an installation, so that the next run asks no
# registry and starts at once; a changed lock installs again.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.11 python3.12 python3.13 python3; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return 0
    fi
  done
  echo "foldline needs Python 3.11 or newer; set PYTHON to its path." >&2
  return 1
}

prepare_venv() {
  local python wanted
  if [ ! -x .venv/bin/python ] || ! .venv/bin/python -c '' 2>/dev/null; then
    python=$(find_python) || return 1
    echo "Making .venv with $("$python" --version) …" >&2
    rm -rf .venv
    "$python" -m venv .venv || {
      echo "The venv module is missing (Debian: apt-get install python3-venv)." >&2
      return 1
    }
  fi
  # The folder is part of the stamp: an editable installation points at the checkout that it was made in.
  wanted=$({ pwd && cat requirements.lock pyproject.toml; } | .venv/bin/python -c \
    'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())')
  if [ "$(cat .venv/foldline-lock 2>/dev/null)" = "$wanted" ]; then
    return 0
  fi
  echo "Installing the locked packages into .venv …" >&2
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock &&
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e . ||
    return 1
  echo "$wanted" >.venv/foldline-lock
}

prepare_venv || exit 1
