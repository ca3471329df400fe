// parse returns the seconds of a duration such as "1h30m", or null if it is none.
export function parse(text) {
  throw new Error("to be written");
}

// format returns the shortest text that parse reads as so many seconds.
export function format(seconds) {
  throw new Error("to be written");
}
