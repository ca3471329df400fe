const units = { d: 86400, h: 3600, m: 60, s: 1 };

// parse returns the seconds of a duration such as "1h30m", or null if it is none.
export function parse(text) {
  const parts = /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text);
  if (!text || !parts) return null;
  return Object.values(units).reduce((sum, seconds, i) => sum + seconds * Number(parts[i + 1] ?? 0), 0);
}

// format returns the shortest text that parse reads as so many seconds.
export function format(seconds) {
  let text = "";
  for (const [unit, size] of Object.entries(units)) {
    const n = Math.floor(seconds / size);
    seconds -= n * size;
    if (n > 0) text += n + unit;
  }
  return text || "0s";
}
