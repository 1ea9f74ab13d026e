package accept

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge/doctor"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/remote"
)

const (
	// guestsLimit covers the suite, and the pull of an image of tens of gigabytes.
	guestsLimit = suiteLimit + pullLimit
	pullLimit   = 2 * time.Hour
	// bootGuest bounds the first start of a guest, and endGuest its end.
	bootGuest = 5 * time.Minute
	endGuest  = 3 * time.Minute
	// refusal bounds how long a start that macOS refuses may take to say so.
	refusal = time.Minute
	// mending is how long hostd may take to notice, which it does within a minute.
	mending = 3 * time.Minute
	// guestPoll is how often a guest that boots is asked.
	guestPoll = 2 * time.Second
)

// imageShape is a reference to an image, made of what means the same to every shell.
var imageShape = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9./:@_-]*$`)

// guestTrial is the part of a trial that has guests: as many as the licence allows, one
// more, and their ends.
type guestTrial struct {
	*trial
	running map[string]*guestRun
	// addresses of the guests in their network.
	addresses map[string]string
}

// guestRun is a guest that runs for as long as its command does, on a connection of its own.
type guestRun struct {
	session *remote.Session
	ended   chan ending
}

// ending is how the command of a guest ended.
type ending struct {
	lines []string
	err   error
}

func lacksImage(t *trial) string {
	if t.GuestImage == "" {
		return "no image was named: --guest-image"
	}
	return ""
}

// guests tries guests of the user's own, beside the agent, from sessions over SSH.
func guests(ctx context.Context, t *trial) (err error) {
	g := guestTrial{t, map[string]*guestRun{}, map[string]string{}}
	defer func() { err = errors.Join(err, g.cleanUp(ctx)) }()
	for _, step := range []func(context.Context) error{g.pull, g.two, g.firewall, g.reach, g.third, g.shutDown, g.another, g.suite} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tart is a command line of tart, whose folder is the trial's own.
func (g guestTrial) tart(arguments string) string {
	return g.environment() + "tart " + arguments
}

// environment is that of tart, at the beginning of a command line.
func (g guestTrial) environment() string {
	return "LC_ALL=C PATH=/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin TART_HOME=" + g.home() + " "
}

func (g guestTrial) home() string { return "/Users/" + g.Target.User + "/.macfleet/accept-tart" }

// seen is what a command of tart printed and how it ended.
func (g guestTrial) seen(ctx context.Context, arguments string) ([]string, error) {
	out, complaints, code, err := g.execute(ctx, g.tart(arguments), "")
	if err != nil {
		return nil, err
	}
	return append(g.hide.lines(out+complaints), fmt.Sprintf("exit %d", code)), nil
}

// last is the last line: how a command ended.
func last(lines []string) []string { return lines[max(0, len(lines)-1):] }

func (g guestTrial) pull(ctx context.Context) error {
	began := g.Now()
	run, err := g.start(ctx, g.tart("pull "+g.GuestImage))
	if err != nil {
		return err
	}
	// A pull takes longer than other commands may.
	end, err := run.end(ctx, pullLimit)
	if err != nil {
		return err
	}
	g.add(Row{ID: "pull", Asked: "Does tart pull the image?", Seen: last(end.lines), Seconds: g.Now().Sub(began).Seconds()})
	for _, name := range []string{"accept-1", "accept-2", "accept-3"} {
		lines, err := g.seen(ctx, "clone "+g.GuestImage+" "+name)
		if err != nil {
			return err
		}
		if strings.Join(last(lines), "") != "exit 0" {
			return fmt.Errorf("cloning the image: %s", strings.Join(lines, "; "))
		}
	}
	return nil
}

// two has two guests start, and waits until a command runs in each.
func (g guestTrial) two(ctx context.Context) error {
	for _, name := range []string{"accept-1", "accept-2"} {
		if err := g.boot(ctx, name, "starts-"+strings.TrimPrefix(name, "accept-"), "Does a guest start from a session over SSH, and run a command?", "R12"); err != nil {
			return err
		}
		lines, err := g.seen(ctx, "ip "+name)
		if err != nil {
			return err
		}
		g.addresses[name] = lines[0]
		address, err := netip.ParseAddr(lines[0])
		inside := err == nil && netip.MustParsePrefix(document.DefaultSubnet).Contains(address)
		g.add(Row{ID: "address" + strings.TrimPrefix(name, "accept"), Asked: "Does it have an address of the guests' network?", Seen: []string{yesNo(inside)}})
	}
	return nil
}

// boot starts a guest and waits for its agent.
func (g guestTrial) boot(ctx context.Context, name, id, asked, question string) error {
	began := g.Now()
	run, err := g.start(ctx, g.tart("run --no-graphics "+name))
	if err != nil {
		return err
	}
	g.running[name] = run
	seen, err := g.answers(ctx, name, run)
	if err != nil {
		return err
	}
	g.add(Row{ID: id, Asked: asked, Question: question, Seen: seen, Seconds: g.Now().Sub(began).Seconds()})
	if seen[0] != "it answers" {
		return errors.New("a guest does not start")
	}
	return nil
}

// answers waits until a command runs in the guest, or the guest ended.
func (g guestTrial) answers(ctx context.Context, name string, run *guestRun) ([]string, error) {
	deadline := g.Now().Add(bootGuest)
	for g.Now().Before(deadline) {
		lines, err := g.seen(ctx, "exec "+name+" true")
		if err != nil {
			return nil, err
		}
		if strings.Join(last(lines), "") == "exit 0" {
			return []string{"it answers"}, nil
		}
		select {
		case end := <-run.ended:
			run.ended <- end
			return append([]string{"it ended"}, end.lines...), end.err
		default:
		}
		if err := g.Pause(ctx, guestPoll); err != nil {
			return nil, err
		}
	}
	return []string{"it runs, and no command does in it"}, nil
}

// firewall waits until the doctor finds the firewall well while guests run, which the agent
// has not announced: vmnet has made an interface, and may have rewritten the packet filter's
// main ruleset, and hostd looks once a minute.
func (g guestTrial) firewall(ctx context.Context) error {
	began := g.Now()
	for {
		findings, err := g.findings(ctx, document.CurrentAgent)
		if err != nil {
			return err
		}
		waited := g.Now().Sub(began)
		at := slices.IndexFunc(findings, func(f doctor.Finding) bool { return f.ID == "firewall" })
		if at < 0 || findings[at].Verdict == doctor.Well || notCalled(findings[at]) || waited > mending {
			g.judgeFirewall(findings, waited)
			return nil
		}
		if err := g.Pause(ctx, guestPoll); err != nil {
			return err
		}
	}
}

func (g guestTrial) judgeFirewall(findings []doctor.Finding, waited time.Duration) {
	for _, f := range findings {
		switch r := found(f); f.ID {
		case "firewall":
			r.Asked, r.Seconds = "Does hostd put the firewall around guests that nobody announced?", waited.Seconds()
			if notCalled(f) {
				r.Seen = append(r.Seen, firewall.NotCalled)
			}
			g.add(r)
		case "foreign-rules", "dhcp":
			g.add(r)
		}
	}
}

// notCalled: a guest's start took the calls of our rules out of the main ruleset, which
// hostd does not mend.
func notCalled(f doctor.Finding) bool { return strings.Contains(f.Evidence, firewall.NotCalled) }

// third starts one guest more than the licence allows.
func (g guestTrial) third(ctx context.Context) error {
	run, err := g.start(ctx, g.tart("run accept-3 --no-graphics"))
	if err != nil {
		return err
	}
	g.running["accept-3"] = run
	seen := []string{"it runs"}
	switch end, err := run.end(ctx, refusal); {
	case err == nil:
		seen = end.lines
		delete(g.running, "accept-3")
	case !errors.Is(err, errNotInTime):
		return err
	}
	g.add(Row{ID: "third", Asked: "Is a third guest refused?", Question: "R13", Seen: seen})
	return nil
}

// shutDown has a guest end itself.
func (g guestTrial) shutDown(ctx context.Context) error {
	// The guest may be gone before its agent tells of the command's end.
	if _, err := g.seen(ctx, "exec accept-1 sudo -n /sbin/shutdown -h now"); err != nil {
		return err
	}
	end, err := g.running["accept-1"].end(ctx, endGuest)
	if err != nil {
		return err
	}
	delete(g.running, "accept-1")
	g.add(Row{ID: "shut-down", Asked: "How does tart end when the guest shuts itself down?", Question: "R13", Seen: end.lines})
	return nil
}

// another takes the place of the one that ended.
func (g guestTrial) another(ctx context.Context) error {
	return g.boot(ctx, "accept-3", "place", "Is the licence's place free again after it?", "R13")
}

// start begins a command on a connection of its own.
func (g guestTrial) start(ctx context.Context, line string) (*guestRun, error) {
	session, err := remote.Dial(ctx, g.Target)
	if err != nil {
		return nil, err
	}
	run := &guestRun{session, make(chan ending, 1)}
	go func() {
		var out, complaints macos.Bounded
		code, err := session.Interact(ctx, line, remote.Console{In: strings.NewReader(""), Out: &out, Err: &complaints})
		_ = session.Close()
		run.ended <- ending{append(g.hide.lines(out.String()+complaints.String()), fmt.Sprintf("exit %d", code)), err}
	}()
	return run, nil
}

// end waits for the end of the command.
func (r *guestRun) end(ctx context.Context, limit time.Duration) (ending, error) {
	limited, cancel := context.WithTimeoutCause(ctx, limit, errNotInTime)
	defer cancel()
	select {
	case end := <-r.ended:
		return end, end.err
	case <-limited.Done():
		return ending{}, context.Cause(limited)
	}
}

var errNotInTime = errors.New("the guest's command did not end in time")

// cleanUp ends all guests and removes the images, also where the run was called off, or
// the connection went.
func (g guestTrial) cleanUp(ctx context.Context) error {
	g.Say("ending the guests")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*endGuest)
	defer cancel()
	g.hangUp()
	if err := g.connectPatiently(ctx); err != nil {
		return fmt.Errorf("guests may still run: %w", err)
	}
	return errors.Join(g.endAll(ctx), g.endSuite(ctx), g.orders(ctx, "rm -rf "+g.home()))
}
