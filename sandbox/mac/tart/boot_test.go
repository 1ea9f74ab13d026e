package tart

import "testing"

// A machine without power is gone, however long its shutdown was to take.
func TestAPowerCutEndsAShutdown(t *testing.T) {
	cut, hangs := make(chan error, 1), make(chan struct{})
	defer close(hangs)
	cut <- nil
	if got := unlessCut(cut, func() { <-hangs }); got != guestPanicked {
		t.Errorf("ends with %d, want %d", got, guestPanicked)
	}
	if got := unlessCut(make(chan error), func() {}); got != 0 {
		t.Errorf("a shutdown with power ends with %d", got)
	}
}
