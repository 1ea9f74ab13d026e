package main

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// span is a flag's time from now on, in days, too, which Go does not know.
type span struct{ is *time.Duration }

func (s span) String() string {
	if s.is == nil || *s.is == 0 {
		return ""
	}
	return s.is.String()
}

// Type is how the help calls it.
func (span) Type() string { return "duration" }

// Set reads what was typed.
func (s span) Set(typed string) error {
	const day = 24 * time.Hour
	if days, is := strings.CutSuffix(typed, "d"); is {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return s.set(time.Duration(n) * day)
		}
	}
	d, err := time.ParseDuration(typed)
	if err != nil {
		return errors.New("it is written as 90m, 48h or 2d")
	}
	return s.set(d)
}

// set refuses what is over before it begins: a script's zero must not mean no end.
func (s span) set(d time.Duration) error {
	if d < time.Minute {
		return errors.New("it is less than a minute: leave it out where there is to be no end")
	}
	*s.is = d
	return nil
}
