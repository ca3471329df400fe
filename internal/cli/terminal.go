package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/term"
)

// ErrNoTerminal is the error of a question without a terminal.
var ErrNoTerminal = errors.New("there is no terminal to ask on")

// AskSecret reads a line from the terminal itself, without echo, wherever the streams go.
func AskSecret(prompt string) ([]byte, error) {
	input, output := "/dev/tty", "/dev/tty"
	if runtime.GOOS == "windows" {
		input, output = "CONIN$", "CONOUT$"
	}
	in, err := os.OpenFile(input, os.O_RDWR, 0)
	if err != nil {
		return nil, ErrNoTerminal
	}
	defer in.Close()
	out, err := os.OpenFile(output, os.O_WRONLY, 0)
	if err != nil {
		return nil, ErrNoTerminal
	}
	defer out.Close()
	fmt.Fprint(out, prompt)
	secret, err := term.ReadPassword(int(in.Fd()))
	fmt.Fprintln(out)
	return secret, err
}

// IsTerminal reports whether a stream, which may be anything, is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Colours reports whether w wants colours: a terminal, where NO_COLOR does not say otherwise.
func Colours(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && IsTerminal(w) }
