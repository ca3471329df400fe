package control

import (
	"guild/internal/step/activity"
	"guild/internal/step/trust/exchange"
)

// The API, as docs/API.md describes it.
var (
	NodeStatus = resource("GET /v1/status", (*Server).getStatus)

	Jobs          = resource("GET /v1/jobs", (*Server).getJobs) // the newest first
	OneJob        = resource("GET /v1/jobs/{id}", (*Server).getJob)
	CancelJob     = resource("POST /v1/jobs/{id}/cancel", (*Server).cancelJob)
	Evidence      = resource("GET /v1/jobs/{id}/evidence", (*Server).getEvidence)
	Choices       = resource("GET /v1/jobs/{id}/choices", (*Server).getChoices) // why each provider of a job was asked
	Delivery      = document("GET /v1/jobs/{id}/delivery?attempt", "application/x-nutshell+gzip", (*Server).getDelivery)
	JobRequest    = document("GET /v1/jobs/{id}/request", "application/x-nutshell+gzip", (*Server).getRequestBundle)
	WorkChanges   = resource("GET /v1/jobs/{id}/changes?attempt&rejected", (*Server).getChanges)
	TypedResult   = document("GET /v1/jobs/{id}/result", "application/json", (*Server).getResult)
	RuleJob       = action("POST /v1/jobs/{id}/rule", maxWords, (*Server).ruleJob)
	DisputeJob    = action("POST /v1/jobs/{id}/dispute", maxWords, (*Server).postDispute)
	openJob       = Upload[Job]{endpoint{"POST /v1/jobs", (*Server).postJob}}               // Client.Hire
	jobUpdates    = Stream[Update]{endpoint{"GET /v1/jobs/{id}/watch", (*Server).watchJob}} // Client.Watch
	OneProspect   = resource("GET /v1/prospect?task&urgency&target", (*Server).getProspect)
	KeepHidden    = upload("POST /v1/hidden", maxBundle, (*Server).postHidden)     // hidden tests, for Hire.Hidden
	KeepRelease   = action("POST /v1/releases", maxRelease, (*Server).postRelease) // for Hire.Release
	NodeRecipient = resource("GET /v1/recipient", (*Server).getRecipient)

	Receipt       = document("GET /v1/receipts/{id}", "application/json", (*Server).getReceipt)
	ReceiptExport = document("GET /v1/receipts/{id}/export?reveal&without", "application/zip", (*Server).getReceiptExport)
	Replay        = document("GET /v1/replays/{id}?attempt", "application/x-ndjson", (*Server).getReplay)

	Providers         = resource("GET /v1/providers?task", (*Server).getProviders)
	Cards             = resource("GET /v1/providers/{key}?d", (*Server).getCards)               // the services of one provider in full
	Story             = resource("GET /v1/providers/{key}/story?task", (*Server).getStory)      // the oldest first
	MarketChanges     = Stream[Change]{endpoint{"GET /v1/market/watch", (*Server).watchMarket}} // until ctx ends
	ReplayRouting     = action("POST /v1/market/replay", maxWords, (*Server).postReplay)
	RecommendProvider = action("POST /v1/recommendations", maxWords, (*Server).postRecommendation)

	Meetings     = resource("GET /v1/meetings", (*Server).getMeetings) // the newest first
	OneMeeting   = resource("GET /v1/meetings/{id}", (*Server).getMeeting)
	BeginMeeting = Action[Bench, Meeting]{endpoint{"POST /v1/meetings", (*Server).postMeeting}}

	Trust       = resource("GET /v1/trust?task", (*Server).getMatrix)
	Standings   = resource("GET /v1/trust/{key}?d", (*Server).getStandings)
	ChangeTrust = action("POST /v1/trust/{key}", maxWords, (*Server).postTrust)
	RollBack    = action("POST /v1/trust/rollback", maxWords, (*Server).postRollback)
	ExportTrust = document("GET /v1/trust/export", "application/json", (*Server).getExport)
	ImportTrust = upload("POST /v1/trust/import", exchange.MaxDocument, (*Server).postImport)
	Policy      = document("GET /v1/policy", "application/json", (*Server).getPolicy) // canonical JSON; its hash is the policy's id

	Reviews      = resource("GET /v1/reviews?task", (*Server).getReviews)
	ReviewCards  = resource("GET /v1/reviews/{key}?task", (*Server).getReviewCards)
	ChangeReview = action("POST /v1/reviews/{key}/{act}", maxWords, (*Server).postReview) // publish, hold, resume or retract

	Backups       = resource("GET /v1/backups", (*Server).getBackups) // the newest first
	MakeBackup    = resource("POST /v1/backups", (*Server).postBackup)
	RestoreBackup = action("POST /v1/backups/restore", maxWords, (*Server).postRestore)

	Services      = resource("GET /v1/services", (*Server).getServices) // in the order of the configuration
	OneService    = resource("GET /v1/services/{d}", (*Server).getService)
	PauseService  = resource("POST /v1/services/{d}/pause", (*Server).pauseService)
	DrainService  = resource("POST /v1/services/{d}/drain", (*Server).drainService)
	ResumeService = resource("POST /v1/services/{d}/resume", (*Server).resumeService)

	Customers      = resource("GET /v1/customers", (*Server).getCustomers)
	Judgements     = resource("GET /v1/judgements", (*Server).getJudgements) // the latest first
	ObjectTo       = action("POST /v1/judgements/{request}/object", maxWords, (*Server).postObjection)
	OneRequest     = resource("GET /v1/requests/{id}", (*Server).getRequest)
	RequestReplay  = document("GET /v1/requests/{id}/replay", "application/x-ndjson", (*Server).getRequestReplay)
	RequestSession = document("GET /v1/requests/{id}/session", "application/json", (*Server).getRequestSession)

	Entries       = Stream[Record]{endpoint{"GET /v1/journal?since&subject", (*Server).getJournal}}
	OneEntry      = resource("GET /v1/journal/{seq}", (*Server).getRecord)
	ReleaseGuards = action("POST /v1/journal/release", maxWords, (*Server).releaseGuards)
	Rejected      = Stream[Dropped]{endpoint{"GET /v1/rejected", (*Server).getRejected}} // the newest last
	SealJournal   = resource("POST /v1/seals", (*Server).postSeal)
	Proof         = resource("GET /v1/proofs/{id}", (*Server).getProof)

	NookStatus    = resource("GET /v1/nook?root", (*Server).getNook)
	NookLog       = resource("GET /v1/nook/events?root&most", (*Server).getNookLog) // the newest last
	NookEvent     = resource("GET /v1/nook/events/{id}?root", (*Server).getNookEvent)
	NookExports   = resource("GET /v1/nook/exports?root", (*Server).getNookExports)
	ReportEvents  = action("POST /v1/nook/events?root", activity.MaxBody, (*Server).postNookEvents)
	ClaimAgents   = action("POST /v1/nook/claims", activity.MaxBody, (*Server).postNookClaims)
	EvolveSprite  = action("POST /v1/nook/evolve?root", maxWords, (*Server).postEvolve)
	ImportHistory = action("POST /v1/nook/history?root", maxHistory, (*Server).postNookHistory)
)

// endpoints lists the endpoints of the server; without a running node, only those that read its directory.
func (s *Server) endpoints() []endpoint {
	all := []endpoint{
		Jobs.endpoint, OneJob.endpoint, jobUpdates.endpoint, Evidence.endpoint, Choices.endpoint, Delivery.endpoint, JobRequest.endpoint, WorkChanges.endpoint,
		Receipt.endpoint, ReceiptExport.endpoint, Replay.endpoint,
		Providers.endpoint, Cards.endpoint, Story.endpoint, ReplayRouting.endpoint, Meetings.endpoint, OneMeeting.endpoint,
		Trust.endpoint, Standings.endpoint, Policy.endpoint, Reviews.endpoint, ReviewCards.endpoint, Backups.endpoint,
		Customers.endpoint, Judgements.endpoint, OneRequest.endpoint, RequestReplay.endpoint, RequestSession.endpoint,
		Entries.endpoint, OneEntry.endpoint, ReleaseGuards.endpoint, Rejected.endpoint, SealJournal.endpoint, Proof.endpoint,
		NookStatus.endpoint, NookLog.endpoint, NookEvent.endpoint, NookExports.endpoint,
	}
	if s.c.Jobs == nil {
		return all
	}
	return append(all,
		NodeStatus.endpoint, openJob.endpoint, CancelJob.endpoint, TypedResult.endpoint, RuleJob.endpoint, DisputeJob.endpoint,
		OneProspect.endpoint, KeepHidden.endpoint, NodeRecipient.endpoint, KeepRelease.endpoint,
		MarketChanges.endpoint, RecommendProvider.endpoint, BeginMeeting.endpoint,
		ChangeTrust.endpoint, RollBack.endpoint, ExportTrust.endpoint, ImportTrust.endpoint, ChangeReview.endpoint,
		MakeBackup.endpoint, RestoreBackup.endpoint,
		Services.endpoint, OneService.endpoint, PauseService.endpoint, DrainService.endpoint, ResumeService.endpoint, ObjectTo.endpoint,
		ReportEvents.endpoint, ClaimAgents.endpoint, EvolveSprite.endpoint, ImportHistory.endpoint,
	)
}
