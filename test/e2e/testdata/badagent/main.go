// Command badagent is an agent that converges a Mac like the good one in the file
// GOOD beside it and cannot run: what a release would be that nobody tried.
package main

import (
	"fmt"
	"os"
	"syscall"
)

// good is the path of the program to be in all but one verb, set when linked.
var good string

func main() {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		fmt.Fprintln(os.Stderr, "this build cannot run")
		os.Exit(1)
	}
	err := syscall.Exec(good, os.Args, os.Environ())
	fmt.Fprintln(os.Stderr, err)
	os.Exit(126)
}
