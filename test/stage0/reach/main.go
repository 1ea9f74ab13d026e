// Command reach stands for nc in the guests of package stage0's tests, which have no network
// of their own: it says what the firewall lets a guest reach, and connects to nothing.
package main

import (
	"os"
	"slices"
)

// open, set when it is linked, is a firewall that lets everything through.
var open string

func main() {
	if open == "" && !slices.ContainsFunc(os.Args, func(word string) bool { return word == "1.1.1.1" || word == "2606:4700:4700::1111" }) {
		os.Exit(1)
	}
}
