// Writes records of the results on descriptor 3.
"use strict";
const fs = require("node:fs");

// report writes all of a record, which a pipe may take in parts.
function report(record) {
  let rest = Buffer.from(JSON.stringify(record) + "\n");
  while (rest.length > 0) {
    try {
      rest = rest.subarray(fs.writeSync(3, rest));
    } catch (e) {
      if (e.code !== "EAGAIN") throw e;
    }
  }
}

module.exports = { report };
