package firewall

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestRetryBudget(t *testing.T) {
	begin := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	away := &NotProvedError{fmt.Errorf("asking: %w", awayError{})}
	no := &NotProvedError{errors.New("the main ruleset does not call com.apple/*")}
	for name, c := range map[string]struct {
		answers []error // one every two seconds
		ends    int     // the answer it ends with, counted from 0; -1: none
	}{
		"no":                {slices.Repeat([]error{no}, 9), MaxRefusals - 1},
		"away":              {slices.Repeat([]error{away}, 40), 30},
		"away, then no":     {append(slices.Repeat([]error{away}, 20), slices.Repeat([]error{no}, 9)...), 20 + MaxRefusals - 1},
		"away for a launch": {slices.Repeat([]error{away}, 30), -1},
		"no for a moment":   {slices.Repeat([]error{no}, MaxRefusals-1), -1},
	} {
		p, got := retryBudget{since: begin}, -1
		for i, err := range c.answers {
			if p.exhausted(err, begin.Add(time.Duration(i)*retryPause)) {
				got = i
				break
			}
		}
		if got != c.ends {
			t.Errorf("%s: ended with answer %d, want %d", name, got, c.ends)
		}
	}
}

// awayError is that of a guard that does not answer.
type awayError struct{}

func (awayError) Error() string { return "connection refused" }
func (awayError) Away() bool    { return true }
