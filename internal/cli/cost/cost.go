package cost

import (
	"cmp"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Pool is what a pool costs. Its JSON is documented in docs/operate/cli.md.
type Pool struct {
	At     time.Time `json:"at"`
	Prices string    `json:"pricesOf"`
	Types  []Type    `json:"types"`
	// Day and Month are what all Macs cost if they stay, in euro without tax.
	Day   Euro `json:"day"`
	Month Euro `json:"month"`
	// Floor is what is paid for even if every Mac were given back now.
	Floor Euro `json:"floor"`
	// Spare are Macs that no Machine has and that are past their floor: to give them back
	// loses nothing that is paid for.
	Spare []Mac `json:"spare"`
	// Leaving are Macs that are given back when their floor is over.
	Leaving []Mac `json:"leaving"`
	// Unpriced are the types whose price is not known; they are left out of the sums.
	Unpriced []string `json:"unpriced,omitempty"`
}

// Type sums the Macs of one type and commitment.
type Type struct {
	Type       string `json:"type"`
	Commitment string `json:"commitment,omitempty"`
	Macs       int    `json:"macs"`
	// Free are those that no Machine has.
	Free  int  `json:"free"`
	Day   Euro `json:"day"`
	Month Euro `json:"month"`
	// LastFloor is when the last of them may go.
	LastFloor *time.Time `json:"lastFloor,omitempty"`
}

// Mac is one that could go, or goes.
type Mac struct {
	Host string     `json:"host"`
	Type string     `json:"type"`
	From *time.Time `json:"from,omitempty"`
}

// monthly is a commitment of the vendor's: its month is paid for as a whole.
const monthly = "monthly"

// Of sums the hosts up that the vendor bills.
func Of(hosts []infrav1.ScalewayAppleSiliconHost, now time.Time) Pool {
	pool := Pool{At: now, Prices: PricesOf, Types: []Type{}, Spare: []Mac{}, Leaving: []Mac{}}
	types := map[[2]string]*Type{}
	for i := range hosts {
		h := &hosts[i]
		if !billed(h) {
			continue
		}
		key := [2]string{h.Status.Server.Type, h.Status.Server.Commitment}
		if types[key] == nil {
			types[key] = &Type{Type: key[0], Commitment: key[1]}
		}
		types[key].add(h)
		pool.add(h)
	}
	for _, t := range types {
		pool.Types = append(pool.Types, *t)
	}
	slices.SortFunc(pool.Types, func(a, b Type) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Commitment, b.Commitment))
	})
	slices.Sort(pool.Unpriced)
	pool.Unpriced = slices.Compact(pool.Unpriced)
	return pool
}

// billed: a server that exists is billed, whoever it works for.
func billed(h *infrav1.ScalewayAppleSiliconHost) bool {
	return h.Spec.ServerID != "" && h.Status.Phase != infrav1.HostGone
}

func (t *Type) add(h *infrav1.ScalewayAppleSiliconHost) {
	t.Macs++
	if h.Spec.ClaimRef == nil {
		t.Free++
	}
	day, month, _ := rates(h)
	t.Day += day
	t.Month += month
	if at := h.Status.Server.DeletableAt; at != nil && (t.LastFloor == nil || at.After(*t.LastFloor)) {
		t.LastFloor = &at.Time
	}
}

func (p *Pool) add(h *infrav1.ScalewayAppleSiliconHost) {
	day, month, known := rates(h)
	if !known {
		p.Unpriced = append(p.Unpriced, cmp.Or(h.Status.Server.Type, "unknown"))
	}
	p.Day += day
	p.Month += month
	floor := h.Status.Server.DeletableAt
	if floor != nil && floor.After(p.At) {
		p.Floor += Euro(float64(day) * floor.Sub(p.At).Hours() / 24)
	}
	mac := Mac{Host: h.Name, Type: h.Status.Server.Type}
	switch {
	case h.Status.Phase == infrav1.HostRetiring || h.Status.Server.DeletionScheduled:
		if floor != nil {
			mac.From = &floor.Time
		}
		p.Leaving = append(p.Leaving, mac)
	case h.Status.Phase == infrav1.HostAvailable && floor != nil && !floor.After(p.At):
		p.Spare = append(p.Spare, mac)
	}
}

// rates are what a Mac costs a day and in a month of 30 days; a monthly one costs its
// month, whatever its days.
func rates(h *infrav1.ScalewayAppleSiliconHost) (day, month Euro, known bool) {
	price, known := PriceOf(h.Status.Server.Type)
	if strings.Contains(h.Status.Server.Commitment, monthly) {
		return price.Month / 30, price.Month, known
	}
	return price.Hour * 24, price.Hour * 24 * 30, known
}
