package accept

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// suiteLimit bounds the suite, most of which is guests that boot.
const suiteLimit = time.Hour

// suite has the driver of tart tried by the suite that every driver must pass, with the home
// and the image of the guests before it, which it ends.
func (g guestTrial) suite(ctx context.Context) error {
	const asked = "Does the driver of tart do what every driver must?"
	if g.Suite == nil {
		g.notTried("driver", asked, "no suite was named: --driver-suite")
		return nil
	}
	if err := g.endAll(ctx); err != nil {
		return err
	}
	if err := g.orders(ctx, g.tart("delete accept-1 accept-2 accept-3")); err != nil {
		return err
	}
	if _, err := g.session.Receive(ctx, g.Suite); err != nil {
		return err
	}
	began := g.Now()
	run, err := g.start(ctx, "env "+g.environment()+staged(g.Suite)+" -tart tart -home "+g.home()+" -image "+g.GuestImage+" -missing "+missingImage(g.GuestImage))
	if err != nil {
		return err
	}
	end, err := run.end(ctx, suiteLimit)
	if err != nil {
		return err
	}
	all := readSuite(end.lines)
	if len(all) == 0 {
		return fmt.Errorf("the driver's suite tried nothing: %s", strings.Join(end.lines[max(0, len(end.lines)-5):], "; "))
	}
	for _, r := range all {
		g.tried(r)
	}
	g.add(Row{ID: "driver", Asked: asked, Seen: last(end.lines), Seconds: g.Now().Sub(began).Seconds()})
	return nil
}

// missingImage is one that the registry of another image does not have.
func missingImage(image string) string {
	registry, _, _ := strings.Cut(image, "/")
	return registry + "/missing/macfleet-accept:none"
}

// tried is the row of one part of the suite.
func (g guestTrial) tried(r suiteResult) {
	id, asked := "driver-"+r.name, "Does the driver's suite pass "+r.name+"?"
	said := strings.Join(r.said, "; ")
	if r.verdict == "SKIP" {
		g.notTried(id, asked, said)
		return
	}
	g.add(Row{ID: id, Asked: asked, Seen: []string{yesNo(r.verdict == "PASS")}, Detail: said, Seconds: r.seconds})
}

// suiteResult is how a part of the suite ended, and what it and its own parts said.
type suiteResult struct {
	name, verdict string
	said          []string
	seconds       float64
}

var (
	// suiteSpeaks is the line before what a part says, and suiteEnds the one at its end.
	suiteSpeaks = regexp.MustCompile(`^=== (?:RUN|NAME|CONT) +Driver(?:/(\S+))?$`)
	suiteEnds   = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): Driver/(\S+) \(([0-9.]+)s\)$`)
)

// readSuite reads what a run of Go's tests prints, -v. A part of the suite is a test of it, or
// a test that all guests' agents have to pass.
func readSuite(lines []string) []suiteResult {
	var all []suiteResult
	said, speaks := map[string][]string{}, ""
	for _, line := range lines {
		if m := suiteSpeaks.FindStringSubmatch(line); m != nil {
			speaks = part(m[1])
			continue
		}
		m := suiteEnds.FindStringSubmatch(line)
		switch {
		case m != nil && part(m[2]) == m[2]:
			seconds, _ := strconv.ParseFloat(m[3], 64)
			all = append(all, suiteResult{m[2], m[1], nil, seconds})
		case m == nil && speaks != "" && strings.HasPrefix(line, " "):
			said[speaks] = append(said[speaks], strings.TrimSpace(line))
		}
	}
	for i := range all {
		all[i].said = said[all[i].name]
	}
	return all
}

// part is the part of the suite that a test belongs to.
func part(test string) string {
	names := strings.Split(test, "/")
	if names[0] == "Guest" {
		return strings.Join(names[:min(2, len(names))], "/")
	}
	return names[0]
}

// endSuite ends the suite and its guests, where the run was called off or took too long: on a
// Mac they live on without the connection.
func (g guestTrial) endSuite(ctx context.Context) error {
	if g.Suite == nil {
		return nil
	}
	// It fails where none runs. The brackets keep it from its own command line.
	sha := g.Suite.SHA256
	if _, _, _, err := g.execute(ctx, "pkill -KILL -f '["+sha[:1]+"]"+sha[1:]+" -tart'", ""); err != nil {
		return err
	}
	names, _, _, err := g.execute(ctx, g.tart("list --source local --quiet"), "")
	for _, name := range strings.Fields(names) {
		if _, ended := g.seen(ctx, "stop "+name); err == nil {
			err = ended
		}
	}
	return err
}

// endAll ends the guests that run.
func (g guestTrial) endAll(ctx context.Context) error {
	var errs []error
	for name, run := range g.running {
		_, err := g.seen(ctx, "stop "+name)
		if err == nil {
			// How its command ended, or its connection, does not matter here.
			if _, late := run.end(ctx, endGuest); errors.Is(late, errNotInTime) {
				err = late
			}
		}
		errs = append(errs, err)
	}
	clear(g.running)
	return errors.Join(errs...)
}
