// Command driversuite holds the tart of a Mac to what every driver of virtual machines must
// do, and the agent in its guests to what is relied on. It is the suite that tests run
// against simulated tarts, as a program: a Mac that is tried has no Go. A release ships it as
// driver-suite, and `macfleet host accept` sends it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm/tart"
	"github.com/macfleet/macfleet/internal/agent/vm/vmtest"
)

// patience covers guests that boot from a busy disk.
const patience = 5 * time.Minute

// subject is what is tried.
type subject struct {
	tart, home, image, missing, private string
	twoOutputs                          bool
}

func main() {
	testing.Init()
	var s subject
	s.flags(flag.CommandLine)
	if err := flag.Set("test.v", "true"); err != nil {
		fail(err)
	}
	flag.Parse()
	driver, err := s.driver(context.Background())
	if err != nil {
		fail(err)
	}
	testing.Main(regexp.MatchString, []testing.InternalTest{{Name: "Driver", F: func(t *testing.T) {
		vmtest.Conform(t, func(*testing.T) vmtest.Subject { return s.fresh(driver) })
	}}}, nil, nil)
}

func fail(err error) {
	_, _ = fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

func (s *subject) flags(set *flag.FlagSet) {
	set.StringVar(&s.tart, "tart", "tart", "the tart to try")
	set.StringVar(&s.home, "home", "", "TART_HOME for it, with room for the image; it must hold no machines, and keeps the image")
	set.StringVar(&s.image, "image", "ghcr.io/cirruslabs/macos-sequoia-base:latest", "image of macOS with tart-guest-agent")
	set.StringVar(&s.missing, "missing", "ghcr.io/cirruslabs/no-such-image:none", "image that no registry has; empty: not tried")
	set.StringVar(&s.private, "private", "", "image that refuses anonymous access; empty: not tried")
	set.BoolVar(&s.twoOutputs, "two-outputs", false, "the image's guest agent is newer than v0.11.0 and sends both outputs")
}

// driver drives the tart that is named. A home whose machines the suite would end is refused.
func (s *subject) driver(ctx context.Context) (*tart.Driver, error) {
	if s.home == "" {
		return nil, errors.New("name an empty folder for tart with -home")
	}
	path, err := exec.LookPath(s.tart)
	if err != nil {
		return nil, fmt.Errorf("finding tart: %w: name it with -tart", err)
	}
	driver := tart.New(tart.Options{Path: path, Home: s.home})
	switch machines, err := driver.Machines(ctx); {
	case err != nil:
		return nil, fmt.Errorf("asking %s for its machines: %w", path, err)
	case len(machines) > 0:
		return nil, fmt.Errorf("%s holds %d machines, which the suite would end: name another -home", s.home, len(machines))
	}
	return driver, nil
}

// fresh is the subject of one test. All share the home: an image is tens of gigabytes.
func (s *subject) fresh(driver *tart.Driver) vmtest.Subject {
	_, err := driver.Digest(context.Background(), s.image)
	return vmtest.Subject{
		Driver: driver, Image: s.image, Missing: s.missing, Private: s.private,
		Held: err == nil, Patience: patience, OneOutput: !s.twoOutputs,
	}
}
