package schema

import "slices"

func manifestTexts() []text {
	return slices.Concat(taskTexts(), materialTexts(), conductTexts(), recordTexts())
}

// taskTexts are about which bundle it is, and what is to be done.
func taskTexts() []text {
	return []text{
		{path: "nutshell_version", says: "Version of the specification that the bundle follows: 0.1 or later, with major number 0."},
		{path: "bundle_type", says: "What the bundle is: a task (request), or what came of one (delivery). The others are from the older schema."},
		{path: "request_id", says: "Of a delivery: the id of the request that it answers."},
		{path: "id", says: "The name of this bundle among all bundles: nut- and a UUID."},
		{path: "parent_id", says: "Of a part of a task: the id of the bundle that was split."},
		{path: "created_at", says: "When the bundle was made."},
		{path: "expires_at", says: "The deadline. After it, the bundle is not valid any more."},

		{path: "task", says: "What is to be done."},
		{path: "task.title", says: "The task in one line. Without it, the bundle is a draft."},
		{path: "task.summary", says: "The task in a few sentences."},
		{path: "task.priority", says: "How much it matters."},
		{path: "task.estimated_effort", says: "How long it may take: an ISO 8601 duration (PT8H) or words (8h)."},

		{path: "tags", says: "Labels of the task, for finding who can do it (section 6)."},
		{path: "tags.skills_required", says: "What who does it must know, such as golang."},
		{path: "tags.domains", says: "The fields that the task belongs to, such as backend."},
		{path: "tags.data_sources", says: "Where the data are, such as postgresql://host. Implies credentials."},
		{path: "tags.custom", says: "Labels of your own, of any name and kind."},

		{path: "publisher", says: "Who made the bundle, by their own word."},
		{path: "publisher.name", says: "A person or an agent."},
		{path: "publisher.contact", says: "How to reach the publisher."},
		{path: "publisher.tool", says: "The tool that made the bundle."},
	}
}

// materialTexts are about what the task is done with.
func materialTexts() []text {
	return []text{
		{path: "context", says: "Files that explain the task, in the order in which an agent should read them."},
		{path: "context.requirements", says: "The file with what is wanted in detail."},
		{path: "context.architecture", says: "The file that says how the system is built."},
		{path: "context.references", says: "The file with links to what is elsewhere."},
		{path: "context.additional", says: "More files, in their order."},

		{path: "files", says: "The files of the bundle beside the manifest. pack fills it in."},
		{path: "files.total_count", says: "How many files there are."},
		{path: "files.total_size_bytes", says: "Their size together, in bytes."},
		{path: "files.tree", says: "One entry for each file. With hashes, the list is binding."},
		{path: "files.tree.path", says: "Where the file is in the bundle, with slashes."},
		{path: "files.tree.size", says: "Its size in bytes."},
		{path: "files.tree.hash", says: "sha256: and the SHA-256 of its content in hex."},
		{path: "files.tree.role", says: "What it is for: something to build on, to look at, or to keep to."},

		{path: "apis", says: "Interfaces that the task may call (section 8)."},
		{path: "apis.endpoints_spec", says: "The file that describes the calls, apis/endpoints.json."},
		{path: "apis.base_urls", says: "Addresses by name, such as staging."},
		{path: "apis.auth_method", says: "How calls are authorised. Implies credentials, unless it is none."},
		{path: "apis.credential_ref", says: "The vault, or the name of the credential in it, that authorises the calls."},

		{path: "credentials", says: "The vault and what is in it (section 7). Never a secret."},
		{path: "credentials.vault", says: "The file with the sealed vault, credentials/vault.enc.json."},
		{path: "credentials.encryption", says: "What the vault is sealed with."},
		{path: "credentials.scopes", says: "What each credential allows."},
		{path: "credentials.scopes.name", says: "The name of the credential in the vault."},
		{path: "credentials.scopes.type", says: "What it opens, such as postgresql or bearer_token."},
		{path: "credentials.scopes.access_level", says: "What it may be used for."},
		{path: "credentials.scopes.rate_limit", says: "How often it may be used, such as 100/min."},
		{path: "credentials.scopes.expires_at", says: "Until when it may be used."},
		{path: "credentials.recipients", says: "Whom the vault is sealed for: public keys. Not in the specification."},
		{path: "credentials.beside", says: "The vault travels beside the bundle, not in it. Not in the specification."},
		{path: "credentials.rotation", says: "How newer vaults are known. Not in the specification."},
		{path: "credentials.rotation.pubkey", says: "Who signs newer vaults: a Nostr key in hex."},
		{path: "credentials.rotation.url", says: "Where newer vaults are found: https."},
	}
}

// conductTexts are about how the work is done and judged.
func conductTexts() []text {
	return []text{
		{path: "acceptance", says: "How the work will be judged."},
		{path: "acceptance.criteria_file", says: "The file with the criteria, tests/criteria.json (section 9)."},
		{path: "acceptance.test_scripts", says: "Scripts that test the work."},
		{path: "acceptance.auto_verifiable", says: "A program can decide whether the work is accepted."},
		{path: "acceptance.human_review_required", says: "A person looks at the work in any case."},
		{path: "acceptance.checklist", says: "What must be true of the work, in words."},
		{path: "acceptance.hidden_tests", says: "Commitments to tests that stay with the customer. pack fills it in. Not in the specification."},
		{path: "acceptance.hidden_tests.path", says: "The file, below tests/hidden."},
		{path: "acceptance.hidden_tests.hash", says: "sha256: and the SHA-256 of the salt and the file."},

		{path: "harness", says: "Advice to whatever runs the agent."},
		{path: "harness.agent_type_hint", says: "What kind of work it is."},
		{path: "harness.context_budget_hint", says: "The share of the context window to fill, from 0 to 1."},
		{path: "harness.execution_strategy", says: "All at once, step by step, or side by side."},
		{path: "harness.checkpoints", says: "Progress should be saved on the way."},
		{path: "harness.constraints", says: "What the agent must keep to, in words."},

		{path: "resources", says: "Things outside the bundle, and images in it."},
		{path: "resources.repos", says: "Repositories."},
		{path: "resources.repos.url", says: "Where it is."},
		{path: "resources.repos.branch", says: "The branch to look at."},
		{path: "resources.repos.relevance", says: "What it has to do with the task, such as primary."},
		{path: "resources.docs", says: "Documentation elsewhere."},
		{path: "resources.docs.url", says: "Where it is."},
		{path: "resources.docs.title", says: "What it is called."},
		{path: "resources.images", says: "Images in the bundle."},
		{path: "resources.images.path", says: "The file."},
		{path: "resources.images.description", says: "What it shows."},
		{path: "resources.links", says: "Anything else elsewhere."},
		{path: "resources.links.url", says: "Where it is."},
		{path: "resources.links.title", says: "What it is called."},
	}
}

// recordTexts are about what tools write down.
func recordTexts() []text {
	return []text{
		{path: "completeness", says: "What the last check found (section 4). check --write fills it in."},
		{path: "completeness.status", says: "A draft has no title, an incomplete bundle has gaps, a ready one has none."},
		{path: "completeness.missing", says: "What is missing, as dotted paths such as credentials.vault."},
		{path: "completeness.warnings", says: "What may be worth a look, in words."},

		{path: "compression", says: "How the archive is packed. pack fills it in."},
		{path: "compression.algorithm", says: "gzip, zstd or none. nutcracker is from the first draft."},
		{path: "compression.original_size_bytes", says: "Size of all files but the manifest, in bytes."},
		{path: "compression.compressed_size_bytes", says: "Size of the packed archive, in bytes."},
		{path: "compression.context_tokens_estimate", says: "About how many tokens the context has."},

		{path: "extensions", says: "What other tools add, each under its own name (section 10). Never a core field."},
	}
}
