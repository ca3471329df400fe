#!/usr/bin/env python3
"""Does typed jobs without any model: request.json here, response.json into GUILD_DELIVERY."""
import json, os

with open("request.json") as f:
    q = json.load(f)

if "texts" in q:  # oa.embedding.v1
    letters = [[float(t.count(c) + 1) for c in "aeiou"[: q.get("dimensions", 3)]] for t in q["texts"]]
    result = {"embeddings": letters, "model_id": q.get("model_hint", "letters"), "dimensions": len(letters[0])}
elif "candidates" in q:  # oa.retrieval_rerank.v1: the more words in common, the better
    words = set(q["user_task"].lower().split())
    score = {c["id"]: len(words & set(c["content"].lower().split())) for c in q["candidates"]}
    best = sorted(score, key=lambda i: (-score[i], i))[: q["k"]]
    result = {"topk": [{"rank": n + 1, "id": i, "score": float(score[i])} for n, i in enumerate(best)]}
else:  # oa.code_chunk_analysis.v1
    chunk = q["chunk"]
    faults = [
        {"line": chunk["start_line"] + n, "severity": "medium", "description": "divides by a length that may be 0"}
        for n, line in enumerate(chunk["content"].splitlines())
        if "/ len(" in line
    ]
    result = {"summary": "One function.", "symbols": [], "suspected_faults": faults, "recommended_next_probes": [], "confidence": 0.5}
result["provenance"] = {"model_id": result.get("model_id", "worker.py"), "tokens": {"input": 0, "output": 0}}
with open(os.environ["GUILD_DELIVERY"] + "/response.json", "w") as f:
    json.dump(result, f)
