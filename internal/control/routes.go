package control

import (
	"cmp"
	"slices"
	"strings"

	"guild/internal/step/activity"
	"guild/internal/step/agents"
	"guild/internal/step/trust/exchange"
	"guild/nipae/agentfile"
)

// The API. Each endpoint says what it takes and answers; "guild help api" prints that. docs/API.md has examples.
var (
	NodeStatus = resource("GET /v1/status",
		"the node. parked: effects that failed for the last time; quarantined:\n"+
			"guards that lost entries; yields: why services are paused", (*Server).getStatus)

	Jobs = resource("GET /v1/jobs",
		"all jobs, the newest first", (*Server).getJobs)
	OneJob = resource("GET /v1/jobs/{id}",
		"one job", (*Server).getJob)
	CancelJob = resource("POST /v1/jobs/{id}/cancel",
		"the job. Late results are recorded and get no verdict", (*Server).cancelJob)
	ShredJob = resource("POST /v1/jobs/{id}/shred",
		"the job. Erases what a job that is over said; receipts, hashes and proofs\n"+
			"stay", (*Server).shredJob)
	Evidence = resource("GET /v1/jobs/{id}/evidence",
		"what the judge kept of each delivery; held if it waits for a person", (*Server).getEvidence)
	Choices = resource("GET /v1/jobs/{id}/choices",
		"why each provider was asked, by attempt", (*Server).getChoices)
	Delivery = document("GET /v1/jobs/{id}/delivery?attempt",
		"the delivery (.nut) as it was judged, accepted or not", "application/x-nutshell+gzip", (*Server).getDelivery)
	JobRequest = document("GET /v1/jobs/{id}/request",
		"the bundle (.nut) as it was sent, without hidden tests", "application/x-nutshell+gzip", (*Server).getRequestBundle)
	WorkChanges = resource("GET /v1/jobs/{id}/changes?attempt&rejected",
		"what the delivery changes, with diffs; one that was not accepted only\n"+
			"with rejected=true", (*Server).getChanges)
	TypedResult = document("GET /v1/jobs/{id}/result",
		"the accepted result of a typed job", "application/json", (*Server).getResult)
	RuleJob = action("POST /v1/jobs/{id}/rule",
		"body {\"outcome\":\"SUCCESS\",\"note\":…,\"attempt\":…}, also PARTIAL or\n"+
			"FAILURE; the job", maxWords, (*Server).ruleJob)
	DisputeJob = action("POST /v1/jobs/{id}/dispute",
		"body {\"reason\":…,\"attempt\":…}: judges a delivery again, within a day;\n"+
			"the job", maxWords, (*Server).postDispute)
	openJob = Upload[Job]{endpoint{"POST /v1/jobs",
		"body: a packed bundle; parameters in docs/API.md; the job", (*Server).postJob}} // Client.Hire
	jobUpdates = Stream[Update]{endpoint{"GET /v1/jobs/{id}/watch",
		"stream of updates, the past ones first; the last has the job as ended", (*Server).watchJob}} // Client.Watch
	OneProspect = resource("GET /v1/prospect?task&urgency&target",
		"who could be asked, and the highest bid that would be computed", (*Server).getProspect)
	KeepHidden = upload("POST /v1/hidden",
		"body: a packed bundle of hidden tests; its hash, for a hire", maxBundle, (*Server).postHidden) // hidden tests, for Hire.Hidden
	KeepRelease = action("POST /v1/releases",
		"body: credentials (docs/API.md); their hash, for a hire", maxRelease, (*Server).postRelease)
	NodeRecipient = resource("GET /v1/recipient",
		"the node's age recipient, for credentials", (*Server).getRecipient)

	Receipts = resource("GET /v1/receipts",
		"the receipts of all jobs, the newest first", (*Server).getReceipts)
	Receipt = document("GET /v1/receipts/{id}",
		"the receipt r-…, or the last of a job, byte for byte as it is hashed", "application/json", (*Server).getReceipt)
	ReceiptExport = document("GET /v1/receipts/{id}/export?reveal&without",
		"what proves a receipt, as a ZIP (docs/VERIFY.md); reveal=true adds\n"+
			"hidden tests, without=bundle.nut leaves a file out, repeatable", "application/zip", (*Server).getReceiptExport)
	Replay = document("GET /v1/replays/{id}?attempt",
		"REPLAY.jsonl of a job, up to its last attempt or the one named; or\n"+
			"the one that a receipt names", "application/x-ndjson", (*Server).getReplay)

	Providers = resource("GET /v1/providers?task",
		"known services", (*Server).getProviders)
	Cards = resource("GET /v1/providers/{key}?d",
		"a provider's services in full; observed is absent before the first\n"+
			"request", (*Server).getCards) // the services of one provider in full
	Story = resource("GET /v1/providers/{key}/story?task",
		"what happened between the node and a provider, the oldest first", (*Server).getStory) // the oldest first
	MarketChanges = Stream[Change]{endpoint{"GET /v1/market/watch",
		"stream: event is announced, updated, retracted, or the state that a\n" +
			"provider moved to", (*Server).watchMarket}} // until ctx ends
	ReplayRouting = action("POST /v1/market/replay",
		"body: policy (partnership or measured), task, since, epsilon, weights,\n"+
			"tiers, absent as in force; what the router would have chosen.\n"+
			"would_cost_msat and would_score_micro are estimates, sure_micro says how\n"+
			"much they rest on", maxWords, (*Server).postReplay)
	RecommendProvider = action("POST /v1/recommendations",
		"body {\"provider\":…} with d, task or kind: recommends an announcement", maxWords, (*Server).postRecommendation)

	Meetings = resource("GET /v1/meetings",
		"trials of providers, the newest first", (*Server).getMeetings)
	OneMeeting = resource("GET /v1/meetings/{id}",
		"one trial", (*Server).getMeeting)
	BeginMeeting = Action[Bench, Meeting]{endpoint{"POST /v1/meetings",
		"body {\"provider\":…,\"task\":…,\"d\":…,\"type\":\"standard\",\"modules\":[…]}:\n" +
			"begins a trial outside of the daily budget, or answers the one that runs", (*Server).postMeeting}}

	Trust = resource("GET /v1/trust?task",
		"entries by task, the most trusted first; alerts for a person; learned\n"+
			"variables; hash, equal for nodes that learned the same", (*Server).getMatrix)
	Standings = resource("GET /v1/trust/{key}?d",
		"state, cause, next, trust by task, others' reviews; at_once: requests\n"+
			"that it may have of us, 0 for the configured number", (*Server).getStandings)
	ChangeTrust = action("POST /v1/trust/{key}",
		"body: task and trust (0.1 to 0.9), or state; reason; d if there are\n"+
			"several services. state is suspended, reinstated (after a benchmark, or at\n"+
			"once with \"force\":true), removed (the key) or allowed (it is a stranger)", maxWords, (*Server).postTrust)
	RollBack = action("POST /v1/trust/rollback",
		"body {\"to\":1795157000000,\"task\":…}: trust as it was then", maxWords, (*Server).postRollback)
	ExportTrust = document("GET /v1/trust/export",
		"a signed document for another guild", "application/json", (*Server).getExport)
	ImportTrust = upload("POST /v1/trust/import?from&unsigned",
		"body: that document, signed by from if given; merges it, and says who\n"+
			"signed it and what was skipped. unsigned=true takes one without signature", exchange.MaxDocument, (*Server).postImport)
	Policy = document("GET /v1/policy",
		"the policy as canonical JSON, whose hash is the policy's id", "application/json", (*Server).getPolicy)

	Reviews = resource("GET /v1/reviews?task",
		"our reviews, the latest first: waiting, held, drafted, published or\n"+
			"retracted", (*Server).getReviews)
	ReviewCards = resource("GET /v1/reviews/{key}?task",
		"ours and others' reviews of a provider; at of others is in Unix seconds", (*Server).getReviewCards)
	ChangeReview = action("POST /v1/reviews/{key}/{act}",
		"act: publish, hold, resume or retract. Body: task, d, reason; id to\n"+
			"retract another than the latest", maxWords, (*Server).postReview)

	Wallet = resource("GET /v1/wallet",
		"the ledger of each asset, and the payments that are not over", (*Server).getWallet)
	WalletHistory = resource("GET /v1/wallet/history",
		"all operations of the wallet and its payments, the oldest first", (*Server).getHistory)
	AddMint = action("POST /v1/wallet/mints",
		"body {\"mint\":URL,\"unit\":…}: the asset, whose ecash is used from now on", maxWords, (*Server).postMint)
	ConnectLightning = action("POST /v1/wallet/lightning",
		"body {\"connection\":…}, nostr+walletconnect://… or lndconnect://…: the\n"+
			"Lightning wallet that pays from now on; without one it is forgotten", maxWords, (*Server).postLightning)
	ConnectBitcoin = action("POST /v1/wallet/bitcoin",
		"body {\"connection\":…}, bitcoind://…: the Bitcoin wallet that pays\n"+
			"from now on; without one it is forgotten", maxWords, (*Server).postBitcoin)
	FundWallet = action("POST /v1/wallet/fund",
		"body {\"amount\":…,\"unit\":…,\"mint\":…}: new ecash, or the invoice to pay", maxWords, (*Server).postFund)
	ReceiveToken = action("POST /v1/wallet/receive",
		"body {\"token\":…}: what was received, and the mint's fee", maxTokenBody, (*Server).postReceive)
	SendToken = action("POST /v1/wallet/send",
		"body {\"amount\":…,\"unit\":…,\"mint\":…,\"memo\":…}: a token", maxWords, (*Server).postSend)
	RestoreWallet = resource("POST /v1/wallet/restore",
		"looks for ecash of the wallet's words at its mints; what was found", (*Server).postFind)
	Budgets = resource("GET /v1/wallet/budgets",
		"what may be locked and paid in each unit, and what of it is used", (*Server).getBudgets)
	SetBudget = action("POST /v1/wallet/budgets",
		"body {\"unit\":…,\"job\":…,\"daily\":…,\"monthly\":…,\"ask_over\":…}, 0 for no\n"+
			"limit: the budgets", maxWords, (*Server).postBudget)
	FreezeWallet = action("POST /v1/wallet/freeze",
		"body {\"frozen\":true}: nothing new is paid until it is false", maxWords, (*Server).postFreeze)
	ApprovePayment = action("POST /v1/wallet/approve",
		"body {\"attempt\":…,\"amount\":…}: what a provider gets that waits for you", maxWords, (*Server).postApproval)
	AskArbiter = action("POST /v1/wallet/ask",
		"body {\"request\":…,\"reason\":…}: asks the judge of an escrow to rule", maxWords, (*Server).postAskArbiter)
	AnnounceArbiter = action("POST /v1/wallet/arbiter",
		"body {\"off\":false}: the offer to rule on others' escrow that was published", maxWords, (*Server).postArbiter)
	Cases = resource("GET /v1/wallet/cases",
		"objections to what was paid of others' escrow, on which this node rules", (*Server).getCases)
	RuleCase = action("POST /v1/wallet/rule",
		"body {\"case\":…,\"amount\":…,\"unit\":…,\"reason\":…}: what the provider gets", maxWords, (*Server).postRuling)
	Reconcile = resource("POST /v1/wallet/reconcile?write",
		"asks the mints about all ecash, and checks the ledger; with write=true it\n"+
			"books what differs: ecash that is spent as lost, and what does not add up", (*Server).postReconcile)

	Backups = resource("GET /v1/backups",
		"backups of what was learned, the newest first", (*Server).getBackups)
	MakeBackup = resource("POST /v1/backups",
		"makes a backup", (*Server).postBackup)
	RestoreBackup = action("POST /v1/backups/restore",
		"restores the newest; {\"force\":true} also where something was learned", maxWords, (*Server).postRestore)

	Services = resource("GET /v1/services",
		"services in the order of the configuration", (*Server).getServices)
	OneService = resource("GET /v1/services/{d}",
		"one service", (*Server).getService)
	PauseService = resource("POST /v1/services/{d}/pause",
		"stops new requests, also after a restart", (*Server).pauseService)
	DrainService = resource("POST /v1/services/{d}/drain",
		"the same, and finishes those that wait", (*Server).drainService)
	ResumeService = resource("POST /v1/services/{d}/resume",
		"takes requests again", (*Server).resumeService)

	Customers = resource("GET /v1/customers",
		"who asked for work, the latest first", (*Server).getCustomers)
	Judgements = resource("GET /v1/judgements",
		"customers' verdicts on our deliveries, the latest first; until until_ms\n"+
			"the customer hears an objection", (*Server).getJudgements)
	ObjectTo = action("POST /v1/judgements/{request}/object",
		"body {\"reason\":…}: tells the customer that its verdict is wrong", maxWords, (*Server).postObjection)
	OneRequest = resource("GET /v1/requests/{id}",
		"a request and what became of it", (*Server).getRequest)
	RequestReplay = document("GET /v1/requests/{id}/replay",
		"REPLAY.jsonl of the worker", "application/x-ndjson", (*Server).getRequestReplay)
	RequestSession = document("GET /v1/requests/{id}/session",
		"RECEIPT.json of the worker", "application/json", (*Server).getRequestSession)
	RequestDelivery = document("GET /v1/requests/{id}/delivery",
		"what was delivered, a bundle", "application/octet-stream", (*Server).getRequestDelivery)

	Entries = Stream[Record]{endpoint{"GET /v1/journal?since&subject",
		"stream of entries, the oldest first. since: a sequence, a time (RFC\n" +
			"3339) or a duration ago (1h); subject: a beginning, as job.69fe", (*Server).getJournal}}
	OneEntry = resource("GET /v1/journal/{seq}",
		"one entry", (*Server).getRecord)
	ReleaseGuards = action("POST /v1/journal/release",
		"body {\"guards\":[\"job.69fefa84\"]} or {\"all\":true}: ends quarantine", maxWords, (*Server).releaseGuards)
	Rejected = Stream[Dropped]{endpoint{"GET /v1/rejected",
		"stream of the latest dropped events, the newest last, unverified and cut\n" +
			"to 4 KB", (*Server).getRejected}}
	SealJournal = resource("POST /v1/seals",
		"seals the journal: size, root, and the signed checkpoint as event", (*Server).postSeal)
	Proof = resource("GET /v1/proofs/{id}",
		"proof that the entry of a receipt, of a job's last receipt, or with a\n"+
			"sequence is sealed", (*Server).getProof)
	Consistency = resource("GET /v1/consistency?from&to",
		"proof that the first from entries are unchanged among the first to ones,\n"+
			"by default those of the latest seal", (*Server).getConsistency)

	NookStatus = resource("GET /v1/nook?root",
		"the profile, as in profile.json, whether the root is proven, and the roots", (*Server).getNook)
	NookLog = resource("GET /v1/nook/events?root&most",
		"the latest events with level and trace, the newest last; most=0 for all", (*Server).getNookLog)
	NookEvent = resource("GET /v1/nook/events/{id}?root",
		"one of them", (*Server).getNookEvent)
	NookExports = resource("GET /v1/nook/exports?root",
		"the three files of the protocol, as text by name", (*Server).getNookExports)
	ReportEvents = action("POST /v1/nook/events?root",
		"body: an array of events; how many were accepted, and how many known", activity.MaxBody, (*Server).postNookEvents)
	ClaimAgents = action("POST /v1/nook/claims",
		"body: signed events by which a key and its agents name each other, as an\narray; as a report", activity.MaxBody, (*Server).postNookClaims)
	EvolveSprite = action("POST /v1/nook/evolve?root",
		"body: the owner's choice, as a JSON string; the profile", maxWords, (*Server).postEvolve)
	ImportHistory = action("POST /v1/nook/history?root",
		"body: an events.json, once; the profile", maxHistory, (*Server).postNookHistory)

	Agents = resource("GET /v1/agents",
		"agents of this node", (*Server).getAgents)
	OneAgent = resource("GET /v1/agents/{name}",
		"one agent", (*Server).getAgent)
	InstallAgent = action("POST /v1/agents",
		"body {\"definition\":…} with name, bunker: has an agent of this node\n"+
			"execute a definition; the agent", maxWords, (*Server).postAgent)
	RemoveAgent = resource("POST /v1/agents/{name}/remove",
		"ends an agent; its key stays", (*Server).removeAgent)
	ComposeBehaviour = action("POST /v1/behaviours",
		"body {\"agents\":[…]} with task, words, nudges, worker, without: how an\n"+
			"agent would do a job: prompt, tools, and where each line is from", maxWords, (*Server).postBehaviour)
	Definitions = resource("GET /v1/definitions?of&all",
		"a definition by naddr, nevent, id, npub/slug or an agent's name, with its\n"+
			"file; all=true: all its versions, the newest first", (*Server).getDefinitions)
	AttachFile = upload("POST /v1/definitions/files?name",
		"body: a file; uploads it, and publishes its metadata (kind 1063)", agents.MaxFile, (*Server).postAttachment)
	PublishDefinition = upload("POST /v1/definitions?fork&file",
		"body: an agent file (docs/AGENTS.md); publishes it as the next version of\n"+
			"its slug, with the files of POST /v1/definitions/files", agentfile.MaxSize, (*Server).postDefinition)
	Owners = resource("GET /v1/owners/{key}?drafts",
		"who owns an agent: each owner that it names, checked both ways;\n"+
			"drafts=true: also what it says of itself by the draft of NIP-SA", (*Server).getOwned)
	ClaimAgent = resource("POST /v1/owners/{key}/claim",
		"adds a key to the owner's claims (kind 14199)", (*Server).postClaim)
	DisownAgent = resource("POST /v1/owners/{key}/disown",
		"removes a key from them", (*Server).postDisown)
	Lessons = resource("GET /v1/lessons?agent",
		"lessons about the definitions of agents, and drafts", (*Server).getLessons)
	TeachAgent = action("POST /v1/lessons",
		"body {\"agent\":…,\"task\":…,\"text\":…}: the agent publishes the owner's lesson", maxWords, (*Server).postLesson)
	ActOnLesson = action("POST /v1/lessons/{id}/{act}",
		"act: accept or reject a draft; retire, comment (text) or measured\n"+
			"(trials) for a lesson", maxWords, (*Server).actOnLesson)
	Nudges = resource("GET /v1/nudges",
		"nudges of the library", (*Server).getNudges)
	KeepNudges = action("POST /v1/nudges",
		"body: name and event; or name, title, text, only_tools, allow_tools,\n"+
			"deny_tools, which is published", maxWords, (*Server).postNudge)
	RemoveNudge = resource("POST /v1/nudges/{name}/remove",
		"removes a nudge from the library", (*Server).removeNudge)
)

// endpoints lists the endpoints of the server; without a running node, only those that read its directory.
func (s *Server) endpoints() []endpoint {
	if s.c.Jobs == nil {
		return stopped()
	}
	return append(stopped(), running()...)
}

// stopped returns the endpoints that need no running node.
func stopped() []endpoint {
	return []endpoint{
		Jobs.endpoint, OneJob.endpoint, jobUpdates.endpoint, Evidence.endpoint, Choices.endpoint, Delivery.endpoint, JobRequest.endpoint, WorkChanges.endpoint,
		Receipts.endpoint, Receipt.endpoint, ReceiptExport.endpoint, Replay.endpoint,
		Providers.endpoint, Cards.endpoint, Story.endpoint, ReplayRouting.endpoint, Meetings.endpoint, OneMeeting.endpoint,
		Trust.endpoint, Standings.endpoint, Policy.endpoint, Reviews.endpoint, ReviewCards.endpoint, Backups.endpoint,
		Customers.endpoint, Judgements.endpoint, OneRequest.endpoint, RequestReplay.endpoint, RequestSession.endpoint, RequestDelivery.endpoint,
		Entries.endpoint, OneEntry.endpoint, ReleaseGuards.endpoint, Rejected.endpoint, SealJournal.endpoint, Proof.endpoint, Consistency.endpoint,
		NookStatus.endpoint, NookLog.endpoint, NookEvent.endpoint, NookExports.endpoint,
		Agents.endpoint, OneAgent.endpoint, ComposeBehaviour.endpoint, Lessons.endpoint, Nudges.endpoint,
	}
}

// running returns the endpoints of a running node alone.
func running() []endpoint {
	return []endpoint{
		NodeStatus.endpoint, openJob.endpoint, CancelJob.endpoint, ShredJob.endpoint, TypedResult.endpoint, RuleJob.endpoint, DisputeJob.endpoint,
		OneProspect.endpoint, KeepHidden.endpoint, NodeRecipient.endpoint, KeepRelease.endpoint,
		MarketChanges.endpoint, RecommendProvider.endpoint, BeginMeeting.endpoint,
		ChangeTrust.endpoint, RollBack.endpoint, ExportTrust.endpoint, ImportTrust.endpoint, ChangeReview.endpoint,
		MakeBackup.endpoint, RestoreBackup.endpoint,
		Wallet.endpoint, WalletHistory.endpoint, AddMint.endpoint, ConnectLightning.endpoint, ConnectBitcoin.endpoint, FundWallet.endpoint, ReceiveToken.endpoint, SendToken.endpoint, FreezeWallet.endpoint,
		Budgets.endpoint, SetBudget.endpoint, RestoreWallet.endpoint,
		ApprovePayment.endpoint, Reconcile.endpoint, AskArbiter.endpoint, AnnounceArbiter.endpoint, Cases.endpoint, RuleCase.endpoint,
		Services.endpoint, OneService.endpoint, PauseService.endpoint, DrainService.endpoint, ResumeService.endpoint, ObjectTo.endpoint,
		ReportEvents.endpoint, ClaimAgents.endpoint, EvolveSprite.endpoint, ImportHistory.endpoint,
		InstallAgent.endpoint, RemoveAgent.endpoint, Definitions.endpoint, PublishDefinition.endpoint, AttachFile.endpoint, Owners.endpoint, ClaimAgent.endpoint,
		DisownAgent.endpoint, TeachAgent.endpoint, ActOnLesson.endpoint, KeepNudges.endpoint, RemoveNudge.endpoint,
	}
}

// Route is an endpoint of the API, in words.
type Route struct {
	Pattern string // method, path and names of the query parameters
	About   string // the body, if it takes one, and the answer; lines of at most 74 columns
}

// Routes returns the endpoints, by path.
func Routes() []Route {
	var all []Route
	for _, e := range append(stopped(), running()...) {
		all = append(all, Route{e.pattern, e.about})
	}
	slices.SortFunc(all, func(a, b Route) int {
		methodA, pathA, _ := strings.Cut(a.Pattern, " ")
		methodB, pathB, _ := strings.Cut(b.Pattern, " ")
		return cmp.Or(cmp.Compare(pathA, pathB), cmp.Compare(methodA, methodB))
	})
	return all
}
