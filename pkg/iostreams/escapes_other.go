//go:build !windows

package iostreams

import "os"

// enableEscapes is true: these terminals read escape sequences by themselves.
func enableEscapes(*os.File) bool { return true }
