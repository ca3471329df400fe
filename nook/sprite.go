package nook

// SpriteState is what a sprite shows. An agent.state event can name only Working, Idle and Sleeping.
type SpriteState string

// The states of a sprite, section 3 of the specification.
const (
	Idle     SpriteState = "idle"
	Working  SpriteState = "working"
	Success  SpriteState = "success"
	Failure  SpriteState = "failure"
	Sleeping SpriteState = "sleeping"
)
