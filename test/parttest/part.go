// Package parttest plays long lists of cases in parts: make test plays another part with
// each commit, and a target of its own plays all.
package parttest

import (
	"fmt"
	"os"
	"testing"
)

// Variable holds the part to play, as NUMBER/PARTS: any number, counted modulo the
// parts. Where it is empty or not set all cases are played.
const Variable = "PART"

// Of returns the cases of the part that the environment asks for, and says which it
// leaves out. There are no more parts than cases: none is empty.
func Of[T any](t *testing.T, all []T) []T {
	t.Helper()
	text := os.Getenv(Variable)
	if text == "" {
		return all
	}
	var number, parts int
	if _, err := fmt.Sscanf(text, "%d/%d", &number, &parts); err != nil || parts < 1 || number < 0 || fmt.Sprintf("%d/%d", number, parts) != text {
		t.Fatalf("%s is %q, not NUMBER/PARTS, e.g. 3/5", Variable, text)
	}
	parts = max(1, min(parts, len(all)))
	part := every(all, number%parts, parts)
	t.Logf("plays part %d of %d: %d of %d cases; %s= plays all", number%parts+1, parts, len(part), len(all), Variable)
	return part
}

// every returns one case of so many, from the first on.
func every[T any](all []T, first, parts int) []T {
	var part []T
	for i := first; i < len(all); i += parts {
		part = append(part, all[i])
	}
	return part
}
