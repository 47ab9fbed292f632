package iostreams

import (
	"os"
	"syscall"
)

// enableVirtualTerminalProcessing is the console mode's bit, from consoleapi.h.
const enableVirtualTerminalProcessing = 0x4

// enableEscapes tells a Windows console to read escape sequences; false means
// that it cannot. A Cygwin terminal is no console and reads them anyway.
func enableEscapes(f *os.File) bool {
	var mode uint32
	if err := syscall.GetConsoleMode(syscall.Handle(f.Fd()), &mode); err != nil {
		return isTerminal(f)
	}
	if mode&enableVirtualTerminalProcessing != 0 {
		return true
	}
	set := syscall.NewLazyDLL("kernel32.dll").NewProc("SetConsoleMode")
	ok, _, _ := set.Call(f.Fd(), uintptr(mode|enableVirtualTerminalProcessing))
	return ok != 0
}
