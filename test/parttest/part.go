// Package parttest plays what is long in parts: make test plays another part with each
// commit, and a target of its own plays all.
package parttest

import (
	"fmt"
	"hash/crc32"
	"os"
	"testing"
)

// Variable holds the part to play, as NUMBER/PARTS: any number, counted modulo the
// parts. Where it is empty or not set all is played.
const Variable = "PART"

// Of returns the cases of the part that the environment asks for, and says which it
// leaves out. There are no more parts than cases: none is empty.
func Of[T any](t *testing.T, all []T) []T {
	t.Helper()
	number, parts := asked(t)
	parts = max(1, min(parts, len(all)))
	part := every(all, number%parts, parts)
	t.Logf("plays part %d of %d: %d of %d cases; %s= plays all", number%parts+1, parts, len(part), len(all), Variable)
	return part
}

// Skip skips a test that belongs to another part. Its name alone decides which one that is.
func Skip(t *testing.T) {
	t.Helper()
	number, parts := asked(t)
	if own := partOf(t.Name(), parts); own != number%parts {
		t.Skipf("is of part %d of %d, and this is part %d; %s= plays all", own+1, parts, number%parts+1, Variable)
	}
}

// partOf is the part of so many that a test of this name belongs to, counted from 0.
func partOf(name string, parts int) int {
	return int(crc32.ChecksumIEEE([]byte(name)) % uint32(parts))
}

// asked is the part that the environment asks for; without one, the only part.
func asked(t *testing.T) (number, parts int) {
	t.Helper()
	text := os.Getenv(Variable)
	if text == "" {
		return 0, 1
	}
	if _, err := fmt.Sscanf(text, "%d/%d", &number, &parts); err != nil || parts < 1 || number < 0 || fmt.Sprintf("%d/%d", number, parts) != text {
		t.Fatalf("%s is %q, not NUMBER/PARTS, e.g. 3/5", Variable, text)
	}
	return number, parts
}

// every returns one case of so many, from the first on.
func every[T any](all []T, first, parts int) []T {
	var part []T
	for i := first; i < len(all); i += parts {
		part = append(part, all[i])
	}
	return part
}
