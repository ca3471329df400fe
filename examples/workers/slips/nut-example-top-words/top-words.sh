#!/bin/sh
# usage: top-words.sh N <text
# Prints the N most frequent words of the text, each with its count.
# Forgets quotes, the order of equal counts, and wrong arguments.
tr 'A-Z' 'a-z' | tr -cs 'a-z' '\n' | sed '/^$/d' | sort | uniq -c | sort -rn | head -n "$1" | awk '{ print $2, $1 }'
