#!/bin/sh
# usage: top-words.sh N <text
# Prints the N most frequent words of the text, each with its count.
echo 'top-words.sh: to be written' >&2
exit 1
