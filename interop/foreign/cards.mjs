// The cards and answers of other implementations, from their sources: each card as it is published, the input
// that it reads, and the events with which it answers.
const first = (request, name) => request.tags.find((t) => t[0] === name)?.[1];
const answered = (request) => [["e", request.id], ["p", request.pubkey]];
const capitals = (text) => text.toUpperCase();

// prompt is the text that a program works on: that of the first i tag, whose type is text.
const prompt = (request) => {
  const input = request.tags.find((t) => t[0] === "i");
  if (!input || input[2] !== "text") throw new Error(`no text to work on: ${JSON.stringify(request.tags)}`);
  return input[1];
};

export const forms = {
  // NIP-89 at its barest, and NIP-90's result.
  bare: {
    card: { tags: [["d", "x"], ["k", "5050"]], content: "" },
    answers: (request) => [
      { kind: request.kind + 1000, tags: [["request", JSON.stringify(request)], ...answered(request)], content: capitals(prompt(request)) },
    ],
  },

  // The example of the partnership protocol, section 1.3.3.
  specification: {
    card: {
      tags: [["d", "benchmark-platform-v2"], ["k", "5000"], ["k", "benchmark-task"]],
      content: JSON.stringify({
        name: "ComputeNode Alpha", capabilities: ["benchmark-task", "data-processing"], version: "2.1.0",
        pricing: "per-request", performance: { typical_latency_ms: 5000 },
      }),
    },
    answers: (request) => [{ kind: 6000, tags: answered(request), content: capitals(prompt(request)) }],
  },

  // The worker of 2020117. It ignores a bid below its price, which is in sats.
  2020117: {
    card: {
      tags: [["d", "bob-5050-5000"], ["k", "5050"], ["k", "5000"]],
      content: JSON.stringify({
        name: "bob", about: "DVM agent (kind 5050)", pricing: { 5050: 10 },
        payment: { lightning_address: "bob@example.com" }, lud16: "bob@example.com",
      }),
    },
    answers(request) {
      const bid = first(request, "bid");
      if (bid && Number(bid) < 10000) return [];
      const tags = [["p", request.pubkey], ["e", request.id]];
      return [
        { kind: 7000, tags: [...tags, ["status", "processing"]], content: "" },
        { kind: request.kind + 1000, tags, content: capitals(prompt(request)) + "\n" },
      ];
    },
  },

  // nostrdvm. With supportsEncryption it is asked in NIP-44, and puts the decrypted tags in place of all others.
  nostrdvm: {
    card: {
      tags: [["k", "5001"], ["d", "0a1b2c3d4e5f6071"]],
      content: JSON.stringify({
        name: "Summarizer", picture: "https://example.com/a.png", about: "I use a LLM to summarize Inputs",
        supportsEncryption: true, acceptsNutZaps: false, nip90Params: {},
      }),
    },
    encrypted: true,
    answers: (request) => [
      { kind: 6001, tags: [["encrypted"], ["p", request.pubkey], ["e", request.id]], content: capitals(prompt(request)), seal: true },
    ],
  },

  // DVMCP: a tool of the Model Context Protocol, called with JSON in the content.
  dvmcp: {
    card: {
      tags: [["d", "dvm-announcement"], ["k", "5910"], ["capabilities", "mcp-1.0"], ["t", "mcp"], ["t", "summarize"]],
      content: JSON.stringify({
        name: "MCP Tools DVM", about: "AI and computational tools via MCP",
        tools: [{
          name: "summarize", description: "Summarizes text input",
          inputSchema: { type: "object", properties: { text: { type: "string", description: "Text to summarize" } } },
        }],
      }),
    },
    answers(request) {
      if (first(request, "c") !== "execute-tool") throw new Error("no command");
      const call = JSON.parse(request.content);
      if (call.name !== "summarize") throw new Error(`no tool ${call.name}`);
      const result = { content: [{ type: "text", text: capitals(call.parameters.text) }], isError: false };
      const tags = [["c", "execute-tool-response"], ...answered(request), ["status", "success"]];
      return [{ kind: 6910, tags, content: JSON.stringify(result) }];
    },
  },
};
