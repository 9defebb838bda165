"""Writes the checks of a plan's set-up as a shell script, which installs nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from advisor.export.checks.steps import Platform, Stage, Step
from advisor.export.quoting import comments, shell_word
from advisor.export.script import START, text_of
from advisor.export.setup import Setup
from advisor.foundation.names import visible

FUNCTIONS: Final = r"""
missing=0

# Whether a version or number reaches another, part by part.
reaches() {
  local have need index
  IFS=. read -r -a have <<< "${1//[!0-9.]/}"
  IFS=. read -r -a need <<< "$2"
  for index in "${!need[@]}"; do
    if ((10#${have[index]:-0} > 10#${need[index]:-0})); then return 0; fi
    if ((10#${have[index]:-0} < 10#${need[index]:-0})); then return 1; fi
  done
  return 0
}

lacks() {
  missing=$((missing + 1))
  printf 'missing  %s: %s\n         expected: %s\n         %s\n' "$1" "$2" "$3" "$4"
}

# check NAME PATTERN LEAST EQUALS EXPECTED REMEDY COMMAND...
check() {
  local name=$1 pattern=$2 least=$3 equals=$4 expected=$5 remedy=$6 output line found=""
  shift 6
  if ! command -v "$1" > /dev/null 2>&1; then
    lacks "$name" "the command $1 is not there" "$expected" "$remedy"
    return
  fi
  if ! output=$("$@" 2> /dev/null < /dev/null); then
    lacks "$name" "$1 fails" "$expected" "$remedy"
    return
  fi
  while IFS= read -r line; do
    [[ $line =~ $pattern ]] || continue
    if [[ -n $equals && ${BASH_REMATCH[1]} == "$equals" ]]; then found=$equals; break; fi
    [[ -z $equals ]] || { found=""; continue; }
    found=${BASH_REMATCH[1]}
    if [[ -n $least ]] && ! reaches "$found" "$least"; then
      lacks "$name" "found $found" "$expected" "$remedy"
      return
    fi
  done <<< "$output"
  if [[ -z $found ]]; then
    lacks "$name" "$1 does not show it" "$expected" "$remedy"
    return
  fi
  printf 'ok       %s: %s\n' "$name" "$found"
}
"""
"""Shell functions that run a check and compare what it prints. For bash 3.2 and newer."""


def check_script(setup: Setup, platform: Platform, steps: Iterable[Step]) -> str:
    """Return a script that checks a machine, says what is missing and then exits with 1."""
    head = (
        *setup.header,
        f"Checks a machine for this plan on the platform {platform.value}. It installs nothing.",
    )
    lines = [
        " ".join(map(shell_word, _words(step)))
        for step in steps
        if step.check and step.stage is not Stage.MONITOR
    ]
    return text_of(
        START,
        comments(head),
        ("set -u",),
        FUNCTIONS.strip("\n").split("\n"),
        ("",),
        lines,
        (
            "",
            "if ((missing)); then",
            "  printf '%s missing\\n' \"$missing\"",
            "  exit 1",
            "fi",
            "echo 'nothing missing'",
        ),
    )


def _words(step: Step) -> tuple[str, ...]:
    pattern = step.reads or "(.+)"
    texts = (step.name, pattern, step.least, step.equals, step.expect, step.do)
    return ("check", *map(visible, texts), *step.check)
