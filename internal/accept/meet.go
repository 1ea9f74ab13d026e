package accept

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/remote"
)

const (
	// meetings bounds how often loads are made to meet, and loadsAtOnce is how many each time:
	// a busy Mac may keep them apart.
	meetings, loadsAtOnce = 5, 4
	// meetPause is for all to have begun: pfctl opens its transaction before it reads rules.
	meetPause = 5 * time.Second
)

// heldInput is a standard input that comes when it is released.
type heldInput struct {
	released <-chan struct{}
	rest     io.Reader
}

func (h heldInput) Read(p []byte) (int, error) {
	<-h.released
	return h.rest.Read(p)
}

// loaded is how one load of rules ended.
type loaded struct {
	complaints string
	exit       int
	err        error
}

// busy: the packet filter refused it because of another one.
func (l loaded) busy() bool {
	return l.exit != 0 && strings.Contains(strings.ToLower(l.complaints), "busy")
}

// rootLooksAndMeet asks what only root can, and has loads of one anchor meet.
func rootLooksAndMeet(ctx context.Context, t *trial) error {
	if err := looks(rootLooks)(ctx, t); err != nil {
		return err
	}
	began := t.Now()
	refused, err := refusedAsBusy(ctx, t)
	err = errors.Join(err, t.orders(ctx, run{line: "pfctl -a " + anchor + " -F rules"}.shellLine(true))) // uninstall knows no anchor of a run
	if err != nil {
		return err
	}
	t.add(Row{
		ID: "pf-meet", Asked: "Is a load of rules refused as busy that meets another one of the same anchor?", Question: "R3",
		Seen: []string{yesNo(refused)}, Seconds: t.Now().Sub(began).Seconds(),
	})
	return nil
}

// refusedAsBusy has loads meet until one is refused, some times at most.
func refusedAsBusy(ctx context.Context, t *trial) (refused bool, err error) {
	for try := 0; try < meetings && !refused; try++ {
		all, err := meet(ctx, t)
		if err != nil {
			return false, err
		}
		for _, l := range all {
			if l.exit != 0 && !l.busy() {
				return false, fmt.Errorf("loading rules beside each other: exit %d: %s", l.exit, strings.Join(t.hide.lines(l.complaints), "; "))
			}
		}
		refused = slices.ContainsFunc(all, loaded.busy)
	}
	return refused, nil
}

// meet begins several loads of the trial's anchor, and gives all their rules at once.
func meet(ctx context.Context, t *trial) ([]loaded, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	released, ends := make(chan struct{}), make(chan loaded, loadsAtOnce)
	for range loadsAtOnce {
		go func() {
			in := heldInput{released, strings.NewReader("block in inet from 192.0.2.1 to 192.0.2.2\n")}
			var complaints macos.Bounded
			exit, err := t.session.Interact(ctx, run{line: "pfctl -a " + anchor + " -f -"}.shellLine(true), remote.Console{In: in, Out: io.Discard, Err: &complaints})
			ends <- loaded{complaints.String(), exit, err}
		}()
	}
	err := t.Pause(ctx, meetPause)
	close(released)
	var all []loaded
	for range loadsAtOnce {
		l := <-ends
		if l.err != nil {
			err = l.err
		}
		all = append(all, l)
	}
	return all, err
}
