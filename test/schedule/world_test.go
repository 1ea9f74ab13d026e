package schedule

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"k8s.io/utils/clock"

	simulated "github.com/macfleet/macfleet/sandbox/scaleway"
)

// weather is what a history has to live with from its beginning to its end. The
// zero value: none of it.
type weather struct {
	// lag is how long changes take to show in the vendor's lists.
	lag time.Duration
	// misses: now and then a list lacks a server.
	misses bool
	// skew is how far each manager's clock is ahead of the true time.
	skew [4]time.Duration
	// breaks is how many in a hundred installations never come to run.
	breaks int
	// person: somebody copies, restores and edits objects.
	person bool
	// lostOrders is how many in a hundred answers to orders are lost.
	lostOrders int
}

// Bounds of the weather. Lists lag behind writes by less than half a minute; the
// clocks of one cluster's machines differ by less than mostSkew either way.
const (
	mostLag  = 29 * time.Second
	mostSkew = 90 * time.Second
)

// weatherOf a seed has dice of its own, so that it is the same whatever else chance
// decides.
func weatherOf(seed uint64) (w weather) {
	dice := rand.New(rand.NewPCG(seed, 2))
	if dice.IntN(2) == 0 {
		w.lag = time.Duration(1 + dice.Int64N(int64(mostLag)))
	}
	w.misses = dice.IntN(3) > 0
	if dice.IntN(3) == 0 {
		for n := range w.skew {
			w.skew[n] = time.Duration(dice.Int64N(int64(2*mostSkew))) - mostSkew
		}
	}
	if dice.IntN(3) == 0 {
		w.breaks = 60
	}
	if dice.IntN(2) == 0 {
		w.lostOrders = 40
	}
	w.person = dice.IntN(3) > 0
	return w
}

// skewed is a manager's own clock.
type skewed struct {
	clock.WithTicker
	by time.Duration
}

// Now implements clock.PassiveClock.
func (c skewed) Now() time.Time { return c.WithTicker.Now().Add(c.by) }

// Since implements clock.PassiveClock.
func (c skewed) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// clockOf is the clock of the n-th manager of a cluster, from 1.
func (s *sim) clockOf(c *cluster, n int) clock.WithTicker {
	slot := 2*len(s.members) + n - 1
	for i, member := range s.members {
		if member == c {
			slot = 2*i + n - 1
		}
	}
	return skewed{s.clock, s.weather.skew[slot%len(s.weather.skew)]}
}

// isList: the first page of the zone's servers is asked for.
func isList(r *http.Request) bool {
	return r.Method == http.MethodGet && lastPart(r.URL.Path) == "servers" && r.URL.Query().Get("page") == "1"
}

// missedOnce is longer than the inventory waits for a second list that lacks a server.
const missedOnce = 15 * time.Minute

// miss takes a server out of a list now and then, as when another is deleted
// between two pages. A manager misses none in two lists running, and none again within
// missedOnce: its inventory does not see every list between.
func (m *manager) miss(answer *http.Response) error {
	s := m.sim
	missed := m.missed
	m.missed = ""
	if _, wild := s.plan.(wild); !wild || !s.weather.misses || missed != "" || !s.chance(8) {
		return nil
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	var list struct {
		Servers []json.RawMessage `json:"servers"`
		Total   int               `json:"total_count"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	if n := len(list.Servers); n > 1 {
		at := s.dice.IntN(n)
		var server struct{ ID, Name string }
		if err := json.Unmarshal(list.Servers[at], &server); err != nil {
			return err
		}
		if last, before := m.missedAt[server.ID]; !before || s.clock.Since(last) > missedOnce {
			m.missed, m.missedAt[server.ID] = server.ID, s.clock.Now()
			s.note("    a list of %s lacks %s", m.name, server.Name)
			list.Servers = append(list.Servers[:at], list.Servers[at+1:]...)
			list.Total--
		}
	}
	if text, err = json.Marshal(list); err != nil {
		return err
	}
	answer.ContentLength = int64(len(text))
	answer.Header.Set("Content-Length", strconv.Itoa(len(text)))
	answer.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// calm ends the weather but for what only a clock or a vendor could end: its lag
// and the managers' clocks stay as they are.
func (s *sim) calm() {
	s.weather.misses, s.weather.breaks = false, 0
	s.endTroubles()
	for _, m := range s.sortedMacs() {
		m.deafUntil = time.Time{}
		m.disk.broken = false
	}
}

// lags has the vendor's lists lag.
func (s *sim) lags() {
	s.must(s.vendor.Turn(func(k *simulated.Knobs) { k.ListLag = simulated.Duration(s.weather.lag) }))
}
