// Begins the tests' side in a context of jest before the file of tests does.
"use strict";
require("./jest.cjs");
