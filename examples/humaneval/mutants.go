package humaneval

import (
	"fmt"
	"strings"
)

// Names of the mutants. A judge must not accept any of them.
const (
	WrongResult     = "wrong result"
	Exception       = "exception"
	EndlessLoop     = "endless loop"
	MissingFunction = "missing function"
)

// Mutants returns the four wrong solutions of the problem by name.
func (p Problem) Mutants() map[string]string {
	return map[string]string{
		WrongResult:     p.Canonical() + fmt.Sprintf(spoil, p.Entry),
		Exception:       p.Prompt + "    raise RuntimeError(\"out of order\")\n",
		EndlessLoop:     p.Prompt + "    while True:\n        pass\n",
		MissingFunction: strings.Replace(p.Canonical(), "def "+p.Entry+"(", "def "+p.Entry+"_elsewhere(", 1),
	}
}

// spoil makes the function return a wrong result of the same type. The correct function keeps its original globals, so
// that a recursive solution calls itself and not the spoiled one.
const spoil = `

def _spoiled(function):
    from types import FunctionType
    right = FunctionType(function.__code__, dict(globals()), None, function.__defaults__)

    def wrong(*args):
        result = right(*args)
        if result is None:
            return 0
        if isinstance(result, bool):
            return not result
        if isinstance(result, (int, float)):
            return result + 1
        if isinstance(result, str):
            return result + "!"
        return type(result)([*result, "!"])

    return wrong


%[1]s = _spoiled(%[1]s)
`
