import assert from "node:assert/strict";
import { test } from "node:test";
import { format, parse } from "../durations.mjs";

function reads(cases) {
  for (const [text, seconds] of Object.entries(cases)) assert.equal(parse(text), seconds, text);
}

test("reads one unit", () => reads({ "1s": 1, "2m": 120, "3h": 10800, "4d": 345600 }));

test("reads several units", () => reads({ "1h30m": 5400, "1d2h3m4s": 93784, "2d5s": 172805, "1m1s": 61 }));

test("reads numbers beyond the next unit", () => reads({ "90m": 5400, "100s": 100, "48h": 172800, "1h61m": 7260 }));

test("reads zeros", () => reads({ "0s": 0, "0d": 0, "1h0m": 3600, "007s": 7 }));

test("refuses what has no number or no unit", () => reads({ "": null, "5": null, m: null, "1h5": null, h5m: null, "5s": 5 }));

test("refuses another order", () => reads({ "1m1h": null, "1s1m": null, "1h1d": null, "1h1m": 3660 }));

test("refuses a unit twice", () => reads({ "1h1h": null, "1s2s": null, "1m1s": 61 }));

test("refuses signs, spaces, fractions and other letters", () =>
  reads({ "-1s": null, "+1s": null, " 1s": null, "1s ": null, "1 s": null, "1.5h": null, "1w": null, "1H": null, "1h": 3600 }));

test("writes the parts that are not zero", () => {
  assert.equal(format(93784), "1d2h3m4s");
  assert.equal(format(3600), "1h");
  assert.equal(format(172805), "2d5s");
  assert.equal(format(59), "59s");
});

test("writes nothing as 0s", () => {
  assert.equal(format(0), "0s");
  assert.equal(format(60), "1m");
});

test("reads what it writes", () => {
  for (const seconds of [1, 61, 3599, 86400, 90061]) assert.equal(parse(format(seconds)), seconds);
  assert.equal(format(90061), "1d1h1m1s");
});
