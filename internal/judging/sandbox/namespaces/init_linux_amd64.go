package namespaces

import _ "embed"

//go:embed boxinit_amd64
var initProgram []byte
