package tui

import (
	"os"
	"testing"

	"github.com/muesli/termenv"
	"go.uber.org/goleak"
)

// askEnv makes this program ask the terminal what the library would ask.
const askEnv = "LANE_TEST_ASK_TERMINAL"

func TestMain(m *testing.M) {
	if os.Getenv(askEnv) != "" {
		termenv.NewOutput(os.Stdout).BackgroundColor()
	}
	goleak.VerifyTestMain(m)
}
