//go:build !agessh

package age

import (
	"errors"

	"filippo.io/age"
)

var errNoSSH = errors.New("SSH keys are not built into this program")

func parseSSH(string) (age.Recipient, error) { return nil, errNoSSH }

func withoutComment(string) (string, error) { return "", errNoSSH }

func (id Identity) sshKey(UI) (opener, error) { return nil, id.wrong("%w", errNoSSH) }
