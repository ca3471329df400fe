package namespaces

import _ "embed"

//go:embed boxinit_arm64
var initProgram []byte
