package logs

import "time"

// progress tells what was written already, where a log has to be read once more: by
// the times of its entries, of which many may have the same.
type progress struct {
	// newest time of an entry, and how many of that time there were.
	newest time.Time
	equal  int
	// skip is set while entries up to those are left out, and skipped how many of the
	// newest time were.
	skip    bool
	skipped int
}

// take reports whether an entry of that time is a new one.
func (p *progress) take(at time.Time) bool {
	if p.skip {
		if at.Before(p.newest) {
			return false
		}
		if at.Equal(p.newest) && p.skipped < p.equal {
			p.skipped++
			return false
		}
		p.skip = false
	}
	if at.Equal(p.newest) {
		p.equal++
	} else {
		p.newest, p.equal = at, 1
	}
	return true
}

// resume has the entries that were taken left out when they come again.
func (p *progress) resume() {
	p.skip, p.skipped = !p.newest.IsZero(), 0
}
