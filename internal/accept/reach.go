package accept

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// What is reached, and what is not.
const (
	reached    = "reached"
	notReached = "not reached"
)

// destination is somewhere a guest may or may not reach.
type destination struct {
	id, asked, question string
	address             string
	port                int
	// promised is what the firewall promises; empty: nothing is.
	promised string
}

// destinations of a guest, by the guests' addresses. The Mac's own are those of its SSH
// server, which listens on all of them.
func (g guestTrial) destinations(other string) []destination {
	gateway := netip.MustParsePrefix(document.DefaultSubnet).Addr().Next().String()
	return []destination{
		{"internet", "Does a guest reach the internet over IPv4?", "", "1.1.1.1", 443, reached},
		{"internet-6", "Does a guest reach the internet over IPv6?", "R7", "2606:4700:4700::1111", 443, ""},
		{"other-guest", "Does a guest reach the other one?", "R6", other, sshPort, notReached},
		{"mac-inside", "Does a guest reach the Mac's SSH at the address of their network?", "R6", gateway, sshPort, notReached},
		{"mac-outside", "Does a guest reach the Mac's SSH at the Mac's own address?", "R6", g.Target.Address, g.macPort(), notReached},
		{"metadata", "Does a guest reach the vendor's metadata service?", "R6", "169.254.169.254", 80, notReached},
	}
}

const sshPort = 22

func (g guestTrial) macPort() int {
	if g.Target.Port == 0 {
		return sshPort
	}
	return g.Target.Port
}

// reach tries from inside both guests what they reach, against what the firewall promises.
func (g guestTrial) reach(ctx context.Context) error {
	for _, pair := range [][2]string{{"accept-1", "accept-2"}, {"accept-2", "accept-1"}} {
		from, other := pair[0], pair[1]
		for _, d := range g.destinations(g.addresses[other]) {
			if err := g.try(ctx, from, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// try tries one destination from inside one guest.
func (g guestTrial) try(ctx context.Context, from string, d destination) error {
	id := "reach-" + d.id + strings.TrimPrefix(from, "accept")
	if _, err := netip.ParseAddr(d.address); err != nil {
		g.notTried(id, d.asked, "its address is not known, or is a name")
		return nil
	}
	_, complaints, code, err := g.execute(ctx, g.tart(fmt.Sprintf("exec %s %s -z -G 5 -w 5 %s %d", from, cmp.Or(g.GuestConnect, "nc"), d.address, d.port)), "")
	if err != nil {
		return err
	}
	seen := notReached
	switch code {
	case 0:
		seen = reached
	case 1:
	default:
		g.notTried(id, d.asked, fmt.Sprintf("nc in the guest ended with %d: %s", code, strings.Join(g.hide.lines(complaints), "; ")))
		return nil
	}
	r := Row{ID: id, Asked: d.asked, Question: d.question, Seen: []string{seen}, Detail: strings.Join(g.hide.lines(complaints), "; ")}
	if d.promised != "" {
		r.Expected = []string{d.promised}
	}
	g.add(r)
	return nil
}
