#!/bin/sh
# Prints what the script answers to each wrong argument.
answer() {
	usage=$(printf 'some words' | sh ./top-words.sh "$@" 2>&1 >/dev/null)
	output=$(printf 'some words' | sh ./top-words.sh "$@" 2>/dev/null)
	code=$?
	printf '[%s] exit %s, output "%s", usage %s\n' "$*" "$code" "$output" "${usage:+printed}"
}
answer
answer zero
answer 0
answer -3
answer 2.5
answer 1 2
