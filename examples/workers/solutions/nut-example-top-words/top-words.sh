#!/bin/sh
# usage: top-words.sh N <text
# Prints the N most frequent words of the text, each with its count.
usage() {
	echo 'usage: top-words.sh N <text' >&2
	exit 2
}

[ $# -eq 1 ] || usage
case $1 in
'' | *[!0-9]*) usage ;;
esac
[ "$1" -gt 0 ] || usage

LC_ALL=C
export LC_ALL
tr 'A-Z' 'a-z' | tr -cs "a-z'" '\n' | sed "s/^'*//; s/'*\$//; /^\$/d" |
	sort | uniq -c | sort -k1,1nr -k2,2 | head -n "$1" | awk '{ print $2, $1 }'
