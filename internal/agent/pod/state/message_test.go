package state

import (
	"strings"
	"testing"
)

func TestTheTextOfALog(t *testing.T) {
	log := "cut\n2026-01-01T00:00:00Z stdout F one\n2026-01-01T00:00:00Z stderr P tw\n2026-01-01T00:00:00Z stderr F o\n2026-01-01T00:00:00Z stdout F \n"
	if got := LogText(log); got != "one\ntwo\n\n" {
		t.Errorf("text %q", got)
	}
}

func TestALogStandsInForAMessageWithItsEnd(t *testing.T) {
	if got := LogMessage(strings.Repeat("x\n", 100)); got != strings.Repeat("x\n", 80) {
		t.Errorf("%d bytes of short lines", len(got))
	}
	if got := LogMessage(strings.Repeat("long ", 1000)); len(got) != 2048 {
		t.Errorf("%d bytes of a long line", len(got))
	}
	if got := LogMessage("one\n"); got != "one\n" {
		t.Errorf("%q", got)
	}
}
