package host

import "time"

// ListLag is by how much a list may lag behind what was done: half a minute.
const ListLag = 30 * time.Second

// A list lies in known ways: a server can be missed between two pages, and lost
// rights may show as an empty list. These are the bounds of believing it.
const (
	// GoneAfter: two lists this far apart must lack a server before it is gone.
	GoneAfter = 30 * time.Second
	// GoneAfterSuspicious is the same while many vanish at once, and for most empty lists.
	GoneAfterSuspicious = 10 * time.Minute
	// suspiciousCount and suspiciousPart of a zone vanishing at once are too many.
	suspiciousCount = 2
	suspiciousPart  = 5 // a fifth
)

// Suspicious reports that a list of a zone lacks more servers than can be
// believed at once, or all of them.
func Suspicious(expected, missing, listed int) bool {
	return missing > max(suspiciousCount, expected/suspiciousPart) || (missing > 0 && listed == 0)
}

// ProvedGone reports that a list begun at that time, which lacks a server that
// lists have lacked since missingSince, proves that the vendor no longer has it.
// An empty list proves nothing unless access says that the credentials worked
// right after it; a zero missingSince is a server that a newer reading showed.
// Patient is for what is hard to believe: it takes GoneAfterSuspicious.
func ProvedGone(missingSince, at time.Time, patient bool, listed int, access bool) bool {
	if missingSince.IsZero() || (listed == 0 && !access) {
		return false
	}
	if patient {
		return at.Sub(missingSince) >= GoneAfterSuspicious
	}
	return at.Sub(missingSince) >= GoneAfter
}
