// Lane lets a developer run one service of a system on the laptop, inside the
// shared test environment, without anybody else noticing.
package main

import (
	"os"

	"lane/cmd"
)

func main() { os.Exit(cmd.Main()) }
