package fact

import (
	"encoding/hex"
)

// ServiceSubject is the boundary of what is decided about one service of ours. Its d is written in hex, for a
// subject may hold no dots or spaces.
func ServiceSubject(d string) Subject { return Subject("service." + hex.EncodeToString([]byte(d))) }

// ServicePaused says that a service of ours takes no new requests until it is resumed, through any restart.
// Written by work.
type ServicePaused struct {
	Service string `json:"service"`         // our announcement's d
	Drain   bool   `json:"drain,omitempty"` // what waits is done; else it waits on
}

// ServiceResumed says that it takes requests again. Written by work.
type ServiceResumed struct {
	Service string `json:"service"`
}

// Type returns the stored name.
func (ServicePaused) Type() string { return "service.paused" }

// Type returns the stored name.
func (ServiceResumed) Type() string { return "service.resumed" }
