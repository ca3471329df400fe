package fact

import (
	"encoding/hex"
)

// ServiceSubject returns the guard of decisions about a service of ours. d is encoded in hex, since a subject may not contain
// dots or spaces.
func ServiceSubject(d string) Subject { return Subject("service." + hex.EncodeToString([]byte(d))) }

// ServicePaused says that a service of ours accepts no new requests until it is resumed, also after a restart. Written by work.
type ServicePaused struct {
	Service string `json:"service"`         // our announcement's d
	Drain   bool   `json:"drain,omitempty"` // waiting requests are still done
}

// ServiceResumed says that a service accepts requests again. Written by work.
type ServiceResumed struct {
	Service string `json:"service"`
}

// Type returns the stored name.
func (ServicePaused) Type() string { return "service.paused" }

// Type returns the stored name.
func (ServiceResumed) Type() string { return "service.resumed" }
