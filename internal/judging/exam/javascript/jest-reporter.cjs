// Reports each test of jest on descriptor 3.
"use strict";
const { report } = require("./report.cjs");

module.exports = class {
  onTestResult(_, { testResults, testExecError }) {
    if (testExecError) report({ type: "guild:broken", message: String(testExecError.message).slice(0, 1000) });
    for (const { ancestorTitles, title, status, failureMessages, duration } of testResults) {
      report({
        type: "jest:test", name: [...ancestorTitles, title].join(" > "), status, us: Math.round((duration ?? 0) * 1000),
        message: failureMessages.join("\n").slice(0, 1000),
      });
    }
  }

  getLastError() {}
};
