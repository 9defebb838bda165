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
  local name=$1 pattern=$2 least=$3 equals=$4 expected=$5 remedy=$6 output line found="" seen=""
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
    seen=${BASH_REMATCH[1]}
    if [[ -n $equals && $seen != "$equals" ]]; then continue; fi
    found=$seen
    if [[ -n $equals ]]; then break; fi
    if [[ -n $least ]] && ! reaches "$found" "$least"; then
      lacks "$name" "found $found" "$expected" "$remedy"
      return
    fi
  done <<< "$output"
  if [[ -z $found ]]; then
    local shown="$1 does not show it"
    [[ -z $seen ]] || shown="found $seen"
    lacks "$name" "$shown" "$expected" "$remedy"
    return
  fi
  printf 'ok       %s: %s\n' "$name" "$found"
}
